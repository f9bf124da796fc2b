"""Target setting: what tuned AdamW reaches in three quarters of the steps.

The benchmark's method in small: search AdamW's hyperparameters, train the best
point again with fresh seeds, take the median of the final metrics. AdamW has a
linear warm-up and a cosine decay over 0.75 of the workload's step hint. The
search space is the benchmark's, with beta2, warm-up and dropout fixed. The
benchmark takes 200 trials and, for the test split, the worst of the runs that
reached the validation target.
"""

from __future__ import annotations

import copy
import os
import shlex
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from scipy.stats import qmc
from tqdm import tqdm

from . import files, metadata, spec
from .trial import CountedQueue
from .workloads import MiniWorkload, from_file, get_workload
from .workloads.base import read_targets

WARMUP_SHARE = 0.05
BETA2 = 0.999
_STEP_SHARE = 0.75
NUM_TRIALS, NUM_SEEDS = 20, 20
# Lowest and highest value of the fields of `Point`, searched on a log scale.
SEARCH_SPACE = {
  'learning_rate': (1e-4, 1e-2),
  'one_minus_beta1': (2e-2, 0.5),
  'weight_decay': (5e-3, 1.0),
}
# The trials' common seed; the repeated runs take the seeds after it.
_TRIAL_SEED = 0
# What a step moves forward: parameters, model state, optimizer state.
TrainedState = tuple[Any, Any, Any]
Result = dict[str, float]  # the target metric after a run's last step, by split
_SPLITS = ('validation', 'test')


class Point(NamedTuple):
  """One choice of AdamW's hyperparameters; beta2 is fixed."""

  learning_rate: float
  one_minus_beta1: float
  weight_decay: float


def _adamw(
  point: Point, factor: float | jax.Array
) -> optax.GradientTransformation:
  return optax.adamw(
    point.learning_rate * factor,
    b1=1.0 - point.one_minus_beta1,
    b2=BETA2,
    weight_decay=point.weight_decay,
  )


class Trainer:
  """Trains one workload of the jit generation again and again, compiled once.

  A run has `num_steps`, the length of the learning rate's warm-up and decay.
  """

  def __init__(
    self, workload: MiniWorkload, num_steps: int, data_dir: str | None
  ) -> None:
    self._workload, self._data_dir = workload, data_dir
    self._compiled = jax.jit(self._step)
    self._init_optimizer = jax.jit(
      lambda point, params: _adamw(point, 0.0).init(params)
    )
    self._set_length(num_steps)

  def _set_length(self, num_steps: int) -> None:
    # Of height 1, to be multiplied by the rate.
    shape = optax.warmup_cosine_decay_schedule(
      0.0, 1.0, max(int(WARMUP_SHARE * num_steps), 1), num_steps
    )
    self._num_steps = num_steps
    self._factors = np.asarray(shape(np.arange(num_steps)), np.float32)

  def of_length(self, num_steps: int) -> Trainer:
    """The same compiled step, for runs of another length."""
    other = copy.copy(self)
    other._set_length(num_steps)
    return other

  def _step(
    self,
    state: TrainedState,
    batch: spec.Batch,
    rng: spec.RandomState,
    point: Point,
    count: jax.Array,
    factor: jax.Array,
  ) -> TrainedState:
    params, model_state, optimizer_state = state
    workload = self._workload

    def loss_fn(params: Any) -> tuple[jax.Array, Any]:
      key, mode = jax.random.fold_in(rng, count), spec.ForwardPassMode.TRAIN
      logits, new_state = workload.model_fn(
        params, batch, model_state, mode, key, True
      )
      loss = workload.loss_fn(batch['targets'], logits, batch.get('weights'))
      return loss['summed'] / loss['n_valid_examples'], new_state

    gradient, model_state = jax.grad(loss_fn, has_aux=True)(params)
    updates, optimizer_state = _adamw(point, factor).update(
      gradient, optimizer_state, params
    )
    params = optax.apply_updates(params, updates)
    return params, model_state, optimizer_state

  def __call__(self, point: Point, seed: int, bar: tqdm) -> Result:
    """Trains from scratch and evaluates once, at the end."""
    params, model_state, _ = self.train(point, seed, bar.update)
    workload = self._workload
    size, key = workload.eval_batch_size, jax.random.PRNGKey(seed)
    rest = (key, self._data_dir, None, self._num_steps)
    metrics = workload.eval_model(size, params, model_state, *rest)
    name = workload.target_metric_name
    return {split: metrics[f'{split}/{name}'] for split in _SPLITS}

  def train(
    self, point: Point, seed: int, on_step: Callable[[], object] = lambda: None
  ) -> TrainedState:
    """Trains from scratch; on_step is called after every step."""
    init_rng, data_rng, step_rng = jax.random.split(jax.random.PRNGKey(seed), 3)
    params, model_state = self._workload.init_model_fn(init_rng)
    state = params, model_state, self._init_optimizer(point, params)
    # The count is placed as well; else the second step is compiled anew.
    everywhere = jax.tree_util.tree_leaves(params)[0].sharding
    state = jax.device_put(state, everywhere)
    size = self._workload.default_batch_size
    queue = CountedQueue(
      self._workload._build_input_queue(data_rng, 'train', self._data_dir, size)
    )
    for count, factor in enumerate(self._factors):
      batch = next(queue)
      state = self._compiled(state, batch, step_rng, point, count, factor)
      on_step()
    return state


