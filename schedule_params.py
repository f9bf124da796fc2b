"""The settings of a run: a chain of cycles, and what decides between them.

The thesis keeps its schedule parameters and the run's state together in one
global dictionary, SCHEDULE_PARAMS. Here they are separate: `ScheduleParams` is
immutable and checked when it is made; the state is in `core.state`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from .core.checks import check, check_flag, check_number, did_you_mean
from .core.horizon import Horizon, TimeHorizon
from .core.optimizers import AdamW, Optimizer, ScheduleFreeAdamW
from .core.range_test import RangeTest
from .core.schedules import Cooldown, Cycle
from .early_switching import Progress, SmoothedLossRule, SwitchingRule
from .soft_reset import Reset, SoftReset


@dataclasses.dataclass(frozen=True)
class ScheduleParams:
  """A chain of cycles, what happens between them, and what decides.

  Attributes:
    cycles: the chain.
    optimizer: what steps inside the cycles.
    budget_factor: steps of the whole chain as a multiple of step_hint.
    reset: what the start of a further cycle does to the model.
    switching: the rule that ends cycles early.
    early_switching: whether the rule may end a cycle. Its verdicts are logged
      in any case.
    repeat: whether the last cycle follows again and again after the chain;
      else the run ends with the chain, whatever budget remains.
    range_test: finds the scale of the peaks before the first cycle; None: the
      peaks are as they are written.
    horizon: lays the cycles over the time budget. Each is at least three
      intervals between evaluations long, and its end waits for the evaluation
      of the annealed model, for at most the longest interval so far. A cycle
      that fails begins the chain anew, at half of the rate. None, the thesis'
      way: steps as planned, no waiting, the next cycle follows one that fails.
    dropout_rate: probability, or None for the workload's own. In force where
      model_fn takes it (main). In v0.5.0 the runner builds the model: with this
      rate under the external ruleset, with the model's default under
      self-tuning.
    label_smoothing: passed to the workload's loss function.
  """

  cycles: tuple[Cycle, ...]
  _: dataclasses.KW_ONLY
  optimizer: Optimizer
  budget_factor: float = 2.0
  reset: Reset = SoftReset()
  switching: SwitchingRule
  early_switching: bool = True
  repeat: bool = True
  range_test: RangeTest | None = None
  horizon: Horizon | None = None
  dropout_rate: float | None = None
  label_smoothing: float = 0.0

  def __post_init__(self) -> None:
    right = 'a tuple of one or more Cycles, such as (Cycle(),)'
    is_list = isinstance(self.cycles, (tuple, list)) and len(self.cycles) > 0
    is_chain = is_list and all(isinstance(c, Cycle) for c in self.cycles)
    check(is_chain, 'cycles', self.cycles, right)
    object.__setattr__(self, 'cycles', tuple(self.cycles))
    check_number('budget_factor', self.budget_factor, '(0, inf)')
    check_flag('early_switching', self.early_switching)
    check_flag('repeat', self.repeat)
    for name, method, example in (
      ('optimizer', 'build', 'AdamW()'),
      ('reset', 'plan', 'SoftReset()'),
      ('switching', 'observe', 'Progress()'),
      ('range_test', 'estimate', 'RangeTest()'),
      ('horizon', 'steps_to_come', 'TimeHorizon()'),
    ):
      part = getattr(self, name)
      is_part = hasattr(part, method) and not isinstance(part, type)
      is_part |= part is None and name in ('range_test', 'horizon')
      check(is_part, name, part, f'an object such as {example}')
    if self.dropout_rate is not None:
      check_number('dropout_rate', self.dropout_rate, '[0, 1)')
    check_number('label_smoothing', self.label_smoothing, '[0, 1)')

  def override(self, hyperparameters: Any) -> ScheduleParams:
    """A copy with the given hyperparameters.

    Args:
      hyperparameters: a mapping or a namedtuple, such as the benchmark makes
        from tuning_search_space.json, or None (self-tuning): nothing changes.
        Names are those of `hyperparameters_of`. A learning rate is the first
        cycle's peak; the peaks of the others keep their ratios to it.

    Raises:
      ValueError: for an unknown name or a value out of range.
    """
    if not hyperparameters:
      return self
    given = getattr(hyperparameters, '_asdict', lambda: hyperparameters)()
    known = hyperparameters_of(self)
    for name in given:
      if name not in known:
        raise ValueError(
          f'{name}: unknown hyperparameter; known are {", ".join(known)}.'
          + did_you_mean(name, known)
        )
    given = dict(given)
    cycles = list(self.cycles)
    if 'learning_rate' in given:
      rate = given.pop('learning_rate')
      check_number('learning_rate', rate, '(0, inf)')
      factor = rate / cycles[0].peak  # 1 changes nothing
      cycles = [dataclasses.replace(c, peak=c.peak * factor) for c in cycles]
    if 'warmup_factor' in given:
      warmup = given.pop('warmup_factor')
      cycles = [dataclasses.replace(c, warmup_factor=warmup) for c in cycles]
    own = {k: given.pop(k) for k in list(given) if hasattr(self.optimizer, k)}
    optimizer: Any = self.optimizer
    return dataclasses.replace(
      self,
      cycles=tuple(cycles),
      optimizer=dataclasses.replace(optimizer, **own) if own else optimizer,
      **given,
    )


def hyperparameters_of(params: ScheduleParams) -> dict[str, Any]:
  """The numbers that a search space may replace, and their present values.

  The peak of the first cycle as learning_rate, the warm-up factor, the fields
  of the optimizer, dropout rate and label smoothing.
  """
  optimizer: Any = params.optimizer
  fields = dataclasses.fields(optimizer)
  return {
    'learning_rate': params.cycles[0].peak,
    'warmup_factor': params.cycles[0].warmup_factor,
    **{field.name: getattr(optimizer, field.name) for field in fields},
    'dropout_rate': params.dropout_rate,
    'label_smoothing': params.label_smoothing,
  }


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
  range_test=None,
  horizon=None,
  dropout_rate=0.1,
)
# The thesis' method in today's ruleset. Cycles that double in length are laid
# over the time budget; a soft reset between any two; a range test that finds a
# peak where the published one is far off; and a rule that abandons a chain that will not
# reach the target. The numbers of the optimizer are those of the self-tuning
# winner of 2024, with a constant peak that every cycle ends with a short decay.
SOFT_RESET = ScheduleParams(
  cycles=tuple(
    Cycle(
      peak=0.0025,
      length=length,
      warmup_factor=0.02,
      decay=Cooldown(share=0.1),
    )
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
  switching=Progress(min_share=0.3),
  early_switching=True,
  repeat=True,
  range_test=RangeTest(steps=12, tolerance=3.2),
  horizon=TimeHorizon(slack=0.03, margin=0.1),
)
# The settings in force.
SCHEDULE_PARAMS = SOFT_RESET
