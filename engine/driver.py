"""From evaluations to the model to go on with, for a submission and for a loop.

  saved state -> `standing`: the control and the steps taken
  evaluations -> `advance`: `control.transition`, then `model_reset.ModelReset`
  `Outcome`   -> `saved_state`

Neither caller decides or resets by itself: `engine.run` translates for the
benchmark, `loop.cycles` for a training loop of one's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..core.devices import Devices
from ..core.evaluation import Evaluation
from ..optimizers.base import ClockedState
from .control import Transition, transition
from .events import Event, with_effect
from .model_reset import Model, ModelReset
from .state import Control, RunConfig, from_words, words_of

# The number of a cycle -> (params, model_state) with which it may start, on the
# host; see `ModelReset`.
Fresh = Callable[[int], tuple[Any, Any]]


class Outcome(NamedTuple):
  """What holds for the step about to be taken, the model included."""

  model: Model
  control: Control
  events: list[Event]  # in the order in which they happened
  due: int  # the step before which to decide again, even without an evaluation
  run_is_over: bool = False  # whether the run ends: cycles have run out


def standing(
  state: ClockedState,
  start: Control,
  devices: Devices,
  is_any_plan: bool = False,
) -> tuple[Control, int]:
  """Where a saved state stands: the control, and how many steps it has taken.

  Args:
    state: as `saved_state` and the steps after it have left it.
    start: the control of a start with the same settings.
    devices: where the state lies.
    is_any_plan: whether the state may come from a chain of other steps.

  Raises:
    ValueError: if the state was saved by a run with other settings.
  """
  words, clock = devices.get((state.control, state.clock))
  return from_words(words, start, is_any_plan), int(clock[0])


def advance(
  model: Model,
  control: Control,
  evaluations: Sequence[Evaluation],
  step: int,
  config: RunConfig,
  model_reset: ModelReset,
  fresh: Fresh,
) -> Outcome:
  """Takes in evaluations, decides, and resets the model if a cycle starts.

  Args:
    model, control: of the step before; a reset donates the model.
    evaluations: those that the control has not seen yet, in order.
    step: about to be taken.
    config: of the run.
    model_reset: compiled for the model.
    fresh: called only if the model is reset.

  Raises:
    ValueError: if a fresh model does not fit the one that is trained.
  """
  is_finite = lambda: model_reset.is_finite(model)
  after = transition(control, evaluations, step, config, is_finite)
  return carry_out(after, model, model_reset, fresh)


def carry_out(
  decision: Transition, model: Model, model_reset: ModelReset, fresh: Fresh
) -> Outcome:
  """Resets the model if that was decided; see `advance`."""
  control, plan, events, due, run_is_over = decision
  if plan is not None and not plan.touches_nothing:
    model, effect = model_reset(model, fresh(control.cycle), plan)
    events = with_effect(events, effect._asdict())
  return Outcome(model, control, events, due, run_is_over)


def saved_state(
  inner: Any, control: Control, step: int, config: RunConfig, devices: Devices
) -> ClockedState:
  """The state of the optimizer before a step, with the control: what is saved.

  Args:
    inner: the state of the optimizer alone, on the devices.
    control, step, config: give the words of clock and control.
    devices: where these are put.
  """
  # One by one: under pmap that compiles what every later call needs.
  words = map(devices.put, words_of(control, config, step))
  return ClockedState(inner, *words)
