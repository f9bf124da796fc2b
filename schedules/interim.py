from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import optax

from ..settings.kinds import Kind
from ..settings.named import Named
from . import lr_shapes, shape_registry, shapes
from .formulas import scaled
from .weight_decay import RATIO
from .weight_decay import WEIGHT_DECAYS as _WD


def as_named(shape):
  if isinstance(shape, tuple):
    return tuple(map(as_named, shape))
  if not isinstance(shape, shapes.Shape):
    return shape
  pairs = ((key, as_named(v)) for key, v in shape.parameters)
  return Named(shape.name, tuple(pairs))


def as_shape(named):
  if isinstance(named, tuple):
    return tuple(map(as_shape, named))
  if not isinstance(named, Named):
    return named
  pairs = ((key, as_shape(v)) for key, v in named.parameters)
  return shapes.Shape(named.name, tuple(pairs))


class Shim:
  def __init__(self, families):
    self.families = families

  def as_kind(self):
    def read(name, value):
      from ..settings.named import as_plain

      value = as_plain(value) if not isinstance(value, shapes.Shape) else value
      if value == 'holding_linear':
        return value
      if value == 'holding_exponential':
        return value
      return as_named(shapes.read_shape(name, value, self.families))

    return Annotated[Any, Kind('a shape', read)]


WARMUPS = Shim(shape_registry.WARMUPS)
DECAYS = Shim(shape_registry.DECAYS)
WEIGHT_DECAYS = Shim(_WD)
HOLDING_DECAYS = {'holding_exponential': 0.4, 'holding_linear': 0.4}


class H(NamedTuple):
  learning_rate: float
  warmup_factor: float


def one_cycle(steps, w, peak, warmup, decay):
  warmup, decay = as_shape(warmup), as_shape(decay)
  h = H(peak, (w + 0.5) / steps if w < steps else 1.0)
  if w == 0:
    h = H(peak, 0.0)
  d = shapes.decay_fn(
    {'holding_linear': 'linear', 'holding_exponential': 'exponential'}.get(
      decay, decay
    )
  )(steps, h, 0.0, 0.0)
  if w == 0:
    return d
  return optax.join_schedules(
    [shapes.warmup_fn(warmup)(steps, h, 0.0, 0.0), d], [w]
  )


def decay_of_cycle(shape, peak, steps, rate, peak_rate):
  if shape == RATIO:
    return scaled(peak / peak_rate, rate)
  return scaled(peak, shapes.unit_schedule(as_shape(shape), steps))
