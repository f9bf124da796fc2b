"""Muon: orthogonalised momentum takes the steps of matrices."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import jax.numpy as jnp
import optax
from jax.tree_util import tree_flatten, tree_map, tree_unflatten

from ..core.checks import (
  Checked,
  Floor,
  Level,
  NonNegative,
  Positive,
  check,
  check_part,
)
from ..core.forms import by_shape
from .adamw import Rms
from .orthogonal import by_stacks, orthogonalised
from .roles import RoleOf, roles_by_field
from .step import (
  Direction,
  Optimizer,
  Step,
  averaged,
  clipped,
  descent,
  held,
)


def _check_direction(name: str, value: object) -> None:
  """Raises ValueError unless the value has a direction, and no rate."""
  must_be = 'a direction that the rate is applied to, such as Rms()'
  check_part(name, value, Direction, must_be)
  check(not hasattr(value, 'build'), name, value, must_be)


@dataclasses.dataclass(frozen=True)
class Muon(Checked, Optimizer):
  """Orthogonalised momentum for the matrices, another direction for the rest.

    matrices    m <- mu m + (1 - mu) g
                mu m + (1 - mu) g = U S V^T
                step = -rate (max(1, sqrt(out / in)) U V^T + decay W)
    the rest    step = -rest_share rate (direction + decay W)

  Five Newton-Schulz iterations stand for U V^T. They bring singular values
  above .0015 of the matrix's norm to .7 to 1.2. So the rate is about the
  largest stretch by a step, for a matrix that does not widen.

  What is a matrix, and which of its axes go in, go out or are stacked, the
  forms of the parameters say; see `core.forms`. Embeddings do not count as
  matrices. A matrix with a gradient that is not finite steps by its momentum.

  Source: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural
  networks".
  """

  momentum: Floor = 0.8  # decay of the mean of a matrix's gradients
  weight_decay: NonNegative = 0.02  # times the learning rate
  rest: Annotated[Direction, _check_direction] = Rms()  # for what is no matrix
  rest_share: Level = 0.3  # of the rate, for what is no matrix
  grad_clip: Positive | None = None  # largest global norm; None: no clipping

  def needs_forms(self) -> bool:
    return True

  def roles(self, params: Any) -> RoleOf:
    return roles_by_field(('trace', *self.rest.moments), ())

  def build(self, step: Step) -> optax.GradientTransformation:
    matrices = optax.chain(_ahead(self.momentum, step), _turned(step))
    rest = self.rest.direction(step)
    parts = {
      'matrix': descent(matrices, step, self.weight_decay),
      'rest': descent(rest, step, self.weight_decay, share=self.rest_share),
    }

    def kinds(params: Any) -> Any:
      leaves, structure = tree_flatten(params)
      forms = step.forms or [by_shape(leaf.shape) for leaf in leaves]
      names = ['matrix' if form.is_matrix else 'rest' for form in forms]
      return tree_unflatten(structure, names)

    return optax.chain(
      clipped(self.grad_clip), optax.multi_transform(parts, kinds)
    )


def _ahead(mu: float, step: Step) -> optax.GradientTransformation:
  """The mean m of the gradients, averaged with the gradient once more.

  At a rate of 0 m does not move. A gradient that is not finite counts as m:
  otherwise a single NaN would never leave the momentum.
  """

  def init(params: Any) -> optax.TraceState:
    return optax.TraceState(tree_map(jnp.zeros_like, params))

  def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
    del params
    usable = lambda g, m: jnp.where(jnp.all(jnp.isfinite(g)), g, m)
    grads = tree_map(usable, grads, state.trace)
    trace = averaged(state.trace, grads, mu)
    ahead = averaged(trace, grads, mu)
    return ahead, optax.TraceState(held(step.moves, trace, state.trace))

  return optax.GradientTransformation(init, update)


def _turned(step: Step) -> optax.GradientTransformation:
  """U V^T of each matrix, in the size of its step; given the matrices alone."""

  def turned(updates: Any, params: Any = None) -> Any:
    del params
    leaves, structure = tree_flatten(updates)
    forms = [form for form in step.forms or () if form.is_matrix]
    forms = forms or [by_shape(leaf.shape) for leaf in leaves]
    spread = lambda stack: step.spread(orthogonalised, stack)
    factors = by_stacks(spread, leaves, forms)
    sized = [
      form.widening(factor.shape) * factor
      for form, factor in zip(forms, factors)
    ]
    return tree_unflatten(structure, sized)

  return optax.stateless(turned)
