"""What an optimizer does: how its state begins, and what flows where in a step.

The optimizer is traced, and nothing is computed; see `dependence`.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.tree_util import tree_flatten_with_path

from ..optimizers.step import Step
from .dependence import Argument, Origin, origins

Build = Callable[[Step], Any]  # makes the transformation of one step
ArrayShape = tuple[int, ...]
# What optax's transformations ask for besides gradients: in turn, until one
# fits.
_LINE_SEARCH = ('value', 'grad', 'value_fn')
_ASKED = ((), _LINE_SEARCH, ('obj_fn',), (*_LINE_SEARCH, 'obj_fn'))
# What an optimizer may raise when it is traced.
ERRORS = (
  *(ArithmeticError, AssertionError, AttributeError, LookupError),
  *(NameError, RuntimeError, TypeError, ValueError),
)
# Words in the error of an optimizer that asks for something else.
_LACKS = 'required|missing|provided'


class Inputs(NamedTuple):
  """The arguments of a traced step, in their order."""

  rate: Argument
  passed: Argument  # the share of the cycle that has passed
  grads: Argument
  losses: Argument  # the loss, then its gradient
  state: Argument
  params: Argument


class Leaf(NamedTuple):
  """A leaf of an optimizer's state, and what flows into and out of it.

  Parameters and leaves stand here as numbers, in the order of their trees.
  """

  number: int
  path: Any
  shape: ArrayShape
  is_real: bool
  begins_with: frozenset[int]  # parameters whose values are in its first value
  takes_in: frozenset[int]  # those that flow into it in any number of steps
  # Of one step; empty if a step cannot be traced.
  made_of: frozenset[int] = frozenset()  # leaves that flow into its new value
  moves: frozenset[int] = frozenset()  # parameters into whose updates it flows
  takes_loss: bool = False
  adds_rate: bool = False  # to its old value it adds what the rate makes


class Behaviour(NamedTuple):
  """How an optimizer begins, and what a step does; see `behaviour_of`."""

  targets: list[Any]  # paths of the parameters
  shapes: list[ArrayShape]  # of those that have a gradient of their own
  leaves: list[Leaf]  # of the state
  # For each parameter, whether its update takes the rate and its own gradient;
  # empty if a step needs arguments that only the loop knows.
  updates: list[tuple[bool, bool]]


def behaviour_of(build: Build, params: Any) -> Behaviour:
  """Traces an optimizer; nothing is computed.

  A moment has the shape of a parameter. Another array could have that shape by
  chance, as a basis of (6, 6) beside a matrix of (6, 6). So the parameters are
  made larger, so that no two axes are alike: by as little as possible or, for
  an optimizer that works in blocks, to multiples. One that takes neither, or
  that begins otherwise then, is looked at with the usual shapes, in which axes
  may be alike; see `roles.fits_by_chance`.

  Args:
    build: makes the transformation of a `Step`.
    params: tree of jax.ShapeDtypeStruct, such as will be trained.

  Raises:
    Exception: whatever the optimizer raises.
  """
  usual = jax.eval_shape(build(Step(jnp.float32(0))).init, params)
  for in_blocks in (False, True):
    larger = _told_apart(params, usual, in_blocks)
    try:
      state = jax.eval_shape(build(Step(jnp.float32(0))).init, larger)
      if _outline(state) == _outline(usual):
        return _behaviour_of(build, larger)
    except ERRORS:  # as of what works on arrays of some shapes only
      pass
  return _behaviour_of(build, params)


def _told_apart(params: Any, state: Any, in_blocks: bool) -> Any:
  """The parameters, with axes as long as no other axis.

  Only axes longer than 1 are changed; they become longer, by as little as
  possible.

  Args:
    params: see `behaviour_of`.
    state: of the optimizer; no axis becomes as long as one of it.
    in_blocks: whether axes become multiples of what they were.
  """
  if isinstance(params, optax.LookaheadParams):
    fast = _told_apart(params.fast, state, in_blocks)
    return optax.LookaheadParams(fast, fast)
  leaves = jax.tree_util.tree_leaves((params, state))
  taken = {length for leaf in leaves for length in leaf.shape}

  def longer(length: int) -> int:
    if length < 2:
      return length
    lengths = itertools.count(length, length if in_blocks else 1)
    free = next(n for n in lengths if n not in taken)
    taken.add(free)
    return free

  def enlarged(leaf: Any) -> Any:
    return jax.ShapeDtypeStruct(tuple(map(longer, leaf.shape)), leaf.dtype)

  return jax.tree_util.tree_map(enlarged, params)


def _outline(state: Any) -> list[tuple[Any, list[bool]]]:
  """The paths of a state's leaves, and which axes of each are 1 long."""
  leaves = tree_flatten_with_path(state)[0]
  return [
    (path, [length == 1 for length in leaf.shape]) for path, leaf in leaves
  ]


