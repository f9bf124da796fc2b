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
from .core.schedules import Cooldown, Cycle
from .early_switching import Progress, SmoothedLossRule, SwitchingRule
from .soft_reset import Reset, SoftReset


@dataclasses.dataclass(frozen=True)
class Race:
  """A race of factors on the peaks, until one is found that learns.

  The run begins with the first factor. At the cycle's first evaluation from .02
  of the run on, the loss must have dropped from L0, that of the run's first
  evaluation, and the metric must have come some of its way:

    log(L0 / L) >= min_loss_drop  and  progress (log scale) >= min_progress

  The second condition is for a rate so high that the first evaluation, which
  follows the first step, sees a loss near the largest float. If both hold, the
  cycle goes on. If not, the chain begins anew over the remaining steps, after a
  full reset, with the next factor. If none passes, the one that has come
  farthest on its way to the target begins again, unless its model is the one at
  hand, which goes on untouched. No model is kept: every change is a reset of
  the model at hand. Where evaluations are so rare that the other probes would
  take more than a quarter of the run, the first factor goes on without a race.

  When a cycle is abandoned later, the chain begins anew with a factor that has
  not been tried or, if there is none, with the best that has not been
  abandoned, or, if all have, with the one at hand at half of its rate.

  Attributes:
    peaks: factors on the peaks of the chain, in the order in which they are
      tried.
    min_loss_drop: fall of the loss, as a log ratio.
    min_progress: share of the way to the target.

  Source: ours. Of the recorded runs of the real benchmark that go on to reach
  their target, .885 meet both conditions at .02 of main's budget, and .910 at
  .02 of that of 2024; the others would have been raced against, most of them on
  fastMRI and Criteo (studies/real_runs/FINDINGS.md).
  """

  peaks: tuple[float, ...] = (1.0, 0.1, 10.0)
  min_loss_drop: float = 0.45
  min_progress: float = 0.1

  def __post_init__(self) -> None:
    is_list = isinstance(self.peaks, (tuple, list)) and len(self.peaks) > 1
    right = 'a tuple of two or more factors, such as (1.0, 0.1, 10.0)'
    check(is_list, 'peaks', self.peaks, right)
    for i, factor in enumerate(self.peaks):
      check_number(f'peaks[{i}]', factor, '(0, inf)')
    object.__setattr__(self, 'peaks', tuple(map(float, self.peaks)))
    check_number('min_loss_drop', self.min_loss_drop, '(-inf, inf)')
    check_number('min_progress', self.min_progress, '(-inf, inf)')


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
    race: how a peak is chosen; None: peaks are as they are written. With a
      race, `repeat` must hold.
    horizon: lays the cycles over the time budget, and makes the end of a cycle
      wait for the evaluation of the annealed model, for at most the longest
      interval between evaluations so far. None: steps as planned, no waiting.
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
  race: Race | None = None
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
    is_race = self.race is None or isinstance(self.race, Race)
    check(is_race, 'race', self.race, 'a Race, or None')
    check(self.repeat or not self.race, 'repeat', False, 'True with a race')
    for name, method, example in (
      ('optimizer', 'build', 'AdamW()'),
      ('reset', 'plan', 'SoftReset()'),
      ('switching', 'observe', 'Progress()'),
      ('horizon', 'steps_to_come', 'TimeHorizon()'),
    ):
      part = getattr(self, name)
      is_part = hasattr(part, method) and not isinstance(part, type)
      is_part |= name == 'horizon' and part is None
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
  reset=SoftReset(alpha=0.5, scale='log'),
  switching=SmoothedLossRule(lam=0.7, eps1=0.01, eps2=0.01, k=9, m=9),
  early_switching=True,
  repeat=False,
  race=None,
  horizon=None,
  dropout_rate=0.1,
)
# The thesis' method in today's ruleset. Cycles that double in length are laid
# over the time budget; a soft reset between any two; a race that finds a peak
# at which the model learns; and a rule that abandons a chain that will not
# reach the target. The numbers of the optimizer are those of the self-tuning
# winner of 2024, with a constant peak that every cycle ends with a short decay.
SOFT_RESET = ScheduleParams(
  cycles=tuple(
    Cycle(
      peak=0.0025,
      length=length,
      warmup_factor=0.02,
      # The run's first evaluation follows its first step: at a rate of 0 it
      # sees the untrained model, from whose loss the race measures.
      min_warmup_steps=1,
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
  reset=SoftReset(alpha=0.5, scale='linear'),
  switching=Progress(min_share=0.3, decay=0.4),
  early_switching=True,
  repeat=True,
  race=Race(peaks=(1.0, 0.1, 10.0), min_loss_drop=0.45, min_progress=0.1),
  horizon=TimeHorizon(slack=0.03, margin=0.1),
)
# The settings in force.
SCHEDULE_PARAMS = SOFT_RESET
