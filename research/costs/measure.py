"""What the submission costs beyond bare optax: step, evaluation, reset, set-up.

Submissions and a bare `optax.adamw` with one cosine take turns in one process,
and each step is waited for. Models are the stand-ins and those in `models.py`,
which need jax, flax, optax and NumPy only.

`memory_table` has XLA's own plan of the memory of a step and of a reset on each
of eight devices, at the shapes of criteo1tb and WMT. Programs are compiled for
that, and nothing is run.

Of each figure the median is printed, with the least and the most of the rounds'
medians; every round sets up all anew.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import itertools
import math
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import flax
import jax
import numpy as np
import optax

from ... import schedule_params
from ...core.chain import jax_lr_schedule
from ...core.devices import Devices, PmapDevices
from ...core.evaluation import Target
from ...engine.control import start
from ...engine.model_reset import Model, ModelReset, role_in
from ...engine.state import RunConfig, words_of
from ...engine.train_step import loss_in_training, train_step
from ...mini_algoperf import files
from ...optimizers.clocked import clocked
from ...submission import make_submission
from .models import MODELS

SETTINGS = {
  'THESIS': schedule_params.THESIS,
  'SOFT_RESET': schedule_params.SOFT_RESET,
  'MUON': schedule_params.MUON,
}
WARM_UP = 5
RESETS = 6  # in a round

# Figure -> values of a round.
Figures = dict[str, list[float]]


class Compilations:
  """Counts them from the first instance on; jax 0.4 cannot stop listening."""

  def __init__(self) -> None:
    self.count = 0
    jax.monitoring.register_event_duration_secs_listener(self._listen)

  def _listen(self, event: str, duration_secs: float, **unused: Any) -> None:
    self.count += 'backend_compile' in event


def seconds(fn: Callable[[], Any]) -> float:
  """Wall time of a call, until its result is ready."""
  start = time.perf_counter()
  jax.block_until_ready(fn())
  return time.perf_counter() - start


def live_bytes() -> int:
  """Bytes of all arrays on the devices."""
  return sum(array.nbytes for array in jax.live_arrays())


def batches_of(workload: Any) -> Iterator[Any]:
  """Batches on the devices, the same ones over and over."""
  if hasattr(workload, 'batch'):
    return itertools.repeat(jax.device_put(workload.batch))
  key = jax.random.PRNGKey(3)
  queue = workload._build_input_queue(key, 'train', None, 64)
  return itertools.cycle([next(queue) for _ in range(8)])


class Submitted:
  """A run of one of our settings; a call takes a step."""

  def __init__(self, settings: str, workload: Any) -> None:
    chosen = SETTINGS[settings]
    self._functions: Any = make_submission(
      dataclasses.replace(chosen, budget_factor=100.0, repeat=True)
    )
    self.workload, self._batches = workload, batches_of(workload)
    # A list: to take one from an array costs a call of its own at every step.
    self._keys = list(jax.random.split(jax.random.PRNGKey(0), 3))
    self.params, self.model_state = workload.init_model_fn(self._keys[0])
    self.step = 0
    self._evaluations: list[tuple[int, dict[str, float]]] = []

  def set_up(self) -> Any:
    """Initialises the optimizer's state."""
    self.state = self._functions.init_optimizer_state(
      self.workload, self.params, self.model_state, None, self._keys[1]
    )
    return self.state[0]

  def __call__(self) -> Any:
    """The parameters after one more step."""
    self.state, self.params, self.model_state = self._functions.update_params(
      workload=self.workload,
      current_param_container=self.params,
      current_params_types=None,
      model_state=self.model_state,
      hyperparameters=None,
      batch=next(self._batches),
      loss_type=None,
      optimizer_state=self.state,
      eval_results=self._evaluations,
      global_step=self.step,
      rng=self._keys[2],
    )
    self.step += 1
    return self.params

  def evaluate(self, loss: float) -> None:
    """Has the next step see an evaluation, some way from the target."""
    workload = self.workload
    key = f'validation/{workload.target_metric_name}'
    target = workload.validation_target_value
    rises = workload.has_reached_validation_target({key: math.inf})
    ratio = 1.5 if self._evaluations else 2.0  # nearer than at first: tau < 1
    metric = target / ratio if rises else target * ratio
    metrics = {'validation/loss': loss, key: metric}
    self._evaluations = [*self._evaluations, (self.step, metrics)]


class Bare:
  """AdamW of optax with one cosine; a call takes a step."""

  def __init__(self, workload: Any) -> None:
    self._batches = batches_of(workload)
    keys = jax.random.split(jax.random.PRNGKey(0), 3)
    params, model_state = workload.init_model_fn(keys[0])
    self._devices = Devices()
    self._optimizer = optax.adamw(optax.cosine_decay_schedule(1e-3, 10_000))
    self._rng = keys[2]
    self._step = self._devices.compile_step(
      train_step(loss_in_training(workload, 0.1, 0.0), self._optimizer)
    )
    self._model = self._devices.place((params, model_state))

  def set_up(self) -> Any:
    """Initialises the optimizer's state."""
    self._state = self._devices.init(self._optimizer.init, self._model[0])
    return self._state

  def __call__(self) -> Any:
    """The parameters after one more step."""
    batch = next(self._batches)
    *self._model, self._state, _ = self._step(
      *self._model, self._state, batch, self._rng
    )
    return self._model[0]


