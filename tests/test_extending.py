"""A shape, a switching rule and an optimizer, each added as one new file.

Nothing else of the submission is touched: names, parameters, checks, JSON,
search space and columns of cycles.csv follow from the three files.
"""

from __future__ import annotations

import csv
import importlib
import json
import sys

import numpy as np
import pytest

import tiny
from reset_cycles.cli import handed_in

NEW_FILES = {
  'schedules/plateau.py': '''
"""A shape: the peak, and then a lower plateau."""

from __future__ import annotations

import jax.numpy as jnp

from ..settings.kinds import Inner
from .decays import DECAYS
from .phase import Phase


@DECAYS.register
def plateau(phase: Phase, *, height: Inner = 0.5, at: Inner = 0.5):
  """1 for the first share `at` of the phase, then `height`."""
  return lambda count: jnp.where(count < at * phase.steps, 1.0, height)
''',
  'control/switching/patience.py': '''
"""A switching rule: no better metric for a number of evaluations."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, NamedTuple

from ...settings.kinds import Count
from .rule import SWITCHING_RULES, Verdict


class State(NamedTuple):
  best: float
  waited: int


@SWITCHING_RULES.register(name='patience')
@dataclasses.dataclass(frozen=True)
class Patience:
  evaluations: Count = 3

  initial: ClassVar[State] = State(float('-inf'), 0)
  columns: ClassVar[tuple[str, ...]] = ('waited',)

  def observe(self, state, evaluation, context):
    sign = 1 if context.target.rising else -1
    better = sign * evaluation.metric > state.best
    best = max(sign * evaluation.metric, state.best)
    state = State(best, 0 if better else state.waited + 1)
    reason = 'no progress' if state.waited >= self.evaluations else ''
    return state, Verdict(reason, {'waited': state.waited})
''',
  'optimizers/heavy_ball.py': '''
"""An optimizer: gradient descent with heavy-ball momentum."""

from __future__ import annotations

import dataclasses

import optax

from ..settings.kinds import BelowOne
from .adamw import decayed_and_scaled
from .inner import INNER, Slots, find_state, map_states


@INNER.register(name='heavy_ball')
@dataclasses.dataclass(frozen=True)
class HeavyBall:
  momentum: BelowOne = 0.9

  def build(self, hparams, rate, weight_decay):
    return optax.chain(
      optax.trace(self.momentum), decayed_and_scaled(rate, weight_decay)
    )

  def slots(self, opt_state):
    return Slots((find_state(opt_state, optax.TraceState).trace,), (), ())

  def with_slots(self, opt_state, slots):
    new = optax.TraceState(trace=slots.moments[0])
    return map_states(lambda _: new, opt_state, optax.TraceState)

  def eval_params(self, opt_state, params):
    return params
''',
}


@pytest.fixture(scope='module')
def extended(tmp_path_factory):
  """The shipped files and three more, imported under a name of their own."""
  folder = handed_in.copy(
    tmp_path_factory.mktemp('extended'), 'self', 'extended_submission'
  )
  for name, text in NEW_FILES.items():
    (folder / name).write_text(text.lstrip())
  sys.path.insert(0, str(folder.parent))
  yield importlib.import_module('extended_submission.submission')
  sys.path.remove(str(folder.parent))
  for name in [m for m in sys.modules if m.startswith('extended_submission')]:
    del sys.modules[name]


def params_of(extended, **changes):
  return extended.ScheduleParams(
    **{
      'decays': ({'name': 'plateau', 'height': 0.25},) * 3,
      'warmups': ('none',) * 3,
      'switching': {'name': 'patience', 'evaluations': 2},
      'optimizer': 'heavy_ball',
      **changes,
    }
  )


def test_they_are_read_checked_and_written(extended):
  params = params_of(extended)
  text = params.to_json()
  assert json.loads(text)['switching'] == {'name': 'patience', 'evaluations': 2}
  assert extended.ScheduleParams.from_json(text) == params
  changed = params.override({'switching_evaluations': 5})
  assert dict(changed.switching.parameters) == {'evaluations': 5}
  with pytest.raises(
    ValueError, match='switching.evaluations=0: .* at least 1'
  ):
    params.override({'switching_evaluations': 0})
  with pytest.raises(ValueError, match=r'Did you mean plateau\?'):
    params_of(extended, decays=('platau',) * 3)
  with pytest.raises(ValueError, match='optimizer.* heavy_ball'):
    params_of(extended, optimizer='sgd')


def test_they_run(extended, tmp_path, monkeypatch):
  records = importlib.import_module('extended_submission.training.records')
  monkeypatch.setattr(records, 'find_folder', lambda hyperparameters: tmp_path)
  # 12 steps in cycles of 4; the second cycle is left at its third evaluation.
  metrics = {2: 0.5, 5: 0.4, 6: 0.3, 7: 0.2, 10: 0.6}
  driver = tiny.Driver(
    extended.make_submission(params_of(extended)),
    tiny.TinyWorkload(6),
    {step: (1.0, metric) for step, metric in metrics.items()},
  )
  start = np.asarray(driver.params['kernel'])
  assert not driver.run(until=12)
  assert np.isfinite(np.asarray(driver.params['kernel'])).all()
  assert not np.array_equal(np.asarray(driver.params['kernel']), start)
  with (tmp_path / 'cycles.csv').open(newline='') as lines:
    rows = list(csv.DictReader(lines))
  seen = [r for r in rows if r['event'] == 'evaluation']
  assert [r['waited'] for r in seen] == ['0', '0', '1', '2', '0']
  assert [r['reason'] for r in rows if r['event'] == 'switch'] == [
    'no progress'
  ]
  # height 0.25 from the middle of a cycle on.
  peak = 0.0017486387539278373
  rates = {r['global_step']: float(r['learning_rate']) for r in rows}
  np.testing.assert_allclose(rates['0'], peak, rtol=1e-6)
  np.testing.assert_allclose(rates['2'], 0.25 * peak, rtol=1e-6)
