"""Settings with other numbers: hyperparameters from outside, another peak."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..core.checks import (
  check,
  check_number,
  did_you_mean,
  field_names,
  replaced_at,
)
from ..optimizers.peaks import SpectralPeak
from ..schedule_params import ScheduleParams

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
        learning_rate: the first cycle's peak; the others keep their ratios to
          it
        one_minus_beta1, beta2, weight_decay: of the optimizer
        warmup_factor: of every cycle
        alpha: of the reset
        a field of ScheduleParams, such as label_smoothing
        a path with __ for its dots, such as reset__fade, since a namedtuple's
          names have no dots; cycles__peak is of every cycle, and
          optimizer__beta2 is the outermost beta2 in the optimizer, such as the
          beta2 of the optimizer inside an average. switching__window is, in the
          same way, that of the first rule that has one.
      None, or an empty mapping, is the self-tuning ruleset: nothing changes.

  Raises:
    ValueError: names the hyperparameter if it is unknown, is out of range, has
      no effect in these settings, or means the same as another one.
  """
  if hyperparameters is None:
    return settings
  values, must_be = (
    hyperparameters,
    'a namedtuple or a mapping of values by names',
  )
  if hasattr(values, '_asdict'):
    values = values._asdict()
  check(
    isinstance(values, Mapping), 'hyperparameters', hyperparameters, must_be
  )
  new, named = settings, dict[str, str]()
  for name, value in values.items():
    setting = f'hyperparameter {name}={value!r}'
    path = _path_of(name, settings, setting)
    for other, its_name in named.items():
      shorter, longer = sorted((f'{path}.', f'{other}.'), key=len)
      if longer.startswith(shorter):
        raise ValueError(
          f'{setting}: it is {path}, and {its_name} is {other}; leave one out.'
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
      setting = f'hyperparameter {name}={values[name]!r}'
      raise ValueError(f'{setting}: no effect; {reason}.')
  return new


def _path_of(name: str, settings: ScheduleParams, setting: str) -> str:
  """Where a hyperparameter's field is; ValueError if there is none."""
  path = _PLACES.get(name, name.replace('__', '.'))
  head, _, rest = path.partition('.')
  fields = field_names(settings)
  if head not in fields or not name.isidentifier():
    known = [*_PLACES, *fields]
    raise ValueError(
      f'{setting}: must be one of {", ".join(known)}, or a path such as '
      f'reset__fade.{did_you_mean(name, known)}'
    )
  if rest and getattr(settings, head) is None:
    more = {'relative_peak': ', so give learning_rate'}.get(head, '')
    raise ValueError(f'{setting}: {head} is None in these settings{more}.')
  if head in ('optimizer', 'switching') and rest and '.' not in rest:
    return f'{head}.{_path_within(getattr(settings, head), rest)}'
  return path


def _path_within(part: Any, name: str) -> str:
  """The path of the outermost field of this name in a part, or the name."""
  to_visit = [('', part)]
  while to_visit:
    prefix, visited = to_visit.pop(0)
    if isinstance(visited, tuple):
      place = prefix.removesuffix('.')
      to_visit += [(f'{place}[{i}].', part) for i, part in enumerate(visited)]
      continue
    names = field_names(visited)
    if name in names:
      return f'{prefix}{name}'
    to_visit += [(f'{prefix}{n}.', getattr(visited, n)) for n in names]
  return name


def _without_effect(settings: ScheduleParams, path: str) -> str:
  """Why a change at a path changes no run, and what would; '' if it does."""
  first, _, last = path.partition('.')
  if first == 'cycles' and last == 'peak' and settings.relative_peak:
    return 'relative_peak replaces the peaks, so give relative_peak__share'
  if first == 'switching' and not settings.early_switching:
    return 'its verdicts are only logged, so give early_switching'
  has_share = isinstance(settings.relative_peak, SpectralPeak)
  if path.endswith('.least_norm') and not has_share:
    return 'the weight decay follows the epochs beside a SpectralPeak only'
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
