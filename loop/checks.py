"""Refuses settings that do not work in a loop, before its first step."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..control.decide import Rules
from ..control.state import Target
from ..schedule_params import ScheduleParams, make_rules
from ..schedules.cycle import check_cycles
from ..settings.checks import check, check_count, check_positive
from ..settings.named import name_of
from ..soft_reset import needs_tau

# Parts that need the target, by their field.
_NEED_TARGET = {'switching': ('progress', 'floor')}
# Parts that would do nothing, since a loop has no time budget; by their field.
_NEED_BUDGET = {'horizon': ('time',)}


def make_loop_rules(
  chain: ScheduleParams | Mapping[str, Any],
  num_steps: int,
  target: float | None,
  rises: bool,
  has_tau: bool,
) -> Rules:
  """The rules of a loop.

  Args:
    chain: settings, or their plain form; see `ScheduleParams.to_dict`.
    num_steps: steps of the whole chain.
    target: metric to reach; None if none is known.
    rises: whether a larger metric is better.
    has_tau: whether the loop has its own function for tau.

  Raises:
    ValueError: for an argument or setting that a loop cannot use.
  """
  if not isinstance(chain, ScheduleParams):
    chain = ScheduleParams.from_dict(chain)
  check_count('num_steps', num_steps)
  if target is None:
    needs = needs_tau(chain.reset_mode) and not has_tau
    right = "'full', 'kept_momentum' or 'cyclic' unless target or tau is given"
    check(not needs, 'reset_mode', chain.reset_mode, right)
    _refuse(chain, _NEED_TARGET, 'another one if target is None')
  else:
    check_positive('target', target)
  _refuse(chain, _NEED_BUDGET, "'steps', as a loop has no time budget")
  # NaN: no metric is ever compared with it.
  value = float('nan') if target is None else float(target)
  whole = dataclasses.replace(chain, budget_factor=1.0)
  rules = make_rules(num_steps, whole, Target('metric', value, bool(rises)))
  check_cycles(rules.cycles)
  _check_kinds(rules)
  return rules


def _refuse(
  chain: ScheduleParams, parts: Mapping[str, tuple[str, ...]], right: str
) -> None:
  for field, names in parts.items():
    name = name_of(getattr(chain, field))
    check(name not in names, field, name, right)


def _check_kinds(rules: Rules) -> None:
  """Refuses what needs more than one compiled step, or stored models."""
  first = rules.cycles[0].optimizer
  for i, cycle in enumerate(rules.cycles):
    right = 'the same in all cycles, as a loop has one compiled step'
    same = cycle.optimizer == first
    check(same, f'cycles[{i}].optimizer', cycle.optimizer, right)
    right = "'none', as the loop itself decides what is evaluated"
    none = cycle.averaging == 'none'
    check(none, f'cycles[{i}].averaging', cycle.averaging, right)
  policy = type(rules.policy).__name__
  keeps = rules.keeps_best or rules.policy.num_slots(rules.cycles)
  right = (
    'one that stores no models (and no cycle may start from the best one), as '
    'a loop stores none'
  )
  check(not keeps, 'policy', policy, right)
