"""The class for your own loop: the submission's core without a benchmark."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
import optax

from ..control import decide, reset_plan
from ..control import events as what
from ..control.decide import Decision, Event
from ..control.state import Control, Evaluation, from_words, to_words
from ..optimizers import INNER, Inner
from ..optimizers.clocked import ClockedState, clocked
from ..schedule_params import THESIS, ScheduleParams
from ..schedules import cycle_clock
from . import checks, resets
from .named_slots import NamedSlots

# A loop has one compiled step and stores no models, so it cannot run the
# submission's settings, a race of different optimizers.
DEFAULT_CHAIN = dataclasses.replace(THESIS, policy='repeat', distance='linear')


class CyclesState(NamedTuple):
  """The optimizer's state; arrays only, to be saved and restored as they are."""

  clocked: ClockedState
  control: jax.Array  # shape=(words,), dtype=int32: what decisions depend on


class State(NamedTuple):
  """What a loop trains; `Cycles` takes and returns it."""

  params: Any
  opt_state: CyclesState
  statistics: Any = None  # of BatchNorm and the like; blended like parameters


class Cycles:
  """A chain of learning-rate cycles with soft resets and early switching.

      cycles = Cycles(num_steps=2000, make_params=init, target=0.9)
      state = State(init(key), cycles.optimizer.init(params))
      for step in range(2000):
        state, events = cycles.before_step(step, state)
        ... # a compiled step with cycles.optimizer, as with any optax optimizer
        if (step + 1) % 50 == 0:
          state, events = cycles.after_evaluation(step + 1, loss, metric, state)

  Given the same evaluations, it decides exactly as the submission does.
  """

  def __init__(
    self,
    chain: ScheduleParams | Mapping[str, Any] = DEFAULT_CHAIN,
    num_steps: int = 0,
    *,
    make_params: Callable[[jax.Array], Any],
    target: float | None = None,
    rises: bool = True,
    tau: reset_plan.Tau | None = None,
    inner: Inner | None = None,
    key: jax.Array | None = None,
  ) -> None:
    """Lays out the chain.

    Args:
      chain: the settings, or their plain form; see `ScheduleParams.to_dict`.
        budget_factor is ignored. The default is not the submission's, which a
        loop cannot run: the thesis' three cycles, then repetitions of the last
        one if training goes on, and tau on a linear scale.
      num_steps: steps of the whole chain.
      make_params: key -> fresh parameters, laid out like the trained ones;
        (parameters, statistics) if the state has statistics.
      target: the metric to reach, above 0; None if none is known. Then soft
        resets need `tau`.
      rises: whether a larger metric is better.
      tau: (metric, the run's first metric, step) -> share of fresh values in
        [0, 1]; replaces the distance to the target.
      inner: the optimizer inside the cycles, for example `NamedSlots`; None for
        the chain's own.
      key: the key from which the fresh parameters' keys are derived; None for
        seed 0.

    Raises:
      ValueError: for an argument or setting that a loop cannot use.
    """
    self.rules = checks.make_loop_rules(
      chain, num_steps, target, rises, tau is not None
    )
    self.inner = inner or INNER.make(self.rules.cycles[0].optimizer)
    self._make_params, self._tau = make_params, tau
    self._key = jax.random.PRNGKey(0) if key is None else key
    self._rate = jax.jit(
      functools.partial(cycle_clock.learning_rate, cycles=self.rules.cycles)
    )
    self._due, self._last, self._is_prepared = 0, -1, False

  @functools.cached_property
  def optimizer(self) -> optax.GradientTransformation:
    """The optax transformation for the loop's train step."""
    inner = clocked(self.inner, self.rules.cycles)

    def init(params: Any) -> CyclesState:
      state = inner.init(params)
      if isinstance(self.inner, NamedSlots):
        self.inner.check_state(state.inner, params)
      words = jax.numpy.asarray(to_words(decide.start(self.rules)))
      return CyclesState(state, words)

    def update(
      updates: Any, state: CyclesState, params: Any = None
    ) -> tuple[Any, CyclesState]:
      new, inner_state = inner.update(updates, state.clocked, params)
      return new, CyclesState(inner_state, state.control)

    return optax.GradientTransformation(init, update)

  def before_step(self, step: int, state: State) -> tuple[State, list[Event]]:
    """Ends a cycle whose steps are over; call it before every step.

    An ordinary step costs two comparisons and waits for no device.

    Args:
      step: the step about to be taken, from 0.
      state: the state before it; a reset donates the arrays that it changes.

    Returns:
      The state to go on with, and the events: 'cycle_start', 'reset', 'hold' or
      'finish', with a reason if there is one.
    """
    # Any other step means that the state has been restored.
    if step < self._due and step in (self._last, self._last + 1):
      self._last = step
      return state, []
    return self._act(step, state, [])

  def after_evaluation(
    self,
    step: int,
    loss: float,
    metric: float,
    state: State,
    seconds: float = math.nan,
  ) -> tuple[State, list[Event]]:
    """Takes in an evaluation, and ends the cycle if it is time.

    Args:
      step: steps taken when the model was evaluated, the number of the next
        step. An evaluation that the state has already seen changes nothing.
      loss: the validation loss, used by switching rules.
      metric: the validation metric, used by tau and switching rules.
      state: the state that was evaluated.
      seconds: training time so far, if the chain's horizon needs it.

    Returns:
      As for `before_step`; the events begin with 'evaluation' and include
      'switch' if the cycle is left early.
    """
    evaluation = Evaluation(step, float(loss), float(metric), float(seconds))
    return self._act(step, state, [evaluation])

  def eval_params(self, state: State) -> Any:
    """The parameters to evaluate; for some optimizers not the trained ones."""
    return self.inner.eval_params(state.opt_state.clocked.inner, state.params)

  def learning_rate(self, state: State) -> float:
    """The learning rate of the step about to be taken; waits for the state."""
    return float(self._rate(jax.device_get(state.opt_state.clocked.clock)))

  def _act(
    self, step: int, state: State, evaluations: list[Evaluation]
  ) -> tuple[State, list[Event]]:
    rules, opt_state = self.rules, state.opt_state
    if not self._is_prepared:
      resets.prepare(*self._parts(state), self.inner)
      self._is_prepared = True
    control = from_words(np.asarray(opt_state.control), decide.start(rules))
    clock = jax.device_get(opt_state.clocked.clock)
    events: list[Event] = []
    if step == 0 and self._last < 0:
      events.append(what.cycle_start_event(control, clock, rules))
    new = [e for e in evaluations if e.step > control.last_eval_step]
    decision = decide.decide(control, clock, new, step, rules)
    events += decision.events
    if decision.action == decide.RESET:
      state, event = self._reset(state, control, decision)
      events.append(event)
      started = what.cycle_start_event(decision.control, decision.clock, rules)
      events.append(started)
    self._due, self._last = decide.due(decision.control), step
    return self._with(state, decision, control), events

  def _with(self, state: State, decision: Decision, before: Control) -> State:
    """The state with the decision's control and clock."""
    opt_state = state.opt_state
    if decision.action in (decide.RESET, decide.RE_ANCHOR):
      clock = jax.tree_util.tree_map(
        resets.placed_like, decision.clock, opt_state.clocked.clock
      )
      opt_state = opt_state._replace(
        clocked=opt_state.clocked._replace(clock=clock)
      )
    if decision.control is not before:
      words = resets.placed_like(to_words(decision.control), opt_state.control)
      opt_state = opt_state._replace(control=words)
    return state._replace(opt_state=opt_state)

  def _parts(self, state: State) -> tuple[Any, Any, Any]:
    return state.params, state.statistics, state.opt_state.clocked.inner

  def _reset(
    self, state: State, ended: Control, decision: Decision
  ) -> tuple[State, Event]:
    look = functools.partial(resets.is_finite, *self._parts(state), self.inner)
    rules, start = self.rules, decision.start_from
    planned = reset_plan.plan(rules, decision, start, look, self._tau)
    event = reset_plan.event(planned, rules, ended, decision.control)
    if planned.reset.touches_nothing:
      return state, event
    key = jax.random.fold_in(self._key, decision.control.number)
    fresh = self._make_params(key)
    if state.statistics is None:
      fresh = (fresh, None)
    parts = resets.reset(*self._parts(state), fresh, planned.reset, self.inner)
    params, statistics, inner_state = parts
    opt_state = state.opt_state
    inner = opt_state.clocked._replace(inner=inner_state)
    return State(params, opt_state._replace(clocked=inner), statistics), event
