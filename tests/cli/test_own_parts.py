"""Own parts: what each method may return, and how the rest is told."""

import dataclasses
import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from helpers.fakes import write_submission
from reset_cycles.cli import own_parts
from reset_cycles.core.horizon import TimeHorizon
from reset_cycles.core.schedules import Cosine, Cycle
from reset_cycles.early_switching import (
  AnyOf,
  Progress,
  SmoothedLossRule,
  Verdict,
)
from reset_cycles.mini_algoperf.submission_loader import load_submission
from reset_cycles.optimizers.adamw import AdamW
from reset_cycles.optimizers.muon import Muon
from reset_cycles.optimizers.peaks import RelativePeak
from reset_cycles.schedule_params import SCHEDULE_PARAMS, THESIS
from reset_cycles.shapes.composed import Chained
from reset_cycles.soft_reset import FULL, SoftReset


class Waited(NamedTuple):
  best: float = -math.inf
  count: int = 0


STATE, SAID = Waited(0.5, 1), Verdict('', {'waited': np.int32(1)})
GOOD = [
  *(('Shape', '__call__', x) for x in (1, jnp.float32(0.5), jnp.bfloat16(0.5))),
  ('Rule', 'observe', (STATE, SAID)),
  ('Reset', 'plan', FULL),
  ('Reset', 'tau', 1.0),
  ('Horizon', 'steps_to_come', 0),
  ('Optimizer', 'build', optax.sgd(0.1)),
  ('Optimizer', 'gradient_point', {'w': 1}),
  ('OfMatrices', 'size', 0.5),
  ('Optimizer', 'size', math.nan),  # which is not asked
  ('Peak', 'peak', math.nan),
]
BAD = [
  *(('Shape', '__call__', x) for x in (None, 'a', jnp.ones(3), (1.0, 1.0), 1j)),
  *(('Rule', 'observe', x) for x in (None, SAID, (STATE, 'no'), (SAID, STATE))),
  *(
    ('Rule', 'observe', (STATE, Verdict(*said)))
    for said in ((True, {}), ('', None), ('', {'x': 1}), ('', {'waited': 'a'}))
  ),
  ('Rule', 'observe', ((1.0, 1), SAID)),
  ('Rule', 'observe', (STATE._replace(count='a'), SAID)),
  *(('Reset', 'plan', x) for x in (None, 0.5, FULL._replace(tau=2.0))),
  *(('Reset', 'tau', x) for x in (None, 2.0, 'a', math.nan)),
  *(('Horizon', 'steps_to_come', x) for x in (None, -1, 'a', math.inf)),
  *(('Optimizer', name, None) for name in ('direction', 'gradient_point')),
  ('Peak', 'peak', None),
  *(('OfMatrices', 'size', x) for x in (None, 0.0, math.nan)),
]


def settings(kind, method, returned):
  """With a part of which one method returns what it is told to."""
  base, field = {
    'Shape': (object, 'cycles'),
    'Rule': (SmoothedLossRule, 'switching'),
    'Reset': (SoftReset, 'reset'),
    'Horizon': (TimeHorizon, 'horizon'),
    'Optimizer': (AdamW, 'optimizer'),
    'OfMatrices': (Muon, 'optimizer'),
    'Peak': (RelativePeak, 'relative_peak'),
  }[kind]
  members = {method: lambda self, *unused: returned, '__module__': 'mine'}
  if kind == 'Rule':
    members |= {'initial': Waited(), 'columns': ('waited',)}
  part = type(kind, (base,), members)()
  part = (Cycle(decay=part),) if kind == 'Shape' else part
  return dataclasses.replace(THESIS, **{field: part})


@pytest.mark.parametrize(('kind', 'method', 'returned'), GOOD)
def test_what_a_part_may_return(kind, method, returned):
  own_parts.rehearse(settings(kind, method, returned))


@pytest.mark.parametrize(('kind', 'method', 'returned'), BAD)
def test_a_method_that_returns_what_it_should_not_is_named(
  kind, method, returned
):
  with pytest.raises(
    ValueError, match=f'^{kind}.{method} returned .*: it must'
  ):
    own_parts.rehearse(settings(kind, method, returned))


@pytest.mark.parametrize(
  ('kind', 'method', 'own', 'right'),
  (
    ('Peak', 'peak', lambda self: 0.1, '1 argument'),
    ('Shape', '__call__', lambda self: 0.1, '2 arguments'),
  ),
)
def test_a_method_that_takes_too_few_arguments_is_named(
  kind, method, own, right
):
  """As `peak` did before it was told the steps."""
  params = settings(kind, method, None)
  cycle = params.cycles[0]
  part = cycle.decay if kind == 'Shape' else params.relative_peak
  setattr(type(part), method, own)
  said = rf'^{kind}.{method}\(.*\).* must take {right}: too many'
  with pytest.raises(ValueError, match=said):
    own_parts.rehearse(params)


@pytest.mark.parametrize(
  'own',
  (
    lambda self, x, warmup: 1.0 if x < 0.5 else 0.5,
    lambda self, x, warmup: math.cos(x),
    lambda self, x, warmup: np.cos(x),
    lambda self, x, warmup: (1.0, 0.5)[int(x)],
  ),
  ids=('if', 'math', 'numpy', 'index'),
)
def test_a_shape_that_jax_cannot_trace_is_named(own):
  """With numbers it does well, and in the first step it would fail."""
  params = settings('Shape', '__call__', None)
  type(params.cycles[0].decay).__call__ = own
  said = '^Shape.__call__ must .* that JAX can trace, .*: .*Error: .'
  with pytest.raises(ValueError, match=said):
    own_parts.rehearse(params)


def test_an_own_part_inside_the_projects_is_tried():
  own = settings('Shape', '__call__', None).cycles[0].decay
  both = (Cycle(decay=Chained((Cosine(), own))),)
  with pytest.raises(ValueError, match=r'^Shape.__call__ returned None'):
    own_parts.rehearse(dataclasses.replace(THESIS, cycles=both))


def test_an_own_rule_among_joined_ones_is_tried():
  """With its own state, which is not that of the rules together."""

  def joined(returned):
    own = settings('Rule', 'observe', returned).switching
    type(own).judges_chain = True
    return dataclasses.replace(THESIS, switching=AnyOf((Progress(), own)))

  own_parts.rehearse(joined((STATE, SAID)))
  with pytest.raises(ValueError, match='^Rule.observe returned None: it must'):
    own_parts.rehearse(joined(None))


@pytest.mark.parametrize(
  'missing', ['needs_target', 'initial', 'columns', 'observe']
)
def test_an_attribute_that_a_rule_lacks_is_named(missing):
  members = {'needs_target': False, 'judges_chain': False}
  members |= {'initial': 0, 'columns': (), 'observe': lambda *given: None}
  members.pop(missing)
  rule = type('Bare', (), {**members, '__module__': 'mine'})()
  said = f'^switching=.*such as Progress.*it lacks {missing}'
  with pytest.raises(ValueError, match=said):
    dataclasses.replace(THESIS, switching=rule)


def test_this_projects_own_parts_are_not_tried(monkeypatch):
  monkeypatch.setattr(SoftReset, 'plan', None)
  own_parts.rehearse(SCHEDULE_PARAMS)


def test_another_projects_submission_has_no_settings(tmp_path):
  other = load_submission(write_submission(tmp_path / 'foreign'))
  assert own_parts.settings_of(other) is None
  assert own_parts.settings_of(load_submission(None)) is not None
  own_parts.rehearse(None)
