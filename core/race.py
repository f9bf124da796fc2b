"""What follows a cycle: the chain's next one, a repetition, a race of peaks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from ..soft_reset import progress
from .checks import check, check_number
from .schedules import cycle_ends
from .state import (
  CHOSEN,
  LEFT,
  PROBED,
  PROBING,
  UNTRIED,
  Control,
  RunConfig,
  Score,
)
from .workload import Target

# Share of the run after which an evaluation may judge a probe: one right after
# a compilation says nothing.
_JUDGED_FROM = 0.02
# Share of the run that the probes of the other peaks may take, each an interval
# between evaluations; where evaluations are too rare, there is no race.
_MOST_OF_RUN = 0.25


class Policy:
  """What follows when a cycle is over, or has been left."""

  def begin(self, control: Control) -> Control:
    """The control before the first step, from that of the chain's beginning."""
    return control

  def judge(
    self, control: Control, target: Target
  ) -> tuple[Control, bool | None]:
    """The verdict on a probe after an evaluation.

    Returns:
      The control, and whether the probe goes on; None if there is none, or it
      cannot be judged yet.
    """
    del target
    return control, None

  def may_leave(self, control: Control, step: int) -> bool:
    """Whether the switching rule may end a cycle whose loss is finite."""
    del control, step
    return True

  def next(
    self, control: Control, step: int, config: RunConfig, is_left: bool
  ) -> Control | None:
    """What the next cycle changes: its setting, end, horizon, scale and scores.

    Args:
      control: at the end of a cycle.
      step: the step about to be taken, the first after the cycle.
      config: of the run.
      is_left: whether the cycle was left early.

    Returns:
      The control; None if nothing follows. Its chain_start is `step` if the
      cycle starts with a full reset, whatever the settings say.
    """
    raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Finish(Policy):
  """The thesis': the chain, and then the end, whatever budget is left.

  The steps up to the horizon are split over the cycles still to come.
  """

  def next(
    self, control: Control, step: int, config: RunConfig, is_left: bool
  ) -> Control | None:
    """See `Policy`."""
    del is_left
    to_come = config.cycles[control.cycle + 1 :]
    if not to_come or step >= control.horizon:
      return None
    lengths = [cycle.setting.length for cycle in to_come]
    end = cycle_ends(step, control.horizon, lengths)[0]
    return control._replace(cycle=control.cycle + 1, end=end)


@dataclasses.dataclass(frozen=True)
class Repeat(Finish):
  """The chain, and then its last cycle over and over until the runner ends it.

  A further cycle takes as many steps as the last one was planned for, also
  after an early switch out of it, and postpones the horizon. Up to a horizon
  that is a hard limit the steps are split into as many further cycles as bring
  them nearest to the last one's length, scaled with the horizon. A further
  cycle that follows one that was left has half of its rate: it is not repeated
  as it was.
  """

  def next(
    self, control: Control, step: int, config: RunConfig, is_left: bool
  ) -> Control | None:
    """See `Policy`."""
    planned = super().next(control, step, config, is_left)
    if planned is not None:
      return planned
    last = len(config.cycles) - 1
    steps = float(config.cycles[last].steps)
    end = step + config.cycles[last].steps
    if config.settings.horizon.is_hard_limit and step < control.horizon:
      steps *= control.horizon / sum(cycle.steps for cycle in config.cycles)
      rest = control.horizon - step
      end = step + math.ceil(rest / max(round(rest / steps), 1))
    scale = control.scale * (0.5 if is_left else 1.0)
    horizon = max(control.horizon, end)
    return control._replace(cycle=last, end=end, horizon=horizon, scale=scale)


