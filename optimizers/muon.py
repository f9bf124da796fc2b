"""Muon: orthogonalised momentum takes the steps of matrices."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.tree_util import tree_flatten, tree_leaves, tree_map, tree_unflatten
from jax.typing import ArrayLike

from ..core.checks import (
  Checked,
  Floor,
  Level,
  NonNegative,
  Positive,
  check,
  check_part,
)
from ..core.forms import TABLE, Form, as_stack, by_shape, from_stack
from .adamw import Rms
from .orthogonal import by_stacks, orthogonalised
from .peaks import spectral_size
from .roles import RoleOf, roles_by_field
from .step import (
  Direction,
  Optimizer,
  RunStart,
  Step,
  averaged,
  check_fields,
  clipped,
  descent,
  held,
)

_Steps = Annotated[float, '[1, inf)']


def _check_direction(name: str, value: object) -> None:
  """Raises ValueError unless the value has a direction, and no rate."""
  must_be = 'a direction that the rate is applied to, such as Rms()'
  check_part(name, value, Direction, must_be)
  check(not hasattr(value, 'build'), name, value, must_be)


@dataclasses.dataclass(frozen=True)
class Muon(Checked, Optimizer):
  """Orthogonalised momentum for the matrices, another direction for the rest.

    matrices    m <- mu m + (1 - mu) g,  n <- mu n + (1 - mu) |g|
                mu m + (1 - mu) g = U S V^T
                c = (|m| / n)^coherence
                step = -rate c (max(1, sqrt(out / in)) U V^T + decay W)
                1 - mu = (1 - momentum) sqrt(min(1, growth_start / t))
    the rest    step = -rest_share rate (direction + decay W)
    tables      step = -rest_share f rate (direction + d W) - more W
                f = min(1, fall_start / t)^(1/4)
                more = min(1, rate (decay - d) / rest_share)
    all         p = weight_decay (rate / size)^decay_lr_power
                  times the cycle's own shape
                d = min(1 / rate, p),  decay = min(1 / rate, e p)
                e: the factor of the epochs

  Five Newton-Schulz iterations stand for U V^T. They bring singular values
  above .0015 of the matrix's norm to .7 to 1.2. So the spectral norm of a
  step is about c times the rate, for a matrix with out <= in.

  What is a matrix, and which of its axes go in, go out or are stacked, the
  forms of the parameters say; see `core.forms`. Embeddings do not count as
  matrices. A matrix with a gradient that is not finite steps by its momentum.

  |m| / n is the norm of a matrix's mean gradient over the mean norm of its
  gradients. It is 1 where all gradients agree. Where they are noise alone, it
  is sqrt((1 - mu) / (1 + mu)), or 1/3 with a mu of .8. U V^T is as
  long for noise as for a signal. With a coherence of 1 a step on noise is
  shorter, and its weight decay is smaller by the same factor. So is a step of
  Adam, whose mean gradient is divided by the gradients' size.

  t is the number of the step in its chain, by the plan, from 1: `Step.taken`
  and one. A soft reset keeps it; a chain begun anew and a new stage begin it
  anew. The mean is over some 1 / (1 - mu) gradients. From growth_start on this
  number grows as the root of t, as a peak by `SpectralPeak` falls with the root
  of a run's steps: the weights come about as far within one mean in runs of all
  lengths. The longer the mean, the shorter a step on noise: from growth_start
  on it shrinks about as one over the fourth root of t.

  A row of a large table has gradients in few of the steps. So they are noisier
  than those of a vector, and the steps of tables shrink as one over the fourth
  root of t as well, from fall_start on. Such a row also learns few examples by
  heart where it sees them many times. So of the weight decay that the epochs
  add, a table has not rest_share, but one over it; nothing where rest_share is
  0. In a run of one epoch such a decay would cost more than it gains.

  The size is that of the matrices as the run begins; see `spectral_size`. The
  rate is a share of it. It is 1 where no matrix tells it. Under random steps
  the square of a weight grows by the square of a step, rate^2. A weight decay
  in proportion to rate^2 holds weights at one size, whatever the rate is
  (Kosson et al. 2024, "Rotational equilibrium"). This is a decay_lr_power of 1:
  a run of any length forgets its first weights about as far, where the peak
  falls as one over the root of the length. Divided by the size, the weight
  decay holds weights at a multiple of the root of their first size. So weights
  that are too large shrink, and weights that are too small grow. AdamW's weight
  decay has a power of 0. A step takes at most as much away as the weights at
  which its gradient is taken.

  Source: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural
  networks". The published form has a coherence of 0. The step in proportion to
  the coherence is ours, after McCandlish et al. 2018, "An empirical model of
  large-batch training", where the best step shrinks with the share of noise in
  the gradient. The momentum that grows and the steps of tables that shrink
  are ours.
  """

  momentum: Floor = 0.8  # decay of the mean of a matrix's gradients
  growth_start: _Steps | None = None  # steps; None: the momentum stays
  coherence: NonNegative = 0.0  # power of the coherence in the step
  weight_decay: NonNegative = 0.02  # times rate (rate / size)^decay_lr_power
  decay_lr_power: NonNegative = 0.0  # power of rate / size in the decay
  rest: Annotated[Direction, _check_direction] = Rms()  # for what is no matrix
  rest_share: Level = 0.3  # of the rate, for what is no matrix
  fall_start: _Steps | None = None  # steps; None: tables step as the rest
  grad_clip: Positive | None = None  # largest global norm; None: no clipping
  least_norm: Positive | None = None  # where the factor of the epochs ends

  def needs_forms(self) -> bool:
    return True

  def size(self, start: RunStart) -> float:
    size = float(spectral_size(np, start))
    return size if math.isfinite(size) else 1.0

  def roles(self, params: Any) -> RoleOf:
    check_fields(self.rest, self.rest.direction, params)
    return roles_by_field(('trace', 'norms', *self.rest.moments), ())

  def momentum_at(self, taken: ArrayLike) -> ArrayLike:
    """mu of the step before which so many were taken; traced where it grows."""
    if self.growth_start is None:
      return self.momentum
    share = _start_over_steps(self.growth_start, taken)
    return 1 - (1 - self.momentum) * jnp.sqrt(share)

  def table_factor_at(self, taken: ArrayLike) -> ArrayLike:
    """f of a table, as `momentum_at`."""
    if self.fall_start is None:
      return 1.0
    return _start_over_steps(self.fall_start, taken) ** 0.25

  def follows_epochs(self) -> bool:
    return self.least_norm is not None

  def epochs_factor(self, epochs: ArrayLike, share: ArrayLike) -> jax.Array:
    """See `Optimizer.epochs_factor`.

    The factor is the number of epochs, from 1 on. So weights forget as much in
    each epoch, however many there are: where a peak falls as the root of the
    steps, the decay of a step comes to depend on the steps of an epoch alone.
    The factor ends where the weight decay would hold the spectral norm of a
    matrix that does not widen below least_norm. Without a least_norm the weight
    decay does not follow the epochs. Without an end a model of many
    epochs could not fit data that are free of noise.

    Source: Wang and Aitchison 2024, "How to set AdamW's weight decay as you
    scale model and dataset size": the time in which weights forget is constant
    in epochs. The end is ours.
    """
    if self.least_norm is None:
      return jnp.float32(1.0)
    decay = self.weight_decay * jnp.asarray(share) ** self.decay_lr_power
    end = 1 / (self.least_norm * jnp.where(decay > 0, decay, 1.0))
    return jnp.clip(
      jnp.asarray(epochs, jnp.float32), 1.0, jnp.maximum(1.0, end)
    )

  def build(self, step: Step) -> optax.GradientTransformation:
    decay: ArrayLike = 0.0  # and not 0 times a share that is infinite
    if self.weight_decay:
      share = step.rate / step.size
      decay = self.weight_decay * share**self.decay_lr_power
    most = 1.0 / jnp.where(step.moves, step.rate, 1.0)
    decay = decay * step.weight_decay
    once = jnp.minimum(decay, most)
    decay = jnp.minimum(decay * step.decay_factor, most)
    step = step._replace(weight_decay=1.0, decay_factor=1.0)  # in the decay
    mu = self.momentum_at(step.taken)
    matrices = _orthogonal(mu, self.coherence, step, decay)
    rest = self.rest.direction(step)
    parts = {
      'matrix': descent(matrices, step, weight_decay=0.0),
      'rest': descent(rest, step, decay, share=self.rest_share),
    }
    fallen = self.table_factor_at(step.taken)
    tables = optax.scale(fallen)
    if self.rest_share:
      added = step.rate * jnp.maximum(0.0, decay - once)
      more = jnp.minimum(1.0, added / self.rest_share)
      has = self.rest_share * fallen * added  # as all of the rest
      tables = optax.chain(tables, optax.add_decayed_weights(has - more))

    def each(label: Callable[[Form], Any], params: Any) -> Any:
      leaves, structure = tree_flatten(params)
      forms = step.forms or [by_shape(leaf.shape) for leaf in leaves]
      return tree_unflatten(structure, map(label, forms))

    part = lambda form: 'matrix' if form.is_matrix else 'rest'
    is_table = lambda form: form == TABLE
    return optax.chain(
      clipped(self.grad_clip),
      optax.multi_transform(parts, functools.partial(each, part)),
      optax.masked(tables, functools.partial(each, is_table)),
    )


def _start_over_steps(start: float, taken: ArrayLike) -> jax.Array:
  """min(1, start / t), t the number of the step before which `taken` were."""
  return jnp.minimum(1.0, start / (jnp.asarray(taken, jnp.float32) + 1))


class MatrixState(NamedTuple):
  """What is kept of the gradients of the matrices."""

  trace: Any  # m, the mean of the gradients
  # n, the mean of their norms; shape=(matrices of the model,). () with a
  # coherence of 0, which does not ask.
  norms: Any


def _orthogonal(
  mu: ArrayLike, power: float, step: Step, decay: ArrayLike
) -> optax.GradientTransformation:
  """c (max(1, sqrt(out / in)) U V^T + decay W), where c = (|m| / n)^power.

  It is given the matrices alone. At a rate of 0 m and n do not move. A gradient
  that is not finite counts as m: otherwise a single NaN would never leave the
  momentum.
  """

  def forms_of(leaves: list[Any]) -> list[Form]:
    forms = [form for form in step.forms or () if form.is_matrix]
    return forms or [by_shape(leaf.shape) for leaf in leaves]

  def init(params: Any) -> MatrixState:
    trace = tree_map(jnp.zeros_like, params)
    leaves = tree_leaves(trace)
    # Not _norms, whose zeros XLA would add up while it compiles.
    count = sum(_counts(leaves, forms_of(leaves)))
    norms = jnp.zeros(count, jnp.result_type(*leaves, 0.0)) if power else ()
    return MatrixState(trace, norms)

  def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
    must_be = 'the parameters, which the weight decay needs'
    check(params is not None, 'params', params, must_be)
    leaves, structure = tree_flatten(grads)
    forms = forms_of(leaves)
    usable = lambda g, m: jnp.where(jnp.all(jnp.isfinite(g)), g, m)
    grads = tree_map(usable, grads, state.trace)
    trace = averaged(state.trace, grads, mu)
    norms = state.norms
    turned = _turned(tree_leaves(averaged(trace, grads, mu)), forms, step)
    steps = [
      factor + decay * weights
      for factor, weights in zip(turned, tree_leaves(params))
    ]
    if power:
      size = _norms(tree_leaves(grads), forms)
      size = jnp.where(jnp.isfinite(size), size, norms)
      norms = averaged(norms, size, mu)
      ratios = _ratio(_norms(tree_leaves(trace), forms), norms)
      ends = np.cumsum(_counts(leaves, forms)[:-1])
      coherences = jnp.split(ratios, ends)
      steps = [
        _times(c**power, matrix, form)
        for c, matrix, form in zip(coherences, steps, forms)
      ]
    new = held(step.moves, MatrixState(trace, norms), state)
    return tree_unflatten(structure, steps), new

  return optax.GradientTransformation(init, update)


def _turned(
  leaves: list[jax.Array], forms: list[Form], step: Step
) -> list[jax.Array]:
  """max(1, sqrt(out / in)) U V^T of each matrix."""
  spread = lambda stack: step.spread(orthogonalised, stack)
  factors = by_stacks(spread, leaves, forms)
  return [
    form.widening(factor.shape) * factor for form, factor in zip(forms, factors)
  ]


def _counts(leaves: list[jax.Array], forms: list[Form]) -> list[int]:
  """How many matrices each parameter is."""
  return [form.sides(leaf.shape)[0] for leaf, form in zip(leaves, forms)]


def _norms(leaves: list[jax.Array], forms: list[Form]) -> jax.Array:
  """The Frobenius norm of each matrix: shape=(matrices of the model,)."""
  stacks = map(as_stack, leaves, forms)
  norms = [*map(_norms_of, stacks)]
  return jnp.concatenate(norms) if norms else jnp.zeros(0)


def _norms_of(stack: jax.Array) -> jax.Array:
  """The norm of each matrix of a stack, also where squares leave float32."""
  largest = jnp.max(jnp.abs(stack), axis=(1, 2), keepdims=True, initial=0.0)
  parts = stack / jnp.where(largest > 0, largest, 1.0)
  return largest[:, 0, 0] * jnp.sqrt(jnp.sum(jnp.square(parts), axis=(1, 2)))


def _ratio(part: jax.Array, whole: jax.Array) -> jax.Array:
  """part / whole, at most 1; 0 where the whole is 0."""
  return jnp.minimum(1.0, part / jnp.where(whole > 0, whole, 1.0))


def _times(factors: jax.Array, array: jax.Array, form: Form) -> jax.Array:
  """A parameter with each of its matrices times its factor."""
  stack = factors[:, None, None] * as_stack(array, form)
  return from_stack(stack, form, array.shape)
