"""The configuration of a run: the chain of cycles, the resets and the rules.

The thesis keeps its schedule parameters and the run's state together in one
global dictionary, SCHEDULE_PARAMS. Here they are separate: `ScheduleParams` is
immutable and checked when it is made; the state is in `control.state`.
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
from .cycles import read_cycle
from .cycles.lists import CHAIN, OPTIONAL_LISTS, check_lists, plans_of_lists
from .cycles.setting import check_setting, is_inherited, plan_of_setting
from .optimizers import INNER
from .optimizers.inner import check_numbers
from .schedules.cycle import check_cycles
from .schedules.decays import DECAYS
from .schedules.lr_schedule import lay_out
from .schedules.plan import CyclePlan
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
  Setting,
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
_LISTS = (*CHAIN, *OPTIONAL_LISTS)


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
CycleSettings = ListOf(Annotated[Setting, Kind('a cycle', read_cycle)])
HparamsSetting = Annotated[Hparams, Kind('an Hparams', _read_hparams)]


# Spelled out: the same rule as in THESIS.
_FIGURE_3_7 = Named(
  'thesis', (('eps1', 0.01), ('eps2', 0.01), ('k', 9), ('lam', 0.7), ('m', 9))
)


@dataclasses.dataclass(frozen=True)
class ScheduleParams:
  """A chain of cycles, what happens between them, and what decides.

  The chain is written in one of two ways: as lists with one entry per cycle
  (the first five fields and the weight decays), as in the thesis, or as
  `cycles`, a list of whole settings. A shape, like every part, is a name or an
  object with a name and parameters: {'name': 'wsd', 'decay': 0.1}. Its lengths
  are shares of the phase, and its values are shares of the peak.

  Attributes:
    warmups: a shape of WARMUPS per cycle.
    decays: a shape of DECAYS per cycle, over the steps after the warm-up.
    alter_lr: added to hparams.learning_rate; the sum is a cycle's peak.
    alter_warmup: added to hparams.warmup_factor, a fraction of the cycle.
    lengths: relative lengths; with (1, 1, 2) the last cycle is half of the run.
    budget_factor: steps of the whole chain as a multiple of step_hint.
    reset_mode: what the start of a new cycle does to the model. 'soft' blends
      parameters by tau and shrinks moments by alpha * tau; 'full' replaces the
      parameters and empties the optimizer; 'kept_momentum' replaces the
      parameters only; 'cyclic' touches nothing.
    alpha: share of tau that the moments get, 0 <= alpha <= 1.
    distance: the scale on which tau measures a metric that falls, 'log' or
      'linear'; see `soft_reset.tau`.
    early_switching: whether the switching rule may end a cycle. Its verdicts
      are logged in any case.
    switching: the rule that ends cycles early; see control.switching.
    goal: the metric to which tau is the distance; see control.goals.
    horizon: how many steps the run has; see control.horizons.
    policy: what follows a cycle; see control.policies.
    optimizer: the optimizer inside the cycles; see optimizers.
    hparams: the optimizer's hyperparameters.
    weight_decays: empty for a constant weight decay, or a shape per cycle: of
      DECAYS, over all of the cycle's steps, or 'ratio' for a fixed ratio to the
      learning rate.
    alter_weight_decay: empty, or a number per cycle, added to
      hparams.weight_decay; the sum is the peak of its shape.
    cycles: empty, or the chain as a list of whole settings; then the lists are
      empty. Each is the name of a published setting, an object with fields of
      `cycles.setting.CycleSetting`, or an object with a name and the fields
      that differ: {'name': 'lawa_queue/2', 'length': 0.5}. Fields that are left
      out come from hparams, optimizer and averaging.
    averaging: which weights evaluations see; see averaging.
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
  cycles: CycleSettings = ()
  averaging: AveragingSetting = 'none'
  wait: Flag = False
  distance: Distance = 'log'

  def __post_init__(self) -> None:
    read_fields(self)
    if self.cycles:
      _leave_lists(self)
      for i, plan in enumerate(self.plans):
        check_setting(plan, f'cycles[{i}]')
    else:
      check_lists(self)
      check_numbers(self.optimizer, self.hparams, 'hparams')

  @property
  def plans(self) -> tuple[CyclePlan, ...]:
    """The cycles as they are written, from the lists or from `cycles`."""
    if not self.cycles:
      return plans_of_lists(self)
    inherited = (self.hparams, self.optimizer, self.averaging)
    return tuple(plan_of_setting(cycle, *inherited) for cycle in self.cycles)

  @property
  def num_cycles(self) -> int:
    """How many cycles there are."""
    return len(self.cycles or self.decays)

  @property
  def has_function(self) -> bool:
    """Whether a shape has a Python function, which no file can hold."""
    shapes = (self.warmups, self.decays, self.weight_decays, self.cycles)
    return has_function(shapes)

  def override(self, hyperparameters: Any) -> ScheduleParams:
    """A copy with the given fields replaced.

    A chain that is given takes the place of the one in force: lists that of
    `cycles`, with THESIS' entries for lists that are left out, and `cycles` that
    of lists.

    Args:
      hyperparameters: a mapping or a namedtuple, such as the benchmark makes
        from tuning_search_space.json, or None (self-tuning): nothing changes.
        A name is one of a field, of a field of hparams, or of a parameter of a
        part, joined to its field: `switching_lam`.

    Raises:
      ValueError: for an unknown name, a value out of range, or a hyperparameter
        that every cycle of the list sets itself.
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
    changes = {**_chain_left(self, changes), **changes}
    hparams = {name: v for name, v in given.items() if name in inner}
    for name in sorted(set(given) & set(parts)):
      field, parameter = parts[name]
      setting = changes.get(field, getattr(self, field))
      changes[field] = {**_as_object(setting), parameter: given[name]}
    changes['hparams'] = dataclasses.replace(self.hparams, **hparams)
    changed = dataclasses.replace(self, **changes)
    _check_inherited(changed.cycles, hparams)
    return changed

  def _names_of_parameters(
    self, given: Mapping[str, Any]
  ) -> dict[str, tuple[str, str]]:
    """'switching_lam' -> ('switching', 'lam') for every part's parameters.

    The parts are the given ones or, where none is given, those in force.
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
    """Reads what `to_dict` wrote, in this or an older version.

    A missing field gets THESIS' value: when the file was written, nothing else
    existed.

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
    """The fields as JSON text; NumPy numbers become plain ones.

    Raises:
      ValueError: if a shape has a Python function.
    """
    return json.dumps(self.to_dict(), indent=2, default=_plain_number)

  @classmethod
  def from_json(cls, text: str) -> ScheduleParams:
    """Reads what `to_json` wrote; raises ValueError for anything else."""
    return cls.from_dict(json.loads(text))


def _plain_number(value: Any) -> int | float:
  if callable(value):
    raise ValueError(
      f'{value!r} is a Python function, as in the shapes lambda and '
      'multiplicative: JSON cannot hold it.'
    )
  return value.item()


def _field_names(cls: type) -> set[str]:
  return {field.name for field in dataclasses.fields(cls)}


def _as_object(setting: Any) -> dict[str, Any]:
  plain = as_plain(setting)
  return dict(plain) if isinstance(plain, Mapping) else {'name': plain}


def _leave_lists(params: ScheduleParams) -> None:
  """Empties the lists when `cycles` is given: they would never be read.

  Raises:
    ValueError: if a list is given that differs from its default.
  """
  for name in _LISTS:
    default = ScheduleParams.__dataclass_fields__[name].default
    if getattr(params, name) not in ((), default):
      raise ValueError(
        f'cycles and {name} are both given: write the chain either as a list '
        'of cycles or as lists with one entry per cycle.'
      )
    object.__setattr__(params, name, ())


def _check_inherited(
  cycles: tuple[Setting, ...], hparams: Mapping[str, Any]
) -> None:
  """Refuses a hyperparameter that would change nothing.

  Not a dropout rate, which the runner of v0.5.0 reads as well.
  """
  for name in sorted(set(hparams) - {'dropout_rate'} if cycles else ()):
    check(
      any(is_inherited(cycle, name) for cycle in cycles),
      name,
      hparams[name],
      'given inside cycles: each cycle of the list has a value of its own',
    )


def _chain_left(
  params: ScheduleParams, given: Mapping[str, Any]
) -> dict[str, Any]:
  """The changes to the chain in force that giving another one implies."""
  if given.get('cycles'):
    return {name: () for name in _LISTS}
  if params.cycles and set(given) & set(_LISTS):
    return {'cycles': (), **{name: getattr(THESIS, name) for name in _LISTS}}
  return {}


_SCHEDULE_FREE = {
  'optimizer': {
    'name': 'schedule_free_adamw',
    'r': 0.75,
    'weight_lr_power': 2.0,
  },
  'decay': 'constant',
}
# What the thesis ran, spelled out: its experiments and the files of older runs
# are read with it, whatever the defaults become.
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
# What is handed in. Every cycle of the list is a whole setting: the first is
# that with which Schedule-Free AdamW won the self-tuning ruleset of 2024; the
# second is Nesterov momentum, generalized_adam/1 of the external
# ruleset, which reaches targets that no adaptive setting reached; the last two
# are the first with other peaks. How it was chosen: docs/choosing.md.
COMPETITION = dataclasses.replace(
  THESIS,
  **dict.fromkeys(_LISTS, ()),
  cycles=(
    _SCHEDULE_FREE,
    'generalized_adam/1',
    {**_SCHEDULE_FREE, 'learning_rate': 0.00025},
    {**_SCHEDULE_FREE, 'learning_rate': 0.025},
  ),
  hparams=Hparams(
    dropout_rate=0.1,
    learning_rate=0.0025,
    one_minus_beta1=0.1,
    beta2=0.9955159689799007,
    weight_decay=0.08121616522670176,
    # Published for three quarters of step_hint; here it is over all of it.
    warmup_factor=0.015,
    eps=1e-8,
    grad_clip=None,
    label_smoothing=0.0,  # published as .2, which never took effect
  ),
  budget_factor=1.5,
  # Not before .3 of a cycle: from .15 it left healthy cycles on `translation`.
  switching={'name': 'progress', 'fair': 0.3, 'decay': 0.4},
  horizon='time',
  policy={
    'name': 'race',
    'probes': 4,
    'rounds': (0.04,),
    'by': 'best',
    'enough': 0.3,
    'full': 0.667,
    'near': 0.9,
    'patient': True,
  },
  goal='expected',
  distance='linear',
  wait=True,
)
# The settings in force.
SCHEDULE_PARAMS = COMPETITION


def make_rules(
  step_hint: int,
  schedule_params: ScheduleParams,
  target: Target,
  budget: float = math.nan,
) -> Rules:
  """The rules of a run with this configuration.

  Args:
    step_hint: the workload's step_hint, steps.
    schedule_params: the configuration.
    target: the workload's target.
    budget: seconds of submission time that the run may take; NaN if unknown.

  Raises:
    ValueError: if a cycle would get no step, or the policy cannot work with the
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
  """Refuses settings with which no run of this many steps could begin.

  Raises:
    ValueError: if a cycle would get no step, a rate is negative or not finite,
      or the policy cannot work with the chain.
  """
  no_target = Target('', 1.0, True)
  check_cycles(make_rules(step_hint, schedule_params, no_target).cycles)


_DECIDING = ('switching', 'goal', 'horizon', 'policy')
