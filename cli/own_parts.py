"""Parts of a user's own, tried once before anything is trained.

A wrong return value would be noticed late, in this package's code. Here one
line names the class and the method.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_leaves, tree_structure

from ..core.chain import MOST_STEPS
from ..core.evaluation import Evaluation, Target, Way
from ..core.forms import matrix
from ..core.horizon import Intervals
from ..early_switching import Context, Verdict
from ..mini_algoperf import user_code
from ..mini_algoperf.submission_loader import LoadedSubmission
from ..optimizers.step import RunStart, Step
from ..schedule_params import ScheduleParams
from ..soft_reset import ResetPlan

_PACKAGE = __name__.partition('.')[0]


def settings_of(submission: LoadedSubmission) -> ScheduleParams | None:
  """The settings of a submission; None unless make_submission made it."""
  settings = getattr(submission.init_optimizer_state, 'settings', None)
  return settings if isinstance(settings, ScheduleParams) else None


def rehearse(settings: ScheduleParams | None) -> None:
  """Calls the methods of the parts that a user has written, if there are any.

  Raises:
    ValueError: names class and method, the value returned and what would be
      right.
    Exception: whatever a method raises.
  """
  if settings is None:
    return
  seen, target = Evaluation(1, 1.0, 0.5, 1.0), Target('metric', 0.9, True)
  rule, reset, optimizer = (
    settings.switching,
    settings.reset,
    settings.optimizer,
  )
  for cycle in settings.cycles:
    for shape, warmup in (
      (cycle.warmup, 0),
      (cycle.decay, cycle.warmup_factor),
      (cycle.weight_decay, 0),
    ):
      share = np.float32(0.5), np.float32(warmup)
      _try(shape, '__call__', _is_number, 'one real number', *share)
      for own in _own(shape, '__call__'):
        _check_traced(own, *share)

  must_be = 'a state like `initial` and a Verdict: a text, numbers by `columns`'
  context = Context(0.5, target, seen)
  for own in _own(rule, 'observe'):
    is_judged = functools.partial(_is_judged, own, tree_structure(own.initial))
    _try(own, 'observe', is_judged, must_be, own.initial, seen, context)
  is_plan = lambda answer: (
    isinstance(answer, ResetPlan) and _is_share(answer.tau)
  )
  _try(reset, 'plan', is_plan, 'a ResetPlan with tau in [0, 1]', 0.5)
  way = Way(seen, seen, target, 1, 10)
  _try(reset, 'tau', _is_share, 'a number in [0, 1]', way)
  if settings.horizon is not None:
    is_count = lambda answer: _is_number(answer) and 0 <= answer < np.inf
    must_be = 'steps, a number of at least 0'
    _try(
      settings.horizon, 'steps_to_come', is_count, must_be, Intervals(), 10.0
    )
  is_optax = lambda answer: (
    hasattr(answer, 'init') and hasattr(answer, 'update')
  )
  must_be = 'an optax transformation'
  step = Step(np.float32(0.1))
  for method, arguments in (('direction', (step,)), ('build', (step,))):
    _try(optimizer, method, is_optax, must_be, *arguments)
  trained = {'w': np.ones(2, np.float32)}
  like: Any = tree_structure(trained)
  is_like = lambda answer: bool(like == tree_structure(answer))
  must_be = 'a tree like the parameters'
  for part in _own(optimizer, 'gradient_point'):
    state = part.build(step).init(trained)
    _try(part, 'gradient_point', is_like, must_be, state, trained)
  kernel = {'w': np.ones((2, 2), np.float32)}
  start = RunStart(kernel, (matrix((0,), (1,)),), 100)
  is_factor = lambda answer: _is_number(answer) and 0 < answer < math.inf
  is_above_0 = 'a finite number above 0'
  if optimizer.needs_forms():
    _try(optimizer, 'size', is_factor, is_above_0, start)
  if settings.relative_peak is not None:
    is_rate = lambda answer: _is_number(answer) and not answer <= 0
    must_be = 'a number above 0, or NaN'
    _try(settings.relative_peak, 'peak', is_rate, must_be, start)
    for steps in (1, 100, MOST_STEPS):
      _try(
        settings.relative_peak, 'length_factor', is_factor, is_above_0, steps
      )


def _own(part: Any, method: str) -> Iterator[Any]:
  """The part, or parts inside it, with the method and from another package."""
  if isinstance(part, (tuple, list)):
    for one in part:
      yield from _own(one, method)
  elif type(part).__module__.partition('.')[0] != _PACKAGE:
    if hasattr(part, method):
      yield part
  elif dataclasses.is_dataclass(part):
    yield from _own(list(vars(part).values()), method)


def _is_judged(rule: Any, like: Any, answer: Any) -> bool:
  """Whether a rule may answer so: a state like its first one, and a Verdict."""
  if not isinstance(answer, tuple) or len(answer) != 2:
    return False
  state, verdict = answer
  return (
    isinstance(verdict, Verdict)
    and isinstance(verdict.reason, str)
    and isinstance(verdict.terms, Mapping)
    and {*verdict.terms} <= {*rule.columns}
    and like == tree_structure(state)
    and all(map(_is_number, [*tree_leaves(state), *verdict.terms.values()]))
  )


def _is_number(value: Any) -> bool:
  is_one = not isinstance(value, (list, tuple)) and np.ndim(value) == 0
  dtype = np.asarray(value).dtype
  return is_one and (
    dtype.kind in 'biuf' or jnp.issubdtype(dtype, jnp.floating)
  )


def _is_share(value: Any) -> bool:
  return _is_number(value) and 0 <= value <= 1


def _try(
  part: Any,
  method: str,
  is_right: Callable[[Any], bool],
  must_be: str,
  *arguments: Any,
) -> None:
  for inner in _own(part, method):
    name, called = f'{type(inner).__name__}.{method}', getattr(inner, method)
    _check_takes(name, called, len(arguments))
    answer = called(*arguments)
    if not is_right(answer):
      raise ValueError(f'{name} returned {answer!r}: it must return {must_be}.')


def _check_traced(shape: Any, *share: Any) -> None:
  """ValueError unless the shape, which takes numbers, can be traced as well."""
  try:
    jax.eval_shape(shape, *share)
  except (IndexError, TypeError) as e:  # what jax's errors of tracing are
    raise ValueError(
      f'{type(shape).__name__}.__call__ must be a function that JAX can trace, '
      f'with jnp.where for `if`: {user_code.message_of(e)}'
    ) from e


def _check_takes(name: str, called: Callable[..., Any], count: int) -> None:
  """ValueError unless the method can be called with so many arguments."""
  try:
    signature = inspect.signature(called)
  except ValueError:  # a function of C has none
    return
  try:
    signature.bind(*[None] * count)
  except TypeError as e:
    must_be = '1 argument' if count == 1 else f'{count} arguments'
    raise ValueError(f'{name}{signature} must take {must_be}: {e}.') from e
