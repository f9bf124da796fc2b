"""What the default brings without a rate, beside others at their best peak.

What was fixed before anything was run:

- The networks of networks.py, the arms and the peaks below; 30 tests in a run.
  The small networks have ten seeds at each peak. The larger ones have seed 0 at
  each peak; further seeds only where seed 0 ends best or arrives first.
- An arm with peaks is shown at its best one, by the median over the seeds: for
  the end by the metric at the end, for the steps by the steps to the target.
- The targets of the small networks are those of study.py. That of a larger one
  is what AdamW, at the peak with which it ends best, has at three quarters of
  its run, the median over the seeds; accuracy on cifar, the loss on the others.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ... import (
  SOFT_RESET,
  Cycles,
  State,
  schedule_free_eval_params,
  schedule_free_muon,
)
from ...loop.settings import MUON_LOOP
from .. import run_logs
from .networks import LARGER, NETWORKS, Network

LOG = pathlib.Path(__file__).with_name('without_rate.csv')
TESTS = 30  # in a run
_WARM = 0.02  # share of the run
PEAKS = (0.0003, 0.001, 0.003, 0.01, 0.03)
# Its step has a spectral norm of the rate, whatever the width.
MUON_PEAKS = (0.001, 0.003, 0.01, 0.03, 0.1)
NO_RATE = (0.0,)
ARMS: dict[str, Sequence[float]] = {
  'adamw': PEAKS,  # with one cosine
  'ours': NO_RATE,  # schedule_free_muon(num_steps=…)
  'ours_no_steps': NO_RATE,  # schedule_free_muon()
  'one_cycle': NO_RATE,  # the same, which falls over the last tenth
  'cycles': NO_RATE,  # Cycles()
  'schedule_free': PEAKS,  # AdamW, of optax
  'optax_muon': MUON_PEAKS,  # with one cosine
  'wsd': PEAKS,  # AdamW; falls over the last tenth
  'loop': PEAKS,  # Cycles(optimizer=optax.adamw)
}
_IN_CYCLES = ('one_cycle', 'cycles', 'loop')
_TABLES = ('embedding', 'position')  # parameters that are no matrices
# AdamW's, as `LOOP` gives it; and optax's Muon's.
_DECAY = getattr(SOFT_RESET.optimizer, 'weight_decay', 0.0)
_MUON_DECAY = 0.02


class Run(NamedTuple):
  """A cell with a seed."""

  network: str
  arm: str
  number: float
  seed: int


FIELDS = (*Run._fields, 'untrained', 'losses', 'accuracies')


def _of_muon(params: Any) -> Any:
  """For optax's Muon: the axes of matrices and kernels; None of the rest."""

  def axes(path: Any, leaf: Any) -> Any:
    is_table = any(name in jax.tree_util.keystr(path) for name in _TABLES)
    if is_table or jnp.ndim(leaf) < 2:
      return None
    last = jnp.ndim(leaf) - 1
    numbers: Any = optax.contrib.MuonDimensionNumbers
    return numbers(tuple(range(last)), (last,))

  return jax.tree_util.tree_map_with_path(axes, params)


def _loss_fn(network: Network) -> Callable[[Any], Any]:
  """Tells schedule_free_muon and Cycles what the parameters are."""
  return lambda params: network.scores(params, network.test)[0]


def cosine(steps: int) -> optax.Schedule:
  """The rate over its peak: a warm-up, then half a cosine."""
  warm = round(_WARM * steps)
  return optax.warmup_cosine_decay_schedule(0.0, 1.0, warm, steps)


def falling(steps: int) -> optax.Schedule:
  """The rate over its peak: a warm-up, then 1, then down in the last tenth."""
  warm = round(_WARM * steps)
  tenth = round(0.1 * (steps - warm))
  rises = optax.linear_schedule(0.0, 1.0, warm)
  falls = optax.linear_schedule(1.0, 0.0, tenth)
  flat = optax.constant_schedule(1.0)
  return optax.join_schedules([rises, flat, falls], [warm, steps - tenth])


def transformation(arm: str, number: Any, network: Network) -> Any:
  """The arm as a transformation of optax.

  Args:
    number: the peak, which may be traced.
    network: that is trained.
  """
  steps, loss_fn = network.steps, _loss_fn(network)
  if arm == 'ours':
    return schedule_free_muon(num_steps=steps, loss_fn=loss_fn)
  if arm == 'ours_no_steps':
    return schedule_free_muon(loss_fn=loss_fn)
  if arm == 'schedule_free':
    return optax.contrib.schedule_free_adamw(
      number, warmup_steps=round(_WARM * steps), weight_decay=_DECAY
    )
  shape = falling(steps) if arm == 'wsd' else cosine(steps)
  if arm == 'optax_muon':
    return optax.contrib.muon(
      lambda step: number * shape(step),
      weight_decay=_MUON_DECAY,
      adam_weight_decay=_MUON_DECAY,
      muon_weight_dimension_numbers=_of_muon,
    )
  return optax.adamw(lambda step: number * shape(step), weight_decay=_DECAY)


