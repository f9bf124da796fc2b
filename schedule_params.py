"""The settings of a run: a chain of cycles, and what decides between them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

from .core.checks import (
  Checked,
  Floor,
  Positive,
  check,
  check_number,
  did_you_mean,
  field_names,
  replaced_at,
)
from .core.horizon import Horizon, TimeHorizon
from .core.schedules import Cooldown, Cycle
from .early_switching import Progress, SmoothedLossRule, SwitchingRule
from .optimizers.base import AdamW, Optimizer, ScheduleFreeAdamW
from .optimizers.muon import ScheduleFreeMuon
from .optimizers.relative_peak import RelativePeak
from .optimizers.spectral_peak import SpectralPeak
from .soft_reset import Reset, SoftReset


def _check_cycles(name: str, value: Any) -> None:
  is_chain = isinstance(value, (tuple, list)) and len(value) > 0
  is_chain = is_chain and all(isinstance(c, Cycle) for c in value)
  right = 'a tuple of one or more Cycles, such as (Cycle(),)'
  check(is_chain, name, value, right)


@dataclasses.dataclass(frozen=True)
class ScheduleParams(Checked):
  """A chain of cycles, what happens between them, and what decides.

  Attributes:
    cycles: the chain.
    optimizer: what steps inside the cycles.
    budget_factor: steps of the whole chain as a multiple of step_hint.
    reset: what the start of a further cycle does to the model.
    switching: the rule that ends cycles early.
    early_switching: whether it may; its verdicts are logged in any case.
    repeat: whether the last cycle follows again and again after the chain;
      else the run ends with the chain, whatever budget remains.
    relative_peak: scales the peaks to the size of the weights; the run then
      begins with a model made anew. None: the peaks are as they are written.
    horizon: lays the cycles over the time budget. Each is at least three
      intervals between evaluations long, and its end waits for the evaluation
      of the annealed model, for at most the longest interval so far. A cycle
      that fails begins the chain anew, at half of the rate. None, the thesis'
      way: steps as planned, no waiting, the next cycle follows one that fails.
    dropout_rate: probability, or None for the workload's own; in force where
      model_fn takes it (main). In v0.5.0 the runner builds the model.
    label_smoothing: passed to the workload's loss function.
  """

  cycles: Annotated[tuple[Cycle, ...], _check_cycles]
  _: dataclasses.KW_ONLY
  optimizer: Annotated[Optimizer, 'an object such as AdamW()']
  budget_factor: Positive = 2.0
  reset: Annotated[Reset, 'an object such as SoftReset()'] = SoftReset()
  switching: Annotated[SwitchingRule, 'an object such as Progress()']
  early_switching: bool = True
  repeat: bool = True
  relative_peak: (
    Annotated[RelativePeak, 'an object such as RelativePeak()'] | None
  ) = None
  horizon: Annotated[Horizon, 'an object such as TimeHorizon()'] | None = None
  dropout_rate: Floor | None = None
  label_smoothing: Floor = 0.0


# Where the settings have what the thesis and the benchmark's baselines tune.
_PLACES = {
  'learning_rate': 'cycles.peak',
  'one_minus_beta1': 'optimizer.one_minus_beta1',
  'beta2': 'optimizer.beta2',
  'weight_decay': 'optimizer.weight_decay',
  'warmup_factor': 'cycles.warmup_factor',
  'alpha': 'reset.alpha',
}


def tuned(settings: ScheduleParams, hyperparameters: Any) -> ScheduleParams:
  """Settings with the benchmark's hyperparameters in place of their fields.

  Args:
    settings: those in force.
    hyperparameters: a namedtuple, as the benchmark's external ruleset hands
      over, or a mapping. A name is one of
        learning_rate: the first cycle's peak; the others keep their ratios to it
        one_minus_beta1, beta2, weight_decay: of the optimizer
        warmup_factor: of every cycle
        alpha: of the reset
        a field of ScheduleParams, such as label_smoothing
        a path with __ for its dots, such as reset__fade, since a namedtuple's
        names have no dots; cycles__peak is of every cycle, and a field of the
        optimizer is found inside an average, too.
      None, or an empty one, is the self-tuning ruleset: nothing changes.

  Raises:
    ValueError: names the hyperparameter if it is unknown, is out of range, has
      no effect in these settings, or means the same as another one.
  """
  if hyperparameters is None:
    return settings
  given, right = hyperparameters, 'a namedtuple or a mapping of values by names'
  if hasattr(given, '_asdict'):
    given = given._asdict()
  check(isinstance(given, Mapping), 'hyperparameters', hyperparameters, right)
  new, named = settings, dict[str, str]()
  for name, value in given.items():
    said = f'hyperparameter {name}={value!r}'
    path = _path_of(name, settings, said)
    for other, its_name in named.items():
      shorter, longer = sorted((f'{path}.', f'{other}.'), key=len)
      if longer.startswith(shorter):
        raise ValueError(
          f'{said}: it is {path}, and {its_name} is {other}; leave one out.'
        )
    named[path] = name
    try:
      if name == 'learning_rate':
        new = with_peak(new, value)
      else:
        new = replaced_at(new, path, value)
    except ValueError as e:
      raise ValueError(f'hyperparameter {name}: {e}') from e
  for path, name in named.items():
    if reason := _without_effect(new, path):
      said = f'hyperparameter {name}={given[name]!r}'
      raise ValueError(f'{said}: no effect; {reason}.')
  return new


def _path_of(name: str, settings: ScheduleParams, said: str) -> str:
  """Where a hyperparameter's field is; ValueError if there is none."""
  path = _PLACES.get(name, name.replace('__', '.'))
  head, _, rest = path.partition('.')
  fields = field_names(settings)
  if head not in fields or not name.isidentifier():
    known = [*_PLACES, *fields]
    raise ValueError(
      f'{said}: must be one of {", ".join(known)}, or a path such as '
      f'reset__fade.{did_you_mean(name, known)}'
    )
  if rest and getattr(settings, head) is None:
    more = {'relative_peak': ', so give learning_rate'}.get(head, '')
    raise ValueError(f'{said}: {head} is None in these settings{more}.')
  part = settings.optimizer
  if head == 'optimizer' and '.' not in rest:
    while rest not in field_names(part) and hasattr(part, 'inner'):
      head, part = f'{head}.inner', part.inner  # of an average
    return f'{head}.{rest}' if rest else head
  return path


