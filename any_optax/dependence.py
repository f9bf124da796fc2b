"""What each output of a function is made of, read off the function's trace.

Nothing is computed: a function is traced with shapes, and the equations of its
jaxpr are followed from its inputs to its outputs.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax

from ..core.jaxprs import called

# Equations whose output is their input, in another form.
_SAME = {'convert_element_type', 'copy', 'copy_p', 'reduce_precision'}
_SAME |= {'optimization_barrier', 'sharding_constraint', 'stop_gradient'}


class Origin(NamedTuple):
  """What a value is made of; a set of inputs is an int, bit i for input i."""

  reached: int = 0  # inputs on which the value depends in any way
  values: int = 0  # inputs that do more than say whether it is updated
  base: int | None = None  # the input, if the value is an unchanged input ...
  is_sum: bool = False  # ... or to which something else was added


class Argument(NamedTuple):
  """Where the leaves of one argument are among the inputs."""

  start: int
  size: int

  def of(self, inputs: int) -> int:
    """The inputs of a set that belong to this argument, counted from 0."""
    return inputs >> self.start & (1 << self.size) - 1


def origins(
  fn: Callable[..., Any], *args: Any
) -> tuple[list[Origin], list[Argument]]:
  """The origin of each leaf that a function returns, and its arguments' places.

  Args:
    fn: of trees, to a tree.
    args: trees of arrays or of jax.ShapeDtypeStruct; their leaves, in order,
      are the inputs.

  Example: a rate r (input 0), a gradient g (1) and a state: sum (2) and z (3).

    >>> step = lambda r, g, state: (state[0] + r, state[1] - r * g)
    >>> (total, z), (rate, grad, state) = origins(step, 0.1, 1.0, (2.0, 3.0))
    >>> bin(z.values), z.is_sum
    ('0b1011', True)
    >>> grad.of(total.values), bin(state.of(total.values))
    (0, '0b1')
  """
  with jax.disable_jit(False):  # or a loop would be run, and not traced
    jaxpr = jax.make_jaxpr(fn)(*args).jaxpr
  inputs = range(len(jaxpr.invars))
  outputs = _origins_in(jaxpr, [Origin(1 << i, 1 << i, i) for i in inputs])
  sizes = [len(jax.tree_util.tree_leaves(arg)) for arg in args]
  starts = itertools.accumulate(sizes, initial=0)
  return outputs, list(map(Argument, starts, sizes))


def _origins_in(jaxpr: Any, inputs: Sequence[Origin]) -> list[Origin]:
  """The origins of a jaxpr's outputs, from those of its inputs."""
  env = {id(var): origin for var, origin in zip(jaxpr.invars, inputs)}
  of: Callable[[Any], list[Origin]] = lambda variables: [
    env.get(id(var), Origin()) for var in variables
  ]
  for equation in jaxpr.eqns:
    outputs = _through(equation, of(equation.invars))
    env.update(zip(map(id, equation.outvars), outputs))
  return of(jaxpr.outvars)


def _through(equation: Any, inputs: list[Origin]) -> list[Origin]:
  """The origins of one equation's outputs."""
  name, params = equation.primitive.name, equation.params
  if name == 'cond':
    branches = [_origins_in(b.jaxpr, inputs[1:]) for b in params['branches']]
    return [_chosen(inputs[0], column) for column in zip(*branches)]
  if name == 'while':
    return _while(params, inputs)
  if name == 'scan':
    return _scan(params, inputs)
  jaxpr = called(equation)
  if jaxpr is not None:
    return _origins_in(jaxpr, inputs)
  if name == 'select_n':
    return [_chosen(inputs[0], inputs[1:])]
  if name in _SAME:
    return inputs
  if name in ('add', 'add_any', 'sub'):
    return [_added(name, *inputs)]
  return [_mixed(inputs)] * len(equation.outvars)


def _mixed(inputs: Iterable[Origin]) -> Origin:
  """The origin of a new value that depends on all of these."""
  reached = values = 0
  for origin in inputs:
    reached |= origin.reached
    values |= origin.values
  return Origin(reached, values)


def _either(choices: Sequence[Origin]) -> Origin:
  """The origin of a value that is one of these."""
  bases = {origin.base for origin in choices}
  base = bases.pop() if len(bases) == 1 else None
  is_sum = any(origin.is_sum for origin in choices)
  return _mixed(choices)._replace(base=base, is_sum=is_sum)


def _chosen(by: Origin, choices: Sequence[Origin]) -> Origin:
  """The origin of a value that is one of these, selected by another value.

  The selecting value counts among the values, with two exceptions. It may only
  say whether something is added to an input (a count that does not overflow, or
  of some steps only). Or it may only say whether an input is left as it is or
  made anew.
  """
  whole = _either(choices)
  reached = whole.reached | by.reached
  change = _either([origin for origin in choices if origin.reached])
  if change.base is not None and by.reached == 1 << change.base:
    return change._replace(reached=reached)
  is_same = [
    origin.base is not None and not origin.is_sum for origin in choices
  ]
  is_left = is_same.count(True) == 1
  if is_left:
    old = 1 << (choices[is_same.index(True)].base or 0)
    others = [o for o, is_old in zip(choices, is_same) if not is_old]
    is_left = not any(origin.reached & old for origin in others)
  is_update = whole.base is not None or is_left
  values = whole.values | (0 if is_update else by.values)
  return whole._replace(reached=reached, values=values)


def _added(name: str, one: Origin, other: Origin) -> Origin:
  """The origin of a sum or a difference."""
  mixed = _mixed((one, other))
  pairs = [(one, other)] if name == 'sub' else [(one, other), (other, one)]
  for old, new in pairs:
    if old.base is not None and not new.reached >> old.base & 1:
      return mixed._replace(base=old.base, is_sum=True)
  return mixed


def _settled(
  step: Callable[[list[Origin]], list[Origin]], carry: list[Origin]
) -> list[Origin]:
  """The origins of a loop's carry after any number of rounds."""
  while True:
    after = [_either(pair) for pair in zip(carry, step(carry))]
    if after == carry:
      return carry
    carry = after


def _while(params: Any, inputs: list[Origin]) -> list[Origin]:
  first = params['cond_nconsts']
  second = first + params['body_nconsts']
  constants, carry = inputs[first:second], inputs[second:]
  body: Any = functools.partial(_origins_in, params['body_jaxpr'].jaxpr)
  carry = _settled(lambda carry: body([*constants, *carry]), carry)
  condition = params['cond_jaxpr'].jaxpr
  [goes_on] = _origins_in(condition, [*inputs[:first], *carry])
  return [_chosen(goes_on, [origin]) for origin in carry]


def _scan(params: Any, inputs: list[Origin]) -> list[Origin]:
  first, count = params['num_consts'], params['num_carry']
  second = first + count
  constants, rows = inputs[:first], inputs[second:]
  # A row of an input is not the input.
  rows = [origin._replace(base=None) for origin in rows]

  def whole(carry: list[Origin]) -> list[Origin]:
    return _origins_in(params['jaxpr'].jaxpr, [*constants, *carry, *rows])

  carry = _settled(lambda carry: whole(carry)[:count], inputs[first:second])
  stacked = [o._replace(base=None) for o in whole(carry)[count:]]
  return [*carry, *stacked]
