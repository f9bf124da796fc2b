"""Trains on old data, lets them grow, and goes on in fourteen ways.

What was fixed before anything was run:

- Selection: images and characters, seeds 0 to 9. On these tau is chosen. Held
  out: images_norm and molecules, seeds 10 to 19. Nothing is chosen on them. The
  peak of each task was the best of .001, .003, .01, .03 and .06 for a fresh
  model on all data, seeds 100 to 104, before any other way was run.
- A new stage has 360 steps on images and 180 on the other tasks, those of a
  stream half as many; all ways of a seed see the same batches, and the same
  fresh model. Up to when images had been trained, and none of its figures
  looked at, all were to have 360; the time did not suffice.
- The target of a stage is the median of the fresh models' last metrics over the
  ten seeds: about half of the fresh models reach it.
- The cost of a run is its steps to the target over the stage's steps; 2 if the
  target is never reached. The tau that is chosen is the one of .1, .2, .4, .6
  and .8 with the least geometric mean of the costs over all conditions and
  seeds of the selection; in streams the last stage counts.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ...core.chain import jax_lr_schedule
from ...core.evaluation import Evaluation, Target, Way
from ...core.schedules import Cycle
from ...soft_reset import FULL, ResetPlan, SoftReset, blend
from .. import run_logs
from .tasks import TASKS, Task

SELECTION, HELD_OUT = ('images', 'characters'), ('images_norm', 'molecules')
SEEDS = dict.fromkeys(SELECTION, range(10)) | dict.fromkeys(
  HELD_OUT, range(10, 20)
)
TAUS = (0.1, 0.2, 0.4, 0.6, 0.8)
FIELDS = ('task', 'condition', 'arm', 'part', 'seed', 'tau', 'metrics')
_PARTS = 5  # of a stream
_WRONG = 0.4  # share of the old labels that are wrong
# Ash and Adams 2020, from the example of their code: .4 of the old model and .1
# of a new initialisation; their optimizer begins anew.
_SHRINK, _PERTURB = 0.4, 0.1
_ADAM = optax.scale_by_adam(b1=0.9, b2=0.999)
_WEIGHT_DECAY = 0.01


Rows = list[dict[str, Any]]
# Of a stage: its number, the taus that it began with, the metrics of all seeds.
Stage = tuple[int, Sequence[float], np.ndarray]


class Growth(NamedTuple):
  """How the data grow."""

  old_share: float = 1.0  # of the new data
  old_steps: float = 0.5  # of those of a stage
  is_wrong: bool = False  # whether some of the old labels are wrong
  is_stream: bool = False  # five parts instead of two
  is_permuted: bool = False  # whether each part has its own names of classes


CONDITIONS = {
  '10 %, short': Growth(0.1, 0.5),
  '10 %, long': Growth(0.1, 3.0),
  '50 %, short': Growth(0.5, 0.5),
  '50 %, long': Growth(0.5, 3.0),
  'wrong labels': Growth(0.5, 3.0, is_wrong=True),
  'stream': Growth(is_stream=True),
  'permuted labels': Growth(is_stream=True, is_permuted=True),
}


class Arm(NamedTuple):
  """How the old model goes on."""

  tau: float | str = 0.0  # or 'distance': by the thesis' way to the target
  is_anew: bool = False  # whether the optimizer begins anew
  shrinks: bool = False  # shrink and perturb
  cycles: int = 1
  resets_between: bool = False  # soft resets by distance between the cycles


ARMS = {
  'fresh': Arm(1.0, is_anew=True),
  'go on': Arm(),
  'go on, new optimizer': Arm(is_anew=True),
  'shrink and perturb': Arm(shrinks=True, is_anew=True),
  **{f'soft {tau}': Arm(tau) for tau in TAUS},
  'soft distance': Arm('distance'),
  'fresh, chain': Arm(1.0, is_anew=True, cycles=3),
  'go on, chain': Arm(cycles=3),
  'soft 0.4, chain': Arm(0.4, cycles=3),
  'soft distance, chain': Arm('distance', cycles=3, resets_between=True),
}


class Models(NamedTuple):
  """The models of all seeds; leading axis: the seeds."""

  params: Any
  stats: Any
  adam: Any


@dataclasses.dataclass(frozen=True)
class StageData:
  """The data of one stage; leading axis: the seeds."""

  steps: int
  chosen: np.ndarray  # indices of the examples at hand
  labels: np.ndarray  # of all examples
  test_labels: np.ndarray


class Compiled:
  """What a task needs, compiled once for all conditions, arms and seeds."""

  def __init__(self, task: Task) -> None:
    self.task = task
    inputs, test = (jnp.asarray(part[0]) for part in (task.train, task.test))

    def init(key: jax.Array) -> Models:
      params, stats = task.init(key)
      return Models(params, stats, _ADAM.init(params))

    def chunk(models: Models, labels: Any, indices: Any, rates: Any) -> Models:
      def loss(params: Any, stats: Any, x: Any, y: Any) -> tuple[Any, Any]:
        outputs, stats = task.apply(params, stats, x, True)
        return task.loss(outputs, y), stats

      def step(models: Models, xs: Any) -> tuple[Models, None]:
        index, rate = xs
        params, stats, adam = models
        grads, stats = jax.grad(loss, has_aux=True)(
          params, stats, inputs[index], labels[index]
        )
        moves, adam = _ADAM.update(grads, adam, params)
        params = jax.tree_util.tree_map(
          lambda p, m: p - rate * (m + _WEIGHT_DECAY * p), params, moves
        )
        return Models(params, stats, adam), None

      return jax.lax.scan(step, models, (indices, rates))[0]

    def metric(models: Models, labels: Any) -> jax.Array:
      outputs, _ = task.apply(models.params, models.stats, test, False)
      return task.metric(outputs, labels)

    self.fresh = jax.jit(jax.vmap(init))
    self.chunk = jax.jit(jax.vmap(chunk, (0, 0, 0, None)), donate_argnums=0)
    self.metric = jax.jit(jax.vmap(metric))
    self.reset = jax.jit(jax.vmap(_reset))


def _reset(old: Models, new: Models, plan: jax.Array) -> Models:
  """The blend of `engine.model_reset` for Adam; plan: a ResetPlan's numbers."""
  tau, keep, keeps_counts = plan
  mix = lambda a, b: blend(a, b, 1 - tau, tau)
  moment = lambda a, b: blend(a, b, keep, 1 - keep)
  tree_map = jax.tree_util.tree_map
  adam = new.adam._replace(
    count=jnp.where(keeps_counts > 0, old.adam.count, new.adam.count),
    mu=tree_map(moment, old.adam.mu, new.adam.mu),
    nu=tree_map(moment, old.adam.nu, new.adam.nu),
  )
  params = tree_map(mix, old.params, new.params)
  return Models(params, tree_map(mix, old.stats, new.stats), adam)


