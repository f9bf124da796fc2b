"""A step of an optimizer: what the optimizer knows of the step, and does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import optax
from jax.tree_util import tree_flatten_with_path, tree_map
from jax.typing import ArrayLike

from ..core.checks import check
from ..core.forms import Form
from .roles import RoleOf, roles_by_field

# fn(stack), whose members may be shared out over devices; see `Devices.spread`.
Spread = Callable[[Callable[[jax.Array], jax.Array], jax.Array], jax.Array]


def at_once(
  fn: Callable[[jax.Array], jax.Array], stack: jax.Array
) -> jax.Array:
  """fn(stack), on each device by itself: a `Spread`."""
  return fn(stack)


class RunStart(NamedTuple):
  """What a run begins with."""

  params: Any  # the tree of a fresh model's parameters
  forms: tuple[Form, ...] | None = None  # of its leaves; None: by shape
  steps: int | None = None  # until the first cycle ends; None: unknown


class Step(NamedTuple):
  """What an optimizer is told of the step that it takes."""

  rate: ArrayLike  # the learning rate; traced
  weight_decay: ArrayLike = 1.0  # factor on the weight decay, by the cycle
  passed: ArrayLike = 0.0  # share of the cycle before this step; traced
  taken: ArrayLike = 0.0  # planned steps of the chain before this one; traced
  spread: Spread = at_once  # what each of a stack of matrices goes through
  # What each parameter is, in order; None: what its shape says.
  forms: tuple[Form, ...] | None = None
  size: ArrayLike = 1.0  # of the weights as the run began, `Optimizer.size`
  # Further factor on the weight decay, by `Optimizer.epochs_factor`; traced.
  decay_factor: ArrayLike = 1.0

  @property
  def total_decay_factor(self) -> ArrayLike:
    """Both factors on the weight decay: the cycle's and the epochs'."""
    return self.weight_decay * self.decay_factor

  @property
  def moves(self) -> jax.Array:
    """Whether the rate is above 0: shape=(), dtype=bool; traced."""
    return jnp.asarray(self.rate) > 0


class Direction(Protocol):
  """A direction: what the rate and the weight decay are applied to."""

  # The names of the fields of its state that are averages of gradients.
  moments: ClassVar[tuple[str, ...]]

  def direction(self, step: Step) -> optax.GradientTransformation:
    """The transformation of gradients into directions, uphill, for one step."""


class Optimizer(Protocol):
  """An optimizer that steps inside cycles: a frozen dataclass of numbers.

  An optimizer inherits from this class. The runner's parameters are the
  parameters that are evaluated. A reset shrinks moments, averages of gradients
  that begin at 0. It blends iterates like the parameters; iterates are further
  copies of the parameters, and the weight of an average. All other fields of
  the state are counts.
  """

  # The names of the fields that are averages and iterates, at any depth.
  moments: ClassVar[tuple[str, ...]] = ()
  iterates: ClassVar[tuple[str, ...]] = ()

  def build(self, step: Step) -> optax.GradientTransformation:
    """The transformation that takes one step."""

  def gradient_point(self, state: Any, params: Any) -> Any:
    """The parameters at which the gradient is taken."""
    del state
    return params

  def evaluated(self, state: Any, params: Any) -> Any:
    """The parameters to evaluate, of an optimizer in a loop of one's own."""
    del state
    return params

  def needs_forms(self) -> bool:
    """Whether it asks what the parameters are; see `Step.forms`."""
    return False

  def size(self, start: RunStart) -> float:
    """The size of the weights, by which it goes in each step; see `Step.size`.

    Only an optimizer that asks for forms is asked.
    """
    del start
    return 1.0

  def follows_epochs(self) -> bool:
    """Whether its weight decay can follow the epochs; see `epochs_factor`."""
    return False

  def epochs_factor(self, epochs: ArrayLike, share: ArrayLike) -> jax.Array:
    """Factor on the weight decay of a run that sees its data more than once.

    Each step has it as its `decay_factor`, which `descent` applies. Only a
    setting whose peak is a `SpectralPeak` has one.

    Args:
      epochs: how often the run sees its data; shape=().
      share: the peak, as a share of the size of the weights; shape=().

    Returns:
      At least 1, float32, of shape (). Only an optimizer that follows the
      epochs is asked.
    """
    del epochs, share
    return jnp.float32(1.0)

  def roles(self, params: Any) -> RoleOf:
    """What a reset does to the leaf at a path of the state.

    Args:
      params: tree of jax.ShapeDtypeStruct, such as will be trained.

    Raises:
      ValueError: for a name in `moments` or `iterates` that is no field.
    """
    check_fields(self, self.build, params)
    return roles_by_field(self.moments, self.iterates)


def check_fields(
  part: Direction | Optimizer,
  build: Callable[[Step], optax.GradientTransformation],
  params: Any,
) -> None:
  """Raises ValueError unless what a part names are fields of its state.

  Fields without a leaf count: a model may have nothing to keep there.
  """
  init = lambda rate, params: build(Step(rate)).init(params)
  leaves, _ = tree_flatten_with_path(
    jax.eval_shape(init, 0.1, params),
    is_leaf=lambda node: node is None or node == (),
  )
  keys = [key for path, _ in leaves for key in path]
  fields = dict.fromkeys(key.name for key in keys if hasattr(key, 'name'))
  has = ', '.join(fields) or 'none'
  must_be = f'a tuple of names of fields of its state, which are {has}'
  for kind in ('moments', 'iterates'):
    given = getattr(part, kind, ())
    name = f'{type(part).__name__}.{kind}'
    check({*given} <= {*fields}, name, given, must_be)


def descent(
  direction: optax.GradientTransformation,
  step: Step,
  weight_decay: ArrayLike,
  grad_clip: float | None = None,
  share: ArrayLike = 1.0,
) -> optax.GradientTransformation:
  """Steps of -share * rate * (direction + weight_decay * parameters).

  Args:
    direction: of the gradients.
    step: has the rate, and two factors on the weight decay.
    weight_decay: decoupled, as in AdamW.
    grad_clip: largest global norm of the gradients; None: no clipping.
    share: of the rate.
  """
  return optax.chain(
    clipped(grad_clip),
    direction,
    optax.add_decayed_weights(weight_decay * step.total_decay_factor),
    optax.scale(-1.0 * share * step.rate),
  )


def clipped(limit: float | None) -> optax.GradientTransformation:
  """Clips to this global norm of the gradient; None: no clipping."""
  if limit is None:
    return optax.identity()
  return optax.clip_by_global_norm(limit)


def held(moves: jax.Array, new: Any, old: Any) -> Any:
  """New leaves, in the types of the old, if the step moves; else old leaves."""
  choose = lambda new, old: jnp.where(moves, new, old).astype(old.dtype)
  return tree_map(choose, new, old)


def averaged(average: Any, new: Any, keep: ArrayLike) -> Any:
  """keep * average + (1 - keep) * new, leaf by leaf."""
  return tree_map(lambda a, x: keep * a + (1 - keep) * x, average, new)
