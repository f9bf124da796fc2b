"""The settings of a run: a chain of cycles, and what decides between them."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

from .core.checks import (
  Checked,
  Floor,
  Positive,
  check,
  check_number,
  check_part,
)
from .core.horizon import Horizon, TimeHorizon
from .core.schedules import Cooldown, Cycle
from .early_switching import (
  COLUMNS,
  AnyOf,
  ChainLossRule,
  Progress,
  SmoothedLossRule,
  SwitchingRule,
)
from .optimizers.adamw import AdamW
from .optimizers.peaks import Peak, RelativePeak, SpectralPeak
from .optimizers.schedule_free import ScheduleFreeAdamW, ScheduleFreeMuon
from .optimizers.step import Optimizer
from .soft_reset import Reset, SoftReset


def _check_cycles(name: str, value: Any) -> None:
  is_chain = isinstance(value, (tuple, list)) and len(value) > 0
  is_chain = is_chain and all(isinstance(c, Cycle) for c in value)
  must_be = 'a tuple of one or more Cycles, such as (Cycle(),)'
  check(is_chain, name, value, must_be)


def _check_switching(name: str, value: Any) -> None:
  check_part(name, value, SwitchingRule, 'an object such as Progress()')
  taken = [column for column in value.columns if column in COLUMNS]
  must_be = (
    f'a rule whose columns have other names than {", ".join(taken)}; every run '
    f'has the columns {", ".join(COLUMNS)}'
  )
  check(not taken, name, value, must_be)


@dataclasses.dataclass(frozen=True)
class ScheduleParams(Checked):
  """A chain of cycles, what happens between them, and what decides.

  Attributes:
    cycles: the chain.
    optimizer: what steps inside the cycles.
    budget_factor: steps of the whole chain as a multiple of step_hint.
    reset: what the start of a further cycle does to the model.
    switching: the rule that ends cycles early.
    early_switching: whether the rule may end a cycle; its verdicts are logged
      in any case.
    repeat: whether the last cycle follows again and again after the chain;
      else the run ends with the chain, whatever budget remains.
    relative_peak: scales the peaks to the size of the weights; the run then
      begins with a model made anew. None: the peaks are as they are written.
    horizon: lays the cycles over the time budget. Each is at least three
      intervals between evaluations long, and its end waits for the evaluation
      of the annealed model, for at most the longest of the last nine intervals.
      A cycle that fails begins the chain anew, at half of the rate. None is the
      thesis' way: steps as planned, no waiting, and after a cycle that fails
      the next cycle.
    dropout_rate: probability, or None for the workload's own; in force where
      model_fn takes it (main). In v0.5.0 the runner builds the model.
    label_smoothing: passed to the workload's loss function.
  """

  cycles: Annotated[tuple[Cycle, ...], _check_cycles]
  _: dataclasses.KW_ONLY
  optimizer: Annotated[Optimizer, 'an object such as AdamW()']
  budget_factor: Positive = 2.0
  reset: Annotated[Reset, 'an object such as SoftReset()'] = SoftReset()
  switching: Annotated[SwitchingRule, _check_switching]
  early_switching: bool = True
  repeat: bool = True
  relative_peak: Annotated[Peak, 'an object such as RelativePeak()'] | None = (
    None
  )
  horizon: Annotated[Horizon, 'an object such as TimeHorizon()'] | None = None
  dropout_rate: Floor | None = None
  label_smoothing: Floor = 0.0

  def __post_init__(self) -> None:
    super().__post_init__()
    is_spectral = isinstance(self.relative_peak, SpectralPeak)
    must_be = (
      'one of matrices, such as Muon(), where relative_peak is a '
      'SpectralPeak; with another one give relative_peak and peaks that suit it'
    )
    has_matrices = self.optimizer.needs_forms()
    check(not is_spectral or has_matrices, 'optimizer', self.optimizer, must_be)
    is_adams = isinstance(self.relative_peak, RelativePeak)
    must_be = (
      'a SpectralPeak, or None with peaks that suit it, where the optimizer is '
      'one of matrices, such as Muon()'
    )
    is_pair = not is_adams or not has_matrices
    check(is_pair, 'relative_peak', self.relative_peak, must_be)

  def peak_factor(self, end: int) -> float:
    """Factor on the peak of a cycle that ends after so many steps."""
    rule = self.relative_peak
    return 1.0 if rule is None else rule.length_factor(end)

  @property
  def follows_epochs(self) -> bool:
    """Whether the weight decay can follow the epochs.

    The optimizer's can, and the peak is a share, by which the factor ends.
    """
    is_spectral = isinstance(self.relative_peak, SpectralPeak)
    return is_spectral and self.optimizer.follows_epochs()

  def decay_factor(self, end: int, steps_per_epoch: float) -> float:
    """Factor on the weight decay of a cycle that ends after so many steps.

    See `Optimizer.epochs_factor`.

    Raises:
      ValueError: if the settings do not follow the epochs, or the factor is not
        finite and at least 1.
    """
    rule = self.relative_peak
    must_be = (
      'None where the peak is not that of a SpectralPeak, or the optimizer has '
      'no least_norm'
    )
    follows = self.follows_epochs
    check(follows, 'steps_per_epoch', steps_per_epoch, must_be)
    assert isinstance(rule, SpectralPeak)
    share = rule.share * rule.length_factor(end)
    factor = float(self.optimizer.epochs_factor(end / steps_per_epoch, share))
    name = f'{type(self.optimizer).__name__}.epochs_factor'
    check_number(name, factor, '[1, inf)')
    return factor


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
# from the self-tuning winner of 2024.
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
# SOFT_RESET with another optimizer, Muon with an average: its steps are
# orthogonalised. A chain is abandoned where its smoothed loss is not expected
# below its minimum, or its metric not at the target and without a new best
# within the last .06 of the chain.
MUON = dataclasses.replace(
  SOFT_RESET,
  cycles=tuple(
    dataclasses.replace(cycle, peak=0.16) for cycle in SOFT_RESET.cycles
  ),
  optimizer=ScheduleFreeMuon(
    one_minus_beta1=0.3,
    beta2=0.9955159689799007,
    weight_decay=0.3,
    r=2.0,
    weight_lr_power=2.0,
    momentum=0.8,
    rest_share=0.2,
    coherence=1.0,
    decay_lr_power=1.0,
    growth_start=1000.0,
    fall_start=300.0,
    least_norm=5.0,
  ),
  relative_peak=SpectralPeak(share=0.16, whole=300.0),
  switching=AnyOf((ChainLossRule(), Progress(window=0.06))),
)
# The settings in force.
SCHEDULE_PARAMS = MUON
