"""Trains the grid of tasks, lengths and shares, and AdamW beside it.

What was fixed before anything was run:

- The tasks of tasks.py; on `SHOWN_ONLY` nothing was to be chosen (PEAKS.md says
  where that was not kept). Lengths of 300, 1,500 and 6,000 steps, of 24,000 on
  the three cheapest tasks, and of 100,000 on two.
- Every run is one cycle: a warm-up over .02 of the steps, and a decay over the
  last tenth; AdamW has a cosine after the warm-up.
- The six shares of `SHARES` and the five peaks of `PEAKS`. One seed while
  choosing. A law is judged by the loss at the end, beside the best share's, and
  by the first test at which the loss is at most AdamW's last at its best peak.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ...core import forms
from ...loop import Cycles, State
from ...optimizers.peaks import SpectralPeak
from ...optimizers.step import Optimizer, RunStart, Step
from ...schedule_params import MUON
from .. import run_logs
from ..former import BEFORE_THE_LAW
from .tasks import FEW, TASKS, Task

LOG = pathlib.Path(__file__).with_name('runs.csv')
LENGTHS = {str(steps): steps for steps in (300, 1500, 6000, 24000, 100000)}
SHARES = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16)
PEAKS = (0.0003, 0.001, 0.003, 0.01, 0.03)
_TESTS = 30  # in a run
_WARM = 0.02  # share of the run


class Arm(NamedTuple):
  """What trains."""

  optimizer: Optimizer | None  # None: AdamW
  numbers: Sequence[float]  # shares, or peaks of AdamW
  # Steps of the longest run with the whole share; None: a run of any length.
  whole: float | None = None
  follows_epochs: bool = False  # whether the weight decay follows the epochs
  decay: float = 0.01  # weight decay of AdamW, times its rate
  is_chain: bool = False  # whether it is `Cycles`, as it is without settings


_PEAK: Any = MUON.relative_peak
_LAW = Arm(
  MUON.optimizer, (_PEAK.share,), whole=_PEAK.whole, follows_epochs=True
)
ARMS = {
  'share': Arm(BEFORE_THE_LAW.optimizer, SHARES),
  'law': _LAW,
  'law_without_epochs': _LAW._replace(follows_epochs=False),
  'chain': _LAW._replace(is_chain=True),
  'chain_without_epochs': _LAW._replace(follows_epochs=False, is_chain=True),
  'adamw': Arm(None, PEAKS),
  'adamw_decay_0.1': Arm(None, PEAKS, decay=0.1),
  'adamw_decay_1': Arm(None, PEAKS, decay=1.0),
  'adamw_decay_3': Arm(None, PEAKS, decay=3.0),
  'adamw_decay_10': Arm(None, PEAKS, decay=10.0),
}


class Run(NamedTuple):
  """A cell of the grid, with a seed."""

  task: str
  steps: int
  arm: str
  number: float
  seed: int


FIELDS = (*Run._fields, 'untrained', 'losses')


def rate_factor(passed: Any, *, is_cosine: bool) -> Any:
  """The rate over its peak, when a share of the steps has passed; traced."""
  warm = jnp.minimum(1.0, passed / _WARM)
  if is_cosine:
    rest = jnp.clip((passed - _WARM) / (1 - _WARM), 0, 1)
    return warm * 0.5 * (1 + jnp.cos(jnp.pi * rest))
  return warm * jnp.clip((1 - passed) / 0.1, 0, 1)


def forms_of(task: Task, params: Any) -> tuple[forms.Form, ...]:
  """What the parameters are; the task says which are tables."""
  return tuple(
    forms.TABLE
    if any(name in jax.tree_util.keystr(path) for name in task.tables)
    else forms.by_shape(leaf.shape)
    for path, leaf in jax.tree_util.tree_leaves_with_path(params)
  )


@functools.lru_cache(maxsize=1)
def _task(name: str, folder: pathlib.Path) -> Task:
  return {**TASKS, **FEW}[name](folder)


@functools.lru_cache(maxsize=4)
def _program(
  name: str, folder: pathlib.Path, arm: str
) -> tuple[Callable[[Any], Any], Callable[..., Any]]:
  """(init, train): compiled once for all lengths, numbers and seeds."""
  task, optimizer = _task(name, folder), ARMS[arm].optimizer
  shapes = jax.eval_shape(task.init, jax.random.PRNGKey(0))
  kinds = forms_of(task, shapes)

  def transformation(
    rate: Any, size: Any, epochs: Any = 1.0, taken: Any = 0
  ) -> optax.GradientTransformation:
    if optimizer is None:
      return optax.adamw(rate, weight_decay=ARMS[arm].decay)
    step = Step(rate, taken=taken, forms=kinds, size=size, decay_factor=epochs)
    return optimizer.build(step)

  def one_step(
    data: Any, key: Any, steps: Any, peak: Any, size: Any, epochs: Any
  ) -> Any:
    def body(i: Any, carry: Any) -> Any:
      params, state = carry
      batch = task.draw(data, jax.random.fold_in(key, i))
      at = params
      if optimizer is not None:
        at = optimizer.gradient_point(state, params)
      grads = jax.grad(task.loss)(at, batch)
      factor = rate_factor((i + 1) / steps, is_cosine=optimizer is None)
      step = transformation(peak * factor, size, epochs, i)
      updates, state = step.update(grads, state, params)
      return optax.apply_updates(params, updates), state

    return body

  def train(data: Any, carry: Any, key: Any, ends: Any, *numbers: Any) -> Any:
    body = one_step(data, key, *numbers)
    first, last = ends
    carry = jax.lax.fori_loop(first, last, body, carry)
    return carry, task.loss(carry[0], task.test)

  def init(key: Any) -> Any:
    params = task.init(key)
    return (params, transformation(0.0, 1.0).init(params)), task.loss(
      params, task.test
    )

  return jax.jit(init), jax.jit(train, donate_argnums=1)


def chain_losses_of(
  run: Run, folder: pathlib.Path
) -> tuple[float, list[float]]:
  """As `losses_of`, of `Cycles` in a loop."""
  task, key = _task(run.task, folder), jax.random.PRNGKey(run.seed)
  params = jax.jit(task.init)(key)
  leaves, _ = jax.tree_util.tree_flatten_with_path(params)
  paths = [jax.tree_util.keystr(path) for path, _ in leaves]
  follows_epochs = ARMS[run.arm].follows_epochs
  cycles = Cycles(
    num_steps=run.steps,
    steps_per_epoch=task.steps_per_epoch if follows_epochs else None,
    make_params=task.init,
    rises=False,
    matrices=dict(zip(paths, forms_of(task, params))).__getitem__,
  )

  @jax.jit
  def step(state: Any, data: Any, i: Any) -> Any:
    batch = task.draw(data, jax.random.fold_in(key, i))
    grads = jax.grad(task.loss)(state.params, batch)
    updates, after = cycles.optimizer.update(
      grads, state.opt_state, state.params
    )
    return State(optax.apply_updates(state.params, updates), after)

  test = jax.jit(task.loss)
  state = State(params, cycles.optimizer.init(params))
  untrained, losses = float(test(params, task.test)), []
  ends = set(np.linspace(0, run.steps, _TESTS + 1).astype(int).tolist())
  for i in range(run.steps):
    state, _ = cycles.before_step(i, state)
    state = step(state, task.data, i)
    if i + 1 in ends:
      loss = float(test(cycles.eval_params(state), task.test))
      state, _ = cycles.after_evaluation(i + 1, loss, loss, state)
      losses.append(loss)
  return untrained, losses


def losses_of(run: Run, folder: pathlib.Path) -> tuple[float, list[float]]:
  """The loss of the untrained model, and after each thirtieth of the run."""
  if ARMS[run.arm].is_chain:
    return chain_losses_of(run, folder)
  task = _task(run.task, folder)
  init, train = _program(run.task, folder, run.arm)
  key = jax.random.PRNGKey(run.seed)
  carry, untrained = init(key)
  peak, size, epochs, arm = run.number, 1.0, 1.0, ARMS[run.arm]
  if arm.optimizer is not None:
    steps = run.steps if arm.whole else None
    start = RunStart(carry[0], forms_of(task, carry[0]), steps)
    rule = SpectralPeak(run.number, arm.whole or 1.0)
    peak, size = rule.peak(start), arm.optimizer.size(start)
    if arm.follows_epochs and task.steps_per_epoch is not None:
      passes = run.steps / task.steps_per_epoch
      epochs = float(arm.optimizer.epochs_factor(passes, peak / size))
  ends = np.linspace(0, run.steps, _TESTS + 1).astype(int)
  losses = []
  for first, last in zip(ends[:-1], ends[1:]):
    of_run = key, (first, last), run.steps, peak, size, epochs
    carry, loss = train(task.data, carry, *of_run)
    losses.append(float(loss))
  return float(untrained), losses


def train(runs: Sequence[Run], folder: pathlib.Path, log: pathlib.Path) -> None:
  """Trains what the log lacks; each run adds a row as it ends."""
  run_logs.train_missing(log, FIELDS, runs, lambda run: losses_of(run, folder))
