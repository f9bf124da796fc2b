"""What a run does: the chain of cycles, the resets, and what decides.

The thesis keeps its schedule parameters and the run's state together in one
global dictionary, SCHEDULE_PARAMS. Here they are apart: `ScheduleParams` is
immutable and checked when it is made, the state is in `control.state`.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Annotated, Any

from .averaging import AVERAGES
from .control.decide import Rules
from .control.goals import GOALS
from .control.horizons import HORIZONS
from .control.policies import POLICIES
from .control.state import Target
from .control.switching import SWITCHING_RULES
from .optimizers import INNER
from .schedules.cycle import check_cycles
from .schedules.decays import DECAYS, HOLDING_DECAYS
from .schedules.lr_schedule import lay_out
from .schedules.phase import as_written
from .schedules.warmups import WARMUPS
from .schedules.weight_decay import WEIGHT_DECAYS
from .settings.checks import check, check_known
from .settings.hparams import HPARAMS, Hparams
from .settings.kinds import (
  Choice,
  Flag,
  Fraction01,
  Kind,
  ListOf,
  Number,
  Positive,
)
from .settings.named import (
  Named,
  Registry,
  as_plain,
  has_function,
  name_of,
  read_fields,
)
from .settings.old_files import translate

# The registry of each field that names a part.
PARTS: dict[str, Registry] = {
  'switching': SWITCHING_RULES,
  'goal': GOALS,
  'horizon': HORIZONS,
  'policy': POLICIES,
  'optimizer': INNER,
  'averaging': AVERAGES,
}
_CHAIN = ('warmups', 'decays', 'alter_lr', 'alter_warmup', 'lengths')
_OPTIONAL_LISTS = ('weight_decays', 'alter_weight_decay')


def _read_hparams(name: str, value: object) -> object:
  check(isinstance(value, Hparams), name, value, 'an Hparams')
  return value


Warmups = ListOf(WARMUPS.as_kind())
Decays = ListOf(DECAYS.as_kind())
WeightDecays = ListOf(WEIGHT_DECAYS.as_kind())
Numbers = ListOf(Number)
Positives = ListOf(Positive)
Distance = Choice('log', 'linear')
ResetMode = Choice('soft', 'full', 'kept_momentum', 'cyclic')
SwitchingSetting = SWITCHING_RULES.as_kind()
GoalSetting = GOALS.as_kind()
HorizonSetting = HORIZONS.as_kind()
PolicySetting = POLICIES.as_kind()
OptimizerSetting = INNER.as_kind()
AveragingSetting = AVERAGES.as_kind()


def _read_cycles(name: str, value: object) -> object:
  is_empty = isinstance(value, (list, tuple)) and not value
  check(is_empty, name, value, 'an empty list')
  return ()


WholeCycles = Annotated[tuple, Kind('a list of cycles', _read_cycles)]
HparamsSetting = Annotated[Hparams, Kind('an Hparams', _read_hparams)]


# Spelled out: the same rule as THESIS has.
_FIGURE_3_7 = Named(
  'thesis', (('eps1', 0.01), ('eps2', 0.01), ('k', 9), ('lam', 0.7), ('m', 9))
)


@dataclasses.dataclass(frozen=True)
class ScheduleParams:
  """A chain of cycles, what happens between them, and what decides.

  The first five fields are lists with one entry per cycle. A shape, like every
  part, is a name or an object with a name and parameters:
  {'name': 'wsd', 'decay': 0.1}. Its lengths are shares of the phase and its
  values shares of the peak.

  Attributes:
    warmups: shapes of WARMUPS.
    decays: shapes of DECAYS, over the steps after the warm-up.
    alter_lr: added to the learning rate: a cycle's peak.
    alter_warmup: added to the warm-up factor, a fraction of the cycle.
    lengths: relative lengths; (1, 1, 2) makes the last half of the run.
    budget_factor: steps of the whole chain as a multiple of step_hint.
    reset_mode: what the start of a new cycle does to the model. 'soft' blends
      parameters by tau and shrinks moments by alpha * tau; 'full' replaces the
      parameters and empties the optimizer; 'kept_momentum' replaces the
      parameters only; 'cyclic' touches nothing.
    alpha: share of tau that the moments get, 0 <= alpha <= 1.
    distance: the scale on which tau measures a metric that falls, 'log' or
      'linear'; see `soft_reset.tau`.
    early_switching: whether the switching rule ends a cycle. What it says is
      logged in any case.
    switching: the rule that leaves cycles early, of control.switching.
    goal: the metric that tau is the distance to, of control.goals.
    horizon: how many steps the run has, of control.horizons.
    policy: what follows a cycle, of control.policies.
    optimizer: what steps inside the cycles, of optimizers.
    hparams: the optimizer's hyperparameters.
    weight_decays: empty for a constant weight decay, or a shape per cycle: of
      DECAYS, over all of the cycle's steps, or 'ratio' for a fixed ratio to the
      learning rate.
    alter_weight_decay: empty, or per cycle what is added to the weight decay:
      the peak of its shape.
    cycles: empty, or the chain as a list of whole settings, which then takes
      the place of the lists above. Not in force yet.
    averaging: which weights evaluations see, of averaging.
    wait: whether a reset waits for the evaluation of the annealed model.
  """

  warmups: Warmups = ('linear', 'linear', 'linear')
  decays: Decays = ('cosine', 'cosine', 'cosine')
  alter_lr: Numbers = (0.0, 0.0, 0.0)
  alter_warmup: Numbers = (0.0, 0.0, 0.0)
  lengths: Positives = (1.0, 1.0, 1.0)
  budget_factor: Positive = 2.0
  reset_mode: ResetMode = 'soft'
  alpha: Fraction01 = 0.5
  early_switching: Flag = True
  switching: SwitchingSetting = _FIGURE_3_7
  goal: GoalSetting = 'final'
  horizon: HorizonSetting = 'steps'
  policy: PolicySetting = 'repeat'
  optimizer: OptimizerSetting = 'adamw'
  hparams: HparamsSetting = HPARAMS
  weight_decays: WeightDecays = ()
  alter_weight_decay: Numbers = ()
  cycles: WholeCycles = ()
  averaging: AveragingSetting = 'none'
  wait: Flag = False
  distance: Distance = 'log'

  def __post_init__(self) -> None:
    read_fields(self)
    _check_lists(self)
    for i in range(self.num_cycles):
      _check_cycle(self, i)

  @property
  def num_cycles(self) -> int:
    """How many cycles there are."""
    return len(self.decays)

  @property
  def has_function(self) -> bool:
    """Whether a shape has a Python function: no file can hold it then."""
    return has_function((self.warmups, self.decays, self.weight_decays))

  def override(self, hyperparameters: Any) -> ScheduleParams:
    """A copy with the given fields replaced.

    Args:
      hyperparameters: a mapping or a namedtuple, such as the benchmark makes
        from tuning_search_space.json, or None (self-tuning): nothing changes.
        A name is one of a field, of a field of hparams, or of a parameter of a
        part, joined to its field: `switching_lam`.

    Raises:
      ValueError: for an unknown name or a value out of range.
    """
    if not hyperparameters:
      return self
    given = getattr(hyperparameters, '_asdict', lambda: hyperparameters)()
    own, inner = (
      _field_names(ScheduleParams) - {'hparams'},
      _field_names(Hparams),
    )
    parts = self._names_of_parameters(given)
    check_known(given, own | inner | set(parts))
    changes = {name: v for name, v in given.items() if name in own}
    hparams = {name: v for name, v in given.items() if name in inner}
    for name in sorted(set(given) & set(parts)):
      field, parameter = parts[name]
      setting = changes.get(field, getattr(self, field))
      changes[field] = {**_as_object(setting), parameter: given[name]}
    changes['hparams'] = dataclasses.replace(self.hparams, **hparams)
    return dataclasses.replace(self, **changes)

  def _names_of_parameters(
    self, given: Mapping[str, Any]
  ) -> dict[str, tuple[str, str]]:
    """'switching_lam' -> ('switching', 'lam'), of the parts that are given.

    And where none is given, of those in force.
    """
    parts = {
      field: registry.read(field, given.get(field, getattr(self, field)))
      for field, registry in PARTS.items()
    }
    return {
      f'{field}_{parameter}': (field, parameter)
      for field, part in parts.items()
      for parameter in PARTS[field].parameters(name_of(part))
    }

  def to_dict(self) -> dict[str, Any]:
    """Plain values; `from_dict` reads them back, also from JSON."""
    fields = dataclasses.fields(self)
    values = {f.name: as_plain(getattr(self, f.name)) for f in fields}
    return {**values, 'hparams': dataclasses.asdict(self.hparams)}

  @classmethod
  def from_dict(cls, values: Mapping[str, Any]) -> ScheduleParams:
    """Reads what `to_dict` wrote, today or in an older version.

    A field that the file lacks has THESIS' value: when it was written there was
    nothing else.

    Raises:
      ValueError: if a field is unknown or a value out of range.
    """
    check(isinstance(values, Mapping), 'schedule_params', values, 'an object')
    values = {**THESIS.to_dict(), **translate(values)}
    check_known(values, _field_names(cls))
    hparams = values['hparams']
    check(isinstance(hparams, Mapping), 'hparams', hparams, 'an object')
    check_known(hparams, _field_names(Hparams))
    hparams = dataclasses.replace(THESIS.hparams, **hparams)
    return cls(**{**values, 'hparams': hparams})

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


def _plain_number(value: Any) -> int | float:
  if callable(value):
    raise ValueError(
      f'{value!r} is a Python function, as the shapes lambda and '
      'multiplicative have it: no JSON can hold it.'
    )
  return value.item()


def _field_names(cls: type) -> set[str]:
  return {field.name for field in dataclasses.fields(cls)}


def _as_object(setting: Any) -> dict[str, Any]:
  plain = as_plain(setting)
  return dict(plain) if isinstance(plain, Mapping) else {'name': plain}


def _check_lists(params: ScheduleParams) -> None:
  given = tuple(name for name in _OPTIONAL_LISTS if getattr(params, name))
  counts = {name: len(getattr(params, name)) for name in _CHAIN + given}
  if len(set(counts.values())) > 1 or 0 in counts.values():
    listed = ', '.join(f'{name} has {n}' for name, n in counts.items())
    raise ValueError(
      'The lists of a chain must have one entry per cycle, the same number in '
      f'each and at least one: {listed}.'
    )


def _check_cycle(params: ScheduleParams, i: int) -> None:
  base, added = params.hparams.learning_rate, params.alter_lr[i]
  check(
    base + added > 0,
    f'alter_lr[{i}]',
    added,
    f'a number above -{base}, so that the peak is positive',
  )
  _check_warmup(params, i)
  if params.alter_weight_decay:
    base, added = params.hparams.weight_decay, params.alter_weight_decay[i]
    check(
      base + added >= 0,
      f'alter_weight_decay[{i}]',
      added,
      f'a number of at least -{base}, so that no weight decay is negative',
    )


def _check_warmup(params: ScheduleParams, i: int) -> None:
  factor, added = params.hparams.warmup_factor, params.alter_warmup[i]
  name, total = f'alter_warmup[{i}]', as_written(factor) + as_written(added)
  right = f'such that warmup_factor ({factor}) plus it is '
  check(total >= 0, name, added, right + 'at least 0: no negative warm-up')
  check(
    total <= 1,
    name,
    added,
    right + 'at most 1: no warm-up longer than its cycle',
  )
  limit = HOLDING_DECAYS.get(name_of(params.decays[i]))
  if limit is not None and params.warmups[i] != 'none':
    check(
      total < as_written(limit),
      name,
      added,
      f'{right}below {limit}: the {params.decays[i]} decay holds the peak for '
      'the warm-up and 20 % of the cycle, and has no room left',
    )


# What the thesis ran, spelled out: its experiments and the files of older runs
# are read by it, whatever the defaults become.
THESIS = ScheduleParams(
  warmups=('linear', 'linear', 'linear'),
  decays=('cosine', 'cosine', 'cosine'),
  alter_lr=(0.0, 0.0, 0.0),
  alter_warmup=(0.0, 0.0, 0.0),
  lengths=(1.0, 1.0, 1.0),
  budget_factor=2.0,
  reset_mode='soft',
  alpha=0.5,
  early_switching=True,
  # Figure 3.7.
  switching={
    'name': 'thesis',
    'lam': 0.7,
    'eps1': 0.01,
    'eps2': 0.01,
    'k': 9,
    'm': 9,
  },
  goal='final',
  horizon='steps',
  policy='finish',
  optimizer='adamw',
  hparams=Hparams(
    dropout_rate=0.1,
    learning_rate=0.0017486387539278373,
    one_minus_beta1=0.06733926164,
    beta2=0.9955159689799007,
    weight_decay=0.08121616522670176,
    warmup_factor=0.02,
    eps=1e-8,
    grad_clip=None,
    label_smoothing=0.0,
  ),
  weight_decays=(),
  alter_weight_decay=(),
  cycles=(),
  averaging='none',
  wait=False,
  distance='log',
)
# The one in force: as the thesis', but a run does not end itself while there is
# budget left.
SCHEDULE_PARAMS = dataclasses.replace(THESIS, policy='repeat')


def make_rules(
  step_hint: int,
  schedule_params: ScheduleParams,
  target: Target,
  budget: float = math.nan,
) -> Rules:
  """What decides in a run with this configuration.

  Args:
    step_hint: the workload's, steps.
    schedule_params: the configuration.
    target: the workload's.
    budget: seconds of submission time that the run may take; NaN if unknown.

  Raises:
    ValueError: if a cycle would get no step, or the policy cannot serve the
      chain.
  """
  p, cycles = schedule_params, lay_out(step_hint, schedule_params)
  rules = Rules(
    cycles=cycles,
    target=target,
    early_switching=p.early_switching,
    reset_mode=p.reset_mode,
    alpha=p.alpha,
    wait=p.wait,
    distance=p.distance,
    budget=budget,
    **{field: PARTS[field].make(getattr(p, field)) for field in _DECIDING},
  )
  rules.policy.check(cycles)
  return rules


def check_plan(step_hint: int, schedule_params: ScheduleParams) -> None:
  """Refuses settings that no run over so many steps could begin with.

  Raises:
    ValueError: if a cycle would get no step, a rate leaves what a rate may be,
      or the policy cannot serve the chain.
  """
  no_target = Target('', 1.0, True)
  check_cycles(make_rules(step_hint, schedule_params, no_target).cycles)


_DECIDING = ('switching', 'goal', 'horizon', 'policy')
