"""What the parameters of a loop are: matrices, tables or vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.forms import Answer, Form, forms
from ..core.uses import forms_of_init, forms_of_uses
from .fresh_models import FreshModels
from .settings import attempt

# Path of a parameter, "['dense']['kernel']" -> its form; False for no matrix;
# True or None where its use, its name or its shape shall tell.
OfPath = Callable[[str], 'bool | Form | None']
_MATRICES = (
  'a function of the path of a parameter, to a Form, True, False or None'
)
_LOSS = 'a function of the parameters that jax can trace'


def parameter_forms(
  params: Any,
  fresh: FreshModels,
  matrices: OfPath | None,
  loss_fn: Callable[[Any], Any] | None,
) -> tuple[Answer, ...]:
  """What each parameter is, and by what; see `core.forms.forms`.

  Args:
    params: tree of jax.ShapeDtypeStruct.
    fresh: makes them; flax's `init` runs the model, which says what each is
      for.
    matrices, loss_fn: see `Cycles`.

  Raises:
    ValueError: for either of the two that cannot work.
  """
  if loss_fn is not None:
    uses: Callable[[Any], Any] = lambda loss_fn: forms_of_uses(loss_fn, params)
    trace = attempt('loss_fn', loss_fn, _LOSS, uses)
  else:
    trace = forms_of_init(lambda: fresh(0)[0])
  ask: Callable[[Any], Any] = lambda user: forms(
    params, user, trace, has_names=True
  )
  answers: tuple[Answer, ...] = attempt('matrices', matrices, _MATRICES, ask)
  return answers
