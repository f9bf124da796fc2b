"""What the parameters of a loop are: matrices, tables or vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
