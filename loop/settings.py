"""The settings of a loop: those by default, a tau of its own, and the checks."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from ..core.checks import check, check_number
from ..core.evaluation import Way
from ..early_switching import NotFinite
from ..engine.records import described
from ..schedule_params import SOFT_RESET, ScheduleParams
from ..soft_reset import Cyclic, SoftReset

Tau = Callable[[float, float, int], float]
# What a function of the user's may raise, said with its name.
_ERRORS = (
  *(ArithmeticError, AssertionError, AttributeError, LookupError),
  *(NameError, RuntimeError, TypeError, ValueError),
)
# Cycles alone: no model that is finite is reset or replaced.
LOOP = replace(
  SOFT_RESET, reset=Cyclic(), switching=NotFinite(), relative_peak=None
)


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
  settings: Any, target: float | None, tau: Tau | None
) -> ScheduleParams:
  """The settings as a loop uses them; ValueError if it lacks what they need."""
  right = 'a ScheduleParams, such as THESIS'
  check(isinstance(settings, ScheduleParams), 'settings', settings, right)
  reset, rule = settings.reset, settings.switching
  if tau is not None:
    right = 'a function of (metric, first metric, step)'
    attempt('tau', tau, right, lambda f: inspect.signature(f).bind(0.5, 0.1, 1))
    if isinstance(reset, SoftReset):
      right = 'None where tau is given'
      check(reset.expected is None, 'expected', reset.expected, right)
      own = OwnTau(reset.alpha, fade=reset.fade, function=tau)
      settings = replace(settings, reset=own)
  if target is not None:
    check_number('target', target, '(-inf, inf)')
  else:
    right = 'another one, such as Cyclic(), or give target=… or tau=…'
    check(not settings.reset.needs_target, 'reset', reset, right)
    right = 'another one where target is None'
    check(not rule.needs_target, 'switching', rule, right)
  right = 'a SoftReset where tau is given'
  check(tau is None or isinstance(reset, SoftReset), 'reset', reset, right)
  return replace(settings, relative_peak=None)


def attempt(
  name: str, value: Any, right: str, use: Callable[[Any], Any]
) -> Any:
  """use(value), or a ValueError with the reason why that is impossible."""
  try:
    return use(value)
  except _ERRORS as error:
    reason = str(error).partition('\n')[0]
    said = f'{name}={described(value)} ({reason}): must be {right}.'
    raise ValueError(said) from error
