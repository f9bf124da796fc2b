"""The settings of a loop: the default, a tau from outside, and the checks."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from ..any_optax.behaviour import ERRORS
from ..core.checks import check, check_number
from ..core.evaluation import Way
from ..early_switching import AnyOf, NotFinite
from ..engine.records import described
from ..engine.tuned import with_peak
from ..optimizers.average import Averaged
from ..optimizers.peaks import SpectralPeak
from ..schedule_params import MUON, SOFT_RESET, ScheduleParams
from ..soft_reset import Cyclic, SoftReset

Tau = Callable[[float, float, int], float]
# Cycles alone: no model that is finite is reset or replaced. LOOP is for an
# optimizer that is handed over, MUON_LOOP for the chain's own.
LOOP = replace(
  SOFT_RESET, reset=Cyclic(), switching=NotFinite(), relative_peak=None
)
MUON_LOOP = replace(MUON, reset=Cyclic(), switching=NotFinite())


@dataclasses.dataclass(frozen=True)
class OwnTau(SoftReset):
  """A soft reset whose tau, but for its fading, a loop computes."""

  function: Tau = lambda metric, first_metric, step: 0.0

  needs_target: ClassVar[bool] = False

  def remaining(self, way: Way) -> float:
    """See `SoftReset`."""
    metrics = way.last.metric, way.first.metric
    tau = float(self.function(*metrics, way.step))
    check_number('tau', tau, '[0, 1]')
    return tau


def loop_settings(
  settings: Any,
  optimizer: Any,
  peak: float | None,
  target: float | None,
  tau: Tau | None,
) -> ScheduleParams:
  """The settings as a loop uses them; ValueError if an argument is missing.

  Args:
    settings, optimizer, peak, target, tau: see `Cycles`.
  """
  if settings is None:
    settings = MUON_LOOP if optimizer is None else LOOP
  must_be = 'a ScheduleParams, such as THESIS'
  check(isinstance(settings, ScheduleParams), 'settings', settings, must_be)
  reset, rule = settings.reset, settings.switching
  if tau is not None:
    must_be = 'a function of (metric, first metric, step)'
    attempt(
      'tau', tau, must_be, lambda f: inspect.signature(f).bind(0.5, 0.1, 1)
    )
    if isinstance(reset, SoftReset):
      must_be = 'None where tau is given'
      check(reset.expected is None, 'expected', reset.expected, must_be)
      reset_by_tau = OwnTau(reset.alpha, fade=reset.fade, function=tau)
      settings = replace(settings, reset=reset_by_tau)
  if target is not None:
    check_number('target', target, '(-inf, inf)')
  else:
    rules = rule.rules if isinstance(rule, AnyOf) else (rule,)
    parts = [p for p in (settings.reset, *rules) if p.needs_target]
    must_be = (
      'the metric to reach with '
      f'{" and ".join(type(part).__name__ for part in parts)}; MUON_LOOP and '
      'LOOP need no target, nor do a SoftReset with tau=… and a rule such as '
      'ChainLossRule()'
    )
    check(not parts, 'target', target, must_be)
  must_be = 'a SoftReset where tau is given'
  check(tau is None or isinstance(reset, SoftReset), 'reset', reset, must_be)
  if optimizer is not None:
    _check_pair(optimizer, settings, peak)
    if isinstance(settings.optimizer, Averaged):  # which nothing averages with
      settings = replace(settings, optimizer=settings.optimizer.inner)
  elif peak is None and settings.relative_peak is None:
    is_adams = len({c.peak for c in (*settings.cycles, *LOOP.cycles)}) == 1
    must_be = (
      'a number where an optimizer of matrices is put into LOOP, whose peaks '
      "are AdamW's; MUON_LOOP has ScheduleFreeMuon() with peaks that suit it"
    )
    is_pair = not is_adams or not settings.optimizer.needs_forms()
    check(is_pair, 'peak', peak, must_be)
  if optimizer is not None or peak is not None:
    settings = replace(settings, relative_peak=None)
  return settings if peak is None else with_peak(settings, peak)


def _check_pair(
  optimizer: Any, settings: ScheduleParams, peak: float | None
) -> None:
  """Raises ValueError if an optimizer and settings do not go together.

  Args:
    optimizer: that is handed over.
    settings, peak: see `Cycles`.
  """
  must_be = (
    'one of optax; ScheduleFreeMuon() is inside without optimizer=, and goes '
    'with other numbers into settings, dataclasses.replace(MUON_LOOP, '
    'optimizer=…); so do others of this project, into LOOP'
  )
  check(not hasattr(optimizer, 'build'), 'optimizer', optimizer, must_be)
  rule = settings.relative_peak
  must_be = 'None with an optimizer that is handed over, or give peak=…'
  is_for_any = peak is not None or not isinstance(rule, SpectralPeak)
  check(is_for_any, 'relative_peak', rule, must_be)


def attempt(
  name: str, value: Any, must_be: str, use: Callable[[Any], Any]
) -> Any:
  """use(value), or a ValueError with the reason why that is impossible."""
  try:
    return use(value)
  except ERRORS as error:
    reason, shown = str(error).partition('\n')[0], described(value)
    shown = type(value).__name__ if '\n' in shown else shown
    message = f'{name}={shown} ({reason}): must be {must_be}.'
    raise ValueError(message) from error
