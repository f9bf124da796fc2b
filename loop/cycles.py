"""The submission's core for a training loop of one's own."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.experimental import multihost_utils

from .. import soft_reset
from ..core import control as control_lib
from ..core import schedules
from ..core.checks import check, check_count, check_flag, check_number
from ..core.control import Decision, Tau
from ..core.devices import JitDevices
from ..core.optimizers import numbers_at
from ..core.race import Race, Repeat
from ..core.schedules import CycleClock
from ..core.state import Control, RunConfig, from_words, to_words
from ..core.workload import Evaluation, Target
from ..early_switching import Progress
from ..parts.any_optimizer import (
  TRANSFORMATION,
  build_of,
  check_rate,
  with_extra_args,
)
from ..schedule_params import THESIS, ScheduleParams
from ..soft_reset import FULL, KEPT, Cyclic, FullReset, Model, SoftReset
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

  clock: CycleClock
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
        such as optax.adamw, which is called while a step is traced; or a
        transformation with a learning_rate of optax.inject_hyperparams; None
        for the chain's own.
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
    _check_settings(chain, target, tau)
    check_count('num_steps', num_steps)
    check_flag('rises', rises)
    check_flag('has_batch_stats', has_batch_stats)
    whole = dataclasses.replace(chain, budget_factor=1.0).chain
    right = 'what the cycles can share'
    cycles = _used('num_steps', num_steps, right, whole).cycles
    schedules.check_rates(cycles)
    goal = Target('metric', math.nan if target is None else target, rises)
    self.config = RunConfig(chain, cycles, goal)
    self._tau, self._has_stats = tau, has_batch_stats
    self._num_steps = num_steps
    self._start, self._clock = control_lib.start(self.config)
    rate = functools.partial(schedules.learning_rate, cycles=cycles)
    self._rate = jax.jit(rate)
    self._key = key = jax.random.PRNGKey(0) if key is None else key
    fold = lambda key: jax.random.fold_in(key, 0)  # compiled for the resets
    _used('key', key, 'a single key of jax.random', fold)
    self._make_params = make_params
    look = lambda _: jax.eval_shape(self._fresh, 0)
    params, stats = _used('make_params', make_params, _MAKES, look)
    own = chain.optimizer.build
    self._build = own if optimizer is None else build_of(optimizer)
    check_rate(self._build, numbers_at(self._clock, cycles), params)
    self._roles = soft_reset.roles_of(self._init_inner, params)
    doubtful = ', '.join(self._roles.doubtful)
    check(
      not doubtful or isinstance(chain.reset, (FullReset, Cyclic)),
      'reset',
      chain.reset,
      'FullReset() or Cyclic() with this optimizer: what a blend of models does '
      f'to {doubtful} is not known',
    )
    inner = jax.eval_shape(self._init_inner, params)
    self._shapes = _sizes(Model(params, stats, inner))
    # Before which step to decide, and the last one that before_step has seen.
    self._due, self._last = -1, -1
    # Of the parameters, once `_adopt` has seen some.
    self._layout: list[Any] = []
    # The optax transformation for the loop's train step.
    self.optimizer: optax.GradientTransformation = TRANSFORMATION(
      self._init, self._update
    )

  def _fresh(self, number: int) -> tuple[Any, Any]:
    """Parameters and statistics with which cycle `number` may start."""
    made = self._make_params(jax.random.fold_in(self._key, number))
    params, stats = made if self._has_stats else (made, None)
    leaves = jax.tree_util.tree_flatten_with_path(params)[0]
    for path, leaf in leaves or [((), params)]:
      if not path or not hasattr(leaf, 'dtype'):
        kind, where = type(leaf).__name__, jax.tree_util.keystr(path)
        raise TypeError(f'it returned {kind} at {where or "the top"}')
    return params, stats

  def _init_inner(self, params: Any) -> Any:
    """The optimizer's state: strongly typed, and no array in it twice."""
    numbers = numbers_at(self._clock, self.config.cycles)
    return jax.tree_util.tree_map(
      lambda x: jnp.array(x, jnp.result_type(x), copy=True),
      self._build(numbers).init(params),
    )

  def _init(self, params: Any) -> CyclesState:
    """The state of `optimizer`, laid out like the parameters."""

    def init(params: Any) -> CyclesState:
      words = jnp.asarray(to_words(self._start))
      clock = jax.tree_util.tree_map(jnp.asarray, self._clock)
      return CyclesState(clock, self._init_inner(params), words)

    leaves = jax.tree_util.tree_leaves(params)
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
      return init(params)
    params = jax.tree_util.tree_map(jnp.asarray, params)
    state: CyclesState = JitDevices(params, everywhere=False).init(init, params)
    return state

  def _update(
    self,
    updates: Any,
    state: CyclesState,
    params: Any = None,
    **extra_args: Any,
  ) -> tuple[Any, CyclesState]:
    """What `optimizer` does in a step, at the clock's learning rate."""
    clock, before, control = state
    own = with_extra_args(self._build(numbers_at(clock, self.config.cycles)))
    updates, inner = own.update(updates, before, params, **extra_args)
    # The clock's numbers are float32 and would turn a bfloat16 leaf into that.
    inner = jax.tree_util.tree_map(
      lambda new, old: jnp.asarray(new, jnp.result_type(old)), inner, before
    )
    clock = clock._replace(count=clock.count + 1)
    return updates, CyclesState(clock, inner, control)

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
    state, control, clock = self._adopt(state)
    count = int(clock.count)
    check(
      step == count, 'step', step, f'{count}, the steps that have been taken'
    )
    events = []
    if step == 0 and self._last < 0:
      start = control_lib.cycle_start_event(control, clock, self.config)
      events.append(event_of(start, 0))
    state, more = self._act(state, control, clock, [])
    self._due = max(self._due, step + 1)  # also when the run is over
    return state, events + more

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
    state, control, clock = self._adopt(state)
    now, refused = int(clock.count), ''
    check(step <= now, 'step', step, f'at most {now}, the steps taken so far')
    if step <= control.last.step:
      refused = f'one after {control.last.step} steps has been taken in'
    elif step <= control.start and control.number > 1:
      refused = f'cycle {control.number} began at step {control.start}'
    if refused:
      numbers = {'metric_step': step, 'loss': loss, 'metric': metric}
      return state, [Event(now, 'refused', control.number, refused, numbers)]
    return self._act(state, control, clock, [Evaluation(step, loss, metric)])

  def steps_until_due(self, step: int) -> int:
    """How many steps may be taken in one go, as by `jax.lax.scan`.

    Args:
      step: that of the last `before_step`, or a later one.

    Returns:
      At least 1 after `before_step(step, ...)`, and 0 once that is due again.
    """
    return max(self._due - step, 0) if 0 <= self._last <= step else 0

  def learning_rate(self, state: Any) -> float:
    """The learning rate of the step about to be taken; waits for the state."""
    return float(self._rate(jax.device_get(state.opt_state.clock)))

  def _model_of(self, state: Any) -> Model:
    stats = state.batch_stats if self._has_stats else None
    return Model(state.params, stats, state.opt_state.inner)

  def _with(self, state: Any, model: Model, clock: Any, words: Any) -> Any:
    """The loop's state, of whatever kind, with this content."""
    opt_state = CyclesState(clock, model.opt_state, words)
    changes = {'params': model.params, 'opt_state': opt_state}
    if self._has_stats:
      changes['batch_stats'] = model.model_state
    if hasattr(state, '_replace'):
      return state._replace(**changes)
    return dataclasses.replace(state, **changes)

  def _adopt(self, state: Any) -> tuple[Any, Control, CycleClock]:
    """The state, placed like its parameters, with its control and clock.

    Whatever a checkpoint restores (NumPy arrays, scalars on one device of many)
    becomes what a compiled step returns. With a new layout, what a reset runs is
    compiled.
    """
    fields = ['params', 'opt_state'] + ['batch_stats'] * self._has_stats
    is_state = hasattr(state, '_replace') or dataclasses.is_dataclass(state)
    check(
      is_state and all(hasattr(state, name) for name in fields),
      'state',
      type(state).__name__,
      f'a NamedTuple or a dataclass with the fields {", ".join(fields)}',
    )
    check(
      isinstance(state.opt_state, CyclesState),
      'state.opt_state',
      type(state.opt_state).__name__,
      'of cycles.optimizer.init (wrap the optimizer that is handed to Cycles, '
      'not cycles.optimizer)',
    )
    model = self._model_of(state)
    sizes = _sizes(model)
    right = f'like those of make_params and the optimizer, {self._shapes}'
    check(sizes == self._shapes, 'shapes of the state', sizes, right)
    params = jax.tree_util.tree_map(jnp.asarray, model.params)
    leaves = jax.tree_util.tree_leaves(params)
    is_known = bool(self._layout) and all(
      leaf.sharding.is_equivalent_to(layout, leaf.ndim)
      for leaf, layout in zip(leaves, self._layout)
    )
    if not is_known:
      # Copies, since an array that turns up twice could not be donated.
      params = jax.tree_util.tree_map(jnp.copy, params)
      self._devices = JitDevices(params, everywhere=False)
      self._layout = [leaf.sharding for leaf in leaves]
    place = self._devices.place
    model = Model(*map(place, model._replace(params=params)))
    clock, words = place((state.opt_state.clock, state.opt_state.control))
    if not is_known:
      shapes = jax.tree_util.tree_map(self._devices.shape_of, model)
      soft_reset.compile_resets(shapes, self._roles, self._devices)
      layout = jax.tree_util.tree_map(lambda x: x.sharding, model.opt_state)
      renew = jax.jit(self._init_inner, out_shardings=layout)
      self._renew = renew.lower(model.params).compile()
    control = from_words(self._devices.get(words), self._start)
    state = self._with(state, model, clock, words)
    return state, control, self._devices.get(clock)

  def _act(
    self,
    state: Any,
    control: Control,
    clock: CycleClock,
    evaluations: list[Evaluation],
  ) -> tuple[Any, list[Event]]:
    """Decides, and does what was decided."""
    step, config, put = int(clock.count), self.config, self._devices.put
    if evaluations and (step >= control.horizon or step == self._num_steps):
      # No model is to be reset after the last step: the next before_step decides.
      new, verdict = control_lib.observe(control, evaluations[0], config)
      event = control_lib.evaluation_event(new, verdict)
      decision = Decision(new, clock, control_lib.GO_ON, [event], step, new)
    else:
      decision = control_lib.decide(control, clock, evaluations, step, config)
    model, new = self._model_of(state), decision.control
    events = list(decision.events)
    if decision.action == control_lib.RESET:
      model, new, event = self._reset(model, decision)
      start = control_lib.cycle_start_event(new, decision.clock, config)
      events += [event, start]
    if new is not control:
      moved = put(decision.clock._replace(count=clock.count))
      state = self._with(state, model, moved, put(to_words(new)))
    self._due, self._last = decision.due, step
    return state, [event_of(event, step) for event in events]

  def _reset(
    self, model: Model, decision: Decision
  ) -> tuple[Model, Control, control_lib.Event]:
    """The model and control with which a cycle starts, and what was done."""
    roles, devices = self._roles, self._devices
    look = functools.partial(soft_reset.is_finite, model, roles, devices)
    plan, event = control_lib.plan_reset(decision, self.config, look, self._tau)
    control = control_lib.after_reset(decision.control, plan, self.config)
    if plan.touches_nothing:
      return model, control, event
    fresh = self._fresh(decision.control.number)
    fresh = jax.tree_util.tree_map(_on_host, fresh)
    model = soft_reset.model_reinit_schedule(model, fresh, plan, roles, devices)
    if plan != FULL:
      return model, control, event
    # Not every optimizer begins with zeros.
    inner = jax.tree_util.tree_map(
      lambda role, old, new: old if role == KEPT else new,
      jax.tree_util.tree_unflatten(roles.treedef, roles.roles),
      model.opt_state,
      self._renew(model.params),
    )
    return model._replace(opt_state=inner), control, event


