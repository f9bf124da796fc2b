"""The cost of the submission beyond a plain AdamW step, on workload digits.

  .venv/bin/python benchmarks/overhead.py [--out=FILE]

Measured: an ordinary step against the same step with a plain optax.adamw
(alternating blocks, ratio per pair), the check that an ordinary step makes, an
evaluation (smoothing, S(t), cycles.csv), a reset, and what init_model_fn would
have added to the reset if it were not called beforehand. The thesis reports for
OGBG on an A100: 8 µs per step, 1,030 µs per evaluation, about 1 s per reset.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import json
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, Union

import jax
import optax

from machine import versions
from reset_cycles import soft_reset, submission
from reset_cycles.mini_algoperf import files, logger, workloads
from reset_cycles.schedule_params import THESIS, ScheduleParams
from reset_cycles.training import resetting
from reset_cycles.training import run as run_lib
from reset_cycles.training import workload as workload_facts
from reset_cycles.training.devices import Devices
from reset_cycles.training.fresh_models import fresh_model
from reset_cycles.training.records import Records
from reset_cycles.training.resetting import Model
from reset_cycles.training.run_state import Run
from reset_cycles.training.set_up import SavedState, set_up
from reset_cycles.training.step import train_step

STEPS_PER_BLOCK = 20
PAIRS = 41
REPEATS = 31
CHECKS = 100_000

# Median, quartiles and unit of one quantity; those of several, by name.
Summary = dict[str, Union[float, str, list[float]]]
Figures = dict[str, Summary]


def summary(values: Sequence[float], unit: str) -> Summary:
  """Median, quartiles and unit of measured values."""
  low, median, high = statistics.quantiles(values, n=4)
  return {'median': median, 'quartiles': [low, high], 'unit': unit}


def seconds(fn: Callable[..., Any], *args: Any) -> float:
  """Wall time of a call, in seconds, until its result is ready."""
  start = time.perf_counter()
  jax.block_until_ready(fn(*args))
  return time.perf_counter() - start


def copy(tree: Any) -> Any:
  """A copy of the arrays, since measured functions donate their arguments."""
  return jax.tree_util.tree_map(lambda x: x.copy(), tree)


class Bench:
  """A run with the thesis' settings, stopped between two ordinary steps."""

  def __init__(self, workload: str = 'digits', generation: str = 'jit') -> None:
    """Sets up the run and takes one step, which compiles it."""
    self.workload = workloads.get_workload(workload, generation=generation)
    keys = jax.random.split(jax.random.PRNGKey(0), 4)
    self.params, self.model_state = self.workload.init_model_fn(keys[0])
    self.rng = keys[1]
    saved, setup = set_up(
      self.workload,
      self.params,
      self.model_state,
      THESIS,
      Records(None),
      keys[2],
    )
    self.state = saved, Run(setup)
    queue = self.workload._build_input_queue(keys[3], 'train', None, 64)
    self.batches = itertools.cycle([next(queue) for _ in range(8)])
    self.step = 0
    self.update()

  @property
  def devices(self) -> Devices:
    """The layout of arrays on the devices."""
    return self.state[1].setup.devices

  def update(self) -> Any:
    """Takes one step of the submission; returns the parameters."""
    self.state, self.params, self.model_state = submission.update_params(
      workload=self.workload,
      current_param_container=self.params,
      current_params_types=None,
      model_state=self.model_state,
      hyperparameters=None,
      batch=next(self.batches),
      loss_type=None,
      optimizer_state=self.state,
      eval_results=[],
      global_step=self.step,
      rng=self.rng,
    )
    self.step += 1
    return self.params


class PlainAdamW:
  """Takes one step with a plain optax.adamw and a cosine at each call."""

  def __init__(self, bench: Bench) -> None:
    """Uses the bench's model, batches and layout."""
    hparams = THESIS.hparams
    adamw = optax.adamw(
      optax.cosine_decay_schedule(hparams.learning_rate, 3000),
      b1=1 - hparams.one_minus_beta1,
      b2=hparams.beta2,
      weight_decay=hparams.weight_decay,
    )
    workload, rate = bench.workload, hparams.dropout_rate
    body = train_step(
      workload_facts.model_fn_in_training(workload, rate),
      workload_facts.loss_fn_of_batch(workload, 0.0),
      adamw,
    )
    self.compiled = bench.devices.compile_step(body)
    params = copy(bench.params)
    state = copy(bench.model_state)
    self.state = [params, state, bench.devices.init(adamw.init, params)]
    self._batches, self._rng = bench.batches, bench.rng

  def __call__(self) -> Any:
    """The parameters after one more step."""
    batch = next(self._batches)
    *self.state[:], _ = self.compiled(*self.state, batch, self._rng)
    return self.state[0]


def measure_steps(bench: Bench) -> Figures:
  """Ratio of a step of the submission to a plain step, and both times."""
  plain = PlainAdamW(bench)
  plain()

  def block(update: Callable[[], Any]) -> Any:
    for _ in range(STEPS_PER_BLOCK):
      params = update()
    return params

  ratios, ours, theirs = [], [], []
  for i in range(PAIRS):
    first, second = (bench.update, plain) if i % 2 else (plain, bench.update)
    times = {first: seconds(block, first), second: seconds(block, second)}
    ours.append(times[bench.update] / STEPS_PER_BLOCK * 1e6)
    theirs.append(times[plain] / STEPS_PER_BLOCK * 1e6)
    ratios.append(times[bench.update] / times[plain])
  return {
    'step, ratio to plain AdamW': summary(ratios, '1'),
    'step': summary(ours, 'µs'),
    'step of plain AdamW': summary(theirs, 'µs'),
  }


