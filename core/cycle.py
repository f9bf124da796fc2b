"""A cycle as it is written: its shapes, its numbers and the optimizer in it.

Shapes are written in shares of their phase and of the cycle's peak, so that the
same numbers mean the same curve on every workload.

A value may be read by two compiled programs, the static chain and the cycle
clock, and has to be the same to the last bit. So nothing is added to a bare
product, which a compiler may contract to an operation with one rounding:
`rounded` prevents it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import ArrayLike

from .checks import check, check_count, check_number

# From a step count, whole or fractional, traced or not, to a value.
Schedule = Callable[[Any], Any]
LARGEST = float(np.finfo(np.float32).max)


class Phase(NamedTuple):
  """What a shape may know of where it stands.

  Attributes:
    steps: length of the phase, at least 1.
    warmup_steps: W, steps of the warm-up before the phase in the same cycle; 0
      for a warm-up and for a weight decay.
    rate: for a weight decay the learning rate over the same steps, as a share
      of its peak; else None.
  """

  steps: int
  warmup_steps: int = 0
  rate: Schedule | None = None


class Shape(Protocol):
  """A warm-up or a decay: a frozen dataclass of numbers."""

  def schedule(self, phase: Phase) -> Schedule:
    """Step of the phase -> share of the peak."""


@dataclasses.dataclass(frozen=True)
class LinearWarmup:
  """A straight line up to the peak: start + (1 - start) * t / W.

  Attributes:
    start: value at its first step, a share of the peak in [0, 1).

  Source: thesis, section 2.3.
  """

  start: float = 0.0

  def __post_init__(self) -> None:
    check_number('start', self.start, '[0, 1)')

  def schedule(self, phase: Phase) -> Schedule:
    """See `Shape`."""
    return lambda count: between(
      1.0, self.start, passed_share(count, phase.steps)
    )


@dataclasses.dataclass(frozen=True)
class Cosine:
  """Half a cosine: floor + (1 - floor) * (1 + cos(pi * t / N)) / 2.

  `optax.cosine_decay_schedule`, with the floor added for the reason that the
  module gives.

  Attributes:
    floor: the end, a share of the peak in [0, 1).

  Source: thesis, section 2.3.
  """

  floor: float = 0.0

  def __post_init__(self) -> None:
    check_number('floor', self.floor, '[0, 1)')

  def schedule(self, phase: Phase) -> Schedule:
    """See `Shape`."""
    unit = optax.cosine_decay_schedule(1.0, phase.steps)
    return lambda count: between(1.0, self.floor, unit(jnp.maximum(count, 0)))


@dataclasses.dataclass(frozen=True)
class Cooldown:
  """The peak, and then straight down to 0 over the last share of the phase.

    min((N - t) / (share * N), 1)

  Example: with a share of .1 over 100 steps, 1 up to step 90, .5 at 95 and 0 at
  100.

  Attributes:
    share: of the phase, in (0, 1].

  Source: Hägele et al. 2024, "Scaling laws and compute-optimal training beyond
  fixed training durations".
  """

  share: float = 0.1

  def __post_init__(self) -> None:
    check_number('share', self.share, '(0, 1]')

  def schedule(self, phase: Phase) -> Schedule:
    """See `Shape`."""
    steps = float(as_written(self.share) * phase.steps)
    return lambda count: jnp.clip(phase.steps - count, 0.0, steps) / steps


def rounded(number: ArrayLike) -> jax.Array:
  """The number as it is, rounded before anything is added to it.

  Clipping to the largest floats changes nothing, and no compiler can know that.
  Of a product whose sign it knows, it drops one of the two bounds.
  """
  return jnp.clip(number, -LARGEST, LARGEST)


def between(start: float, end: float, share_left: ArrayLike) -> jax.Array:
  """end + (start - end) * share_left, with two roundings."""
  return end + rounded((start - end) * share_left)


def passed_share(count: ArrayLike, steps: float) -> jax.Array:
  """count / steps, at least 0 and at most 1."""
  return jnp.clip(count / steps, 0.0, 1.0)


def scaled(factor: float, schedule: Schedule) -> Schedule:
  """factor * schedule. A factor beyond float32's largest is infinite.

  NumPy would warn of it; `check_rates` refuses such a rate.
  """
  if abs(factor) > LARGEST:
    factor = math.copysign(math.inf, factor)
  return lambda count: factor * schedule(count)


def as_written(number: float) -> Fraction:
  """The decimal number that was written, e.g. 1/10 for 0.1.

  Step counts are floors of products such as 0.29 * 100; in binary floating
  point that one is 28.999..., and a step would be lost.
  """
  return Fraction(repr(float(number)))


Number = float | jax.Array


class StepNumbers(NamedTuple):
  """The numbers of one step; those in which cycles differ are traced."""

  rate: Number  # learning rate
  weight_decay: Number  # decoupled; it is multiplied by the rate
  one_minus_beta1: Number
  beta2: Number
  eps: Number
  grad_clip: float | None  # largest global norm; None: no clipping


class Optimizer(Protocol):
  """An optimizer that steps inside cycles: a frozen dataclass of numbers.

  What a reset does to its state is found by `soft_reset.roles_of`; a loop, which
  takes any optax optimizer, finds it by `parts.any_optimizer.roles_of`.

  Attributes:
    evaluates_own: whether `eval_params` are others than the trained ones.
  """

  evaluates_own: ClassVar[bool]

  def build(self, numbers: StepNumbers) -> optax.GradientTransformation:
    """The transformation for one step.

    The structure of its state must not depend on the numbers.
    """

  def eval_params(self, state: Any, params: Any, hparams: Hparams) -> Any:
    """The parameters to evaluate, computed from the trained ones."""


@dataclasses.dataclass(frozen=True)
class Hparams:
  """The numbers of an optimizer in a cycle.

  The defaults are the thesis' (those of the benchmark's self-tuning NadamW
  baseline, used with AdamW).

  Attributes:
    dropout_rate: probability, or None for the workload's own. In force where
      model_fn takes it (main). In v0.5.0 the runner builds the model: with this
      rate under the external ruleset, with the model's default under
      self-tuning.
    learning_rate: the peak of the cycle.
    one_minus_beta1: 1 - beta1 of Adam.
    beta2: beta2 of Adam.
    weight_decay: decoupled, multiplied by the learning rate.
    warmup_factor: warm-up as a fraction of the cycle.
    eps: Adam's epsilon.
    grad_clip: largest global norm of the gradient, or None for no clipping.
    label_smoothing: passed to the workload's loss function.
  """

  dropout_rate: float | None = 0.1
  learning_rate: float = 0.0017486387539278373
  one_minus_beta1: float = 0.06733926164
  beta2: float = 0.9955159689799007
  weight_decay: float = 0.08121616522670176
  warmup_factor: float = 0.02
  eps: float = 1e-8
  grad_clip: float | None = None
  label_smoothing: float = 0.0

  def __post_init__(self) -> None:
    if self.dropout_rate is not None:
      check_number('dropout_rate', self.dropout_rate, '[0, 1)')
    check_number('learning_rate', self.learning_rate, '(0, inf)')
    check_number('one_minus_beta1', self.one_minus_beta1, '(0, 1]')
    check_number('beta2', self.beta2, '[0, 1)')
    check_number('weight_decay', self.weight_decay, '[0, inf)')
    check_number('warmup_factor', self.warmup_factor, '[0, 1]')
    check_number('eps', self.eps, '(0, inf)')
    if self.grad_clip is not None:
      check_number('grad_clip', self.grad_clip, '(0, inf)')
    check_number('label_smoothing', self.label_smoothing, '[0, 1)')


HPARAMS = Hparams()


@dataclasses.dataclass(frozen=True)
class Cycle:
  """One cycle of a chain.

  Attributes:
    hparams: the optimizer's numbers; learning_rate is the peak.
    warmup: shape of the first warmup_factor of the cycle.
    decay: shape of the rest.
    length: relative to the lengths of the chain's other cycles.
    min_warmup_steps: steps that the warm-up has at least, up to all of the
      cycle's, however short the cycle is.
    weight_decay_shape: shape of the weight decay over all of the cycle; None
      for a constant.
  """

  hparams: Hparams = HPARAMS
  warmup: Shape = LinearWarmup()
  decay: Shape = Cosine()
  length: float = 1.0
  min_warmup_steps: int = 0
  weight_decay_shape: Shape | None = None

  def __post_init__(self) -> None:
    check(isinstance(self.hparams, Hparams), 'hparams', self.hparams, 'Hparams')
    for name in ('warmup', 'decay', 'weight_decay_shape'):
      shape = getattr(self, name)
      is_none = name == 'weight_decay_shape' and shape is None
      is_shape = is_none or hasattr(shape, 'schedule')
      check(is_shape, name, shape, 'a shape such as Cosine()')
    check_number('length', self.length, '(0, inf)')
    check_count('min_warmup_steps', self.min_warmup_steps, least=0)