def order_of(
  seed: int, number: int, chosen: np.ndarray, count: int
) -> np.ndarray:
  """`count` examples in random order, all of `chosen` equally often."""
  rng = np.random.default_rng((44, seed, number))
  rounds = -(-count // len(chosen))
  return np.concatenate([rng.permutation(chosen) for _ in range(rounds)])[
    :count
  ]


def parts_of(
  task: Task, condition: Growth, seeds: Sequence[int]
) -> list[StageData]:
  """The data of the stages, the first one's included."""
  if condition.is_permuted:
    return _permuted_parts(task, seeds)
  labels, test = (_for_each(part[1], seeds) for part in (task.train, task.test))
  if condition.is_stream:
    return [
      StageData(
        *(task.steps // 2, _share(task, (i + 1) / _PARTS, seeds)), labels, test
      )
      for i in range(_PARTS)
    ]
  return [
    StageData(
      round(condition.old_steps * task.steps),
      _share(task, condition.old_share, seeds),
      _wrong_labels(task, seeds) if condition.is_wrong else labels,
      test,
    ),
    StageData(task.steps, _share(task, 1.0, seeds), labels, test),
  ]


def _for_each(array: np.ndarray, seeds: Sequence[int]) -> np.ndarray:
  return np.stack([array] * len(seeds))


def _share(task: Task, share: float, seeds: Sequence[int]) -> np.ndarray:
  """The examples at hand: of a larger share those of a smaller, and more."""
  count = len(task.train[1])
  orders = [np.random.default_rng((4, s)).permutation(count) for s in seeds]
  return np.stack([order[: round(share * count)] for order in orders])


def _permuted_parts(task: Task, seeds: Sequence[int]) -> list[StageData]:
  """A stream of all examples, each part with its own names of the classes."""

  def renamed(labels: np.ndarray, part: int) -> np.ndarray:
    orders = [
      np.random.default_rng((5, seed, part)).permutation(task.num_classes)
      for seed in seeds
    ]
    if task.has_columns:
      return np.stack([labels[:, order] for order in orders])
    return np.stack([order[labels] for order in orders])

  return [
    StageData(
      task.steps // 2,
      _share(task, 1.0, seeds),
      *(renamed(labels, part) for labels in (task.train[1], task.test[1])),
    )
    for part in range(_PARTS)
  ]


def _wrong_labels(task: Task, seeds: Sequence[int]) -> np.ndarray:
  """The labels of the training data, some of them wrong."""
  labels = _for_each(task.train[1], seeds)
  for row, seed in zip(labels, seeds):
    rng = np.random.default_rng((6, seed))
    if task.has_columns:  # the labels of another molecule
      is_wrong = rng.random(len(row)) < _WRONG
      row[is_wrong] = row[rng.permutation(np.flatnonzero(is_wrong))]
    else:
      others = rng.integers(0, task.num_classes, row.shape)
      row[:] = np.where(rng.random(row.shape) < _WRONG, others, row)
  return labels


def stage(
  programs: Compiled,
  models: Models,
  part: StageData,
  number: int,
  seeds: Sequence[int],
  cycles: int = 1,
  between: Callable[[Models, np.ndarray, int], Models] | None = None,
) -> tuple[Models, np.ndarray]:
  """Trains one stage.

  Returns:
    The models, and the metrics before the first step and at each evaluation, of
    shape (seeds, evaluations).
  """
  task = programs.task
  chain = jax_lr_schedule(
    part.steps, (Cycle(task.peak, warmup_factor=0.05),) * cycles, 1.0
  )
  rates = np.asarray(chain(np.arange(part.steps)))
  count = part.steps * task.batch
  indices = np.stack(
    [
      order_of(seed, number, chosen, count)
      for seed, chosen in zip(seeds, part.chosen)
    ]
  ).reshape(len(seeds), part.steps, task.batch)
  labels, test = jnp.asarray(part.labels), jnp.asarray(part.test_labels)
  metrics = [np.asarray(programs.metric(models, test))]
  for start in range(0, part.steps, task.every):
    if between is not None and start in chain.reinit_steps:
      models = between(models, metrics[-1], start)
    now = slice(start, start + task.every)
    models = programs.chunk(models, labels, indices[:, now], rates[now])
    metrics.append(np.asarray(programs.metric(models, test)))
  return models, np.stack(metrics, axis=1)


def blended(
  programs: Compiled, old: Models, new: Models, plans: Sequence[ResetPlan]
) -> Models:
  """The models after a reset, each seed's by its own plan."""
  return programs.reset(old, new, jnp.asarray(plans, jnp.float32))


def begun(
  programs: Compiled,
  arm: Arm,
  old: Models,
  new: Models,
  taus: Sequence[float],
) -> Models:
  """The models with which a stage begins."""
  if arm.shrinks:
    mix = lambda a, b: _SHRINK * a + _PERTURB * b
    params = jax.tree_util.tree_map(mix, old.params, new.params)
    return Models(params, old.stats, new.adam)
  plans = [SoftReset(alpha=0.5).plan(tau) for tau in taus]
  if arm.is_anew:
    plans = [
      plan._replace(keep_moments=0.0, keep_counts=False) for plan in plans
    ]
  if arm.tau == 1.0:
    plans = [FULL for _ in taus]
  return blended(programs, old, new, plans)


def distances(
  task: Task,
  goal: float,
  metrics: np.ndarray,
  firsts: np.ndarray,
  step: int = 0,
  end: int = 1,
) -> list[float]:
  """The thesis' tau of each seed's metric."""
  target = Target('metric', goal, task.rises)
  reset = SoftReset(alpha=0.5, scale='log', fade=0.0)
  of: Callable[..., Any] = lambda value: Evaluation(1, 0.0, float(value))
  return [
    reset.tau(Way(of(metric), of(first), target, step, end))
    for metric, first in zip(metrics, firsts)
  ]


def train_arm(
  programs: Compiled,
  arm: Arm,
  parts: Sequence[StageData],
  old: Models,
  seeds: Sequence[int],
  goals: Sequence[float],
  fresh: Callable[[int], Models],
) -> Iterator[Stage]:
  """The stages after the first, one by one."""
  task = programs.task
  models = jax.tree_util.tree_map(jnp.copy, old)
  for number, part in enumerate(parts[1:], 1):
    new, test = fresh(number), jnp.asarray(part.test_labels)
    firsts = np.asarray(programs.metric(new, test))
    if arm.tau == 'distance':
      now = np.asarray(programs.metric(models, test))
      taus = distances(task, goals[number - 1], now, firsts)
    else:
      taus = [float(arm.tau)] * len(seeds)
    models = begun(programs, arm, models, new, taus)
    goal = goals[number - 1] if goals else 0.0
    between = functools.partial(_between, programs, fresh, number, goal, firsts)
    models, metrics = stage(
      *(programs, models, part, number, seeds, arm.cycles),
      between if arm.resets_between else None,
    )
    yield number, taus, metrics


def _between(
  programs: Compiled,
  fresh: Callable[[int], Models],
  number: int,
  goal: float,
  firsts: np.ndarray,
  models: Models,
  metrics: np.ndarray,
  step: int,
) -> Models:
  """The soft reset before a further cycle of a stage."""
  task = programs.task
  taus = distances(task, goal, metrics, firsts, step, task.steps)
  plans = [SoftReset(alpha=0.5).plan(tau) for tau in taus]
  return blended(programs, models, fresh(100 * number + step), plans)


def read(path: pathlib.Path) -> Rows:
  """The rows of a log; empty without a file, ValueError for another table."""
  rows: Rows = [*run_logs.read(path, FIELDS)]
  for row in rows:
    row |= {'part': int(row['part']), 'seed': int(row['seed'])}
    row['metrics'] = np.array([*map(float, row['metrics'].split())])
  return rows


def goals_of(rows: Rows, task: str, condition: str) -> list[float]:
  """The target of each stage: the median of the fresh models' last metrics."""
  ends: dict[int, list[float]] = {}
  for row in rows:
    if (row['task'], row['condition'], row['arm']) == (
      task,
      condition,
      'fresh',
    ):
      ends.setdefault(row['part'], []).append(row['metrics'][-1])
  return [float(np.median(values)) for _, values in sorted(ends.items())]


def arms_of(condition: Growth) -> list[str]:
  """Chains are for the conditions of two parts."""
  return [
    name
    for name, arm in ARMS.items()
    if arm.cycles == 1 or not condition.is_stream
  ]


def train(tasks: Sequence[str], path: pathlib.Path) -> None:
  """Trains what the log lacks."""
  for name in tasks:
    programs, seeds = Compiled(TASKS[name]()), SEEDS[name]
    for title, condition in CONDITIONS.items():
      rows = read(path)
      done = {(r['task'], r['condition'], r['arm']) for r in rows}
      wanted = arms_of(condition)
      missing = [arm for arm in wanted if (name, title, arm) not in done]
      if not missing:
        continue
      began = time.monotonic()
      fresh = functools.partial(_fresh, programs, seeds)
      parts = parts_of(programs.task, condition, seeds)
      old, metrics = stage(programs, fresh(0), parts[0], 0, seeds)
      if (name, title, 'old') not in done:
        first: Stage = 0, [1.0] * len(seeds), metrics
        _append(path, name, title, 'old', seeds, [first])
      for arm in missing:
        goals = goals_of(read(path), name, title)
        stages = train_arm(programs, ARMS[arm], parts, old, seeds, goals, fresh)
        _append(path, name, title, arm, seeds, stages)
      print(f'{name}, {title}: {time.monotonic() - began:.0f} s', flush=True)


def _fresh(programs: Compiled, seeds: Sequence[int], number: int) -> Models:
  base = [jax.random.PRNGKey(seed) for seed in seeds]
  keys = [jax.random.fold_in(key, number) for key in base]
  return programs.fresh(jnp.stack(keys))


def _append(
  path: pathlib.Path,
  task: str,
  condition: str,
  arm: str,
  seeds: Sequence[int],
  stages: Iterable[Stage],
) -> None:
  rows = [
    (
      *(task, condition, arm, part, seed, f'{tau:.3g}'),
      ' '.join(f'{value:.5g}' for value in row),
    )
    for part, taus, metrics in stages
    for seed, tau, row in zip(seeds, taus, metrics)
  ]
  run_logs.append(path, FIELDS, rows)
