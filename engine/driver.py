"""From evaluations to what a run goes on with, for a submission and for a loop.

  `standing`            a saved state -> the control, and the steps taken
  `Driver.advance`      evaluations -> a decision of `control.transition`
  `Driver.carry_out`    a decision -> the model, reset if that was decided
  `saved_state`         the control -> the state to be saved

`engine.run` translates between these and the benchmark. For a training loop of
one's own, which is not handed in, `loop.cycles` does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..core.devices import Devices
from ..core.evaluation import Evaluation
from ..optimizers.clocked import ClockedState
from .control import Transition, transition
from .events import Row, with_effect
from .model_reset import Model, ModelReset
from .state import Control, RunConfig, from_words, words_of

# The number of a cycle -> (params, model_state) with which it may start, on the
# host; see `ModelReset`.
Fresh = Callable[[int], tuple[Any, Any]]


class Outcome(NamedTuple):
  """The model, the control and the events before the step about to be taken."""

  params: Any
  model_state: Any
  opt_state: ClockedState
  control: Control  # as in the optimizer's state
  events: list[Row]  # in the order in which they happened
  due: int  # the step before which to decide again, even without an evaluation
  run_is_over: bool  # whether the run ends: cycles have run out


class Driver(NamedTuple):
  """Takes a run on after evaluations."""

  config: RunConfig
  model_reset: ModelReset  # compiled for the model that is trained
  fresh: Fresh

  def advance(
    self,
    model: Model,
    control: Control,
    evaluations: Sequence[Evaluation],
    step: int,
  ) -> Outcome:
    """Takes in evaluations, decides, and resets the model if a cycle starts.

    Args:
      model, control: after the last step; a reset donates the model.
      evaluations: those that the control has not seen yet, in order.
      step: about to be taken.

    Raises:
      ValueError: if a fresh model does not fit the one that is trained.
    """
    is_finite = lambda: self.model_reset.is_finite(model)
    decision = transition(control, evaluations, step, self.config, is_finite)
    return self.carry_out(decision, model, step)

  def carry_out(self, decision: Transition, model: Model, step: int) -> Outcome:
    """Resets the model if that was decided; see `advance`."""
    control, reset_plan, events, due, run_is_over = decision
    if reset_plan is not None and not reset_plan.touches_nothing:
      model, effect = self.model_reset(
        model, self.fresh(control.cycle), reset_plan
      )
      events = with_effect(events, effect._asdict())
    params, model_state, inner = model
    devices = self.model_reset.devices
    opt_state = saved_state(inner, control, step, self.config, devices)
    return Outcome(
      params, model_state, opt_state, control, events, due, run_is_over
    )


def standing(
  state: ClockedState,
  start: Control,
  devices: Devices,
  is_any_chain: bool = False,
) -> tuple[Control, int]:
  """Where a saved state stands: the control, and how many steps it has taken.

  Args:
    state: as `saved_state` and the steps after it have left it.
    start: the control of a start with the same settings.
    devices: where the state lies.
    is_any_chain: whether the state may come from a chain of other steps.

  Raises:
    ValueError: if the state was saved by a run with other settings.
  """
  words, clock = devices.get((state.control, state.clock))
  return from_words(words, start, is_any_chain), int(clock[0])


def saved_state(
  inner: Any, control: Control, step: int, config: RunConfig, devices: Devices
) -> ClockedState:
  """The state of the optimizer before a step, with clock and control.

  Args:
    inner: the state of the optimizer alone, on the devices.
    control, step, config: give the words of clock and control.
    devices: where these are put.
  """
  # Word arrays are put one by one: under pmap that compiles what every later
  # call needs.
  words = map(devices.put, words_of(control, config, step))
  return ClockedState(inner, *words)
