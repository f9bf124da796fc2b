"""Averages of the weights: snapshots, and weights handed out for evaluations.

The package `averaging` says when and what to average. Besides the trained
weights, one more tree of their shapes lies on the devices, the slot. It holds a
running average or the last snapshot on its way to the host; while other weights
are handed out for an evaluation, it holds the trained ones. A checkpoint that
is written then has both.

A window of snapshots lies on the host. A preemption loses it, and the raw
weights are evaluated until it is full again. A running average, and what the
choice between raw and averaged weights depends on, are saved.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..averaging.average import Plan, is_snapshot, next_snapshot, weight
from ..averaging.choosing import (
  AVERAGED,
  RAW,
  Choosing,
  begin_cycle,
  observe,
  wanted,
)
from ..control.state import NEVER, Control, from_words, to_words
from . import averaging_window
from .averaging_window import Window
from .compiled_ops import CompiledOps
from .resetting import Model

# What is handed out in place of the trained weights.
NOTHING, OWN, AVERAGE = 0, 1, 2


class AveragedState(NamedTuple):
  """The half that is saved: arrays on the devices.

  Attributes:
    slot: tree of the parameters' shapes; see above.
    words: shape=(words,), dtype=int32: the `Books`; see control.state.to_words.
    out: shape=(), dtype=int32: NOTHING, OWN (the optimizer's own weights for
      evaluations) or AVERAGE; unless it is NOTHING, slot has the trained ones.
  """

  slot: Any
  words: jax.Array
  out: jax.Array


class Books(NamedTuple):
  """The numbers that are saved."""

  count: int = 0  # snapshots taken in this cycle
  choosing: Choosing = Choosing()


class Averaged(NamedTuple):
  """The other half, on the host.

  Attributes:
    books: the numbers that are saved.
    out: as in AveragedState.
    is_average: whether the slot, if nothing is out, has the current average.
    window: the last snapshots, if these are averaged.
    shown: what an evaluation at step shown_at has seen, RAW or AVERAGED.
    shown_at: steps taken when weights were last taken back; -1 if never.
  """

  books: Books = Books()
  out: int = NOTHING
  is_average: bool = False
  window: Window = Window()
  shown: int = RAW
  shown_at: int = -1

  def seen_at(self, step: int) -> int:
    """What an evaluation after `step` steps has seen, RAW or AVERAGED."""
    return self.shown if self.shown_at == step else RAW

  def taken_back(self, step: int) -> Averaged:
    """The state once any weights handed out after `step` steps are back."""
    if self.out == NOTHING:
      return self
    is_average = self.out == AVERAGE
    shown = AVERAGED if is_average else RAW
    return self._replace(
      out=NOTHING, is_average=is_average, shown=shown, shown_at=step
    )


def copied(tree: Any) -> Any:
  """The same values in new buffers, which no later donation takes away."""
  return jax.tree_util.tree_map(jnp.copy, tree)


def mixed(pair: tuple[Any, Any], share: jax.Array) -> Any:
  """(1 - share) * average + share * newest, leaf by leaf, in their dtypes.

  Args:
    pair: (average, newest), trees of equal shapes.
    share: shape=(), dtype=float32.
  """

  def mix(average: jax.Array, newest: jax.Array) -> jax.Array:
    s = share.astype(newest.dtype)
    return average + s * (newest - average)

  return jax.tree_util.tree_map(mix, *pair)


@dataclasses.dataclass(frozen=True)
class Averager:
  """Makes averages; it stays the same throughout a run.

  Attributes:
    plans: when each cycle of the chain takes snapshots; None for no average.
    choices: for each cycle; see averaging.average.Evaluated.
    rising: whether a larger target metric is better.
    shapes: tree of the parameters' shapes, without device axis.
    own: for each cycle, (opt_state, params) -> the optimizer's own weights for
      evaluations; None if those are the trained ones.
    ops: operations, compiled beforehand.
    flags: the values of AveragedState.out, laid out on the devices.
  """

  plans: tuple[Plan | None, ...]
  choices: tuple[str, ...]
  rising: bool
  shapes: Any
  own: tuple[Callable | None, ...]
  ops: CompiledOps
  flags: tuple[jax.Array, ...]

  def adopt(
    self, saved: AveragedState, control: Control
  ) -> tuple[AveragedState, Averaged]:
    """Both halves of the state at the first step of a run or resumed run."""
    devices = self.ops.devices
    saved = saved._replace(slot=devices.place(saved.slot))
    books = from_words(devices.get(saved.words), Books())
    out = int(devices.get(saved.out))
    plan = self.plans[control.cycle]
    is_running = plan is not None and not plan.window
    return saved, Averaged(books, out, is_running and books.count > 0)

  def next_step(self, control: Control, global_step: int) -> int:
    """The next step at which a snapshot is taken; NEVER if none is."""
    plan = self.plans[control.cycle]
    if plan is None:
      return NEVER
    start = control.start
    return start + next_snapshot(plan, global_step - start)

  def take_back(
    self, saved: AveragedState, host: Averaged, params: Any, global_step: int
  ) -> tuple[AveragedState, Averaged, Any]:
    """The trained weights, after others were handed out before this step.

    Args:
      saved, host: the state.
      params: what was handed out, as the runner hands it back.
      global_step: the step about to be taken.

    Returns:
      The state, with what was handed out in the slot, and the trained weights.
    """
    if host.out == NOTHING:
      return saved, host, params
    raw, saved = saved.slot, saved._replace(slot=params, out=self.flags[0])
    return saved, host.taken_back(global_step), raw

  def hand_out(
    self,
    saved: AveragedState,
    host: Averaged,
    params: Any,
    opt_state: Any,
    cycle: int,
  ) -> tuple[AveragedState, Averaged, Any]:
    """The weights for an evaluation; the slot keeps the trained ones.

    Args:
      saved, host: the state.
      params: the trained weights, or what has been handed out already.
      opt_state: the inner optimizer's state.
      cycle: index of the current cycle's setting in the chain.

    Returns:
      The state and the weights.
    """
    if host.out != NOTHING:
      return saved, host, params
    # No copy to the host is to run during an evaluation.
    host = self._settled(host, cycle)
    if self._shows_average(host, cycle):
      out, shown = AVERAGE, self._average(saved, host)
    elif self.own[cycle] is not None:
      out = OWN
      shown = self.ops.run(self.own[cycle], (opt_state, params))
    else:
      return saved, host, params
    saved = saved._replace(slot=params, out=self.flags[out])
    host = host._replace(out=out, is_average=False)
    return saved, host, self.ops.devices.place(shown)

  def snapshot(
    self,
    saved: AveragedState,
    host: Averaged,
    model: Model,
    control: Control,
    global_step: int,
  ) -> tuple[AveragedState, Averaged]:
    """If one is due, takes a snapshot of what would be evaluated unaveraged."""
    plan = self.plans[control.cycle]
    if plan is None or not is_snapshot(plan, global_step - control.start):
      return saved, host
    own, count = self.own[control.cycle], host.books.count + 1
    host = host._replace(books=host.books._replace(count=count))
    if own is not None:
      newest = self.ops.run(own, (model.opt_state.inner, model.params))
    elif plan.window or count == 1:
      newest = self.ops.run(copied, model.params)
    else:
      share = np.float32(weight(plan, count))
      newest = self.ops.run(mixed, (saved.slot, model.params), share)
    slot = self.ops.devices.place(newest)
    if plan.window:
      window = averaging_window.added(host.window, newest, plan.window)
      host = host._replace(window=window, is_average=False)
    else:
      host = host._replace(is_average=True)
    return self._written(saved._replace(slot=slot), host), host

  def observe(
    self, saved: AveragedState, host: Averaged, step: int, metric: float
  ) -> tuple[AveragedState, Averaged]:
    """The state after an evaluation at `step` with this target metric."""
    choosing = observe(
      host.books.choosing, host.seen_at(step), metric, self.rising
    )
    host = host._replace(books=host.books._replace(choosing=choosing))
    return self._written(saved, host), host

  def begin_cycle(
    self, saved: AveragedState, host: Averaged
  ) -> tuple[AveragedState, Averaged]:
    """Drops all snapshots: a new cycle changes the weights."""
    books = Books(0, begin_cycle(host.books.choosing))
    host = host._replace(books=books, is_average=False, window=Window())
    return self._written(saved, host), host

  def _shows_average(self, host: Averaged, cycle: int) -> bool:
    plan = self.plans[cycle]
    if plan is None:
      return False
    count = host.window.count if plan.window else host.books.count
    is_one = count >= plan.least
    choice = self.choices[cycle]
    return is_one and wanted(host.books.choosing, choice) == AVERAGED

  def _average(self, saved: AveragedState, host: Averaged) -> Any:
    """The average, laid out; that of a window is computed on the host."""
    if host.is_average:
      return saved.slot
    mean = averaging_window.mean(host.window, self.shapes)
    return self.ops.devices.put(mean)

  def _settled(self, host: Averaged, cycle: int) -> Averaged:
    plan = self.plans[cycle]
    if plan is None or not plan.window:
      return host
    window = averaging_window.settled(host.window, plan.window)
    return host._replace(window=window)

  def _written(self, saved: AveragedState, host: Averaged) -> AveragedState:
    words = self.ops.devices.put(to_words(host.books))
    return saved._replace(words=words)
