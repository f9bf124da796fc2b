"""The settings of a run: a chain of cycles, and what decides between them."""

from __future__ import annotations

import dataclasses

from .core.checks import check, check_flag, check_number
from .core.evaluation import Horizon, TimeHorizon
from .core.optimizers import AdamW, Optimizer, ScheduleFreeAdamW
from .core.relative_peak import RelativePeak
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

  cycles: tuple[Cycle, ...]
  _: dataclasses.KW_ONLY
  optimizer: Optimizer
  budget_factor: float = 2.0
  reset: Reset = SoftReset()
  switching: SwitchingRule
  early_switching: bool = True
  repeat: bool = True
  relative_peak: RelativePeak | None = None
  horizon: Horizon | None = None
  dropout_rate: float | None = None
  label_smoothing: float = 0.0

  def __post_init__(self) -> None:
    right = 'a tuple of one or more Cycles, such as (Cycle(),)'
    is_chain = isinstance(self.cycles, (tuple, list)) and len(self.cycles) > 0
    is_chain = is_chain and all(isinstance(c, Cycle) for c in self.cycles)
    check(is_chain, 'cycles', self.cycles, right)
    object.__setattr__(self, 'cycles', tuple(self.cycles))
    check_number('budget_factor', self.budget_factor, '(0, inf)')
    check_flag('early_switching', self.early_switching)
    check_flag('repeat', self.repeat)
    for name, method, example in (
      ('optimizer', 'build', 'AdamW()'),
      ('reset', 'plan', 'SoftReset()'),
      ('switching', 'observe', 'Progress()'),
      ('relative_peak', 'peak', 'RelativePeak()'),
      ('horizon', 'steps_to_come', 'TimeHorizon()'),
    ):
      part = getattr(self, name)
      is_part = callable(getattr(part, method, None))
      is_part &= not isinstance(part, type)
      is_part |= part is None and name in ('relative_peak', 'horizon')
      check(is_part, name, part, f'an object such as {example}')
    if self.dropout_rate is not None:
      check_number('dropout_rate', self.dropout_rate, '[0, 1)')
    check_number('label_smoothing', self.label_smoothing, '[0, 1)')


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
# The settings in force.
SCHEDULE_PARAMS = SOFT_RESET