@dataclasses.dataclass(frozen=True)
class Race(Repeat):
  """`Repeat`, once a race of factors on the peaks has found one that learns.

  The run begins with the first factor. At the cycle's first evaluation from .02
  of the run on, the loss must have dropped from L0, that of the run's first
  evaluation, and the metric must have come some of its way:

    log(L0 / L) >= min_loss_drop  and  progress (log scale) >= min_progress

  The second condition is for a rate so high that the first evaluation, which
  follows the first step, sees a loss beyond all measure. If both hold, the
  cycle goes on. If not, the chain begins anew over what is left, after a full
  reset, with the next factor. If none passes, the one that has come farthest on
  its way to the target begins again, unless its model is the one at hand, which
  goes on untouched. Nothing is kept: every change is a reset of the model at
  hand. Evaluations come by the clock, so probes take about equally many
  seconds. Where they are so rare that the other probes would take more than a
  quarter of the run, the first factor goes on without a race.

  A cycle with a finite loss is left only while a new chain would get at least
  as many steps as the one at hand has had: with fewer it could hardly come
  farther. When a cycle is left, the chain begins anew with a factor that has
  not been tried or, if there is none, with the best that has not been left, or,
  if all have, with the one at hand at half of its rate.

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

  def begin(self, control: Control) -> Control:
    """See `Policy`."""
    scores = (Score(state=PROBING),) + (Score(),) * (len(self.peaks) - 1)
    return control._replace(scale=self.peaks[0], scores=scores)

  def judge(
    self, control: Control, target: Target
  ) -> tuple[Control, bool | None]:
    """See `Policy`."""
    i = current(control.scores)
    steps = control.last.step - control.start
    # The run's first evaluation is what the others are held against.
    is_seen = control.num_evaluations > 0
    is_seen &= control.last.step > control.first.step
    is_judged = is_seen and steps >= _JUDGED_FROM * control.horizon
    if control.scores[i].state != PROBING or not is_judged:
      return control, None
    states = [score.state for score in control.scores]
    others = states.count(UNTRIED)
    wait = max(steps, control.pace.longest)
    best = max(s.progress for s in control.scores if s.state != LEFT)
    way = progress(control.last.metric, target, control.first.metric, 'log')
    learns = (
      _loss_drop(control) >= self.min_loss_drop and way >= self.min_progress
    )
    goes_on = (
      learns
      or others * wait > _MOST_OF_RUN * control.horizon
      or (not others and control.scores[i].progress >= best)
    )
    state = CHOSEN if goes_on else PROBED
    scores = list(control.scores)
    scores[i] = scores[i]._replace(state=state)
    return control._replace(scores=tuple(scores)), bool(goes_on)

  def may_leave(self, control: Control, step: int) -> bool:
    """See `Policy`."""
    return control.horizon - step >= step - control.chain_start

  def next(
    self, control: Control, step: int, config: RunConfig, is_left: bool
  ) -> Control | None:
    """See `Policy`."""
    states = [score.state for score in control.scores]
    is_in_force = CHOSEN in states or PROBING in states
    if is_left and is_in_force:
      states[current(control.scores)] = LEFT
    elif is_in_force:
      # A probe that was never evaluated goes on, too.
      return super().next(control, step, config, is_left)
    scale = 0.5 * control.scale
    if UNTRIED in states:
      i = states.index(UNTRIED)
      states[i], scale = PROBING, self.peaks[i]
    elif PROBED in states:
      in_play = [j for j, state in enumerate(states) if state == PROBED]
      i = max(in_play, key=lambda j: control.scores[j].progress)
      states[i], scale = CHOSEN, self.peaks[i]
    else:
      states[current(control.scores)] = CHOSEN
    lengths = [cycle.setting.length for cycle in config.cycles]
    horizon = max(control.horizon, step + len(lengths))
    return control._replace(
      cycle=0,
      scale=scale,
      chain_start=step,
      end=cycle_ends(step, horizon, lengths)[0],
      horizon=horizon,
      scores=tuple(
        score._replace(state=state)
        for score, state in zip(control.scores, states)
      ),
    )


def current(scores: Sequence[Score]) -> int:
  """Index of the peak at hand: the one that is in force, or was last."""
  states = [score.state for score in scores]
  at_hand = [i for i, state in enumerate(states) if state in (PROBING, CHOSEN)]
  return at_hand[0]


def _loss_drop(control: Control) -> float:
  """log(L0 / L); -inf if a loss is not finite, inf if one is not above 0."""
  losses = control.first.loss, control.last.loss
  if not all(map(math.isfinite, losses)):
    return -math.inf
  if min(losses) <= 0:
    return math.inf
  ratio = losses[0] / losses[1]
  return math.log(ratio) if ratio > 0 else -math.inf  # it may underflow