Timed = Submitted | Bare


def measure_set_up(
  make: Callable[[], Timed], compiled: Compilations
) -> tuple[Timed, Figures]:
  """A run after its first steps; times and compilations before the next one."""
  jax.clear_caches()  # as in a new process
  run = make()
  size, compiled.count = live_bytes(), 0
  figures: Figures = {'set-up, s': [seconds(run.set_up)]}
  figures['compilations of the set-up'] = [compiled.count]
  model = sum(leaf.nbytes for leaf in jax.tree_util.tree_leaves(_params(run)))
  figures['state, in models'] = [(live_bytes() - size) / model]
  figures['first step, s'] = [seconds(run)]
  compiled.count = 0
  for _ in range(WARM_UP):
    seconds(run)
  figures['compilations after the first step'] = [compiled.count]
  return run, figures


def _params(run: Timed) -> Any:
  return run.params if isinstance(run, Submitted) else run._model[0]


def measure_steps(runs: dict[str, Timed], pairs: int) -> dict[str, Figures]:
  """Times of steps, and the median of their ratios to the bare ones."""
  times: dict[str, list[float]] = {name: [] for name in runs}
  order = list(runs)
  for _ in range(WARM_UP):
    for run in runs.values():  # compiles anew what a set-up has cleared
      seconds(run)
  for i in range(pairs):
    for name in order if i % 2 else order[::-1]:
      times[name].append(seconds(runs[name]))
  bare = np.asarray(times['optax'])
  return {
    name: {
      'step, ms': [statistics.median(own) * 1e3],
      'step, ratio to optax': [float(np.median(np.asarray(own) / bare))],
    }
    for name, own in times.items()
  }


def measure_evaluations(run: Submitted, pairs: int) -> Figures:
  """What an evaluation adds to the step after it, without files."""
  added = []
  for i in range(pairs):
    plain = seconds(run)
    run.evaluate(loss=1e6 - i)
    added.append(seconds(run) - plain)
  return {'evaluation, µs': [statistics.median(added) * 1e6]}


def measure_resets(run: Submitted) -> Figures:
  """What a soft reset, of a cycle that is abandoned, adds to a step."""
  plain = statistics.median(seconds(run) for _ in range(WARM_UP))
  added, events = [], list[Any]()
  run.state[1].records.add = lambda new, *rest: events.extend(new)
  for loss in (1.0, 1e7) * RESETS:  # the second is above all before: S(t) = 1
    run.evaluate(loss)
    added.append(seconds(run) - plain)
  taus = [event['tau'] for event in events if event['event'] == 'reset']
  assert len(taus) == RESETS and max(taus) < 1
  return {'reset, ms': [a * 1e3 for a in added[3::2]]}  # the first may compile


def measure(
  make_workload: Callable[[], Any],
  pairs: int,
  rounds: int,
  with_muon: bool = False,
) -> dict[str, Figures]:
  """(run, figure) -> one value of each round, its median."""
  makers: dict[str, Callable[[], Timed]] = {
    'optax': lambda: Bare(make_workload()),
    'THESIS': lambda: Submitted('THESIS', make_workload()),
    'SOFT_RESET': lambda: Submitted('SOFT_RESET', make_workload()),
  }
  if with_muon:
    makers['MUON'] = lambda: Submitted('MUON', make_workload())
  compiled = Compilations()
  medians: dict[str, Figures] = {name: {} for name in makers}
  for _ in range(rounds):
    runs, figures = {}, {}
    for name, make in makers.items():
      runs[name], figures[name] = measure_set_up(make, compiled)
    for name, more in measure_steps(runs, pairs).items():
      figures[name].update(more)
    for name, run in runs.items():
      if isinstance(run, Submitted):
        figures[name].update(measure_evaluations(run, pairs))
        if name == 'THESIS':
          figures[name].update(measure_resets(run))
    for name, of_run in figures.items():
      for figure, values in of_run.items():
        median = statistics.median(values)
        medians[name].setdefault(figure, []).append(median)
  return medians


def memory_plan(name: str, settings: str, has_axis: bool) -> list[str]:
  """Cells of a row: what XLA plans for each of eight devices, in GB.

  With an axis it is `jax.pmap`, as in v0.5.0.
  """
  workload: Any = MODELS[name]()
  key = jax.ShapeDtypeStruct((2,), np.uint32)
  params, _ = jax.eval_shape(workload.init_model_fn, key)
  leaves = jax.tree_util.tree_leaves(params)
  cells = [sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)]
  for program in _programs(workload, params, settings, has_axis):
    plan = program.memory_analysis()
    arguments = plan.argument_size_in_bytes
    results = plan.output_size_in_bytes - plan.alias_size_in_bytes
    cells += [arguments, arguments + results + plan.temp_size_in_bytes]
  return [f'{cell / 1e9:.4g}' for cell in cells]


