"""What the parameters of a loop are: matrices, tables or vectors."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

import jax.numpy as jnp
from jax.tree_util import keystr, tree_flatten_with_path

from ..core.checks import check
from ..core.forms import Answer, Form, forms
from ..core.uses.traced import forms_of_init, forms_of_uses
from .settings import attempt

# Path of a parameter, "['dense']['kernel']" -> its form; False for no matrix;
# True or None where its use, its name or its shape shall tell.
OfPath = Callable[[str], 'bool | Form | None']
_MATRICES = (
  'a function of the path of a parameter, to a Form, True, False or None'
)
_LOSS = (
  'a function of the parameters that jax can trace; inside optax.masked and '
  'optax.multi_transform others than those trained are optax.MaskedNode()'
)


def parameter_forms(
  params: Any,
  matrices: OfPath | None,
  loss_fn: Callable[[Any], Any] | None,
  init: Callable[[], Any] | None = None,
) -> tuple[Answer, ...]:
  """What each parameter is, and by what; see `core.forms.forms`.

  Args:
    params: tree of jax.ShapeDtypeStruct.
    matrices, loss_fn: see `Cycles`.
    init: makes the parameters; flax's runs the model, which says what each is
      for. None: nobody knows how they are made.

  Raises:
    ValueError: for either of the two that cannot work.
  """
  trace = None
  if loss_fn is not None:
    uses: Callable[[Any], Any] = lambda loss_fn: forms_of_uses(loss_fn, params)
    trace = attempt('loss_fn', loss_fn, _LOSS, uses)
  elif init is not None:
    trace = forms_of_init(init)
  ask: Callable[[Any], Any] = lambda user: forms(
    params, user, trace, has_names=True
  )
  answers: tuple[Answer, ...] = attempt('matrices', matrices, _MATRICES, ask)
  return answers


def check_floats(
  name: str, params: Any, else_: str, but: Container[str] = frozenset()
) -> None:
  """Raises ValueError for a parameter that is no real number, by its path.

  Args:
    name: of the argument with the parameters.
    params: tree of jax.ShapeDtypeStruct.
    else_: what to do with a parameter that is not trained.
    but: paths of parameters that are not trained.
  """
  for path, leaf in tree_flatten_with_path(params)[0]:
    where, must_be = keystr(path), f'a float; if it is not trained, {else_}'
    if jnp.issubdtype(leaf.dtype, jnp.complexfloating):
      must_be = 'real: train its real and imaginary parts'
    is_right = jnp.issubdtype(leaf.dtype, jnp.floating) or where in but
    check(is_right, f'dtype of {name}{where}', str(leaf.dtype), must_be)
