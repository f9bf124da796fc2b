"""The submission's core for a training loop of one's own."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from .. import soft_reset
from ..core import control as control_lib
from ..core import schedules
from ..core.checks import check, check_count, check_flag, check_number
from ..core.control import GO_ON, RESET, Decision
from ..core.devices import Devices
from ..core.optimizers import OptState
from ..core.race import Race, Repeat
from ..core.state import Control, RunConfig, Tau, from_words, to_words
from ..core.workload import Evaluation, Target
from ..early_switching import Progress
from ..parts.any_optimizer import TRANSFORMATION, USABLE, clocked, roles_of
from ..schedule_params import THESIS, ScheduleParams
from ..soft_reset import Cyclic, FullReset, Model, SoftReset
from .events import Event, event_of

# The thesis' three cycles, and the last one again for as long as one trains.
DEFAULT_CHAIN = dataclasses.replace(THESIS, policy=Repeat())
_MAKES = (
  'a function of a key that jax can trace and that returns a tree of arrays, '
  'such as eqx.filter(model, eqx.is_inexact_array) or nnx.state(model, '
  'nnx.Param), and with has_batch_stats a pair of trees'
)


class CyclesState(NamedTuple):
  """The optimizer's state; arrays only, to be saved and restored as they are."""

  clock: schedules.CycleClock
  inner: Any  # the state of the optimizer that was handed over
  control: jax.Array  # shape=(words,), dtype=int32; see `core.state.to_words`


class State(NamedTuple):
  """What a loop trains: this, or any NamedTuple or dataclass with its fields."""

  params: Any
  opt_state: CyclesState
  batch_stats: Any = None  # of BatchNorm and the like; blended like parameters


