"""Follows parameters through a jaxpr, equation by equation, to their uses."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..forms import Form
from ..jaxprs import called
from .combinations import ELEMENTWISE, elementwise, movement
from .layers import convolution, dot_general, ragged_dot, ragged_dot_general
from .lookups import dynamic_slice, fixed_slice, gather
from .seeds import SAME_EACH, Seeds, seed, seed_origins
from .tallies import Tallies
from .tracks import FREE, MOVES, Digit, Track, cut, sizes_of, without
from .values import Level, Value, one_of, settled, untracked

# From the tallies, an equation and the values of its inputs, those of its
# outputs.
_Rule = Callable[[Tallies, Any, Sequence[Value]], list[Value]]

# These say themselves what they give.
_LAYERS: dict[str, _Rule] = {
  'dot_general': dot_general,
  'conv_general_dilated': convolution,
}
_RULES: dict[str, _Rule] = {
  **_LAYERS,
  'ragged_dot': ragged_dot,
  'ragged_dot_general': ragged_dot_general,
  'gather': gather,
  'dynamic_slice': dynamic_slice,
  'slice': fixed_slice,
  **dict.fromkeys(ELEMENTWISE, elementwise),
  **dict.fromkeys(MOVES, movement),
}


class Walk:
  """Follows parameters through jaxprs and gathers their uses."""

  def __init__(self, shapes: Sequence[tuple[int, ...]]) -> None:
    self._shapes = shapes
    self._tallies = Tallies(shapes)

  def whole(self, leaf: int) -> Track:
    """Of the parameter itself."""
    sizes = enumerate(self._shapes[leaf])
    return Track(leaf, tuple((Digit(i, 1, n),) for i, n in sizes))

  def forms(self) -> tuple[Form | None, ...]:
    """Of each parameter, by its uses in what has been followed."""
    return self._tallies.forms()

  def follow(
    self, jaxpr: Any, arguments: Sequence[Value], seeds: Seeds
  ) -> list[Value]:
    """The outputs' values, from those of the inputs.

    Args:
      jaxpr: whose equations are followed.
      arguments: of its inputs.
      seeds: the variables in it that are parameters which are made in it.
    """
    seed_origins(jaxpr, seeds)
    env = _Environment(seeds)
    env.keep(jaxpr.invars, arguments)
    env.keep(jaxpr.constvars, [Value() for _ in jaxpr.constvars])
    for equation in jaxpr.eqns:
      inputs = env.values(equation.invars)
      inner = {
        i: seeds[id(var)]
        for i, var in enumerate(equation.outvars)
        if id(var) in seeds
      }
      if inner or any(v.tracks or v.given for v in inputs):
        outer = self._tallies.num_backward
        self._tallies.num_backward = outer + _num_backward(equation)
        outputs = self._through(equation, inputs, inner)
        self._tallies.num_backward = outer
      else:
        outputs = untracked(equation, inputs)
      env.keep(equation.outvars, outputs)
    return env.values(jaxpr.outvars)

  def _through(
    self, equation: Any, inputs: list[Value], inner: dict[int, Track]
  ) -> list[Value]:
    """The values of one equation's outputs, some of which may be parameters."""
    name, params = equation.primitive.name, equation.params
    if self._tallies.num_backward:
      # What a gradient does with an axis says nothing of what it holds.
      inputs = [v._replace(given=()) for v in inputs]
    if name == 'cond':
      branches = [
        self._call(branch.jaxpr, inputs[1:], inner)
        for branch in params['branches']
      ]
      return [one_of(column) for column in zip(*branches)]
    if name == 'while':
      return self._while(params, inputs)
    if name == 'scan':
      return self._scan(params, inputs, inner)
    jaxpr = called(equation)
    if jaxpr is not None:
      return self._call(jaxpr, inputs, inner)
    outputs = self._at(equation, inputs)
    if name in _LAYERS:
      return outputs
    given = self._tallies.outputs.after(equation, [v.given for v in inputs])
    return [v._replace(given=g) for v, g in zip(outputs, given)]

  def _at(self, equation: Any, inputs: list[Value]) -> list[Value]:
    """The values of the outputs of an equation that is no call."""
    name = equation.primitive.name
    if not any(v.tracks or v.given for v in inputs):
      return untracked(equation, inputs)
    if name in SAME_EACH:
      return inputs
    if name in _RULES:
      return _RULES[name](self._tallies, equation, inputs)
    return untracked(equation, inputs)

  def _call(
    self, jaxpr: Any, inputs: Sequence[Value], inner: dict[int, Track]
  ) -> list[Value]:
    """The values of a call's outputs; a shard has a part of each parameter."""
    inputs = [
      value.with_each(functools.partial(_within, var=var))
      for value, var in zip(inputs, jaxpr.invars)
    ]
    seeds: Seeds = {}
    for i, track in inner.items():
      seed(seeds, jaxpr.outvars[i], track)
    return self.follow(jaxpr, inputs, seeds)

  def _while(self, params: Any, inputs: list[Value]) -> list[Value]:
    first = params['cond_nconsts']
    second = first + params['body_nconsts']
    body = params['body_jaxpr'].jaxpr
    return settled(
      lambda carry: self._call(body, [*inputs[first:second], *carry], {}),
      inputs[second:],
    )

  def _scan(
    self, params: Any, inputs: list[Value], inner: dict[int, Track]
  ) -> list[Value]:
    first, count = params['num_consts'], params['num_carry']
    second = first + count
    rows = [v.with_each(lambda t: without(t, 0)) for v in inputs[second:]]
    # A parameter that is made in the body is handed out stacked.
    within = {
      i: without(track, 0) if i >= count else track
      for i, track in inner.items()
    }
    body = params['jaxpr'].jaxpr
    outputs = settled(
      lambda carry: self._call(body, [*inputs[:first], *carry, *rows], within),
      inputs[first:second],
    )
    scanned = {t.stacked[-1:] for v in rows for t in (*v.tracks, *v.given)}

    def with_rows(track: Track) -> Track:
      """What the body has made of a row, with the axis that was scanned."""
      if track.stacked[-1:] in scanned and track.stacked:
        dims = (track.stacked[-1:], *track.dims)
        return track._replace(dims=dims, stacked=track.stacked[:-1])
      free = (Digit(FREE, 0, params['length']),)
      return track._replace(dims=(free, *track.dims))

    carry, stacked = outputs[:count], outputs[count:]
    return [*carry, *(v.with_each(with_rows) for v in stacked)]