def search_points(num_trials: int) -> list[Point]:
  """Points of the unscrambled Halton sequence, log-scaled to the space."""
  halton = qmc.Halton(d=len(SEARCH_SPACE), scramble=False)
  halton.fast_forward(1)  # Its first point is the space's lower corner.
  low, high = np.log(list(SEARCH_SPACE.values())).T
  unit = halton.random(num_trials)
  return [Point(*map(float, row)) for row in np.exp(low + unit * (high - low))]


class Search(NamedTuple):
  """A search for a workload's targets; see `plan_search`."""

  workload: MiniWorkload
  num_trials: int
  num_seeds: int
  num_steps: int
  data_dir: str | None
  command: str


def plan_search(
  workload_name: str,
  num_trials: int = NUM_TRIALS,
  num_seeds: int = NUM_SEEDS,
  num_steps: int | None = None,
  data_dir: str | None = None,
) -> Search:
  """Checks everything that a search needs, before hours of training.

  It tries num_trials points and repeats the best one num_seeds times. Without
  num_steps a run has 0.75 of the workload's step hint. ValueError for an
  unknown workload, or targets that cannot be written.
  """
  workload = get_workload(workload_name)
  steps = num_steps or int(_STEP_SHARE * workload.step_hint)
  path = files.check_file(workload.targets_file)
  read_targets(path)
  if not os.access(path.parent, os.W_OK):
    raise ValueError(f'{path}: its folder cannot be written to.')
  command = f'reset-cycles set-targets --workload={workload_name}'
  command += (
    f' --data_dir={shlex.quote(str(data_dir))}' if data_dir is not None else ''
  )
  if from_file.is_file(workload_name):
    from_file.rehearse(workload, workload.default_batch_size, data_dir)
  return Search(workload, num_trials, num_seeds, steps, data_dir, command)


def set_targets(search: Search, progress: bool = True) -> dict[str, Any]:
  """Tunes AdamW, repeats the best point, writes the medians; returns the entry.

  Raises:
    ValueError: if no trial, or no majority of the repeated runs, ended with a
      number.
  """
  workload, steps = search.workload, search.num_steps
  train = Trainer(workload, steps, search.data_dir)
  seeds = range(_TRIAL_SEED + 1, _TRIAL_SEED + 1 + search.num_seeds)
  trials, results = [], []
  with tqdm(
    total=(search.num_trials + search.num_seeds) * steps,
    unit='step',
    disable=not progress,
  ) as bar:
    for number, point in enumerate(search_points(search.num_trials), start=1):
      bar.set_description(f'trial {number}/{search.num_trials}')
      trials.append((point, train(point, _TRIAL_SEED, bar)))
    best = best_point(workload, trials)
    for number, seed in enumerate(seeds, start=1):
      bar.set_description(f'seed {number}/{search.num_seeds}')
      results.append(train(best, seed, bar))
  medians = {
    split: median(workload, [result[split] for result in results])
    for split in _SPLITS
  }
  entry = {
    'metric': workload.target_metric_name,
    **{f'{split}_target': value for split, value in medians.items()},
    'hyperparameters': {**best._asdict(), 'beta2': BETA2},
    'warmup_share': WARMUP_SHARE,
    'num_steps': steps,
    'step_hint': workload.step_hint,
    'batch_size': workload.default_batch_size,
    'seeds': [
      {'seed': seed, **{k: _or_none(v) for k, v in result.items()}}
      for seed, result in zip(seeds, results)
    ],
    'versions': metadata.versions(),
    'command': search.command,
  }
  path = workload.targets_file
  entries = {**read_targets(path), workload.name: entry}
  files.write_json(path, {'workloads': dict(sorted(entries.items()))})
  return entry


def best_point(
  workload: MiniWorkload, trials: list[tuple[Point, Result]]
) -> Point:
  """The point with the best metric; ValueError without a finite one."""
  finite = [trial for trial in trials if np.isfinite(trial[1]['validation'])]
  if not finite:
    raise ValueError(
      f'{workload.name}: none of the {len(trials)} trials ended with a finite '
      'metric.'
    )
  choose = max if workload.metric_rises else min
  return choose(finite, key=lambda trial: trial[1]['validation'])[0]


def median(workload: MiniWorkload, values: list[float]) -> float:
  """The median; a value that is not finite counts as the worst possible value.

  ValueError if half of the values are not finite."""
  # Finite, so that the mean of two is exact.
  worst = -1e300 if workload.metric_rises else 1e300
  result = float(np.median(np.where(np.isfinite(values), values, worst)))
  if abs(result) > 1e298:
    raise ValueError(
      f'{workload.name}: half of the runs ended without a finite metric.'
    )
  return result


def _or_none(value: float) -> float | None:
  """None in place of a value that is not finite, for which JSON has no word."""
  return float(value) if np.isfinite(value) else None
