"""The registry of shapes: each name, its parameters and what they may be.

Lengths are shares of the phase, a decay's being the cycle's steps after the
warm-up; values are shares of the cycle's peak. So the same parameters mean the
same curve on every workload. The exception is `multiplicative`, whose function
is given the step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, NamedTuple

from ..settings.checks import check_positive, check_weight
from . import lr_shapes, phase_shapes
from . import shape_checks as kinds
from .formulas import FALLS, Schedule
from .schedule_chains import ANNEALS, CYCLIC_MODES
from .shape_checks import REQUIRED, Parameter

# The parameters of one shape; what is wrong between them, or nothing.
CheckTogether = Callable[[Mapping[str, Any]], str]


class Family(NamedTuple):
  """What a name in the registry stands for."""

  build: Callable[..., Schedule]  # (steps, **parameters)
  parameters: Mapping[str, Parameter] = {}
  check: CheckTogether = lambda parameters: ''


def _one_more(longer, shorter):
  def check_lengths(p):
    if len(p[longer]) == len(p[shorter]) + 1:
      return ''
    return (
      f'{longer} has {len(p[longer])} entries and {shorter} {len(p[shorter])}; '
      f'{longer} must have one more than {shorter}'
    )

  return check_lengths


def _has_floor_to_fall_to(p):
  if p['fall'] == 'inverse' and p['floor'] == 0:
    return 'floor must be above 0 for an inverse fall'
  return ''


def _falls(p):
  if p['cooldown'] == 0:
    return ''
  begin = max(1 - p['cooldown'], p['hold'])
  if p['floor'] > (p['hold'] / begin) ** p['exponent']:
    return 'floor must not be above where the cool-down starts'
  return _has_floor_to_fall_to(p)


def _has_way_down(p):
  if p['three_phase'] and p['rise'] >= 0.5:
    return 'rise must be below 0.5 with three_phase, which has it twice'
  return ''


def _is_sequence(p):
  wrong = _one_more('shapes', 'at')(p)
  if not wrong and p['peaks'] and len(p['peaks']) != len(p['shapes']):
    return 'peaks must have one entry per shape, or none for peaks of 1'
  return wrong


_FLOOR = Parameter(0.0, kinds.below_one)
_ALL = Parameter(1.0, check_weight)
_STAIRCASE = Parameter(False, kinds.boolean)
_FALL = Parameter('linear', kinds.choice(FALLS))
_POWER = Parameter(1.0, check_positive)
_FUNCTION = {'function': Parameter(REQUIRED, kinds.function)}
SHAPES = Parameter(REQUIRED, kinds.shape_list)
_START = {'start': Parameter(0.0, kinds.below_one)}

WARMUPS: dict[str, Family] = {
  'linear': Family(phase_shapes.linear_warmup, _START),
  'cosine': Family(phase_shapes.cosine_warmup, _START),
  'exponential': Family(
    phase_shapes.exponential_warmup,
    {'start': Parameter(0.01, kinds.inner_share)},
  ),
  'none': Family(phase_shapes.of_thesis(lr_shapes.no_warmup_fn)),
  'polynomial': Family(
    phase_shapes.polynomial_warmup, {**_START, 'power': _POWER}
  ),
}

DECAYS: dict[str, Family] = {
  'cosine': Family(phase_shapes.cosine, {'floor': _FLOOR}),
  'exponential': Family(phase_shapes.holding_exponential),
  'linear': Family(phase_shapes.holding_linear),
  'step': Family(
    phase_shapes.step,
    {
      'factor': Parameter(0.1, check_weight),
      'at': Parameter((0.5, 0.75), kinds.rising_shares),
    },
  ),
  'constant': Family(phase_shapes.of_thesis(lr_shapes.constant_decay_fn)),
  'polynomial': Family(
    phase_shapes.polynomial,
    {
      'start': Parameter(1.0, kinds.fraction),
      'end': Parameter(0.0, kinds.fraction),
      'power': _POWER,
      'share': _ALL,
      'cycle': Parameter(False, kinds.boolean),
    },
  ),
  'geometric': Family(
    phase_shapes.geometric,
    {
      'factor': Parameter(0.01, check_weight),
      'share': _ALL,
      'staircase': _STAIRCASE,
    },
  ),
  'inverse_time': Family(
    phase_shapes.inverse_time,
    {
      'rate': Parameter(9.0, kinds.not_negative),
      'exponent': _POWER,
      'share': _ALL,
      'staircase': _STAIRCASE,
    },
  ),
  'inverse_power': Family(
    phase_shapes.inverse_power,
    {
      'exponent': Parameter(0.5, check_positive),
      'hold': Parameter(0.05, check_weight),
      'cooldown': Parameter(0.0, kinds.fraction),
      'fall': _FALL,
      'floor': _FLOOR,
    },
    _falls,
  ),
  'k_decay_cosine': Family(
    phase_shapes.k_decay_cosine,
    {
      'k': Parameter(1.0, check_positive),
      'floor': _FLOOR,
      'cooldown': Parameter(0.0, kinds.below_one),
    },
  ),
  'cosine_annealing': Family(
    phase_shapes.cosine_annealing,
    {'floor': _FLOOR, 'share': Parameter(0.5, check_weight)},
  ),
  'cosine_warm_restarts': Family(
    phase_shapes.cosine_warm_restarts,
    {
      'periods': Parameter(3, kinds.count_to(100)),
      'multiplier': Parameter(1.0, kinds.at_least_one),
      'floor': _FLOOR,
    },
  ),
  'piecewise_constant': Family(
    phase_shapes.piecewise_constant,
    {
      'values': Parameter((1.0, 0.5, 0.2), kinds.list_of(kinds.not_negative)),
      'at': Parameter((0.4, 0.7), kinds.rising_shares),
    },
    _one_more('values', 'at'),
  ),
  'cyclic': Family(
    phase_shapes.cyclic,
    {
      'periods': Parameter(3, kinds.count_to(100)),
      'rise': Parameter(0.5, kinds.inner_share),
      'floor': _FLOOR,
      'mode': Parameter('triangular', kinds.choice(CYCLIC_MODES)),
      'gamma': Parameter(0.1, check_weight),
    },
  ),
  'one_cycle': Family(
    phase_shapes.one_cycle,
    {
      'start': Parameter(0.04, kinds.fraction),
      'end': Parameter(4e-6, kinds.fraction),
      'rise': Parameter(0.3, kinds.inner_share),
      'three_phase': Parameter(False, kinds.boolean),
      'anneal': Parameter('cosine', kinds.choice(ANNEALS)),
    },
    _has_way_down,
  ),
  'wsd': Family(
    phase_shapes.wsd,
    {
      'checkpoints': Parameter(1, kinds.count_to(30)),
      'decay': Parameter(0.2, check_weight),
      'fall': _FALL,
      'floor': _FLOOR,
    },
    _has_floor_to_fall_to,
  ),
  'sequential': Family(
    phase_shapes.sequential,
    {
      'shapes': SHAPES,
      'at': Parameter((), kinds.rising_shares),
      'peaks': Parameter((), kinds.list_of(check_positive)),
    },
    _is_sequence,
  ),
  'chained': Family(phase_shapes.chained, {'shapes': SHAPES}),
  'lambda': Family(phase_shapes.of_function, _FUNCTION),
  'multiplicative': Family(phase_shapes.multiplicative, _FUNCTION),
}