def _check_settings(
  chain: ScheduleParams, target: float | None, tau: Tau | None
) -> None:
  is_chain = isinstance(chain, ScheduleParams)
  check(is_chain, 'chain', chain, 'a ScheduleParams, such as THESIS')
  right = 'StepHorizon(), since a loop has no time budget'
  check(not chain.horizon.is_hard_limit, 'horizon', chain.horizon, right)
  if tau is not None:
    right = 'a function of (metric, first metric, step)'
    _used('tau', tau, right, lambda f: inspect.signature(f).bind(0.5, 0.1, 1))
  if target is not None:
    check_number('target', target, '(0, inf)')
    return
  for name in ('reset', 'switching', 'policy'):
    part = getattr(chain, name)
    needs = isinstance(part, (Progress, Race))
    needs |= isinstance(part, SoftReset) and tau is None
    check(not needs, name, part, 'another one where target and tau are None')


def _used(name: str, value: Any, right: str, use: Callable[[Any], Any]) -> Any:
  """use(value), or a ValueError with the reason why that is impossible."""
  try:
    return use(value)
  except (TypeError, ValueError) as error:
    reason = str(error).partition('\n')[0]
    raise ValueError(
      f'{name}={value!r} ({reason}): {name} must be {right}.'
    ) from error


def _sizes(tree: Any) -> list[tuple[int, ...]]:
  return [tuple(np.shape(leaf)) for leaf in jax.tree_util.tree_leaves(tree)]


def _on_host(leaf: Any) -> np.ndarray:
  """The whole array, also of one that is spread over several processes."""
  is_here = getattr(leaf, 'is_fully_addressable', True)
  if not is_here and not leaf.is_fully_replicated:
    leaf = multihost_utils.process_allgather(leaf, tiled=True)
  return np.asarray(leaf)
