"""Where a model has the parameters that its own function makes.

`Module.init` of flax makes parameters, uses them, and hands them out. A seed is
a variable of the trace that is one of them: id of the variable -> its track.
"""

from __future__ import annotations

from typing import Any

from ..jaxprs import called
from .tracks import Track, cut, sizes_of, without

Seeds = dict[int, Track]

# As many outputs as inputs, each the input.
SAME_EACH = {'device_put', 'optimization_barrier'}


def seed(seeds: Seeds, var: Any, track: Track) -> None:
  """Notes that a variable is a parameter; the first word on it counts."""
  if not hasattr(var, 'val'):  # a literal is no variable
    seeds.setdefault(id(var), track)


def seed_origins(jaxpr: Any, seeds: Seeds) -> None:
  """Goes back from what is handed out to where the model has it.

  On the way a parameter may be put on devices, cast, or get an axis of them.

  Args:
    jaxpr: whose outputs, or some of them, are seeds.
    seeds: gets those variables that the seeds in it are made of.
  """
  for equation in reversed(jaxpr.eqns):
    for i, out in enumerate(equation.outvars):
      if id(out) in seeds:
        _seed_inputs(equation, i, seeds[id(out)], seeds)
    body = called(equation)
    inner: Seeds = {}
    for var, out in zip(getattr(body, 'outvars', ()), equation.outvars):
      if id(out) in seeds:
        seed(inner, var, seeds[id(out)])
    if inner:
      seed_origins(body, inner)
      for var, argument in zip(body.invars, equation.invars):
        if id(var) in inner:
          seed(seeds, argument, inner[id(var)])


def _seed_inputs(equation: Any, i: int, track: Track, seeds: Seeds) -> None:
  """Seeds what the i-th output of an equation, a parameter, is made of."""
  name, inputs = equation.primitive.name, equation.invars
  if name in SAME_EACH:
    seed(seeds, inputs[i], track)
  elif name in ('convert_element_type', 'copy', 'copy_p'):
    seed(seeds, inputs[0], track)
  elif name == 'broadcast_in_dim':
    # vmap does so with what is the same in each of its layers: zeros.
    old = equation.params['broadcast_dimensions']
    new = [j for j in range(len(track.dims)) if j not in old]
    of_row = without(track, *new)
    if sizes_of(of_row) == inputs[0].aval.shape != ():
      seed(seeds, inputs[0], of_row)
  elif name == 'stack':
    of_row = without(track, equation.params['axis'])
    for var in inputs:
      seed(seeds, var, of_row)
  elif name == 'concatenate':
    for var in inputs:
      seed(seeds, var, cut(track, var.aval.shape))
