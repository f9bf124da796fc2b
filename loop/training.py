"""How a loop trains: its optimizer in cycles, and what a reset does to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from jax.tree_util import keystr, tree_flatten_with_path

from ..any_optax.behaviour import behaviour_of, frozen_in
from ..any_optax.optax_optimizers import (
  USABLE,
  Scheduled,
  build_of,
  scheduled_in,
  takes_decay,
)
from ..any_optax.roles import roles_of
from ..core.checks import check, check_part
from ..core.forms import Answer
from ..core.schedules import Constant, PlannedCycle, Shape
from ..engine.model_reset import role_in
from ..optimizers.at_gradient import AtGradient
from ..optimizers.average import Averaged
from ..optimizers.clocked import clocked
from ..optimizers.precise import InFloat32
from ..optimizers.roles import RoleOf
from ..optimizers.step import Optimizer, Step
from ..soft_reset import Cyclic, FullReset
from .frozen import Unfrozen
from .settings import attempt
from .stages import Stage


class Training(NamedTuple):
  """An optimizer that steps inside cycles, and the roles of its leaves."""

  begin: Callable[[Any], Any]  # parameters -> the optimizer's state at a start
  update: Callable[..., Any]  # optax's, of a `ClockedState`
  gradient_point: Callable[[Any], Any]  # of the loop's state
  evaluated: Callable[[Any], Any]  # of the loop's state
  frozen: tuple[str, ...]  # paths of the parameters that no reset touches
  role_of: RoleOf  # of a leaf's path in a `Model`
  lacks: str  # the leaves without a blend, in words; '' if all can be blended


def training(
  optimizer: Any,
  params: Any,
  stage: Stage,
  schedules: Mapping[str, Shape] | None,
  is_kept: tuple[bool, ...] | None,
  answers: Sequence[Answer],
) -> Training:
  """Looks at an optimizer, and puts it into the cycles of a stage.

  Args:
    optimizer, schedules: see `Cycles`.
    params: tree of jax.ShapeDtypeStruct.
    stage: the first one.
    is_kept: see `frozen_among`.
    answers: what the parameters are; empty where nobody asks.

  Raises:
    ValueError: for any of these that cannot work.
  """
  settings, cycles = stage.config.settings, stage.config.chain.cycles
  paths = [path for path, _ in tree_flatten_with_path(params)[0]]

  # How the optimizer is built.
  named = chosen = optimizer
  if optimizer is None:
    named = settings.optimizer
    own: Optimizer = settings.optimizer
    own = AtGradient(own) if isinstance(own, Averaged) else own
    chosen = InFloat32(own)
    chosen = chosen if is_kept is None else Unfrozen(chosen, is_kept)
  decay = getattr(settings.optimizer, 'weight_decay', 0.0)
  scheduled = _scheduled(chosen, decay, cycles, schedules)

  forms = tuple(answer.form for answer in answers) or None

  def look_at(_: Any) -> Any:
    build_any = build_of(chosen, params, decay, scheduled)

    def build(step: Step) -> Any:
      return build_any(step._replace(forms=forms))

    behaviour = behaviour_of(build, params)
    return build, behaviour, frozen_in(behaviour)

  build, behaviour, untrained = attempt('optimizer', named, USABLE, look_at)
  transformation = clocked(build, cycles, stage.words)

  # What a reset does to each leaf.
  is_kept = untrained if is_kept is None else is_kept
  kept = [path for path, is_frozen in zip(paths, is_kept) if is_frozen]
  declared = chosen.roles(params) if optimizer is None else None
  roles, doubtful = roles_of(behaviour, is_kept, declared)
  lacks = f'(this optimizer has no blend of {", ".join(doubtful)})'
  must_be = f'FullReset() or Cyclic() {lacks}'
  is_sure = not doubtful or isinstance(settings.reset, (FullReset, Cyclic))
  check(is_sure, 'reset', settings.reset, must_be)

  def gradient_point(state: Any) -> Any:
    if optimizer is not None:
      return state.params
    return chosen.gradient_point(state.opt_state.inner, state.params)

  def evaluated(state: Any) -> Any:
    if optimizer is not None:
      return state.params
    return chosen.evaluated(state.opt_state.inner, state.params)

  return Training(
    begin=lambda params: transformation.init(params).inner,
    update=transformation.update,
    gradient_point=gradient_point,
    evaluated=evaluated,
    frozen=tuple(map(keystr, kept)),
    role_of=role_in(roles.__getitem__, frozenset(kept)),
    lacks=lacks if doubtful else '',
  )


def _scheduled(
  optimizer: Any, decay: float, cycles: Sequence[PlannedCycle], schedules: Any
) -> dict[str, Scheduled]:
  """See `scheduled_in`; ValueError also where a cycle's decay has no effect."""
  for planned in cycles:
    shape = planned.cycle.weight_decay
    is_free = shape == Constant() or takes_decay(optimizer)
    must_be = 'Constant() with an optimizer that takes no weight_decay'
    check(is_free, 'weight_decay of a cycle', shape, must_be)
  if schedules is None:
    return {}
  must_be = 'a dictionary of shapes by names, such as {"b1": Linear(floor=0.9)}'
  check(isinstance(schedules, Mapping), 'schedules', schedules, must_be)
  for name, shape in schedules.items():
    check_part(f'schedules[{name!r}]', shape, Shape, 'a shape such as Cosine()')
  return scheduled_in(optimizer, decay, schedules)
