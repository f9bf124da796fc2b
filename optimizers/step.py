"""The optimizers that step inside cycles, driven by the cycle clock.

What a step is told, such as its rate, comes from the clock; the transformation
is built with it while the step is traced, as in `optax.inject_hyperparams`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.tree_util import tree_map
from jax.typing import ArrayLike

from ..core.checks import Checked, Floor, NonNegative, Positive, Share
from ..core.clock import learning_rate, share_passed, unpacked, weight_decay
from ..core.schedules import PlannedCycle

# fn(stack), whose members may be shared out over devices; see `Devices.spread`.
Spread = Callable[[Callable[[jax.Array], jax.Array], jax.Array], jax.Array]


def at_once(
  fn: Callable[[jax.Array], jax.Array], stack: jax.Array
) -> jax.Array:
  """fn(stack), on each device by itself: a `Spread`."""
  return fn(stack)


class Step(NamedTuple):
  """What an optimizer is told of the step that it takes."""

  rate: ArrayLike  # the learning rate; traced
  weight_decay: ArrayLike = 1.0  # factor on the optimizer's own weight decay
  passed: ArrayLike = 0.0  # share of the cycle before this step; traced
  spread: Spread = at_once  # what each of a stack of matrices goes through
  # Of each parameter, in order, whether its layer multiplies by it; None: unknown.
  matrices: tuple[bool, ...] | None = None


class Optimizer(Protocol):
  """An optimizer that steps inside cycles: a frozen dataclass of numbers.

  The runner's parameters are those that it evaluates. A reset shrinks running
  averages of gradients, which begin at 0, and blends iterates like the
  parameters: other parameters, the weight of an average. All other fields of
  the state are counts. An optimizer whose state has no such names may have a
  method `roles` in their place; see `model_reset.role_in`.
  """

  # The names of the fields that are averages and iterates, at any depth.
  moments: ClassVar[tuple[str, ...]]
  iterates: ClassVar[tuple[str, ...]]

  def build(self, step: Step) -> optax.GradientTransformation:
    """The transformation that takes one step."""

  def gradient_point(self, state: Any, params: Any) -> Any:
    """The parameters at which the gradient is taken."""


@dataclasses.dataclass(frozen=True)
class AdamW(Checked):
  """Adam with decoupled weight decay and, optionally, clipped gradients.

  The defaults are the thesis', those of the benchmark's self-tuning baseline.

  Source: Loshchilov and Hutter 2019, "Decoupled weight decay regularization".
  """

  one_minus_beta1: Share = 0.06733926164  # 1 - beta1
  beta2: Floor = 0.9955159689799007  # decay of the mean of squared gradients
  weight_decay: NonNegative = 0.08121616522670176  # times the learning rate
  eps: Positive = 1e-8  # added to the root of that mean
  grad_clip: Positive | None = None  # largest global norm; None: no clipping

  moments: ClassVar[tuple[str, ...]] = ('mu', 'nu')
  iterates: ClassVar[tuple[str, ...]] = ()

  def direction(self) -> optax.GradientTransformation:
    """What the rate and the weight decay are applied to."""
    b1 = 1.0 - self.one_minus_beta1
    return optax.scale_by_adam(b1=b1, b2=self.beta2, eps=self.eps)

  def build(self, step: Step) -> optax.GradientTransformation:
    return optax.chain(
      clipped(self.grad_clip),
      self.direction(),
      optax.add_decayed_weights(self.weight_decay * step.weight_decay),
      optax.scale(-step.rate),  # type: ignore[operator]
    )

  def gradient_point(self, state: Any, params: Any) -> Any:
    return params


class Weighed(NamedTuple):
  """The weight of a step in Schedule-Free's average."""

  moves: Any  # shape=(), dtype=bool; whether the rate is above 0
  count: Any  # shape=(), dtype=int32; steps that have moved, with this one
  total: jax.Array  # shape=(), dtype=float32; of all weights so far
  share: jax.Array  # shape=(), dtype=float32; c, this step's of them


class ScheduleFreeState(NamedTuple):
  """What is kept besides x, the parameters that are evaluated."""

  count: Any  # shape=(), dtype=int32
  weight_sum: jax.Array  # shape=(), dtype=float32; of w over the steps in x
  z: Any  # the iterate that takes the steps
  nu: Any  # the average of the squared gradients


