"""Parts of a user's own, tried once before anything is trained.

What a part should not have returned is noticed late, in code that is not its own.
Here one line names the class and the method.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_leaves, tree_structure

from ..core.evaluation import Evaluation, Target, Way
from ..core.horizon import Intervals
from ..early_switching import Context, Verdict
from ..mini_algoperf.submission_loader import LoadedSubmission
from ..optimizers.peaks import RunStart
from ..optimizers.step import Step
from ..schedule_params import ScheduleParams
from ..soft_reset import ResetPlan

_PACKAGE = __name__.partition('.')[0]


def settings_of(submission: LoadedSubmission) -> ScheduleParams | None:
  """The settings that it was made with; None if not by make_submission."""
  settings = getattr(submission.init_optimizer_state, 'settings', None)
  return settings if isinstance(settings, ScheduleParams) else None


def rehearse(settings: ScheduleParams | None) -> None:
  """Calls the methods of the parts that are not this package's, if there are any.

  Raises:
    ValueError: names class and method, what it returned and what would be right.
      What the methods raise passes.
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

  like: Any = tree_structure(rule.initial)

  def is_judged(found: Any) -> bool:
    if not isinstance(found, tuple) or len(found) != 2:
      return False
    state, verdict = found
    return (
      isinstance(verdict, Verdict)
      and isinstance(verdict.reason, str)
      and isinstance(verdict.terms, Mapping)
      and {*verdict.terms} <= {*rule.columns}
      and like == tree_structure(state)
      and all(map(_is_number, [*tree_leaves(state), *verdict.terms.values()]))
    )

  right = 'a state like `initial` and a Verdict: a text, numbers by `columns`'
  context = Context(0.5, target, seen)
  _try(rule, 'observe', is_judged, right, rule.initial, seen, context)
  is_plan = lambda found: isinstance(found, ResetPlan) and _is_share(found.tau)
  _try(reset, 'plan', is_plan, 'a ResetPlan with tau in [0, 1]', 0.5)
  way = Way(seen, seen, target, 1, 10)
  _try(reset, 'tau', _is_share, 'a number in [0, 1]', way)
  if settings.horizon is not None:
    is_count = lambda found: _is_number(found) and 0 <= found < np.inf
    right = 'steps, a number of at least 0'
    _try(settings.horizon, 'steps_to_come', is_count, right, Intervals(), 10.0)
  is_optax = lambda found: hasattr(found, 'init') and hasattr(found, 'update')
  right = 'an optax transformation'
  step = Step(np.float32(0.1))
  for method, given in (('direction', (step,)), ('build', (step,))):
    _try(optimizer, method, is_optax, right, *given)
  trained = {'w': np.ones(2, np.float32)}
  like = tree_structure(trained)
  is_like = lambda found: bool(like == tree_structure(found))
  right = 'a tree like the parameters'
  for own in _own(optimizer, 'gradient_point'):
    begun = own.build(step).init(trained)
    _try(own, 'gradient_point', is_like, right, begun, trained)
  if settings.relative_peak is not None:
    kernel = {'w': np.ones((2, 2), np.float32)}
    start = RunStart(kernel, (True,), 100)
    is_rate = lambda found: _is_number(found) and not found <= 0
    right = 'a number above 0, or NaN'
    _try(settings.relative_peak, 'peak', is_rate, right, start)


def _own(part: Any, method: str) -> Iterator[Any]:
  """The part, or those inside it, that have the method and are not the package's."""
  if isinstance(part, (tuple, list)):
    for one in part:
      yield from _own(one, method)
  elif type(part).__module__.partition('.')[0] != _PACKAGE:
    if hasattr(part, method):
      yield part
  elif dataclasses.is_dataclass(part):
    yield from _own(list(vars(part).values()), method)


def _is_number(found: Any) -> bool:
  is_one = not isinstance(found, (list, tuple)) and np.ndim(found) == 0
  dtype = np.asarray(found).dtype
  return is_one and (
    dtype.kind in 'biuf' or jnp.issubdtype(dtype, jnp.floating)
  )


def _is_share(found: Any) -> bool:
  return _is_number(found) and 0 <= found <= 1


def _try(
  part: Any,
  method: str,
  is_right: Callable[[Any], bool],
  right: str,
  *given: Any,
) -> None:
  for own in _own(part, method):
    name, called = f'{type(own).__name__}.{method}', getattr(own, method)
    _check_takes(name, called, len(given))
    found = called(*given)
    if not is_right(found):
      raise ValueError(f'{name} returned {found!r}: it must return {right}.')


def _check_takes(name: str, called: Callable[..., Any], count: int) -> None:
  """ValueError unless the method can be called with so many arguments."""
  try:
    signature = inspect.signature(called)
  except ValueError:  # a function of C has none
    return
  try:
    signature.bind(*[None] * count)
  except TypeError as e:
    right = '1 argument' if count == 1 else f'{count} arguments'
    raise ValueError(f'{name}{signature} must take {right}: {e}.') from e
