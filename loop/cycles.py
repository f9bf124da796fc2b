"""The submission's core for a training loop of one's own."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import keystr, tree_flatten_with_path

from ..any_optax.behaviour import behaviour_of, frozen_in
from ..any_optax.optax_optimizers import (
  USABLE,
  Scheduled,
  build_of,
  scheduled_in,
  takes_decay,
)
from ..any_optax.roles import roles_of
from ..core.checks import (
  check,
  check_count,
  check_flag,
  check_number,
  check_part,
)
from ..core.clock import learning_rate
from ..core.evaluation import Evaluation, Target
from ..core.plan import MOST_STEPS, Chain, jax_lr_schedule
from ..core.schedules import Constant, Shape
from ..engine import control as control_lib
from ..engine.control import Transition
from ..engine.events import event, start_event, with_effect
from ..engine.model_reset import Model, ModelReset
from ..engine.records import described
from ..engine.state import Control, RunConfig, from_words, words_of
from ..engine.tuned import with_peak
from ..optimizers.base import TRANSFORMATION, ClockedState, Step, clocked
from ..optimizers.roles import ITERATE, KEPT, OPT_STATE, STATISTIC, role_in
from ..schedule_params import ScheduleParams
from ..soft_reset import FULL, Cyclic, FullReset, SoftReset
from .devices import LoopDevices
from .events import Event, event_of
from .settings import LOOP, Tau, attempt, loop_settings
from .states import State, check_alive, contents, whole_step, with_contents

_MAKES = (
  'a function of a key that jax can trace and that returns a tree of arrays, '
  'such as eqx.filter(model, eqx.is_inexact_array) or nnx.state(model, '
  'nnx.Param), and with has_batch_stats a pair of trees'
)
# Of a new stage: chosen on the selection of research/growing/GROWING_DATA.md.
STAGE_TAU = 0.1


class Cycles:
  """A chain of learning-rate cycles with soft resets and early switching.

  Given the same evaluations, steps and peaks, it decides as the submission does,
  except after the last step: an evaluation at num_steps, or at the horizon, ends
  no cycle, so that the model that has been trained is not replaced.

  Attributes:
    optimizer: the optax transformation for the loop's train step.
    frozen: the paths of the parameters that no reset touches.
  """

  def __init__(
    self,
    settings: ScheduleParams = LOOP,
    *,
    num_steps: int,
    make_params: Callable[[jax.Array], Any],
    optimizer: Any = None,
    peak: float | None = None,
    target: float | None = None,
    rises: bool = True,
    tau: Tau | None = None,
    has_batch_stats: bool = False,
    frozen: Callable[[str], bool] | None = None,
    schedules: Mapping[str, Shape] | None = None,
    matrices: Callable[[str], bool] | None = None,
    key: jax.Array | None = None,
  ) -> None:
    """Lays out the chain and looks at the optimizer.

    Args:
      settings: `LOOP`, the cycles of SOFT_RESET without soft resets, which
        replaces no model that is finite. What needs a workload is ignored: budget_factor, relative_peak,
        dropout_rate, label_smoothing, and the numbers of the horizon, which is
        num_steps. With an `optimizer`, only the weight decay of the settings'
        own counts.
      num_steps: steps of the whole chain.
      make_params: key -> fresh parameters, a tree of arrays; (parameters, batch
        statistics) with has_batch_stats. jax must be able to trace it.
      optimizer: a callable of (learning_rate) or (learning_rate, weight_decay),
        such as optax.adamw; or a transformation with a learning_rate of
        optax.inject_hyperparams; None for the settings' own.
      peak: learning rate of the first cycle's peak; the peaks of the others keep
        their ratio to it. None: as the settings have it (0.0025).
      target: the metric to reach; None if none is known. Then soft resets need
        `tau`. The way to a target of 0 or less is measured from the first
        evaluation.
      rises: whether a larger metric is better.
      tau: (metric, the run's first metric, step) -> share of fresh values in
        [0, 1]; replaces the distance to the target, and fades as that does.
      has_batch_stats: whether the state has batch statistics.
      frozen: path such as "['body']['kernel']" -> whether resets leave that
        parameter alone; None for those that the optimizer does not train.
      schedules: shapes by the names of further arguments of a callable
        optimizer, {'b1': Linear(floor=0.9)}; each argument is its own value, bound
        or default, times the shape of the share of the cycle that has passed.
      matrices: path of a parameter -> whether ScheduleFreeMuon may take it for a
        matrix, and not for a table of vectors; None: by the shapes alone.
      key: from which the fresh parameters' keys are derived; None for seed 0.

    Raises:
      ValueError: for an argument, a setting or an optimizer that cannot work.
    """
    settings = loop_settings(settings, target, tau)
    if peak is not None:
      settings = with_peak(settings, peak)
    check_count('num_steps', num_steps)
    check_flag('rises', rises)
    check_flag('has_batch_stats', has_batch_stats)
    plan = num_steps, settings.cycles, 1.0
    chain = jax_lr_schedule(*plan, name='num_steps')
    goal = Target('metric', math.nan if target is None else target, rises)
    self.config = RunConfig(settings, chain, goal)
    self._start = control_lib.start(self.config)
    rate = functools.partial(learning_rate, cycles=chain.cycles)
    self._rate = jax.jit(rate)

    self._key = key = jax.random.PRNGKey(0) if key is None else key
    fold = lambda key: jax.random.fold_in(key, 0)  # compiled for the resets
    attempt('key', key, 'a single key of jax.random', fold)
    self._make_params = make_params
    self._fields = State._fields if has_batch_stats else State._fields[:2]
    look: Callable[[Any], Any] = lambda _: jax.eval_shape(self._fresh, 0)
    params, stats = attempt('make_params', make_params, _MAKES, look)

    self._is_own = optimizer is None
    optimizer = settings.optimizer if optimizer is None else optimizer
    decay = getattr(settings.optimizer, 'weight_decay', 0.0)

    scheduled = _scheduled(optimizer, decay, chain, schedules)

    def look_at(optimizer: Any) -> Any:
      build = build_of(optimizer, params, decay, scheduled)
      behaviour = behaviour_of(build, params)
      return build, behaviour, frozen_in(behaviour)

    build, behaviour, kept = attempt('optimizer', optimizer, USABLE, look_at)
    begun = words_of(self._start, self.config)
    paths = [keystr(path) for path, _ in tree_flatten_with_path(params)[0]]
    told, right = Step(0.0), 'a function of the path of a parameter'
    name = lambda said: tuple(bool(said(path)) for path in paths)
    if matrices is not None:
      chosen = attempt('matrices', matrices, right, name)
      told = told._replace(matrices=chosen)
    self._clocked = clocked(build, chain.cycles, begun, told)
    self.optimizer = TRANSFORMATION(self._init, self._clocked.update)
    if frozen is not None:
      kept = list(attempt('frozen', frozen, right, name))
      right = 'False for at least one parameter'
      check(not all(kept), 'frozen', described(frozen), right)
    self.frozen = tuple(path for path, is_kept in zip(paths, kept) if is_kept)
    declared = None
    if self._is_own:
      named = role_in(optimizer, params)
      declared = lambda path: named((OPT_STATE, *path))
    roles, doubtful = roles_of(behaviour, kept, declared)
    reset = settings.reset
    is_sure = not doubtful or isinstance(reset, (FullReset, Cyclic))
    lacks = f'(this optimizer has no blend of {", ".join(doubtful)})'
    check(is_sure, 'reset', reset, f'FullReset() or Cyclic() {lacks}')
    self._lacks = lacks if doubtful else ''
    self._roles = {f'.opt_state{path}': role for path, role in roles.items()}
    self._roles |= {f'.params{path}': KEPT for path in self.frozen}

    self._like = State(params, jax.eval_shape(self._init, params), stats)
    # Before which step to decide, and the last one that before_step has seen.
    self._due, self._last = -1, -1
    self._has_begun = self._is_over = False
    # Of the parameters, once `_adopt` has seen some.
    self._structure: Any = None
    self._layout: list[Any] = []

  def _fresh(self, number: int) -> tuple[Any, Any]:
    """Parameters and statistics with which cycle `number` may start."""
    made = self._make_params(jax.random.fold_in(self._key, number))
    params, stats = made if 'batch_stats' in self._fields else (made, None)
    leaves = tree_flatten_with_path(params)[0]
    for path, leaf in leaves or [((), params)]:
      where = keystr(path) or 'the top'
      if not hasattr(leaf, 'dtype'):
        raise TypeError(f'it returned {type(leaf).__name__} at {where}')
      if jnp.iscomplexobj(leaf):
        raise TypeError(f'at {where} it is complex: train its two real parts')
    return params, stats

  def _begin(self, params: Any) -> Any:
    """The state of the optimizer that was handed over, as a run begins."""
    return self._clocked.init(params).inner

  def _init(self, params: Any) -> Any:
    """The state of `optimizer`, laid out like the parameters."""
    leaves = jax.tree_util.tree_leaves(params)
    words = [*map(jnp.asarray, words_of(self._start, self.config))]

    def init(params: Any) -> ClockedState:
      return ClockedState(self._begin(params), *words)

    # optax.tree_map_params comes with a tree without leaves.
    if not leaves or any(isinstance(x, jax.core.Tracer) for x in leaves):
      return init(params)
    params = jax.tree_util.tree_map(jnp.asarray, params)
    return LoopDevices(params).init(init, params)

  def gradient_point(self, state: Any) -> Any:
    """The parameters at which a train step takes the gradient.

    They are state.params with any optimizer that was handed over. The chain's
    own may need others (Schedule-Free) while state.params are evaluated.
    """
    if not self._is_own:
      return state.params
    optimizer = self.config.settings.optimizer
    return optimizer.gradient_point(state.opt_state.inner, state.params)

  def before_step(self, step: int, state: Any) -> tuple[Any, list[Event]]:
    """Ends a cycle whose steps are over; call it before every step.

    An ordinary step costs comparisons and waits for no device.

    Args:
      step: the step about to be taken, from 0.
      state: the state before it; a reset donates it.

    Returns:
      The state to go on with, and the events.

    Raises:
      ValueError: if the state is not one of these cycles, or not of this step.
    """
    step = whole_step(step)
    # Any other step means that the state may have been restored.
    is_next = self._has_begun and step in (self._last, self._last + 1)
    if is_next and step < self._due:
      if step == self._last:  # an evaluation may have reset the model
        check_alive({'params': getattr(state, 'params', None)})
      self._last = step
      return state, []
    if step == 0 < self._last:  # another run
      self._has_begun = self._is_over = False
    model, control, count = self._adopt(state)
    check(step == count, 'step', step, f'{count}, the steps taken so far')
    after = self._transition(model, control, [], step)
    if step == 0 and not self._has_begun:
      begun = start_event(self._start, self.config)
      after = after._replace(events=[begun, *after.events])
    self._has_begun = True
    due = max(after.due, step + 1)  # also when the run is over
    return self._act(state, model, after._replace(due=due), step)

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
    step = whole_step(step)
    loss = attempt('loss', loss, 'a number', float)
    metric = attempt('metric', metric, 'a number', float)
    model, control, now = self._adopt(state)
    check(step <= now, 'step', step, f'at most {now}, the steps taken so far')
    refused = ''
    if step <= control.last.step:
      refused = f'one after {control.last.step} steps has been taken in'
    elif step <= control.start and control.cycle > 1:
      refused = f'cycle {control.cycle} began at step {control.start}'
    if refused:
      numbers = {'metric_step': step, 'loss': loss, 'metric': metric}
      return state, [Event(now, 'refused', control.cycle, refused, numbers)]
    seen = [Evaluation(step, loss, metric)]
    planned_end = control.stage_start + self.config.chain.steps
    if now >= control.planned_end or now == planned_end:
      # No model is reset after the last step: the next before_step decides.
      control, events, _ = control_lib.taken_in(control, seen, self.config)
      after = Transition(control, None, events, now)
    else:
      after = self._transition(model, control, seen, now)
    return self._act(state, model, after, now)

  def new_stage(
    self, state: Any, *, num_steps: int | None = None, tau: float = STAGE_TAU
  ) -> tuple[Any, list[Event]]:
    """Begins the chain anew on the model at hand, as when the data have grown.

    The model is reset by `tau`, and none is thrown away: parameters, iterates and
    batch statistics get a share of `tau` of a fresh model's, moments shrink by
    alpha * tau, and what is frozen stays. A model that is not finite is replaced.

    Steps are counted on: the stage ends at its first step plus num_steps. To
    resume it, set up `Cycles` with its num_steps and restore the state. A state
    of other steps or cycles, with the same switching rule, may begin a stage.

    Afterwards, what resets and rules measure is that of the stage: evaluations,
    the best one, and the share of the steps that is over, by which tau fades. A
    `tau` function is told the steps of the stage. The target stays, and so does
    the first metric, that of the untrained model, which the way to the target is
    measured from: evaluate the stage on what the target was set for. A rate that
    failures have halved stays halved.

    Args:
      state: before the first step of the stage; a reset donates it.
      num_steps: steps of the stage; None: as many as the chain has had.
      tau: share of fresh values, in [0, 1]. 0 changes no value of the model: it
        goes on with a new chain. At 1 only the optimizer remembers the old one.

    Returns:
      As for `before_step`, which is to be called next with the same step.

    Raises:
      ValueError: for an argument that cannot work, a state that is not one of
        these cycles, or a tau above 0 with an optimizer that has no blend.
    """
    check_number('tau', tau, '[0, 1]')
    check(tau == 0 or not self._lacks, 'tau', tau, f'0 {self._lacks}')
    settings, chain = self.config.settings, self.config.chain
    if num_steps is not None:
      check_count('num_steps', num_steps)
      plan = num_steps, settings.cycles, 1.0
      chain = jax_lr_schedule(*plan, name='num_steps')
    model, before, step = self._adopt(state, is_any_plan=True)
    most = MOST_STEPS - step
    right = f'at most {most:,} after {step:,} steps'
    check(chain.steps <= most, 'num_steps', chain.steps, right)
    is_finite = self._reset.is_finite(model)
    alpha = getattr(settings.reset, 'alpha', SoftReset.alpha)

    self.config = self.config._replace(chain=chain)
    self._start = control_lib.start(self.config)
    self._has_begun, self._is_over = True, False
    control = control_lib.next_stage(before, step, self.config)
    reset = SoftReset(alpha).plan(tau) if is_finite else FULL
    said = event(
      'reset',
      control,
      reason='new stage',
      reset='SoftReset' if is_finite else 'FullReset',
      tau=reset.tau,
      alpha=alpha,
      metric=before.last.metric,
      metric_step=before.last.step,
      note='' if is_finite else 'the model is not finite',
    )
    events = [said, start_event(control, self.config)]
    after = Transition(control, reset, events, control.end)
    return self._act(state, model, after, step)

  def steps_until_due(self, step: int) -> int:
    """How many steps may be taken in one go, as by `jax.lax.scan`.

    At least 1 after `before_step(step, ...)`, and 0 once that is due again.

    Args:
      step: that of the last `before_step`, or a later one.
    """
    step = whole_step(step)
    return max(self._due - step, 0) if 0 <= self._last <= step else 0

  @property
  def schedule(self) -> Chain:
    """The planned learning rate, as an `optax.Schedule` of the step alone.

    For those who want the chain's rate without resets: no evaluation moves it,
    and after num_steps it stays what it is at the end.
    """
    return self.config.chain

  def learning_rate(self, state: Any) -> float:
    """The learning rate of the step about to be taken; waits for the state."""
    words = np.asarray(jax.device_get(state.opt_state.clock))
    return float(self._rate(words.astype(np.int32)))

  def _adopt(
    self, state: Any, is_any_plan: bool = False
  ) -> tuple[Model, Control, int]:
    """The model, placed like its parameters, the control, and the steps taken.

    A restored state is brought into the form that the compiled step returns. If
    its layout is new, the reset is compiled again.
    """
    params, opt, stats = contents(state, self._fields, self._like)
    params = jax.tree_util.tree_map(jnp.asarray, params)
    leaves = jax.tree_util.tree_leaves(params)
    structure: Any = jax.tree_util.tree_structure(params)
    is_known = bool(self._layout) and structure == self._structure
    is_known = is_known and all(
      leaf.sharding.is_equivalent_to(layout, leaf.ndim)
      for leaf, layout in zip(leaves, self._layout)
    )
    if not is_known:
      begun = jax.eval_shape(self._begin, params)
      self._structure = structure
      self._inner: Any = jax.tree_util.tree_structure(begun)
      # Copies, since an array that turns up twice could not be donated.
      params = jax.tree_util.tree_map(jnp.copy, params)
      self._devices = LoopDevices(params, opt.inner)
      self._layout = [leaf.sharding for leaf in leaves]
    # A checkpoint may have lists where init makes tuples.
    inner = self._inner.unflatten(jax.tree_util.tree_leaves(opt.inner))
    model = self._devices.place(Model(params, stats, inner))
    if not is_known:
      self._reset = ModelReset(self._devices, self._role, self._begin, model)
    words, clock = self._devices.get((opt.control, opt.clock))
    control = from_words(words, self._start, is_any_plan)
    return model, control, int(clock[0])

  def _role(self, path: Any) -> int:
    role = STATISTIC if path[0].name == 'model_state' else ITERATE
    return self._roles.get(keystr(path), role)

  def _transition(
    self, model: Model, control: Control, seen: list[Evaluation], step: int
  ) -> Transition:
    look = lambda: self._reset.is_finite(model)
    after = control_lib.transition(control, seen, step, self.config, look)
    if after.run_is_over and self._is_over:  # it is said once
      after = after._replace(events=after.events[: len(seen)])
    return after

  def _act(
    self, state: Any, model: Model, after: Transition, step: int
  ) -> tuple[Any, list[Event]]:
    """Does what was decided; the loop's state with that, and the events."""
    control, events = after.control, after.events
    if after.plan is not None and not after.plan.touches_nothing:
      fresh = self._devices.get(self._fresh(control.cycle))
      model, effect = self._reset(model, fresh, after.plan)
      events = with_effect(events, effect._asdict())
    self._due, self._last = after.due, step
    self._is_over |= after.run_is_over
    words = self._devices.put(words_of(control, self.config, step))
    opt_state = ClockedState(model.opt_state, *words)
    content = (model.params, opt_state, model.model_state)
    changes = dict(zip(self._fields, content))
    said = [event_of(event, step) for event in events]
    return with_contents(state, changes), said


def _scheduled(
  optimizer: Any, decay: float, chain: Chain, schedules: Any
) -> dict[str, Scheduled]:
  """See `scheduled_in`; ValueError also where a cycle's decay has no effect."""
  for planned in chain.cycles:
    shape = planned.cycle.weight_decay
    is_free = shape == Constant() or takes_decay(optimizer)
    right = 'Constant() with an optimizer that takes no weight_decay'
    check(is_free, 'weight_decay of a cycle', shape, right)
  if schedules is None:
    return {}
  right = 'a dictionary of shapes by names, such as {"b1": Linear(floor=0.9)}'
  check(isinstance(schedules, Mapping), 'schedules', schedules, right)
  for name, shape in schedules.items():
    right = 'a shape such as Cosine()'
    check_part(f'schedules[{name!r}]', shape, Shape, right)
  return scheduled_in(optimizer, decay, schedules)