@dataclasses.dataclass(frozen=True)
class ScheduleFreeAdamW(AdamW):
  """Schedule-Free AdamW: x, an average of z, is what the runner evaluates.

    y = b1 x + (1 - b1) z, at which the gradient g is taken
    v <- b2 v + (1 - b2) g^2     d = g / (sqrt(v / (1 - b2^t)) + eps) + decay y
    z <- z - rate d              x <- x + c (z - x)

  with c = w / (sum of all w) and w = t^r * rate^weight_lr_power; t counts the
  steps at a rate above 0, and nothing moves at a rate of 0. The published form
  has the largest rate so far in w: while the rate falls, x drifts onto z. A
  reset blends z and the sum of the weights like x, so that the steps of the
  replaced model do not slow down the new average.

  Source: Defazio et al. 2024, "The road less scheduled", algorithm 1; r as in
  the authors' code; the weights are ours.
  """

  r: NonNegative = 0.0  # power of the step in the weights; 0: all weigh alike
  weight_lr_power: NonNegative = 2.0  # power of the rate in the weights

  moments: ClassVar[tuple[str, ...]] = ('nu',)
  iterates: ClassVar[tuple[str, ...]] = ('z', 'weight_sum')

  def build(self, step: Step) -> optax.GradientTransformation:
    clip, rate = clipped(self.grad_clip), step.rate
    decay = self.weight_decay * step.weight_decay

    def init(params: Any) -> ScheduleFreeState:
      # Copied: one buffer must not be donated twice.
      z = tree_map(lambda p: jnp.array(p, copy=True), params)
      nu = tree_map(jnp.zeros_like, params)
      return ScheduleFreeState(jnp.int32(0), jnp.float32(0), z, nu)

    def update(grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
      grads, _ = clip.update(grads, clip.init(params), params)
      moves, count, total, c = self.weighed(state, rate)
      squares = tree_map(jnp.square, grads)
      nu = averaged(state.nu, squares, self.beta2)
      nu = tree_map(functools.partial(jnp.where, moves), nu, state.nu)

      def stepped(z: Any, y: Any, g: Any, v: Any) -> jax.Array:
        scale = jnp.sqrt(v / (1 - self.beta2**count)) + self.eps
        move = rate * (g / scale + decay * y)
        return jnp.where(moves, (z - move).astype(z.dtype), z)

      y = self.gradient_point(state, params)
      z = tree_map(stepped, state.z, y, grads, nu)
      drift = lambda x, z: jnp.where(moves, c * (z - x), 0)
      updates = tree_map(drift, params, z)
      return updates, ScheduleFreeState(count, total, z, nu)

    return optax.GradientTransformation(init, update)

  def weighed(self, state: Any, rate: ArrayLike) -> Weighed:
    """The weight of a step at a rate, after those of a state."""
    moves = jnp.asarray(rate) > 0
    count = state.count + moves
    weight = count.astype(jnp.float32) ** self.r * rate**self.weight_lr_power
    weight = jnp.where(moves, weight, 0.0)
    total = state.weight_sum + weight
    # c is 0 until a rate is above 0.
    c = jnp.where(total > 0, weight / jnp.where(total > 0, total, 1.0), 0.0)
    return Weighed(moves, count, total, c)

  def gradient_point(self, state: Any, params: Any) -> Any:
    return averaged(params, state.z, 1.0 - self.one_minus_beta1)


def averaged(average: Any, new: Any, keep: float) -> Any:
  """keep * average + (1 - keep) * new, leaf by leaf."""
  return tree_map(lambda a, x: keep * a + (1 - keep) * x, average, new)


def clipped(limit: float | None) -> optax.GradientTransformation:
  """Clips to this global norm of the gradient; None: no clipping."""
  if limit is None:
    return optax.identity()
  return optax.clip_by_global_norm(limit)


# optax 0.1.5 has one kind of transformation.
TRANSFORMATION: type[optax.GradientTransformation] = getattr(
  optax, 'GradientTransformationExtraArgs', optax.GradientTransformation
)


class ClockedState(NamedTuple):
  """State of `clocked`: arrays only, to be saved and restored as they are."""

  inner: Any  # of the optimizer's own transformation
  clock: Any  # shape=(8,), dtype=int32; see `clock.packed`
  control: Any  # shape=(words,), dtype=int32; see `state.to_words`


def clocked(
  build: Callable[[Step], Any],
  cycles: Sequence[PlannedCycle],
  begun: tuple[np.ndarray, np.ndarray],
  told: Step | None = None,
) -> optax.GradientTransformation:
  """An optimizer that the clock tells its steps; its state is a `ClockedState`.

  A step moves the clock's count. The rest of the clock, and the control, which
  rides along, are replaced between steps; see `state.words_of`.

  Args:
    build: what the step is told -> the transformation that takes it.
    cycles: those that the clock goes through.
    begun: clock and control of a run that begins.
    told: what is the same for every step, if anything: spread, matrices.
  """
  rate_of = jax.jit(functools.partial(learning_rate, cycles=cycles))
  each = Step(0.0) if told is None else told

  def init(params: Any) -> ClockedState:
    first = each._replace(rate=jnp.float32(unpacked(begun[0]).peak))
    inner = build(first).init(params)
    return ClockedState(inner, *map(jnp.asarray, begun))

  def update(
    grads: Any, state: ClockedState, params: Any = None, **more: Any
  ) -> tuple[Any, ClockedState]:
    words = state.clock
    step = each._replace(
      rate=rate_of(words),
      weight_decay=weight_decay(words, cycles),
      passed=share_passed(words),
    )
    own = build(step)
    updates, inner = own.update(grads, state.inner, params, **more)
    clock = words.at[0].add(1)
    return updates, ClockedState(inner, clock, state.control)

  return TRANSFORMATION(init, update)
