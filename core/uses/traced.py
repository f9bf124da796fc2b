"""The forms of parameters, read off the trace of a model that uses them.

Nothing is computed: a function is traced once, and the equations of its jaxpr
are followed from the parameters to their uses. The other files of this folder
say what counts as a use: layers.py and lookups.py, by the kind of equation;
tallies.py has what several uses come to. What is only added or multiplied is a
vector.

Of several axes that a layer gives, those that a later layer contracts are what
comes out, as attention's heads. Those that later layers only have as a batch
are stacked: an ensemble whose members have one input (outputs.py).

What cannot be told, so that the user has to:

- A product that is written as a multiplication and a sum is taken for a vector.
- Where a layer gives several axes, and nothing that follows says of one of
  them whether it holds features or layers, the form is None: a layer (in, a, b)
  at a model's end, or attention whose heads no layer brings together.
- A product of two weights (out, in) that is applied to what a layer has given
  could be learnt queries times theirs: the form is None. So it is of a matrix
  that is repeated along an axis of what comes out, or joined to an array that
  is no parameter: it could be learnt tokens.
- One output that a dot_general sums over many layers makes one layer of them,
  with as many more inputs.
- A matrix whose rows are permuted by an array of indices is taken for a table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.interpreters import partial_eval

from ..forms import Form
from .seeds import Seeds, seed
from .values import Level, Value
from .walk import Walk


def forms_of_uses(
  fn: Callable[[Any], Any], params: Any
) -> tuple[Form | None, ...]:
  """The form of each parameter, by what a function does with it.

  Args:
    fn: of the parameters; for example a loss, with an example batch bound.
    params: a tree of arrays or of jax.ShapeDtypeStruct.

  Returns:
    In the order of the leaves; None where a parameter has no use that tells.
  """
  leaves = jax.tree_util.tree_leaves(params)
  jaxpr = _jaxpr(fn, params)
  are_wanted = [True] * len(jaxpr.outvars)
  # What a function leaves unused is no use.
  jaxpr, _ = partial_eval.dce_jaxpr(jaxpr, are_wanted, instantiate=True)
  walk = Walk([leaf.shape for leaf in leaves])
  arguments = [
    Value((walk.whole(i),), Level.PARAMETER) for i in range(len(leaves))
  ]
  walk.follow(jaxpr, arguments, {})
  return walk.forms()


def forms_of_init(
  init: Callable[..., Any], *args: Any
) -> tuple[Form | None, ...]:
  """The form of each parameter that a function makes, by what it does with it.

  Flax's `Module.init` runs the model on the example that it is given, and so
  does the benchmark's `init_model_fn`.

  Args:
    init: returns a tree of parameters.
    *args: for example a key, raw or typed.

  Returns:
    In the order of the leaves of the result; None where a parameter is not used
    in a way that tells. A function that makes parameters and runs no model
    gives None for all of them.
  """
  jaxpr = _jaxpr(init, *args)
  walk = Walk([var.aval.shape for var in jaxpr.outvars])
  arguments = [Value() for _ in jaxpr.invars]
  seeds: Seeds = {}
  for i, var in enumerate(jaxpr.outvars):
    seed(seeds, var, walk.whole(i))
  walk.follow(jaxpr, arguments, seeds)
  return walk.forms()


def _jaxpr(fn: Callable[..., Any], *args: Any) -> Any:
  with jax.disable_jit(False):  # or a loop would be run, and not traced
    return jax.make_jaxpr(fn)(*args).jaxpr