class Cycles:
  """A chain of learning-rate cycles with soft resets and early switching.

  Given the same evaluations, it decides exactly as the submission does.
  """

  def __init__(
    self,
    chain: ScheduleParams = DEFAULT_CHAIN,
    *,
    num_steps: int,
    make_params: Callable[[jax.Array], Any],
    optimizer: Any = None,
    target: float | None = None,
    rises: bool = True,
    tau: Tau | None = None,
    has_batch_stats: bool = False,
    key: jax.Array | None = None,
  ) -> None:
    """Lays out the chain and looks at the optimizer.

    Args:
      chain: the settings; budget_factor is ignored. With an `optimizer`, only
        the learning rate, the weight decay and the warm-up of hparams count.
      num_steps: steps of the whole chain.
      make_params: key -> fresh parameters, a tree of arrays; (parameters, batch
        statistics) with has_batch_stats. jax must be able to trace it.
      optimizer: a callable of (learning_rate) or (learning_rate, weight_decay),
        such as optax.adamw; or a transformation with a learning_rate of
        optax.inject_hyperparams; None for the chain's own.
      target: the metric to reach, above 0; None if none is known. Then soft
        resets need `tau`.
      rises: whether a larger metric is better.
      tau: (metric, the run's first metric, step) -> share of fresh values in
        [0, 1]; replaces the distance to the target.
      has_batch_stats: whether the state has batch statistics.
      key: from which the fresh parameters' keys are derived; None for seed 0.

    Raises:
      ValueError: for an argument, a setting or an optimizer that cannot work.
    """
    is_chain = isinstance(chain, ScheduleParams)
    check(is_chain, 'chain', chain, 'a ScheduleParams, such as THESIS')
    right = 'StepHorizon(), since a loop has no time budget'
    check(not chain.horizon.is_hard_limit, 'horizon', chain.horizon, right)
    if tau is not None:
      right = 'a function of (metric, first metric, step)'
      _used('tau', tau, right, lambda f: inspect.signature(f).bind(0.5, 0.1, 1))
    if target is not None:
      check_number('target', target, '(0, inf)')
    for name in ('reset', 'switching', 'policy') if target is None else ():
      part = getattr(chain, name)
      needs = isinstance(part, (Progress, Race))
      needs |= isinstance(part, SoftReset) and tau is None
      check(not needs, name, part, 'another one where target and tau are None')
    check_count('num_steps', num_steps)
    check_flag('rises', rises)
    check_flag('has_batch_stats', has_batch_stats)
    plan = dataclasses.replace(chain, budget_factor=1.0).chain
    cycles = _used('num_steps', num_steps, 'fit for the cycles', plan).cycles
    schedules.check_rates(cycles)
    goal = Target('metric', math.nan if target is None else target, rises)
    self.config = RunConfig(chain, cycles, goal, own_tau=tau)
    self._start, self._clock = control_lib.start(self.config)
    self._rate = jax.jit(lambda clock: schedules.learning_rate(clock, cycles))
    self._key = key = jax.random.PRNGKey(0) if key is None else key
    fold = lambda key: jax.random.fold_in(key, 0)  # compiled for the resets
    _used('key', key, 'a single key of jax.random', fold)
    self._make_params = make_params
    self._fields = State._fields if has_batch_stats else State._fields[:2]
    look = lambda _: jax.eval_shape(self._fresh, 0)
    params, stats = _used('make_params', make_params, _MAKES, look)
    optimizer = chain.optimizer if optimizer is None else optimizer
    look = lambda each: clocked(each, cycles, self._clock, params)
    self._clocked = _used('optimizer', optimizer, USABLE, look)
    begin = lambda params: self._clocked.init(params).state
    self._roles, doubtful = roles_of(begin, params)
    is_sure = not doubtful or isinstance(chain.reset, (FullReset, Cyclic))
    names = ', '.join(doubtful)
    right = f'FullReset() or Cyclic() (this optimizer has no blend of {names})'
    check(is_sure, 'reset', chain.reset, right)
    self._like = State(params, jax.eval_shape(self._init, params), stats)
    # Before which step to decide, and the last one that before_step has seen.
    self._due, self._last = -1, -1
    self._layout: list[Any] = []  # of the parameters, once `_adopt` saw some
    # The optax transformation for the loop's train step.
    self.optimizer = TRANSFORMATION(self._init, self._update)

  def _fresh(self, number: int) -> tuple[Any, Any]:
    """Parameters and statistics with which cycle `number` may start."""
    made = self._make_params(jax.random.fold_in(self._key, number))
    params, stats = made if 'batch_stats' in self._fields else (made, None)
    leaves = jax.tree_util.tree_flatten_with_path(params)[0]
    for path, leaf in leaves or [((), params)]:
      if not path or not hasattr(leaf, 'dtype'):
        kind, where = type(leaf).__name__, jax.tree_util.keystr(path)
        raise TypeError(f'it returned {kind} at {where or "the top"}')
    return params, stats

  def _init(self, params: Any) -> Any:
    """The state of `optimizer`, laid out like the parameters."""

    def init(params: Any) -> CyclesState:
      own, words = self._clocked.init(params), to_words(self._start)
      return CyclesState(own.clock, own.state, jnp.asarray(words))

    leaves = jax.tree_util.tree_leaves(params)
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
      return init(params)
    params = jax.tree_util.tree_map(jnp.asarray, params)
    return Devices(params, everywhere=False).init(init, params)

  def _update(
    self, updates: Any, state: CyclesState, params: Any = None, **more: Any
  ) -> tuple[Any, CyclesState]:
    """What `optimizer` does in a step, at the clock's learning rate."""
    own = OptState(state.clock, state.inner)
    updates, own = self._clocked.update(updates, own, params, **more)
    return updates, CyclesState(own.clock, own.state, state.control)

  def before_step(self, step: int, state: Any) -> tuple[Any, list[Event]]:
    """Ends a cycle whose steps are over; call it before every step.

    An ordinary step costs comparisons and waits for no device.

    Args:
      step: the step about to be taken, from 0.
      state: the state before it; a reset donates the arrays that it changes.

    Returns:
      The state to go on with, and the events.

    Raises:
      ValueError: if the state is not one of these cycles, or not of this step.
    """
    # Any other step means that the state may have been restored.
    if step in (self._last, self._last + 1) and step < self._due:
      self._last = step
      return state, []
    model, control, clock = self._adopt(state)
    count = int(clock.count)
    check(step == count, 'step', step, f'{count}, the steps taken so far')
    decision = control_lib.decide(control, clock, [], step, self.config)
    if step == 0 and self._last < 0:
      start = control_lib.cycle_start_event(control, clock, self.config)
      decision = decision._replace(events=[start, *decision.events])
    due = max(decision.due, step + 1)  # also when the run is over
    return self._act(state, model, decision._replace(due=due), step)

  def after_evaluation(
    self, step: int, loss: float, metric: float, state: Any
  ) -> tuple[Any, list[Event]]:
    """Takes in an evaluation, and ends the cycle if it is time.

    An evaluation may come late, when further steps have been taken. One that
    belongs to an earlier cycle, or is not newer than the last one, is refused.

    Args:
      step: steps taken when the model was evaluated.
      loss: the validation loss, used by switching rules.
      metric: the validation metric, used by tau and switching rules.
      state: the present state.

    Returns:
      As for `before_step`.

    Raises:
      ValueError: as for `before_step`.
    """
    check_count('step', step, least=0)
    step = int(step)  # NumPy has numbers of its own
    loss = _used('loss', loss, 'a number', float)
    metric = _used('metric', metric, 'a number', float)
    model, control, clock = self._adopt(state)
    now, refused = int(clock.count), ''
    check(step <= now, 'step', step, f'at most {now}, the steps taken so far')
    if step <= control.last.step:
      refused = f'one after {control.last.step} steps has been taken in'
    elif step <= control.start and control.number > 1:
      refused = f'cycle {control.number} began at step {control.start}'
    if refused:
      numbers = {'metric_step': step, 'loss': loss, 'metric': metric}
      return state, [Event(now, 'refused', control.number, refused, numbers)]
    seen = Evaluation(step, loss, metric)
    decision = control_lib.decide(control, clock, [seen], now, self.config)
    if now >= control.horizon or now == self._start.horizon:
      # No model is reset after the last step: the next before_step decides.
      control, _ = control_lib.observe(control, seen, self.config)
      events = decision.events[:1]
      decision = Decision(control, clock, GO_ON, events, now, control)
    return self._act(state, model, decision, now)

  def steps_until_due(self, step: int) -> int:
    """How many steps may be taken in one go, as by `jax.lax.scan`.

    At least 1 after `before_step(step, ...)`, and 0 once that is due again.

    Args:
      step: that of the last `before_step`, or a later one.
    """
    return max(self._due - step, 0) if 0 <= self._last <= step else 0

  def learning_rate(self, state: Any) -> float:
    """The learning rate of the step about to be taken; waits for the state."""
    return float(self._rate(jax.device_get(state.opt_state.clock)))

  def _adopt(self, state: Any) -> tuple[Model, Control, schedules.CycleClock]:
    """The model, placed like its parameters, the control and the clock.

    Whatever a checkpoint restores becomes what a compiled step returns. With a
    new layout, what a reset runs is compiled.
    """
    is_state = hasattr(state, '_replace') or dataclasses.is_dataclass(state)
    is_state &= all(hasattr(state, name) for name in self._fields)
    right = f'a NamedTuple or a dataclass with {" and ".join(self._fields)}'
    check(is_state, 'state', type(state).__name__, right)
    params, opt, stats = (*(getattr(state, f) for f in self._fields), None)[:3]
    right = (
      'of cycles.optimizer.init (wrap the optimizer handed to Cycles instead)'
    )
    is_own = isinstance(opt, CyclesState)
    check(is_own, 'state.opt_state', type(opt).__name__, right)
    _check_shapes(State(params, opt, stats), self._like)
    params = jax.tree_util.tree_map(jnp.asarray, params)
    leaves = jax.tree_util.tree_leaves(params)
    is_known = bool(self._layout) and all(
      leaf.sharding.is_equivalent_to(layout, leaf.ndim)
      for leaf, layout in zip(leaves, self._layout)
    )
    if not is_known:
      # Copies, since an array that turns up twice could not be donated.
      params = jax.tree_util.tree_map(jnp.copy, params)
      self._devices = Devices(params, everywhere=False)
      self._layout = [leaf.sharding for leaf in leaves]
    model = self._devices.place(Model(params, stats, opt.inner))
    if not is_known:
      shapes = jax.tree_util.tree_map(self._devices.shape_of, model)
      soft_reset.compile_resets(shapes, self._roles, self._devices)
      self._devices.prepare(self._begun, list(shapes), donate=True)
    words, clock = self._devices.get((opt.control, opt.clock))
    return model, from_words(words, self._start), clock

  def _act(
    self, state: Any, model: Model, decision: Decision, step: int
  ) -> tuple[Any, list[Event]]:
    """Does what was decided; the loop's state with that, and the events."""
    config, roles, devices = self.config, self._roles, self._devices
    control, events = decision.control, list(decision.events)
    if decision.action == RESET:
      look = lambda: soft_reset.is_finite(model, roles, devices)
      plan, event = control_lib.plan_reset(decision, config, look)
      control = control_lib.after_reset(control, plan, config)
      start = control_lib.cycle_start_event(control, decision.clock, config)
      events += [event, start]
      if not plan.touches_nothing:
        fresh = jax.tree_util.tree_map(_on_host, self._fresh(control.number))
        model = soft_reset.model_reinit_schedule(
          model, fresh, plan, roles, devices
        )
      if plan == soft_reset.FULL:
        model = Model(*devices.run(self._begun, list(model), donate=True))
    self._due, self._last = decision.due, step
    clock, words = devices.put((decision.clock, to_words(control)))
    opt_state = CyclesState(clock, model.opt_state, words)
    content = (model.params, opt_state, model.model_state)
    changes = dict(zip(self._fields, content))
    said = [event_of(event, step) for event in events]
    if hasattr(state, '_replace'):
      return state._replace(**changes), said
    return dataclasses.replace(state, **changes), said

  def _begun(self, model: list[Any]) -> list[Any]:
    """The model, its optimizer as it begins, which is not always with zeros."""
    params, stats, before = model
    roles = jax.tree_util.tree_unflatten(self._roles.treedef, self._roles.roles)
    choose = lambda role, old, new: old if role == soft_reset.KEPT else new
    begun = self._clocked.init(params).state
    inner = jax.tree_util.tree_map(choose, roles, before, begun)
    return [params, stats, inner]


def _used(name: str, value: Any, right: str, use: Callable[[Any], Any]) -> Any:
  """use(value), or a ValueError with the reason why that is impossible."""
  try:
    return use(value)
  except (AttributeError, TypeError, ValueError) as error:
    reason = str(error).partition('\n')[0]
    raise ValueError(
      f'{name}={value!r} ({reason}): {name} must be {right}.'
    ) from error


def _check_shapes(state: State, like: State) -> None:
  """Names the first leaf that has another shape than it must have."""
  given, right = (
    {path: np.shape(leaf) for path, leaf in leaves}
    for leaves, _ in map(jax.tree_util.tree_flatten_with_path, (state, like))
  )
  for path in {**right, **given} if given != right else ():
    name = f'shape of state{jax.tree_util.keystr(path)}'
    has, must = given.get(path, 'absent'), right.get(path, 'absent')
    check(has == must, name, has, f'{must} in these cycles')


def _on_host(leaf: Any) -> np.ndarray:
  """The whole array, also of one that is spread over several processes."""
  is_here = getattr(leaf, 'is_fully_addressable', True)
  if is_here or leaf.is_fully_replicated:
    return np.asarray(leaf)
  return multihost_utils.process_allgather(leaf, tiled=True)
