"""What a run does: the chain of cycles, the resets and the switching rule.

The thesis keeps its schedule parameters and the run's state together in one
global dictionary, SCHEDULE_PARAMS. Here they are apart: `ScheduleParams` is
immutable and checked when it is made, the state is in `cycle_control`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from .schedules.decays import DECAYS, HOLDING_DECAYS
from .schedules.old_names import translated
from .schedules.phase import as_written
from .schedules.warmups import WARMUPS
from .schedules.weight_decay import WEIGHT_DECAYS
from .settings.checks import (
  check,
  check_choice,
  check_complete,
  check_count,
  check_known,
  check_number,
  check_positive,
  check_weight,
  is_number,
)
from .settings.hparams import HPARAMS, Hparams
from .settings.named import Setting, as_plain, has_function

RESET_MODES = ('soft', 'full', 'kept_momentum', 'cyclic')
WHEN_CYCLES_RUN_OUT = ('finish', 'hold')
_CYCLE_LISTS = ('warmups', 'decays', 'alter_lr', 'alter_warmup', 'lengths')
# Lists that may be empty, and fields that a file of an older run lacks.
_OPTIONAL_LISTS = ('weight_decays', 'alter_weight_decay')
# The registry that each list of shapes is from.
_SHAPES = {
  'warmups': WARMUPS,
  'decays': DECAYS,
  'weight_decays': WEIGHT_DECAYS,
}


@dataclasses.dataclass(frozen=True)
class ScheduleParams:
  """A chain of cycles, what happens between them, and when one is left.

  The first five fields are lists with one entry per cycle. A shape is a name,
  or an object with a name and parameters: {'name': 'wsd', 'decay': 0.1}. Its
  lengths are shares of the phase and its values shares of the peak.

  Attributes:
    warmups: shapes of WARMUPS.
    decays: shapes of DECAYS, over the steps after the warm-up.
    alter_lr: added to the learning rate: a cycle's peak.
    alter_warmup: added to the warm-up factor, a fraction of the cycle.
    lengths: relative lengths; (1, 1, 2) makes the last half of the run.
    budget_factor: steps of the whole chain as a multiple of step_hint.
    when_cycles_run_out: 'finish' ends the run (TrainingCompleteError), as the
      thesis does; 'hold' keeps training at the last cycle's final rate until
      the benchmark ends the run, and never leaves the last cycle early.
    reset_mode: what the start of a new cycle does to the model. 'soft' blends
      parameters by tau and shrinks moments by alpha * tau; 'full' replaces the
      parameters and empties the optimizer; 'kept_momentum' replaces the
      parameters only; 'cyclic' touches nothing.
    alpha: share of tau that the moments get, 0 <= alpha <= 1.
    early_switching: whether S(t) = 1 ends a cycle. It is logged in any case.
    switch_lam: lambda, weight of the newest loss in the smoothed loss,
      0 < lambda <= 1. LARGER smooths LESS (the thesis calls it momentum).
    switch_eps1: epsilon_1, rise of the smoothed loss that ends a cycle.
    switch_eps2: epsilon_2, how far above its minimum the smoothed loss may be
      expected to be m evaluations ahead.
    switch_k: k, evaluations without a new minimum before epsilon_2 counts.
    switch_m: m, evaluations to look ahead. Advice of the thesis: m = k > 5.
    hparams: the optimizer's hyperparameters.
    weight_decays: empty for a constant weight decay, or a shape per cycle: of
      DECAYS, over all of the cycle's steps, or 'ratio' for a
      fixed ratio to the learning rate.
    alter_weight_decay: empty, or per cycle what is added to the weight decay:
      the peak of its shape.
  """

  warmups: tuple[Setting, ...] = ('linear', 'linear', 'linear')
  decays: tuple[Setting, ...] = ('cosine', 'cosine', 'cosine')
  alter_lr: tuple[float, ...] = (0.0, 0.0, 0.0)
  alter_warmup: tuple[float, ...] = (0.0, 0.0, 0.0)
  lengths: tuple[float, ...] = (1.0, 1.0, 1.0)
  budget_factor: float = 2.0
  when_cycles_run_out: str = 'finish'
  reset_mode: str = 'soft'
  alpha: float = 0.5
  early_switching: bool = True
  switch_lam: float = 0.7
  switch_eps1: float = 0.01
  switch_eps2: float = 0.01
  switch_k: int = 9
  switch_m: int = 9
  hparams: Hparams = HPARAMS
  weight_decays: tuple[Setting, ...] = ()
  alter_weight_decay: tuple[float, ...] = ()

  def __post_init__(self):
    for name in _CYCLE_LISTS + _OPTIONAL_LISTS:
      value = getattr(self, name)
      check(isinstance(value, (list, tuple)), name, value, 'a list')
      object.__setattr__(self, name, tuple(value))
    self._check_lists()
    self._read_shapes()
    self._check_cycles()
    self._check_rules()

  @property
  def num_cycles(self) -> int:
    """How many cycles there are."""
    return len(self.decays)

  @property
  def has_function(self) -> bool:
    """Whether a shape has a Python function: no file can hold it then."""
    return has_function(tuple(getattr(self, name) for name in _SHAPES))

  def _check_lists(self) -> None:
    given = tuple(name for name in _OPTIONAL_LISTS if getattr(self, name))
    counts = {name: len(getattr(self, name)) for name in _CYCLE_LISTS + given}
    if len(set(counts.values())) > 1 or 0 in counts.values():
      listed = ', '.join(f'{name} has {n}' for name, n in counts.items())
      raise ValueError(
        'The lists of a chain must have one entry per cycle, the same number '
        f'in each and at least one: {listed}.'
      )

  def _read_shapes(self) -> None:
    for name, registry in _SHAPES.items():
      shapes = tuple(
        registry.read(f'{name}[{i}]', value)
        for i, value in enumerate(getattr(self, name))
      )
      object.__setattr__(self, name, shapes)

  def _check_cycles(self) -> None:
    check(
      isinstance(self.hparams, Hparams), 'hparams', self.hparams, 'an Hparams'
    )
    for i in range(self.num_cycles):
      self._check_cycle_numbers(i)
    for i, added in enumerate(self.alter_weight_decay):
      base = self.hparams.weight_decay
      check(
        is_number(added) and base + added >= 0,
        f'alter_weight_decay[{i}]',
        added,
        f'a number of at least -{base}, so that no weight decay is negative',
      )

  def _check_cycle_numbers(self, i: int) -> None:
    lr, length = self.alter_lr[i], self.lengths[i]
    base = self.hparams.learning_rate
    check(
      is_number(lr) and base + lr > 0,
      f'alter_lr[{i}]',
      lr,
      f'a number above -{base}, so that the peak is positive',
    )
    check_positive(f'lengths[{i}]', length)
    self._check_warmup(i)

  def _check_warmup(self, i: int) -> None:
    factor, added = self.hparams.warmup_factor, self.alter_warmup[i]
    name = f'alter_warmup[{i}]'
    check(is_number(added), name, added, 'a number')
    total = as_written(factor) + as_written(added)
    right = f'such that warmup_factor ({factor}) plus it is '
    check(total >= 0, name, added, right + 'at least 0: no negative warm-up')
    check(
      total <= 1,
      name,
      added,
      right + 'at most 1: no warm-up longer than its cycle',
    )
    limit = HOLDING_DECAYS.get(self.decays[i])
    if limit is not None and self.warmups[i] != 'none':
      check(
        total < as_written(limit),
        name,
        added,
        f'{right}below {limit}: the {self.decays[i]} decay holds the peak for '
        'the warm-up and 20 % of the cycle, and has no room left',
      )

  def _check_rules(self) -> None:
    check_positive('budget_factor', self.budget_factor)
    check_choice(
      'when_cycles_run_out', self.when_cycles_run_out, WHEN_CYCLES_RUN_OUT
    )
    check_choice('reset_mode', self.reset_mode, RESET_MODES)
    check_number('alpha', self.alpha, 0.0, 1.0, 'a number from 0 to 1')
    switching = self.early_switching
    check(
      isinstance(switching, bool), 'early_switching', switching, 'true or false'
    )
    check_weight('switch_lam', self.switch_lam)
    for name in ('switch_eps1', 'switch_eps2'):
      check(
        is_number(getattr(self, name)), name, getattr(self, name), 'a number'
      )
    for name in ('switch_k', 'switch_m'):
      check_count(name, getattr(self, name))

  def override(self, hyperparameters: Any) -> ScheduleParams:
    """A copy with the given fields replaced, its own or those of hparams.

    Args:
      hyperparameters: a mapping or a namedtuple, such as the benchmark makes
        from tuning_search_space.json, or None (self-tuning): nothing changes.

    Raises:
      ValueError: for an unknown field or a value out of range.
    """
    if not hyperparameters:
      return self
    if hasattr(hyperparameters, '_asdict'):
      hyperparameters = hyperparameters._asdict()
    own = _field_names(ScheduleParams) - {'hparams'}
    inner = _field_names(Hparams)
    check_known(hyperparameters, own | inner)
    hparams = dataclasses.replace(self.hparams, **_only(hyperparameters, inner))
    return dataclasses.replace(
      self, hparams=hparams, **_only(hyperparameters, own)
    )

  def to_dict(self) -> dict[str, Any]:
    """Plain values; `from_dict` reads them back, also from JSON."""
    shapes = {name: as_plain(getattr(self, name)) for name in _SHAPES}
    return {**dataclasses.asdict(self), **shapes}

  @classmethod
  def from_dict(cls, values: Mapping[str, Any]) -> ScheduleParams:
    """Reads what `to_dict` wrote.

    Files of runs from before weight decays were scheduled lack their fields,
    which then take their defaults. No other field may be missing.

    Raises:
      ValueError: if a field is unknown or missing, or a value out of range.
    """
    names = _field_names(cls)
    check_complete('schedule_params', values, names, set(_OPTIONAL_LISTS))
    check_complete('hparams', values['hparams'], _field_names(Hparams))
    hparams = Hparams(**values['hparams'])
    older = {
      name: [translated(decay) for decay in values[name]]
      for name in ('decays', 'weight_decays')
      if isinstance(values.get(name), (list, tuple))
    }
    return cls(**{**values, **older, 'hparams': hparams})

  def to_json(self) -> str:
    """The fields as JSON text; numbers of NumPy's types become plain ones.

    Raises:
      ValueError: if a shape has a Python function.
    """
    return json.dumps(self.to_dict(), indent=2, default=_plain_number)

  @classmethod
  def from_json(cls, text: str) -> ScheduleParams:
    """Reads what `to_json` wrote; ValueError where it is not that."""
    return cls.from_dict(json.loads(text))


def _plain_number(value: Any) -> Any:
  if callable(value):
    raise ValueError(
      f'{value!r} is a Python function, as the shapes lambda and '
      'multiplicative have it: no JSON can hold it.'
    )
  return value.item()


def _field_names(cls) -> set:
  return {field.name for field in dataclasses.fields(cls)}


def _only(values: Mapping[str, Any], names: set) -> dict[str, Any]:
  return {name: value for name, value in values.items() if name in names}


SCHEDULE_PARAMS = ScheduleParams()