def _programs(
  workload: Any, params: Any, settings: str, has_axis: bool
) -> tuple[Any, Any]:
  """A step and a reset, compiled for these shapes."""
  chosen = SETTINGS[settings]
  chain = jax_lr_schedule(100, chosen.cycles, 100.0)
  config = RunConfig(chosen, chain, Target('loss', 1.0, rises=False))
  clock = words_of(start(config), config)
  transformation = clocked(chosen.optimizer.build, chain.cycles, clock)
  devices = PmapDevices() if has_axis else Devices()
  count = jax.device_count() if has_axis else 1
  lead = (count,) if has_axis else ()
  model = _shaped(params, lead)
  opt_state = _shaped(jax.eval_shape(transformation.init, params), lead)
  step: Any = devices.compile_step(
    train_step(
      loss_in_training(workload, None, 0.0),
      transformation,
      lambda state, model: chosen.optimizer.gradient_point(state.inner, model),
    )
  )
  batch = _shaped(workload.batch, lead, count)
  key = jax.ShapeDtypeStruct((2,), np.uint32)
  reset = ModelReset(
    devices,
    role_in(chosen.optimizer.roles(params)),
    lambda params: transformation.init(params).inner,
    Model(model, None, opt_state.inner),
  )
  compiled = step.lower(model, None, opt_state, batch, key).compile()
  return compiled, reset._programs.reset


def _shaped(tree: Any, lead: tuple[int, ...], parts: int = 1) -> Any:
  """Shapes in the place of arrays, with more axes before the first.

  Args:
    tree: of arrays.
    lead: sizes of the new axes.
    parts: into how many the first axis that is there is divided.
  """

  def shaped(leaf: Any) -> Any:
    shape = leaf.shape
    if parts > 1:
      shape = (shape[0] // parts, *shape[1:])
    return jax.ShapeDtypeStruct((*lead, *shape), leaf.dtype)

  return jax.tree_util.tree_map(shaped, tree)


def memory_table(names: Sequence[str]) -> str:
  """A Markdown table of `memory_plan`: a row for each program."""
  lines = [
    '| | parameters | step: given | step: most | reset: given | reset: most |',
    f'|---|{"---:|" * 5}',
  ]
  for name, settings, has_axis in itertools.product(
    names, SETTINGS, (False, True)
  ):
    where = f'{name}, {settings}, {"pmap" if has_axis else "jit"}'
    cells = memory_plan(name, settings, has_axis)
    lines.append(f'| {where} | {" | ".join(cells)} |')
  return '\n'.join(lines)


def table(runs: dict[str, Figures]) -> str:
  """A Markdown table: a row per figure, a column per run."""
  figures = list(dict.fromkeys(f for run in runs.values() for f in run))
  lines = [f'| | {" | ".join(runs)} |', f'|---|{"---:|" * len(runs)}']
  for figure in figures:
    cells = [_cell(run.get(figure)) for run in runs.values()]
    lines.append(f'| {figure} | {" | ".join(cells)} |')
  return '\n'.join(lines)


def _cell(values: list[float] | None) -> str:
  if not values:
    return ''
  middle, low, high = statistics.median(values), min(values), max(values)
  spread = f' ({low:.4g} to {high:.4g})' if low < high else ''
  return f'{middle:.4g}{spread}'


def versions() -> dict[str, str]:
  """Where and when: to be saved with the figures."""
  return {
    'date': dt.date.today().isoformat(),
    'device': f'{jax.device_count()} × {jax.devices()[0].device_kind}',
    'load': f'{os.getloadavg()[0]:.0f} on {os.cpu_count()} cores',
    'python': sys.version.split()[0],
    **{m.__name__: m.__version__ for m in (jax, flax, optax, np)},
  }


def makers_of(names: Sequence[str]) -> dict[str, Callable[[], Any]]:
  """What makes each workload: one of `models.py`, or a stand-in.

  Raises:
    ValueError: for an unknown name.
  """
  makers: dict[str, Callable[[], Any]] = {}
  for name in names:
    if name in MODELS:
      makers[name] = MODELS[name]
    else:  # it needs more packages
      from ...mini_algoperf import workloads

      workloads.get_workload(name)
      makers[name] = functools.partial(workloads.get_workload, name)
  return makers


def report(
  makers: Mapping[str, Callable[[], Any]],
  pairs: int,
  rounds: int,
  with_muon: bool,
  out: pathlib.Path | None,
) -> None:
  """Measures and prints; saves the figures where a file is given."""
  saved: dict[str, Any] = {'versions': versions(), 'figures': {}}
  for name, make in makers.items():
    figures = measure(make, pairs, rounds, with_muon)
    saved['figures'][name] = figures
    print(f'## {name}\n\n{table(figures)}\n', flush=True)
  print(', '.join(f'{k} {v}' for k, v in saved['versions'].items()))
  if out:
    files.write_json(out, saved)
