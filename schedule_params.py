"""The settings of a run: a chain of cycles, and what decides between them.

The thesis keeps its schedule parameters and the run's state together in one
global dictionary, SCHEDULE_PARAMS. Here they are separate: `ScheduleParams` is
immutable and checked when it is made; the state is in `core.state`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from .core.checks import check, check_flag, check_number, did_you_mean
from .core.cycle import Cooldown, Cycle, Hparams, Optimizer
from .core.horizon import Horizon, StepHorizon, TimeHorizon
from .core.optimizers import AdamW, ScheduleFreeAdamW
from .core.race import Finish, Policy, Race, Repeat
from .core.schedules import Chain, jax_lr_schedule
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
    policy: what follows a cycle.
    horizon: how many steps the run has.
    wait: whether a reset waits for the evaluation of the annealed model.
  """

  cycles: tuple[Cycle, ...]
  _: dataclasses.KW_ONLY
  optimizer: Optimizer
  budget_factor: float = 2.0
  reset: Reset = SoftReset()
  switching: SwitchingRule
  early_switching: bool = True
  policy: Policy = Repeat()
  horizon: Horizon
  wait: bool = False

  def __post_init__(self) -> None:
    right = 'a tuple of one or more Cycles, such as (Cycle(),)'
    is_list = isinstance(self.cycles, (tuple, list)) and len(self.cycles) > 0
    is_chain = is_list and all(isinstance(c, Cycle) for c in self.cycles)
    check(is_chain, 'cycles', self.cycles, right)
    object.__setattr__(self, 'cycles', tuple(self.cycles))
    check_number('budget_factor', self.budget_factor, '(0, inf)')
    check_flag('early_switching', self.early_switching)
    check_flag('wait', self.wait)
    for name, method, example in (
      ('optimizer', 'build', 'AdamW()'),
      ('reset', 'plan', 'SoftReset()'),
      ('switching', 'observe', 'Progress()'),
      ('policy', 'next', 'Repeat()'),
      ('horizon', 'steps_to_come', 'TimeHorizon()'),
    ):
      part = getattr(self, name)
      is_part = hasattr(part, method) and not isinstance(part, type)
      check(is_part, name, part, f'an object such as {example}')
    # What the compiled step is made with, and what an average is computed with.
    fixed = ['dropout_rate', 'label_smoothing', 'grad_clip']
    if self.optimizer.evaluates_own:
      fixed.append('one_minus_beta1')
    for name in fixed:
      values = {getattr(cycle.hparams, name) for cycle in self.cycles}
      check(len(values) == 1, name, values, 'the same in all cycles')
    if self.optimizer.evaluates_own:
      new = self.cycles[0].hparams.one_minus_beta1
      check(
        new < 1, 'one_minus_beta1', new, 'below 1: an average is divided by b1'
      )

  def chain(self, step_hint: int) -> Chain:
    """The chain over the steps of a run; see `jax_lr_schedule`."""
    return jax_lr_schedule(step_hint, self.cycles, self.budget_factor)

  def override(self, hyperparameters: Any) -> ScheduleParams:
    """A copy with the given hyperparameters in every cycle.

    Args:
      hyperparameters: a mapping or a namedtuple, such as the benchmark makes
        from tuning_search_space.json, or None (self-tuning): nothing changes.
        Names are fields of `Hparams`. A learning rate is the first cycle's; the
        peaks of the others keep their ratios to it.

    Raises:
      ValueError: for an unknown name or a value out of range.
    """
    if not hyperparameters:
      return self
    given = getattr(hyperparameters, '_asdict', lambda: hyperparameters)()
    known = [field.name for field in dataclasses.fields(Hparams)]
    for name in given:
      if name not in known:
        raise ValueError(
          f'{name}: unknown hyperparameter; known are {", ".join(known)}.'
          + did_you_mean(name, known)
        )
    if 'learning_rate' in given:
      check_number('learning_rate', given['learning_rate'], '(0, inf)')
    base = self.cycles[0].hparams.learning_rate
    cycles = []
    for cycle in self.cycles:
      changes = dict(given)
      if 'learning_rate' in given:
        factor = given['learning_rate'] / base  # 1 changes nothing
        changes['learning_rate'] = cycle.hparams.learning_rate * factor
      hparams = dataclasses.replace(cycle.hparams, **changes)
      cycles.append(dataclasses.replace(cycle, hparams=hparams))
    return dataclasses.replace(self, cycles=tuple(cycles))


# What the thesis ran: three cosine cycles over twice the step_hint, a soft
# reset between any two, S(t) as in figure 3.7, and the end when cycles run out.
THESIS = ScheduleParams(
  cycles=(Cycle(),) * 3,
  optimizer=AdamW(),
  budget_factor=2.0,
  reset=SoftReset(alpha=0.5, scale='log'),
  switching=SmoothedLossRule(lam=0.7, eps1=0.01, eps2=0.01, k=9, m=9),
  early_switching=True,
  policy=Finish(),
  horizon=StepHorizon(),
  wait=False,
)
# The thesis' method in today's ruleset. Cycles that double in length are laid
# over the time budget; a soft reset between any two; a race that finds a peak
# at which the model learns; and a rule that leaves what will not arrive. The
# numbers of the optimizer are those of the self-tuning winner of 2024, with a
# constant peak that every cycle ends with a short decay.
SOFT_RESET = ScheduleParams(
  cycles=tuple(
    Cycle(
      Hparams(
        dropout_rate=None,
        learning_rate=0.0025,
        one_minus_beta1=0.1,
        beta2=0.9955159689799007,
        weight_decay=0.08121616522670176,
        warmup_factor=0.02,
      ),
      decay=Cooldown(share=0.1),
      length=length,
      # The run's first evaluation follows its first step: at a rate of 0 it
      # sees the untrained model, from whose loss the race measures.
      min_warmup_steps=1,
    )
    for length in (1.0, 2.0, 4.0, 8.0)
  ),
  optimizer=ScheduleFreeAdamW(r=0.75, weight_lr_power=2.0),
  budget_factor=1.5,
  reset=SoftReset(alpha=0.5, scale='linear'),
  switching=Progress(min_share=0.3, decay=0.4),
  early_switching=True,
  policy=Race(peaks=(1.0, 0.1, 10.0), min_loss_drop=0.45, min_progress=0.1),
  horizon=TimeHorizon(slack=0.03, margin=0.1),
  wait=True,
)
# The settings in force.
SCHEDULE_PARAMS = SOFT_RESET