def cycles_of(network: Network, arm: str, number: float) -> Cycles:
  """The arm's cycles; nothing in them replaces a finite model."""
  settings = {'loop': None, 'cycles': None}.get(arm)
  if arm == 'one_cycle':
    last = dataclasses.replace(MUON_LOOP.cycles[-1], length=1.0)
    settings = dataclasses.replace(MUON_LOOP, cycles=(last,))
  is_loop = arm == 'loop'
  return Cycles(
    settings,
    num_steps=network.steps,
    make_params=network.init,
    optimizer=optax.adamw if is_loop else None,
    peak=number if is_loop else None,
    loss_fn=None if is_loop else _loss_fn(network),
  )


def one_step(
  network: Network, of_number: Callable[[Any], Any]
) -> Callable[..., State]:
  """(data, state, key, step, number) -> the state after the step."""

  def step(data: Any, state: State, key: Any, i: Any, number: Any) -> State:
    batch = network.draw(data, jax.random.fold_in(key, i))
    loss = lambda params: network.scores(params, batch)[0]
    grads = jax.grad(loss)(state.params)
    update = of_number(number).update
    updates, opt = update(grads, state.opt_state, state.params)
    return State(optax.apply_updates(state.params, updates), opt)

  return step


def _steps(
  network: Network, of_number: Callable[[Any], Any]
) -> Callable[..., State]:
  """(state, key, first step, last step, number) -> state; compiled once."""
  step = one_step(network, of_number)

  def run(
    data: Any, state: State, key: Any, first: Any, last: Any, number: Any
  ) -> State:
    body = lambda i, state: step(data, state, key, i, number)
    return jax.lax.fori_loop(first, last, body, state)

  one, many = jax.jit(step), jax.jit(run)

  def steps(
    state: State, key: Any, first: int, last: int, number: float
  ) -> State:
    if network.is_small:
      return many(network.data, state, key, first, last, number)
    # In a compiled loop, XLA's convolutions take three times as long on a CPU.
    for i in range(first, last):
      state = one(network.data, state, key, i, number)
    return state

  return steps


@functools.lru_cache(maxsize=1)
def network_of(name: str, folder: pathlib.Path) -> Network:
  """A network and its data, which are read once."""
  return NETWORKS[name](folder)


@functools.lru_cache(maxsize=16)
def _program(
  name: str, folder: pathlib.Path, arm: str, number: float | None
) -> tuple[Any, Any, Any, Any]:
  """(cycles, transformation, steps, evaluate) of an arm.

  Args:
    number: of cycles, which are compiled for each; None for other arms.
  """
  network = network_of(name, folder)
  test = jax.tree_util.tree_map(jnp.asarray, network.test)
  if number is not None:
    cycles = cycles_of(network, arm, number)
    steps = _steps(network, lambda _: cycles.optimizer)
    evaluate = lambda state: network.scores(cycles.eval_params(state), test)
    return cycles, lambda _: cycles.optimizer, steps, jax.jit(evaluate)
  build = lambda number: transformation(arm, number, network)
  has_average = arm.startswith('ours') or arm == 'schedule_free'

  def evaluated(state: State) -> tuple[Any, Any]:
    params = state.params
    if has_average:
      params = schedule_free_eval_params(state.opt_state, params)
    return network.scores(params, test)

  return None, build, _steps(network, build), jax.jit(evaluated)


Curves = tuple[float, list[float], list[float]]


def curves_of(run: Run, folder: pathlib.Path) -> Curves:
  """(untrained loss, losses, accuracies), after each thirtieth of the run."""
  network = network_of(run.network, folder)
  number = run.number if run.arm in _IN_CYCLES else None
  cycles, build, steps, evaluate = _program(
    run.network, folder, run.arm, number
  )
  of_batches = jax.random.PRNGKey(run.seed)
  params = network.init(jax.random.PRNGKey(1000 + run.seed))
  state = State(params, build(run.number).init(params))
  untrained = float(evaluate(state)[0])
  found = []
  ends = np.linspace(0, network.steps, TESTS + 1).astype(int)
  for first, last in zip(ends[:-1], ends[1:]):
    now = int(first)
    while now < last:
      until = int(last)
      if cycles is not None:
        state, _ = cycles.before_step(now, state)
        until = min(until, now + cycles.steps_until_due(now))
      state = steps(state, of_batches, now, until, run.number)
      now = until
    loss, accuracy = map(float, evaluate(state))
    found.append((loss, accuracy))
    if cycles is not None:
      state, _ = cycles.after_evaluation(now, loss, -loss, state)
  losses, accuracies = map(list, zip(*found))
  return untrained, losses, accuracies


def runs_of(
  names: Iterable[str], arms: Sequence[str], seeds: Sequence[int]
) -> list[Run]:
  """All cells, a network after the other, its seeds in turn."""
  return [
    Run(name, arm, number, seed)
    for name in names
    for seed in seeds
    for arm in arms
    for number in ARMS[arm]
  ]


def train(runs: Sequence[Run], folder: pathlib.Path, log: pathlib.Path) -> None:
  """Trains what the log lacks; each run adds a row as it ends.

  A further seed of a larger network is only trained at the numbers that are
  best with seed 0, which has to be there.
  """
  from . import rate_tables

  def is_wanted(run: Run, rows: run_logs.Rows) -> bool:
    is_further = run.network in LARGER and run.seed > 0
    return not is_further or run.number in rate_tables.best_of_seed_0(rows, run)

  curves = lambda run: curves_of(run, folder)
  run_logs.train_missing(log, FIELDS, runs, curves, is_wanted)
