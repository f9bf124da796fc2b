"""Recorded settings by their names, and lists of them to choose from.

  lawa_queue/2               trial_2 of the submission lawa_queue
  schedule_free_adamw/self   the entry of that name in the self-tuning ruleset
  lawa_queue/2:cyclic_lr/1   the first; the second where the first's run stopped
  lawa_queue/2+cyclic_lr/1   both evaluated in turn; only the second where the
                             first's run stopped
  lawa_queue/2*cyclic_lr/1   likewise, as `averaging.choosing` chooses: in turn
                             until one proves better, then mostly that one

The last three are what evaluations of averaged weights, of raw ones, or of both
would have seen: the two settings must be the same point but for the averaging.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ...settings.checks import check_choice

ALONE, OR_ELSE, IN_TURN, CHOSEN = '', ':', '+', '*'
SELF = 'self'  # in place of a trial
_NAME = re.compile(rf'(\w+)/(\d+|{SELF})')
_TRIALS = range(1, 6)


class TrialPoint(NamedTuple):
  """A trial in the external ruleset of 2024, or a self-tuning entry."""

  submission: str
  trial: str  # trial_<n>; SELF for the self-tuning ruleset

  def __str__(self) -> str:
    return f'{self.submission}/{self.trial.removeprefix("trial_")}'


class ChainSetting(NamedTuple):
  """What a cycle of a chain runs."""

  first: TrialPoint
  how: str = ALONE
  second: TrialPoint | None = None  # joined to the first as `how` says

  def __str__(self) -> str:
    return f'{self.first}{self.how}{self.second or ""}'


def _names(submission: str) -> tuple[str, ...]:
  return tuple(f'{submission}/{trial}' for trial in _TRIALS)


_JAX = (*_names('baseline'), *_names('generalized_adam'), *_names('nadamp'))
_AVERAGED = (*_names('lawa_ema'), *_names('lawa_queue'))
_CYCLIC = _names('cyclic_lr')
# The same points without averaging, by number; so are baseline/1 to 5. Those of
# cyclic_lr were run in PyTorch, like the averaged ones; points 1 and 4 were not
# run there as one cycle.
_RAW = {
  1: 'baseline/1',
  2: 'cyclic_lr/1',
  3: 'cyclic_lr/2',
  4: 'baseline/4',
  5: 'cyclic_lr/3',
}
# nadamp/4 takes a root of the second moment other than the square root.
_NOT_OURS = {'nadamp/4'}
_ALL = (
  *_names('baseline'),
  *_CYCLIC,
  *_names('generalized_adam'),
  *_names('nadamp'),
  *_AVERAGED,
  *_names('schedule_free_adamw'),
)


def _joined(how: str) -> tuple[str, ...]:
  """The runnable settings; those with snapshot averages joined to raw ones."""
  kept = (name for name in _ALL if name not in {*_AVERAGED, *_NOT_OURS})
  return (*kept, *(f'lawa_queue/{i}{how}{raw}' for i, raw in _RAW.items()))


def _joined_in_jax(how: str) -> tuple[str, ...]:
  """Likewise, with everything except the averages from runs in JAX."""
  kept = (name for name in _JAX if name not in _NOT_OURS)
  return (*kept, *(f'lawa_queue/{i}{how}baseline/{i}' for i in _TRIALS))


# Lists to choose from. `all`: the 35 that are like Adam. `jax`: those of them
# that were run in JAX. `runnable`: those that a submission of this project can
# run: AdamW and NadamW with their betas, decay and smoothing, one cycle or two,
# averages of snapshots, Schedule-Free, and Nesterov momentum
# (generalized_adam/1). The others have averages of snapshots joined to raw
# weights, in each of the ways above, and the other runnable settings; in
# `jax_…` everything except the averages is from runs in JAX, which are slower
# on some workloads.
LISTS = {
  'all': _ALL,
  'jax': _JAX,
  'runnable': tuple(name for name in _ALL if name not in _NOT_OURS),
  'replaced': _joined(OR_ELSE),
  'in_turn': _joined(IN_TURN),
  'chosen': _joined(CHOSEN),
  'jax_replaced': _joined_in_jax(OR_ELSE),
  'jax_in_turn': _joined_in_jax(IN_TURN),
  'jax_chosen': _joined_in_jax(CHOSEN),
}


def read_setting(flag: str, text: str) -> ChainSetting:
  """A setting from its name.

  Args:
    flag: the flag to name in errors.
    text: in a form shown in this module's docstring.

  Raises:
    ValueError: if it has none of these forms.
  """
  parts = re.split(r'([:+*])', text.strip())
  found = [_NAME.fullmatch(part) for part in parts[::2]]
  if len(parts) > 3 or not all(found):
    raise ValueError(
      f'{flag}: {text!r} is not a setting; it must be submission/trial, such '
      'as lawa_queue/2, or two of them joined by :, + or *.'
    )
  points = [_point(m[1], m[2]) for m in found if m]
  if len(points) == 1:
    return ChainSetting(points[0])
  return ChainSetting(points[0], parts[1], points[1])


def _point(submission: str, trial: str) -> TrialPoint:
  return TrialPoint(submission, trial if trial == SELF else f'trial_{trial}')


def read_chain(flag: str, text: str) -> tuple[ChainSetting, ...]:
  """Settings separated by commas.

  Raises:
    ValueError: if one is not a setting; see `read_setting`.
  """
  return tuple(read_setting(flag, part) for part in text.split(','))


def read_list(flag: str, text: str) -> tuple[ChainSetting, ...]:
  """The settings of one of `LISTS`, or settings separated by commas.

  Raises:
    ValueError: if it is neither.
  """
  if '/' not in text:
    check_choice(flag, text, LISTS)
    return tuple(read_setting(flag, name) for name in LISTS[text])
  return read_chain(flag, text)