def _without_effect(settings: ScheduleParams, path: str) -> str:
  """Why a change at a path changes no run, and what would; '' if it does."""
  first, _, last = path.partition('.')
  if first == 'cycles' and last == 'peak' and settings.relative_peak:
    return 'relative_peak replaces the peaks, so give relative_peak__share'
  if first == 'switching' and not settings.early_switching:
    return 'its verdicts are only logged, so give early_switching'
  if first == 'cycles' and last == 'length':
    return 'lengths are relative to one another, and all cycles get the same'
  has_next = len(settings.cycles) > 1 or settings.repeat or settings.horizon
  if first == 'reset' and not has_next:
    return 'no cycle follows the only one, so give repeat'
  return ''


def with_peak(settings: ScheduleParams, peak: float) -> ScheduleParams:
  """Settings with this peak in the first cycle, and the same ratios of peaks.

  Raises:
    ValueError: unless the peak is positive and finite.
  """
  check_number('peak', peak, '(0, inf)')
  first = settings.cycles[0].peak
  scaled = [
    dataclasses.replace(c, peak=peak * (c.peak / first))
    for c in settings.cycles
  ]
  return dataclasses.replace(settings, cycles=tuple(scaled))


# What the thesis ran: three cosine cycles over twice the step_hint, a soft
# reset between any two, S(t) as in figure 3.7, and the end when cycles run out.
THESIS = ScheduleParams(
  cycles=(Cycle(),) * 3,
  optimizer=AdamW(),
  budget_factor=2.0,
  reset=SoftReset(alpha=0.5, scale='log', fade=0.0),
  switching=SmoothedLossRule(lam=0.7, eps1=0.01, eps2=0.01, k=9, m=9),
  early_switching=True,
  repeat=False,
  relative_peak=None,
  horizon=None,
  dropout_rate=0.1,
)
# The thesis' method in today's ruleset: cycles that double in length over the
# time budget, soft resets, peaks in proportion to the weights, and a rule that
# abandons a chain that will not reach the target. The optimizer's numbers are
# those of the self-tuning winner of 2024.
SOFT_RESET = ScheduleParams(
  cycles=tuple(
    Cycle(0.0025, length, warmup_factor=0.02, decay=Cooldown(share=0.1))
    for length in (1.0, 2.0, 4.0, 8.0)
  ),
  optimizer=ScheduleFreeAdamW(
    one_minus_beta1=0.1,
    beta2=0.9955159689799007,
    weight_decay=0.08121616522670176,
    r=0.75,
    weight_lr_power=2.0,
  ),
  budget_factor=1.5,
  reset=SoftReset(alpha=0.5, scale='linear', fade=2.0),
  switching=Progress(),
  early_switching=True,
  repeat=True,
  relative_peak=RelativePeak(share=0.06),
  horizon=TimeHorizon(slack=0.03, margin=0.1),
)
# The same with orthogonalised steps inside the cycles, Muon with an average; a chain
# that still improves is not abandoned.
MUON = dataclasses.replace(
  SOFT_RESET,
  cycles=tuple(
    dataclasses.replace(cycle, peak=0.08) for cycle in SOFT_RESET.cycles
  ),
  optimizer=ScheduleFreeMuon(
    one_minus_beta1=0.3,
    beta2=0.9955159689799007,
    weight_decay=0.02,
    r=2.0,
    momentum=0.8,
    adam_share=0.3,
  ),
  relative_peak=SpectralPeak(share=0.08, whole=1500.0),
  switching=Progress(window=0.06),
)
# The settings in force.
SCHEDULE_PARAMS = MUON