class _Environment:
  """The values of a jaxpr's variables, as far as it has been followed."""

  def __init__(self, seeds: Seeds) -> None:
    self._seeds = seeds
    self._values: dict[int, Value] = {}

  def values(self, variables: Iterable[Any]) -> list[Value]:
    return list(map(self._value, variables))

  def _value(self, var: Any) -> Value:
    value = Value()
    if not hasattr(var, 'val'):  # a literal has no entry
      value = self._values.get(id(var), value)
    is_scalar = math.prod(getattr(var.aval, 'shape', ())) == 1
    if is_scalar and not (value.tracks or value.given):
      return value._replace(level=Level.NUMBER)
    return value

  def keep(self, variables: Iterable[Any], values: Iterable[Value]) -> None:
    """With the tracks that fit; of a seed only that it is a parameter."""
    for var, value in zip(variables, values):
      shape = getattr(var.aval, 'shape', ())
      tracks = tuple(t for t in value.tracks if sizes_of(t) == shape)
      given = tuple(t for t in value.given if sizes_of(t) == shape)
      value = value._replace(tracks=tracks, given=given)
      if id(var) in self._seeds:
        value = Value((self._seeds[id(var)],), Level.PARAMETER)
      self._values[id(var)] = value


def _num_backward(equation: Any) -> int:
  """How many gradients jax has taken to make an equation, in its own words."""
  return str(equation.source_info.name_stack).count('transpose(jvp(')


def _within(track: Track, var: Any) -> Track:
  """Of a call's input, which may be smaller than what is handed in."""
  shape = getattr(var.aval, 'shape', ())
  return cut(track, shape) if len(shape) == len(track.dims) else track