def measure_check(bench: Bench) -> Figures:
  """The time of an ordinary step's comparisons."""
  run = bench.state[1]
  times = []
  for _ in range(REPEATS):
    start = time.perf_counter()
    for _ in range(CHECKS):
      run_lib.is_due(run, [], 1)
    times.append((time.perf_counter() - start) / CHECKS * 1e6)
  return {'check of an ordinary step': summary(times, 'µs')}


def measure_evaluations(bench: Bench) -> Figures:
  """The time of an evaluation with cycles.csv, without and with a logger.

  The logger is mini_algoperf's, which rewrites its files at every call, as the
  benchmark's does.
  """
  figures = {'evaluation': summary(evaluation_times(bench), 'µs')}
  with tempfile.TemporaryDirectory() as folder:
    bench.workload.attach_metrics_logger(
      logger.MetricLogger(pathlib.Path(folder))
    )
    times = evaluation_times(bench)
  bench.workload.attach_metrics_logger(None)
  figures['evaluation, with a metrics logger'] = summary(times, 'µs')
  return figures


def evaluation_times(bench: Bench) -> list[float]:
  """Microseconds of 60 evaluations in a row."""
  results = {'validation/loss': 1.0, 'validation/error_rate': 0.5}
  saved, run = bench.state
  model = Model(bench.params, bench.model_state, saved.inner)
  times = []
  with tempfile.TemporaryDirectory() as folder:
    setup = run.setup._replace(records=Records(pathlib.Path(folder)))
    run = run._replace(setup=setup)
    setup.records.start(0, setup.rules.switching.columns)
    entries = []
    for i in range(1, 61):
      entries.append((i, results))
      start = time.perf_counter()
      saved, run, model = run_lib.act(
        saved, run, model, bench.workload, entries, 2
      )
      times.append((time.perf_counter() - start) * 1e6)
  return times


def reset_times(bench: Bench) -> list[float]:
  """Milliseconds of whole resets: finiteness, blend, moments, checks."""
  saved, run = bench.state
  reset = soft_reset.Reset(0.5, 0.75, True)
  inner, ops = run.setup.inners[0], run.setup.reset_ops
  fresh = run.setup.fresh_models.take(0)

  def whole(model: Model) -> Model:
    resetting.is_finite(model, inner, ops)
    return resetting.model_reinit_schedule(model, fresh, reset, inner, ops)

  times = []
  for _ in range(REPEATS):
    state = saved.inner.inner  # without the clock, which no reset changes
    model = copy(Model(bench.params, bench.model_state, state))
    jax.block_until_ready(model)
    times.append(seconds(whole, model) * 1e3)
  return times


def measure_resets(bench: Bench) -> Figures:
  """The time of a whole reset, and of making its fresh model."""
  resets, inits = reset_times(bench), []
  for _ in range(5):
    jax.clear_caches()  # as in a new process
    make = functools.partial(fresh_model, bench.workload)
    inits.append(seconds(make, bench.rng, bench.devices) * 1e3)
  return {
    'reset': summary(resets, 'ms'),
    'init_model_fn, called before training instead': summary(inits, 'ms'),
  }


def initial_state(bench: Bench, schedule_params: ScheduleParams) -> SavedState:
  """The saved half of the state that init_optimizer_state makes."""
  saved, _ = set_up(
    bench.workload,
    bench.params,
    bench.model_state,
    schedule_params,
    Records(None),
    bench.rng,
  )
  return saved


def measure_initialisation(bench: Bench) -> Figures:
  """The time of init_optimizer_state, with and without resets.

  Most of it is work that resets would otherwise have to wait for. Compilation
  caches are cleared before each call, as in a new process.
  """
  times: dict[str, list[float]] = {'soft': [], 'cyclic': []}
  for _ in range(5):
    for mode in times:
      params = dataclasses.replace(THESIS, reset_mode=mode)
      jax.clear_caches()
      times[mode].append(seconds(initial_state, bench, params))
  return {
    'init_optimizer_state': summary(times['soft'], 's'),
    'init_optimizer_state without resets': summary(times['cyclic'], 's'),
  }


def main() -> None:
  """Measures, prints and, if asked to, saves."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument('--out', type=pathlib.Path, help='JSON file to write')
  out = parser.parse_args().out
  bench = Bench()
  figures = {
    **measure_steps(bench),
    **measure_check(bench),
    **measure_evaluations(bench),
    **measure_resets(bench),
    **measure_initialisation(bench),
  }
  for name, row in figures.items():
    low, high = row['quartiles']
    print(
      f'{name:46} {row["median"]:9.3f} {row["unit"]:2} '
      f'(quartiles {low:.3f} to {high:.3f})'
    )
  if out is not None:
    text = json.dumps({'versions': versions(), 'figures': figures}, indent=2)
    files.write_whole(out, text + '\n')


if __name__ == '__main__':
  main()