def _behaviour_of(build: Build, params: Any) -> Behaviour:
  """As `behaviour_of`, of just these parameters."""
  number = jax.ShapeDtypeStruct((), jnp.float32)
  init = build(Step(jnp.float32(0))).init
  state = jax.eval_shape(init, params)
  # lookahead's parameters are two copies, with one gradient for both.
  grads = params.fast if isinstance(params, optax.LookaheadParams) else params
  shapes = [leaf.shape for leaf in jax.tree_util.tree_leaves(grads)]
  targets = [path for path, _ in tree_flatten_with_path(params)[0]]
  first, _ = origins(init, params)
  leaves = [
    Leaf(
      number=i,
      path=path,
      shape=leaf.shape,
      is_real=bool(jnp.issubdtype(leaf.dtype, jnp.inexact)),
      begins_with=_folded(first[i].values, len(shapes)),
      takes_in=frozenset(range(len(shapes))),
    )
    for i, (path, leaf) in enumerate(tree_flatten_with_path(state)[0])
  ]
  args = number, number, grads, (number, grads), state, params
  step = _traced_step(build, args)
  if step is None:
    return Behaviour(targets, shapes, leaves, [])
  outputs, inputs = step
  after, updates = outputs[: len(leaves)], outputs[len(leaves) :]
  takes_rate = [bool(inputs.rate.of(update.reached)) for update in updates]
  takes_gradient = [
    i % len(shapes) in _numbers(inputs.grads.of(update.reached))
    for i, update in enumerate(updates)
  ]
  leaves = _with_flows(leaves, after, updates, inputs)
  return Behaviour(
    targets, shapes, leaves, list(zip(takes_rate, takes_gradient))
  )


def _traced_step(
  build: Build, args: Sequence[Any]
) -> tuple[list[Origin], Inputs] | None:
  """The origins of an optimizer's state and updates after a step.

  Args:
    build: see `behaviour_of`.
    args: those of `Inputs`.

  Returns:
    None if the step asks for what is not among `_ASKED`.
  """

  def loss(params: Any, **_: Any) -> Any:
    leaves = jax.tree_util.tree_leaves(params)
    # Even the second derivatives of a fourth power depend on the parameters.
    return sum(jnp.sum(leaf**4) for leaf in leaves)

  def step(
    names: Sequence[str],
    rate: Any,
    passed: Any,
    grads: Any,
    losses: Any,
    state: Any,
    params: Any,
  ) -> Any:
    value, grad = losses
    known = dict(value=value, grad=grad, value_fn=loss, obj_fn=loss)
    more = {name: known[name] for name in names}
    transformation = build(Step(rate, passed=passed))
    updates, after = transformation.update(grads, state, params, **more)
    return after, updates

  refusals: list[Exception] = []
  for names in _ASKED:
    try:
      outputs, arguments = origins(functools.partial(step, names), *args)
      return outputs, Inputs(*arguments)
    except (LookupError, TypeError, ValueError) as error:
      refusals.append(error)
  if re.search(_LACKS, str(refusals[0])):
    return None
  raise refusals[0]


def _with_flows(
  leaves: Sequence[Leaf],
  after: Sequence[Origin],
  updates: Sequence[Origin],
  inputs: Inputs,
) -> list[Leaf]:
  """The leaves, with what flows into and out of them in steps."""
  count = inputs.grads.size
  made_of = [_numbers(inputs.state.of(origin.values)) for origin in after]
  in_updates = [_numbers(inputs.state.of(origin.values)) for origin in updates]
  takes_in = [
    leaf.begins_with
    | _numbers(inputs.grads.of(origin.values))
    | _folded(inputs.params.of(origin.values), count)
    | (leaf.takes_in if inputs.losses.of(origin.values) else frozenset())
    for leaf, origin in zip(leaves, after)
  ]
  while True:
    before = list(takes_in)
    for i, sources in enumerate(made_of):
      takes_in[i] = takes_in[i].union(*{takes_in[j] for j in sources})
    if takes_in == before:
      break
  return [
    leaf._replace(
      takes_in=takes_in[i],
      made_of=made_of[i],
      moves=frozenset(j for j, of in enumerate(in_updates) if i in of),
      takes_loss=bool(inputs.losses.of(origin.values) & 1),
      adds_rate=origin.is_sum
      and origin.base == inputs.state.start + i
      and bool(inputs.rate.of(origin.values)),
    )
    for i, (leaf, origin) in enumerate(zip(leaves, after))
  ]


def _numbers(bits: int) -> frozenset[int]:
  """The numbers in a set that is an int; see `Origin`."""
  return frozenset(i for i in range(bits.bit_length()) if bits >> i & 1)


def _folded(bits: int, count: int) -> frozenset[int]:
  """The numbers of parameters; both copies of lookahead's have one number."""
  return frozenset(i % count for i in _numbers(bits))


def frozen_in(behaviour: Behaviour) -> list[bool]:
  """For each parameter, whether the optimizer leaves it untrained.

  An optimizer trains a parameter if it updates the parameter by the learning
  rate and the parameter's own gradient. An optimizer whose update asks for
  arguments that only the loop knows counts as one that trains everything.

  Raises:
    ValueError: if no update depends on the learning rate.
  """
  if not behaviour.updates:
    return [False] * len(behaviour.targets)
  if not any(takes_rate for takes_rate, _ in behaviour.updates):
    raise ValueError(
      'its updates would be the same whatever the learning rate of the cycles: '
      'a number or a schedule of its own stays in force'
    )
  return [not all(update) for update in behaviour.updates]
