"""Any optimizer of optax, by its name, inside the cycles of a submission."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar

import jax
import numpy as np
import optax

from ..core.checks import Checked, NonNegative, check, did_you_mean, is_number
from ..optimizers.step import Optimizer, Step
from .behaviour import behaviour_of, frozen_in
from .optax_optimizers import build_of, takes_decay
from .roles import roles_of


def _tupled(value: Any) -> Any:
  """Lists as tuples, at any depth."""
  is_list = isinstance(value, (list, tuple))
  return tuple(map(_tupled, value)) if is_list else value


def _is_plain(value: Any) -> bool:
  if isinstance(value, tuple):
    return all(map(_is_plain, value))
  return value is None or isinstance(value, (bool, int, float, str))


def _check_arguments(name: str, value: Any) -> None:
  is_pairs = isinstance(value, tuple) and all(
    isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str)
    for p in value
  )
  must_be = "a dictionary of arguments by their names, such as {'b1': 0.9}"
  check(is_pairs, name, value, must_be)
  names = [key for key, _ in value]
  check(len({*names}) == len(names), name, value, 'without a name twice')
  must_be = 'a number, True or False, a text, None, or a tuple of these'
  for key, argument in value:
    check(_is_plain(argument), f'{name}[{key!r}]', argument, must_be)


@dataclasses.dataclass(frozen=True)
class FromOptax(Checked, Optimizer):
  """optax.<name>(learning_rate, **arguments), or that of optax.contrib.

    FromOptax('lamb', {'b1': 0.9}, weight_decay=0.01)

  The learning rate is that of the cycles. What a reset does to the state is
  inferred from what the optimizer does; see `any_optax.roles`.

  Attributes:
    name: of the function.
    arguments: of it, by their names; they are kept as pairs, in order of names.
    weight_decay: the function's argument of this name; None: optax's default.
      It follows `Cycle.weight_decay`. Weight decays of other names do not.
    l2: c, where c times the parameters is added to the gradients first: the
      gradient of c / 2 times the sum of their squares.

  Raises:
    ValueError: if there is no such function or argument; before the first step,
      if a reset could not tell what to do with the state, or the learning rate
      changes nothing.

  Source: the optimizers of Cerebras' modelzoo by name; l2: Loshchilov and
  Hutter 2019, "Decoupled weight decay regularization", algorithm 2.
  """

  name: str
  arguments: Annotated[tuple[tuple[str, Any], ...], _check_arguments] = ()
  weight_decay: NonNegative | None = None
  l2: NonNegative = 0.0

  # Fields that JSON may give as an object without a class.
  mappings: ClassVar[tuple[str, ...]] = ('arguments',)

  def __post_init__(self) -> None:
    arguments = self.arguments
    if isinstance(arguments, Mapping):
      arguments = tuple(arguments.items())
    object.__setattr__(self, 'arguments', _tupled(arguments))
    super().__post_init__()
    arguments = tuple(sorted(self.arguments, key=lambda pair: pair[0]))
    object.__setattr__(self, 'arguments', arguments)
    function = self._function()
    named = dict(arguments)
    for field in ('learning_rate', 'weight_decay'):
      must_be = f'without {field}, which has a place of its own'
      check(field not in named, 'arguments', arguments, must_be)
    try:
      inspect.signature(function).bind_partial(**named)
    except TypeError as e:
      raise ValueError(
        f'arguments={arguments!r}: optax.{self.name}: {e}.'
      ) from e
    must_be = f'None with {self.name}, which has none; l2 is for any optimizer'
    is_free = self.weight_decay is None or takes_decay(function)
    check(is_free, 'weight_decay', self.weight_decay, must_be)

  def _function(self) -> Callable[..., Any]:
    must_be = (
      'another one, such as ScheduleFreeAdamW() of this project: what is '
      'evaluated of it is not what it trains'
    )
    is_usable = not str(self.name).startswith('schedule_free')
    check(is_usable, 'name', self.name, must_be)
    places = (optax, getattr(optax, 'contrib', None))
    for place in places:
      function: Any = getattr(place, '__dict__', {}).get(self.name)
      if _is_optimizer(function):
        optimizer: Callable[..., Any] = function
        return optimizer
    known = [
      name
      for place in filter(None, places)
      for name, value in vars(place).items()
      if not name.startswith('_') and _is_optimizer(value)
    ]
    raise ValueError(
      f'name={self.name!r}: optax has no such optimizer of a learning rate.'
      + did_you_mean(str(self.name).lower(), known)
    )

  def build(self, step: Step) -> optax.GradientTransformation:
    function = functools.partial(self._function(), **dict(self.arguments))
    has_decay, weight_decay = takes_decay(function), self.weight_decay
    if weight_decay is None and has_decay:
      weight_decay = (
        inspect.signature(function).parameters['weight_decay'].default
      )
      has_decay = is_number(weight_decay)

    def whole(learning_rate: Any, weight_decay: Any) -> Any:
      decay = {'weight_decay': weight_decay} if has_decay else {}
      transformation = function(learning_rate=learning_rate, **decay)
      if not self.l2:
        return transformation
      l2 = optax.add_decayed_weights(self.l2 * step.total_decay_factor)
      return optax.chain(l2, transformation)

    return build_of(whole, None, weight_decay or 0.0)(step)

  def roles(self, params: Any) -> Callable[[Any], int]:
    """What a reset does to the leaf at a path of the state.

    Args:
      params: tree of jax.ShapeDtypeStruct, such as will be trained.

    Raises:
      ValueError: if a reset could not tell, or no rate changes the updates.
    """
    try:
      # In a submission, the update takes no loss.
      tx = self.build(Step(np.float32(0)))
      jax.eval_shape(lambda p: tx.update(p, tx.init(p), p), params)
      behaviour = behaviour_of(self.build, params)
      frozen_in(behaviour)
    except Exception as e:
      reason = str(e).partition('\n')[0].rstrip('.')
      raise ValueError(f'optimizer={self!r}: {reason}.') from e
    roles = roles_of(behaviour, [False] * len(behaviour.targets))
    must_be = f'one with a blend of {", ".join(roles.doubtful)} of its state'
    check(not roles.doubtful, 'optimizer', self, must_be)
    return roles.of.__getitem__


def _is_optimizer(function: Any) -> bool:
  """Whether this is a function of a learning rate."""
  if not callable(function) or isinstance(function, type):
    return False
  try:
    return 'learning_rate' in inspect.signature(function).parameters
  except (TypeError, ValueError):
    return False
