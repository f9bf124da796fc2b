"""The submission's core for a training loop of one's own."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..core.chain import Chain
from ..core.checks import check, check_flag, check_number, check_precision
from ..core.clock import learning_rate
from ..core.evaluation import Evaluation, Target
from ..core.forms import Answer, Form, form_table, guess_among
from ..core.schedules import Shape
from ..engine.control import Transition, taken_in
from ..engine.driver import Driver, Outcome, standing
from ..engine.events import event, start_event
from ..engine.model_reset import Model
from ..engine.records import described
from ..engine.state import Control, RunConfig
from ..optimizers.clocked import TRANSFORMATION, ClockedState
from ..optimizers.schedule_free import ScheduleFreeMuon
from ..optimizers.step import RunStart
from ..schedule_params import ScheduleParams
from .devices import LoopDevices
from .events import Event, event_of
from .fresh_models import fresh_models
from .frozen import frozen_among, without
from .parameters import check_floats, parameter_forms
from .placement import Placement, first_state, placed
from .schedule_free import (
  is_average_in,
  is_muon_in,
  schedule_free_muon,
  with_averages,
)
from .settings import Tau, attempt, loop_settings
from .stages import (
  STAGE_TAU,
  begin_stage,
  next_stage,
  stage_of,
  suited,
)
from .states import (
  State,
  check_alive,
  check_optimizer,
  check_state,
  contents,
  types_of,
  whole_step,
  with_contents,
)
from .training import training


class Position(NamedTuple):
  """Where the calls of a loop are; nothing of it is saved or restored."""

  step: int = -1  # that of the last call
  due: int = -1  # the step before which to decide
  asked: int = -1  # the step of the last before_step
  asked_twice: int = -2  # the last step that two of them in a row had
  has_begun: bool = False
  is_over: bool = False  # whether the end of the run has been an event


class Reading(NamedTuple):
  """What a state holds, laid out on the devices, and what takes it on."""

  driver: Driver
  model: Model
  control: Control
  steps: int  # taken so far


class Cycles:
  """A chain of learning-rate cycles with soft resets and early switching.

  Given the same evaluations, steps and peaks, it decides as the submission
  does, except after the last step: an evaluation at num_steps, or at the
  horizon, ends no cycle, so that the model that has been trained is not
  replaced.

  Attributes:
    optimizer: the optax transformation for the loop's train step.
    frozen: the paths of the parameters that no reset touches.
    forms: what each parameter is, and by what, as a table to be printed; ''
      where nobody asks.
  """

  def __init__(
    self,
    settings: ScheduleParams | None = None,
    *,
    num_steps: int,
    steps_per_epoch: float | None = None,
    make_params: Callable[[jax.Array], Any],
    optimizer: Any = None,
    peak: float | None = None,
    target: float | None = None,
    rises: bool = True,
    tau: Tau | None = None,
    has_batch_stats: bool = False,
    frozen: Callable[[str], bool] | None = None,
    schedules: Mapping[str, Shape] | None = None,
    matrices: Callable[[str], bool | Form | None] | None = None,
    loss_fn: Callable[[Any], Any] | None = None,
    key: jax.Array | None = None,
  ) -> None:
    """Lays out the chain and looks at the optimizer.

    Args:
      settings: what needs a workload is ignored: budget_factor, dropout_rate,
        label_smoothing, and the numbers of the horizon, which is num_steps.
        With an `optimizer`, only the weight decay of the settings' own counts.
        None: `MUON_LOOP`, the cycles of MUON without soft resets, or `LOOP`,
        those of SOFT_RESET, with an `optimizer`. Neither replaces a model that
        is finite.
      num_steps: steps of the whole chain.
      steps_per_epoch: steps in which each example is seen once, at least 1. The
        more often the data are seen until a cycle ends, by the plan, the
        stronger is its weight decay; see `Muon.epochs_factor`. Only where the
        peak is taken from the matrices. None: there is no end of the data.
      make_params: key -> fresh parameters, a tree of arrays; (parameters, batch
        statistics) with has_batch_stats. jax must be able to trace it. Where
        an optimizer of matrices is inside, a fresh model is made at once, whose
        size is measured.
      optimizer: a callable of (learning_rate) or (learning_rate, weight_decay),
        such as optax.adamw; or a transformation with a learning_rate of
        optax.inject_hyperparams; None for the settings' own.
      peak: learning rate of the first cycle's peak; the peaks of the others
        keep the ratio to it in which the settings are written, which is 1 in
        `MUON_LOOP` at any num_steps. None: as the settings have it, .0025 in
        `LOOP`; with the settings' own optimizer by their relative_peak, from
        num_steps and what a fresh model has that is not frozen; with
        SpectralPeak at least one matrix.
      target: the metric to reach; None if none is known. Then soft resets need
        `tau`. The way to a target of 0 or less is measured from the first
        evaluation.
      rises: whether a larger metric is better.
      tau: (metric, the run's first metric, step) -> share of fresh values in
        [0, 1]; replaces the distance to the target, and fades as that does.
      has_batch_stats: whether the state has batch statistics.
      frozen: path such as "['body']['kernel']" -> whether resets leave that
        parameter alone, and the settings' own optimizer too; None for the
        parameters that the optimizer does not train.
      schedules: shapes by the names of further arguments of a callable
        optimizer, {'b1': Linear(floor=0.9)}; each argument is its own value,
        bound or default, times the shape of the share of the cycle that has
        passed.
      matrices: path of a parameter -> its form, a `core.forms.Form` such as
        matrix(inputs=(1,), outputs=(0,)); False for no matrix; True or
        None where its use, its name or its shape shall tell. These also tell
        whether what is no matrix is an embedding. Only `Muon` asks.
      loss_fn: parameters -> loss, with an example batch bound. Its trace tells
        what each parameter is; None: that of make_params, where it runs the
        model, as flax's init does.
      key: from which the fresh parameters' keys are derived; None for seed 0.

    Raises:
      ValueError: for an argument, a setting or an optimizer that cannot work.
    """
    function = getattr(optimizer, 'func', optimizer)
    must_be = 'None: the cycles have it inside, with a peak that suits it'
    for own in (schedule_free_muon, ScheduleFreeMuon):
      check(function is not own, 'optimizer', own.__name__, must_be)
    settings = loop_settings(settings, optimizer, peak, target, tau)
    check_flag('rises', rises)
    check_flag('has_batch_stats', has_batch_stats)
    goal = Target('metric', math.nan if target is None else target, rises)
    stage = stage_of(settings, num_steps, goal, steps_per_epoch)
    fresh, shapes = fresh_models(make_params, key, has_batch_stats)
    params, stats = shapes
    rule = settings.relative_peak  # None where an optimizer is handed over
    asks = optimizer is None and settings.optimizer.needs_forms()
    asks = asks or (rule is not None and rule.needs_forms())
    answers: tuple[Answer, ...] = ()
    if asks or matrices is not None or loss_fn is not None:
      answers = parameter_forms(params, matrices, loss_fn, lambda: fresh(0)[0])
    is_kept = frozen_among(params, frozen)
    if rule is not None or asks:
      forms = tuple(answer.form for answer in answers) or None
      values = jax.tree_util.tree_map(jnp.asarray, fresh(1)[0])
      first_end = stage.config.chain.cycles[0].steps
      start = RunStart(LoopDevices(values).get(values), forms, first_end)
      start = without(is_kept, start)
      must_be = 'a number where no parameter that is trained is a matrix'
      is_told = any(form.is_matrix for form in start.forms or ())
      needs_matrix = rule is not None and rule.needs_forms()
      check(is_told or not needs_matrix, 'peak', peak, must_be)
      stage = suited(stage, start)
    trainer = training(optimizer, params, stage, schedules, is_kept, answers)
    check_precision('make_params', params, trainer.frozen)
    else_ = 'let frozen= name it, or leave it out of the parameters'
    check_floats('make_params', params, else_, trainer.frozen)
    inner = jax.eval_shape(trainer.begin, params)
    if optimizer is not None:
      must_be = (
        'one that trains the parameters that it is given: an average of this '
        'project goes into settings, dataclasses.replace(LOOP, optimizer=…), '
        'and ScheduleFreeMuon() is inside without optimizer='
      )
      is_plain = not is_average_in(inner)
      check(is_plain, 'optimizer', described(optimizer), must_be)
    must_be = (
      'a number with schedule_free_muon inside optimizer=…; without optimizer= '
      'the cycles have it inside, with a peak that suits it'
    )
    check(peak is not None or not is_muon_in(inner), 'peak', peak, must_be)

    self.optimizer = TRANSFORMATION(self._init, trainer.update)
    self.frozen = trainer.frozen
    self.forms = form_table(answers, params)
    self._fresh = fresh
    self._training = trainer
    self._like = State(params, ClockedState(inner, *stage.words), stats)
    self._types = types_of(params)
    self._fields = State._fields if has_batch_stats else State._fields[:2]
    cycles = stage.config.chain.cycles
    self._rate = jax.jit(functools.partial(learning_rate, cycles=cycles))
    self._guess = guess_among(answers, params) if asks else ''

    # What changes: with a new stage, a restored state, a call.
    self._stage = stage
    self._rate_factor = stage.start.rate_factor  # of the run at hand
    self._placement: Placement | None = None
    self._position = Position()

  def _init(self, params: Any) -> ClockedState:
    """The state of `optimizer` as a run begins."""
    return first_state(params, self._training.begin, self._stage.words)

  def gradient_point(self, state: Any) -> Any:
    """The parameters at which a train step takes the gradient.

    They are state.params, unless an optimizer of one's own in the settings has
    others.
    """
    return self._training.gradient_point(state)

  def eval_params(self, state: Any) -> Any:
    """The parameters to evaluate, save and use: an average, if there is one.

    In a loop, state.params are where the gradient is taken. The average of the
    chain's own optimizer is computed from these and the optimizer's state, and
    so is that of `optax.contrib.schedule_free`. A loop that evaluates
    state.params instead still trains right.

    Raises:
      ValueError: for what is no state, or one of another optimizer.
    """
    check_state(state, self._fields)
    check_optimizer(state.opt_state, self._like.opt_state)
    params = self._training.evaluated(state)
    return with_averages(state.opt_state.inner, params)

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
    step, position = whole_step(step), self._position
    # Any other step means that the state may have been restored.
    is_next = step in (position.step, position.step + 1)
    # A second call for a step may have the state of another run: then every
    # call reads its state, since this position describes one of them only.
    is_again = step == position.asked
    asked_twice = step if is_again else min(position.asked_twice, step - 1)
    is_next &= step > asked_twice + 1
    # So do other types, and `_reading` refuses another precision.
    is_next &= types_of(getattr(state, 'params', None)) == self._types
    # And at step 0 the state may be of another run.
    if position.has_begun and is_next and 0 < step < position.due:
      if step == position.step:  # an evaluation may have reset the model
        check_alive({'params': getattr(state, 'params', None)})
      self._position = position._replace(step=step, asked=step)
      return state, []
    if step == 0 < position.step:  # another run
      position = self._position = Position()
    reading = self._reading(state)
    must_be = f'{reading.steps}, the steps taken so far'
    check(step == reading.steps, 'step', step, must_be)
    outcome = self._advance(reading, [])
    if step == 0 and not position.has_begun:
      rows = [start_event(self._stage.start, self.config)]
      if self._guess:
        rows.append(event('warning', self._stage.start, reason=self._guess))
      outcome = outcome._replace(events=[*rows, *outcome.events])
    self._position = self._position._replace(
      asked=step, asked_twice=asked_twice, has_begun=True
    )
    due = max(outcome.due, step + 1)  # also when the run is over
    return self._handed_back(state, step, outcome._replace(due=due))

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
    evaluation = Evaluation(step, loss, metric)
    reading = self._reading(state)
    driver, model, control, now = reading
    check(step <= now, 'step', step, f'at most {now}, the steps taken so far')
    if refusal := _refusal(evaluation, control):
      numbers = {'metric_step': step, 'loss': loss, 'metric': metric}
      return state, [Event(now, 'refused', control.cycle, refusal, numbers)]
    if self._stage.is_over(control, now):
      # No model is reset after the last step: the next before_step decides.
      control, events, _ = taken_in(control, [evaluation], self.config)
      decision = Transition(control, None, events, due=now)
      outcome = driver.carry_out(decision, model, now)
    else:
      outcome = self._advance(reading, [evaluation])
    return self._handed_back(state, now, outcome)

  def new_stage(
    self,
    state: Any,
    *,
    num_steps: int | None = None,
    steps_per_epoch: float | None = None,
    tau: float = STAGE_TAU,
  ) -> tuple[Any, list[Event]]:
    """Begins the chain anew on the model at hand, as when the data have grown.

    The model is reset by `tau`, and none is thrown away: parameters, iterates
    and batch statistics get a share of `tau` of a fresh model's, moments shrink
    by alpha * tau, and what is frozen stays. A model that is not finite is
    replaced.

    Steps are counted on: the stage ends at its first step plus num_steps. To
    resume it, set up `Cycles` with its num_steps and steps_per_epoch, and
    restore the state. A state
    of other steps or cycles, with the same switching rule, may begin a stage.

    Afterwards, what resets and rules measure is that of the stage: evaluations,
    the best one, and the share of the steps that is over, by which tau fades. A
    `tau` function is told the steps of the stage. The target stays, and so does
    the first metric, that of the untrained model, which the way to the target
    is measured from: evaluate the stage on what the target was set for. A rate
    that failures have halved stays halved.

    Args:
      state: before the first step of the stage; a reset donates it.
      num_steps: steps of the stage; None: as many as the chain has had.
      steps_per_epoch: those of the stage; None: as before. Only where the
        cycles were set up with some.
      tau: share of fresh values, in [0, 1]. 0 changes no value of the model: it
        goes on with a new chain. At 1 only the optimizer remembers the old one.

    Returns:
      As for `before_step`, which is to be called next with the same step.

    Raises:
      ValueError: for an argument that cannot work, a state that is not one of
        these cycles or has another one_minus_beta1, or a tau above 0 with an
        optimizer that has no blend.
    """
    check_number('tau', tau, '[0, 1]')
    lacks = self._training.lacks
    check(tau == 0 or not lacks, 'tau', tau, f'0 {lacks}')
    stage = next_stage(self._stage, num_steps, steps_per_epoch)
    driver, model, before, step = self._reading(state, is_any_chain=True)
    is_finite = driver.model_reset.is_finite(model)
    decision = begin_stage(stage, before, step, tau, is_finite)
    driver = driver._replace(config=stage.config)
    outcome = driver.carry_out(decision, model, step)
    self._stage, self._position = stage, Position(has_begun=True)
    return self._handed_back(state, step, outcome)

  def steps_until_due(self, step: int) -> int:
    """How many steps may be taken in one go, as by `jax.lax.scan`.

    At least 1 after `before_step(step, ...)`, and 0 once that is due again.

    Args:
      step: that of the last `before_step`, or a later one.
    """
    step = whole_step(step)
    last, due, *_ = self._position
    return max(due - step, 0) if 0 <= last <= step else 0

  @property
  def config(self) -> RunConfig:
    """What decides in the stage at hand."""
    return self._stage.config

  @property
  def schedule(self) -> Chain:
    """The planned learning rate, as an `optax.Schedule` of the step alone.

    For those who want the chain's rate without resets, in the optimizer that
    the cycles have been given: Cycles(optimizer=optax.adamw, …).schedule is for
    optax.adamw. Without optimizer=, its peak is Muon's. No evaluation moves the
    rate, and after num_steps it stays what it is at the end.

    Its peaks are those of the run at the last call: a restored state keeps the
    peaks of its run, and a failure halves them.
    """
    return self._stage.plan_at(self._rate_factor)

  def learning_rate(self, state: Any) -> float:
    """The learning rate of the step about to be taken; waits for the state.

    Raises:
      ValueError: for what is no state of cycles.
    """
    clock = check_state(state, self._fields).opt_state.clock
    words = np.asarray(jax.device_get(clock))
    return float(self._rate(words.astype(np.int32)))

  def _reading(self, state: Any, is_any_chain: bool = False) -> Reading:
    """The model, the control and the steps of a state, restored or not."""
    content = contents(state, self._fields, self._like)
    begin, role_of = self._training.begin, self._training.role_of
    placement, model = placed(content, self._placement, begin, role_of)
    self._placement, reset = placement, placement.model_reset
    where = self._stage.start, reset.devices, is_any_chain
    control, steps = standing(content.opt_state, *where)
    # Parameters are made where make_params puts them; a reset takes host
    # values.
    fresh = lambda cycle: reset.devices.get(self._fresh(cycle))
    return Reading(Driver(self.config, reset, fresh), model, control, steps)

  def _advance(
    self, reading: Reading, evaluations: list[Evaluation]
  ) -> Outcome:
    driver, model, control, steps = reading
    outcome = driver.advance(model, control, evaluations, steps)
    if outcome.run_is_over and self._position.is_over:  # its event came before
      outcome = outcome._replace(events=outcome.events[: len(evaluations)])
    return outcome

  def _handed_back(
    self, state: Any, step: int, outcome: Outcome
  ) -> tuple[Any, list[Event]]:
    """The loop's state with what the outcome has in its place; the events."""
    params, stats, opt_state, control, events, due, run_is_over = outcome
    self._rate_factor = control.rate_factor
    before = self._position
    is_over = before.is_over or run_is_over
    self._position = before._replace(step=step, due=due, is_over=is_over)
    changes = dict(zip(self._fields, (params, opt_state, stats)))
    return with_contents(state, changes), [event_of(e, step) for e in events]


def _refusal(evaluation: Evaluation, control: Control) -> str:
  """Why an evaluation comes too late to be taken in; '' if it does not."""
  if evaluation.step <= control.last.step:
    return f'one after {control.last.step} steps has been taken in'
  if evaluation.step <= control.start and control.cycle > 1:
    return f'cycle {control.cycle} began at step {control.start}'
  return ''
