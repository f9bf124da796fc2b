"""What is asked of the trace of a function, a jaxpr, at several places."""

from __future__ import annotations

from typing import Any

# Parameters of an equation that hold the jaxpr that it calls.
_CALLED = ('jaxpr', 'call_jaxpr', 'fun_jaxpr')


def called(equation: Any) -> Any:
  """The jaxpr that an equation is a call of; None if it is none.

  A call takes the equation's inputs and gives its outputs one by one: jit,
  remat, custom_jvp and custom_vjp. Loops and conditions are none.
  """
  if equation.primitive.name.startswith('reduce'):
    return None
  for name in _CALLED:
    closed = equation.params.get(name)
    jaxpr = getattr(closed, 'jaxpr', closed)
    sizes = [len(getattr(jaxpr, n, ())) for n in ('invars', 'outvars')]
    if sizes == [len(equation.invars), len(equation.outvars)]:
      return jaxpr
  return None
