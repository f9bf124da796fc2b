"""One run: its parts, made before the first step, and what happens after it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from ..core import workload as workload_facts
from ..core.chain import Chain
from ..core.checks import check_precision
from ..core.clock import learning_rate, packed
from ..core.devices import Devices, PmapDevices
from ..core.evaluation import EvalResults, new_evaluations
from ..core.forms import Answer, Form, guess_among
from ..core.workload import WorkloadApi
from ..optimizers.clocked import ClockedState, clocked
from ..optimizers.precise import InFloat32
from ..optimizers.step import RunStart, Step
from ..schedule_params import ScheduleParams
from ..soft_reset import FULL
from . import control as control_lib
from .driver import Driver, saved_state, standing
from .events import Row, event, start_event
from .model_reset import Model, ModelReset, role_in
from .records import Records
from .state import Control, RunConfig, clock_of, words_of
from .train_step import loss_in_training, train_step

# Folded into the key of fresh models that no planned reset has; no run has more
# resets. The first cycle's model has it as its index.
_LATER = 2**31 - 1


class SavedState(NamedTuple):
  """The half of the optimizer state that is saved: arrays on the devices."""

  opt_state: ClockedState
  step_metrics: jax.Array  # shape=(2,), of the last step; see `train_step`


# What a step is given, with parameters and statistics.
Trees = tuple[SavedState, Any, Any]


@dataclasses.dataclass
class Run:
  """The half that is not saved: the parts of a run, its state on the host."""

  config: RunConfig
  devices: Devices
  records: Records
  rng: jax.Array  # from which the keys of fresh models are derived
  train_step: Callable[..., Any]  # its first call compiles it
  model_reset: ModelReset
  learning_rate: Callable[[Any], jax.Array]  # of a packed clock; compiled
  control: Control
  forms: tuple[Form, ...] | None  # of the parameters; None: nobody asks
  guess: str  # names those that are only guessed; '' if none
  has_begun: bool = False  # in this process
  due: int = 0  # the step before which there is something to decide
  evaluations_seen: int = 0

  def is_due(self, step: int, eval_results: EvalResults | None) -> bool:
    """Whether there is something to decide; compares whole numbers, twice."""
    return step >= self.due or len(eval_results or ()) != self.evaluations_seen

  def record(self, saved: SavedState, step: int, events: list[Row]) -> None:
    """Passes events to the records, with the rate and the last step's metrics.

    Only after an evaluation, when the devices have been waited for.
    """
    if not events:
      return
    clock = clock_of(self.control, self.config, step)
    rate = float(self.learning_rate(packed(clock)))
    events = [{**event, 'learning_rate': rate} for event in events]
    loss, grad_norm = self.devices.get(saved.step_metrics)
    self.records.add(events, step, {'loss': loss, 'grad_norm': grad_norm})


def model_reinit_schedule(
  run: Run,
  saved: SavedState,
  params: Any,
  model_state: Any,
  workload: WorkloadApi,
  eval_results: EvalResults | None,
  step: int,
  batch: dict[str, Any],
) -> Trees:
  """Takes in evaluations, decides, and resets the model if a cycle starts.

  What it does with them is `driver.Driver.advance`.

  Args:
    run: its control and what it is due next are replaced, by the first call
      its config as well.
    saved, params, model_state: what the last step has returned; a reset donates
      them.
    workload, eval_results: the benchmark's.
    step: about to be taken.
    batch: of that step; its size and the number of training examples tell the
      steps of an epoch.

  Returns:
    What to go on with, in place of (saved, params, model_state).

  Raises:
    TrainingCompleteError: (the benchmark's) if the cycles have run out.
    ValueError: if an evaluation lacks the target metric, init_model_fn's
      parameters do not fit the trained ones, or a run with other settings has
      begun in the folder.

  Source: thesis, section 3.2 and figure 3.2.
  """
  if not run.has_begun:
    trees = saved, params, model_state
    saved, params, model_state = _adopted(run, trees, workload, step)
    run.config = _by_epochs(run, workload, batch)
  last, config = run.control.last.step, run.config
  model = Model(params, model_state, saved.opt_state.inner)
  if step == 0:
    model = _first_model(run, saved, model, workload)
  fresh = functools.partial(_fresh_model, run, workload)
  evaluations = new_evaluations(eval_results, last, config.target)
  driver = Driver(config, run.model_reset, fresh)
  outcome = driver.advance(model, run.control, evaluations, step)
  run.control, run.due = outcome.control, outcome.due
  run.evaluations_seen = len(eval_results or ())
  run.record(saved, step, outcome.events)
  if outcome.run_is_over:
    raise workload_facts.spec_of(workload).TrainingCompleteError
  saved = SavedState(outcome.opt_state, saved.step_metrics)
  return saved, outcome.params, outcome.model_state


def _adopted(run: Run, trees: Trees, workload: WorkloadApi, step: int) -> Trees:
  """Takes over what set_up made or, in a resumed run, what was restored.

  The current benchmark's restore leaves a device axis on everything.
  """
  is_pmap = isinstance(run.devices, PmapDevices)
  if workload_facts.has_device_axis(workload, trees[1]) and not is_pmap:
    trees = PmapDevices().get(trees)
  saved, params, model_state = run.devices.place(trees)
  run.control, _ = standing(saved.opt_state, run.control, run.devices)
  run.records.start(workload.metrics_logger, step)
  run.has_begun = True
  return saved, params, model_state


def _by_epochs(
  run: Run, workload: WorkloadApi, batch: dict[str, Any]
) -> RunConfig:
  """The run's config, its weight decay by the epochs of the planned cycles."""
  settings, chain = run.config.settings, run.config.chain
  if not settings.follows_epochs:
    return run.config
  targets, *_ = jax.tree_util.tree_leaves(batch['targets'])
  size = run.devices.num_rows(targets)
  steps = workload_facts.steps_per_epoch(workload, size)
  if steps is None:
    return run.config
  factor = lambda end: settings.decay_factor(end, steps)
  return run.config._replace(chain=chain.with_decay_factors(factor))


def _first_model(
  run: Run, saved: SavedState, model: Model, workload: WorkloadApi
) -> Model:
  """The model of the first cycle; it is made anew if peaks are to suit it."""
  settings, first_end = run.config.settings, run.config.chain.cycles[0].steps
  params = None
  if settings.relative_peak is not None:
    fresh = _fresh_model(run, workload, run.control.cycle)
    model, _ = run.model_reset(model, fresh, FULL)
    params = fresh[0]
  elif settings.optimizer.needs_forms():
    params = run.devices.get(model.params)
  if params is not None:
    start = RunStart(params, run.forms, first_end)
    run.control = control_lib.suited(run.control, start, run.config)
  rows = [start_event(run.control, run.config)]
  if run.guess:
    rows.append(event('warning', run.control, reason=run.guess))
  run.record(saved, 0, rows)
  return model


def _fresh_model(
  run: Run, workload: WorkloadApi, cycle: int
) -> tuple[Any, Any]:
  """(params, model_state) as a cycle starts, by its number; on the host.

  The fresh model is made now, in timed seconds, on the host's CPU, so that the
  accelerator needs room for one more model only. The same number of cycles
  gives the same model, also in a resumed run. What `init_model_fn` replaces of
  the workload, such as the model with the runner's dropout, is restored.

  Source: the rules of both generations allow it, "for example, to reinitialize
  the model after a failed training effort".
  """
  index = cycle - 2 if cycle > 1 else _LATER
  key = _key(run.rng, len(run.config.chain.cycles), index)
  try:
    cpu = jax.local_devices(backend='cpu')[0]
  except RuntimeError:  # a process that was told to use the accelerator only
    cpu = None
  attributes = dict(vars(workload))
  try:
    with jax.default_device(cpu):
      fresh = workload.init_model_fn(jax.device_put(key))
  finally:
    vars(workload).update(attributes)
  model: tuple[Any, Any] = run.devices.get(fresh)
  return model


def _key(rng: jax.Array, num_cycles: int, index: int) -> np.ndarray:
  """The key of a fresh model: of the first cycle, or of a reset."""
  planned = max(num_cycles - 1, 1)
  if index < planned:
    return np.asarray(jax.random.split(rng, planned))[index]
  # Twice, since a single fold_in equals a split in some versions of jax.
  later = jax.random.fold_in(rng, _LATER)
  return np.asarray(jax.random.fold_in(later, index))


def set_up(
  settings: ScheduleParams,
  chain: Chain,
  workload: WorkloadApi,
  model_params: Any,
  model_state: Any,
  rng: jax.Array,
  is_tuned: bool = False,
) -> tuple[SavedState, Run]:
  """The initial state and the run, as the pair that checkpoints demand.

  Args:
    settings: of the run.
    chain: its cycles over the run's steps.
    workload, model_params, model_state, rng: what the benchmark hands to
      init_optimizer_state.
    is_tuned: whether the budget is that of the external ruleset.

  Raises:
    ValueError: if the workload is not the benchmark's or has no usable target,
      or parameters are in float16.
  """
  # What is run. Until the first batch tells the epochs, there is one.
  written = chain
  if settings.follows_epochs:
    once = lambda end: settings.decay_factor(end, end)
    chain = chain.with_decay_factors(once)
  target = workload_facts.read_target(workload)
  optimizer = InFloat32(settings.optimizer)
  budget = workload_facts.budget_seconds(workload, is_tuned)
  most_steps = workload_facts.most_steps()
  config = RunConfig(settings, chain, target, budget, most_steps)
  control = control_lib.start(config)

  # On which devices.
  is_pmap = workload_facts.has_device_axis(workload, model_params)
  devices = PmapDevices() if is_pmap else Devices()
  model_params, model_state = devices.place((model_params, model_state))
  shapes = devices.shapes_of(model_params)
  check_precision('model_params', shapes)
  role_of = role_in(optimizer.roles(shapes))
  words = words_of(control, config)
  rule = settings.relative_peak
  answers: tuple[Answer, ...] = ()
  if optimizer.needs_forms() or (rule and rule.needs_forms()):
    answers = workload_facts.forms_of(workload, shapes, rng)
  forms = tuple(answer.form for answer in answers) or None
  each_step = Step(0.0, spread=devices.spread, forms=forms)
  transformation = clocked(optimizer.build, chain.cycles, words, each_step)
  opt_state = devices.init(transformation.init, model_params)

  # What is compiled; the step is at its first call.
  loss = settings.dropout_rate, settings.label_smoothing
  step = train_step(
    loss_in_training(workload, *loss),
    transformation,
    lambda state, params: optimizer.gradient_point(state.inner, params),
  )
  rate = jax.jit(functools.partial(learning_rate, cycles=chain.cycles))
  _warm_up(rate, words[0])
  _warm_up(_key, rng, len(chain.cycles), 0)
  run = Run(
    config=config,
    devices=devices,
    records=Records(workload.step_hint, settings, written),
    rng=rng,
    train_step=devices.compile_step(step),
    model_reset=ModelReset(
      devices,
      role_of,
      lambda params: transformation.init(params).inner,
      Model(model_params, model_state, opt_state.inner),
    ),
    learning_rate=rate,
    control=control,
    forms=forms,
    guess=guess_among(answers, shapes),
  )
  nothing = devices.put(np.full(2, np.nan, np.float32))
  first = saved_state(opt_state.inner, control, 0, config, devices)
  return SavedState(first, nothing), run


def _warm_up(fn: Callable[..., Any], *args: Any) -> None:
  """Calls a function so that what it runs is compiled before the first step."""
  fn(*args)
