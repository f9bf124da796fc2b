"""Cycles in a loop of one's own: decisions, resets, layouts, restores."""

from __future__ import annotations

import dataclasses
import math

import flax.serialization
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import loops
import runs
from reset_cycles.control.policies.repeat import Repeat
from reset_cycles.loop import Cycles, NamedSlots, State
from reset_cycles.schedule_params import COMPETITION, THESIS
from reset_cycles.training.events import read_events

# What a run writes and a loop says, beside numbers of a rule's own.
COLUMNS = (
  'event',
  'cycle',
  'setting',
  'cycle_end',
  'anchor_local',
  'pace',
  'reason',
  'mode',
  'tau',
  'alpha',
  'metric',
  'metric_step',
  'loss',
  'smoothed_loss',
  'note',
)


def make(params=runs.PARAMS, num_steps=12, **changes):
  settings = {'make_params': loops.init, 'target': 0.8, **changes}
  return Cycles(params, num_steps, **settings)


def host(tree):
  return jax.tree_util.tree_map(np.asarray, jax.device_get(tree))


def assert_same(a, b):
  jax.tree_util.tree_map(np.testing.assert_array_equal, host(a), host(b))


# A healthy run, one that is left early, diverged ones, none at all.
TAPES = {
  'switching': runs.SWITCHING,
  'healthy': {i: (1.0 / i, 0.1 * i) for i in range(1, 12)},
  'diverged': {2: (math.nan, math.nan), 6: (1.0, 0.5), 7: (math.inf, 0.1)},
  'at the ends': {4: (1.0, 0.4), 8: (0.9, 0.9), 12: (0.5, 0.7)},
  'never': {},
}


@pytest.mark.parametrize(
  ('tape', 'mode'),
  [
    *((tape, 'soft') for tape in TAPES),
    *(('switching', mode) for mode in ('full', 'kept_momentum', 'cyclic')),
    ('at the ends', 'wait'),
  ],
)
def test_decisions_are_those_of_the_submission(tape, mode, folder):
  change = {'wait': True} if mode == 'wait' else {'reset_mode': mode}
  params = dataclasses.replace(runs.PARAMS, **change)
  driver = runs.new_driver(params, evaluations=TAPES[tape])
  assert driver.run()
  rows = [
    (int(row['global_step']), in_short(row)) for row in read_events(folder)
  ]
  cycles = make(params)
  _, events = loops.train(cycles, loops.start(cycles), TAPES[tape], 0, 99)
  ours = [(step, in_short(event)) for step, event in events]
  assert len(rows) > 5
  assert ours == rows


def in_short(event):
  """What a file and a dictionary say alike: numbers as floats."""
  short = {}
  for name in COLUMNS:
    value = event.get(name)
    if value not in (None, ''):
      try:
        short[name] = str(float(value))  # NaN equals itself, too
      except ValueError:
        short[name] = value
  return short


def test_a_soft_reset_follows_the_formula():
  """Accuracy 0.4 of 0.8: tau is 0.5; alpha is 0.5, so 0.75 of the moments."""
  cycles = make()
  step = loops.make_step(cycles)
  state, _ = loops.train(cycles, loops.start(cycles), {}, 0, 4, step)
  before = host(state)
  state, events = cycles.after_evaluation(4, 1.0, 0.4, state)
  assert [event['event'] for event in events] == [
    'evaluation',
    'reset',
    'cycle_start',
  ]
  assert events[1]['tau'] == 0.5
  fresh = loops.init(jax.random.fold_in(jax.random.PRNGKey(0), 2))
  for name in ('bias', 'kernel'):
    expected = 0.5 * before.params[name] + 0.5 * np.asarray(fresh[name])
    np.testing.assert_allclose(state.params[name], expected, rtol=1e-6)
  old, new = (
    cycles.inner.slots(s.opt_state.clocked.inner) for s in (before, state)
  )
  assert_same(new.counts, old.counts)
  for a, b in zip(
    jax.tree_util.tree_leaves(old.moments),
    jax.tree_util.tree_leaves(new.moments),
  ):
    np.testing.assert_allclose(b, 0.75 * a, rtol=1e-6)


def test_at_the_target_nothing_is_touched():
  cycles = make()
  state, _ = loops.train(cycles, loops.start(cycles), {}, 0, 4)
  after, _ = cycles.after_evaluation(4, 1.0, 0.8, state)
  assert after.params is state.params
  assert after.opt_state.clocked.inner is state.opt_state.clocked.inner
  assert int(after.opt_state.clocked.clock.cycle) == 1


def test_statistics_follow_the_parameters():
  def init(key):
    return loops.init(key), {'mean': jnp.ones(3)}

  cycles = make(make_params=init)
  params, statistics = init(jax.random.PRNGKey(0))
  statistics = jax.tree_util.tree_map(jnp.zeros_like, statistics)
  state = State(params, cycles.optimizer.init(params), statistics)
  state, _ = loops.train(cycles, state, {}, 0, 4)
  state, _ = cycles.after_evaluation(4, 1.0, 0.6, state)
  np.testing.assert_allclose(state.statistics['mean'], 0.25, rtol=1e-6)


def test_nothing_is_compiled_after_the_first_step(compilations):
  cycles = make()
  fresh = jax.jit(loops.init)
  cycles = make(make_params=fresh)
  step, state = loops.make_step(cycles), loops.start(cycles)
  fresh(jax.random.fold_in(jax.random.PRNGKey(0), 1))
  state, _ = loops.train(cycles, state, {1: (1.0, 0.4)}, 0, 1, step)
  loops.train(make(), loops.start(make()), {}, 0, 1)
  with compilations() as compiled:
    _, events = loops.train(cycles, state, runs.SWITCHING, 1, 99, step)
  resets = [e['tau'] for _, e in events if e['event'] == 'reset']
  assert resets == pytest.approx([0.25, 0.1])
  assert len(step.traces) == 1
  assert not compiled


@pytest.mark.parametrize('dtype', [jnp.float32, jnp.bfloat16])
def test_sharded_parameters_stay_as_they_lie(dtype, compilations):
  mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ('data', 'model'))
  layouts = {
    'bias': NamedSharding(mesh, PartitionSpec()),
    'kernel': NamedSharding(mesh, PartitionSpec('model', 'data')),
  }

  def cast(key):
    return jax.tree_util.tree_map(lambda x: x.astype(dtype), loops.init(key))

  fresh = jax.jit(cast, out_shardings=layouts)
  cycles = make(make_params=fresh)
  params = fresh(jax.random.PRNGKey(0))
  everywhere = NamedSharding(mesh, PartitionSpec())
  opt_state = jax.jit(cycles.optimizer.init)(params)
  opt_state = jax.tree_util.tree_map(
    lambda x: jax.device_put(
      x, layouts['kernel'] if x.shape == (loops.WIDTH, 2) else everywhere
    ),
    opt_state,
  )
  state = State(params, opt_state)
  step = jax.jit(
    loops.make_step(cycles).__wrapped__,
    in_shardings=(_layouts_of(state), everywhere),
    out_shardings=_layouts_of(state),
  )

  def batch(i):
    return jax.device_put(loops.inputs_of(i).astype(dtype), everywhere)

  state, _ = loops.train(cycles, state, {1: (1.0, 0.4)}, 0, 1, step, batch)
  before = _layouts_of(state)
  state, _ = loops.train(cycles, state, {}, 1, 3, step, batch)
  inputs = [batch(i) for i in range(12)]
  with compilations() as compiled:
    state, events = loops.train(
      cycles, state, runs.SWITCHING, 3, 99, step, inputs.__getitem__
    )
  assert 'reset' in [event['event'] for _, event in events]
  assert not compiled
  assert _layouts_of(state) == before
  assert state.params['kernel'].dtype == dtype
  assert len(state.params['kernel'].addressable_shards) == 8
  assert state.params['kernel'].addressable_shards[0].data.shape == (2, 1)


def _layouts_of(tree):
  return jax.tree_util.tree_map(lambda x: x.sharding, tree)


@pytest.mark.parametrize('stopped', [2, 4, 5, 7, 9])
def test_a_restored_loop_goes_on_as_if_nothing_had_been(stopped):
  cycles = make()
  whole, tape = loops.train(cycles, loops.start(cycles), runs.SWITCHING, 0, 99)
  cycles = make()
  state, first = loops.train(
    cycles, loops.start(cycles), runs.SWITCHING, 0, stopped
  )
  saved = flax.serialization.to_bytes(state)
  cycles = make()
  state = flax.serialization.from_bytes(loops.start(cycles), saved)
  # As arrays on the devices; flax restores those of NumPy.
  state = jax.tree_util.tree_map(jnp.asarray, state)
  state, second = loops.train(cycles, state, runs.SWITCHING, stopped, 99)
  assert str(first + second) == str(tape)
  assert_same(state, whole)


def test_an_older_state_in_the_same_process_is_noticed():
  """The cycle of the older state ends earlier than that of the later one."""
  cycles = make()
  step = loops.make_step(cycles)
  state, _ = loops.train(cycles, loops.start(cycles), {}, 0, 2, step)
  older = jax.tree_util.tree_map(jnp.copy, state)
  loops.train(cycles, state, {}, 2, 6, step)
  _, tape = loops.train(cycles, older, {}, 2, 6, step)
  assert [(s, e['event']) for s, e in tape] == [
    (4, 'reset'),
    (4, 'cycle_start'),
  ]


def test_an_evaluation_counts_once():
  cycles = make()
  state, _ = loops.train(cycles, loops.start(cycles), {}, 0, 2)
  state, first = cycles.after_evaluation(2, 1.0, 0.4, state)
  again, second = cycles.after_evaluation(2, 1.0, 0.4, state)
  assert len(first) == 1
  assert second == []
  assert_same(again, state)


def test_a_loop_without_a_target():
  """Cyclic needs none; soft asks the loop's own tau."""
  cyclic = dataclasses.replace(runs.PARAMS, reset_mode='cyclic')
  cycles = make(cyclic, target=None)
  _, tape = loops.train(cycles, loops.start(cycles), runs.SWITCHING, 0, 99)
  events = [(s, e['event'], e.get('reason')) for s, e in tape]
  assert (3, 'switch', 'loss rises') in events
  assert (3, 'reset', 'early') in events

  asked = []

  def tau(metric, first_metric, step):
    asked.append((metric, first_metric, step))
    return 0.125

  cycles = make(target=None, tau=tau)
  _, tape = loops.train(cycles, loops.start(cycles), runs.SWITCHING, 0, 99)
  assert [e['tau'] for _, e in tape if e['event'] == 'reset'] == [0.125] * 2
  assert asked == [(0.6, 0.4, 3), (0.72, 0.4, 8)]


def test_tau_must_be_a_share():
  cycles = make(target=None, tau=lambda *unused: 1.5)
  state, _ = loops.train(cycles, loops.start(cycles), {}, 0, 4)
  with pytest.raises(
    ValueError, match=r'tau\(0.4, 0.4, 4\)=1.5: .* in \[0, 1\]'
  ):
    cycles.after_evaluation(4, 1.0, 0.4, state)


@pytest.mark.parametrize(
  ('changes', 'said'),
  [
    ({'num_steps': 0}, 'num_steps=0: num_steps must be a whole number'),
    ({'num_steps': 2}, '3 cycles do not fit into 2 steps'),
    ({'target': 0.0}, 'target=0.0: target must be a number above 0'),
    ({'target': None}, "reset_mode='soft': .* unless target or tau is given"),
    (
      {
        'target': None,
        'tau': lambda *unused: 0.0,
        'params': dataclasses.replace(THESIS, switching='progress'),
      },
      "switching='progress': .* another one if target is None",
    ),
    (
      {'params': dataclasses.replace(THESIS, horizon='time')},
      "horizon='time': .* a loop has no time budget",
    ),
    ({'params': {'decay': 1}}, 'Unknown field decay'),
    (
      {'params': dataclasses.replace(THESIS, policy='race')},
      "policy='Race': policy must be one that stores no models",
    ),
  ],
)
def test_what_cannot_work_is_refused(changes, said):
  with pytest.raises(ValueError, match=said):
    make(**changes)


def test_fresh_parameters_of_another_shape_are_refused():
  cycles = make(make_params=lambda key: {'bias': jnp.zeros(3)})
  state, _ = loops.train(cycles, loops.start(cycles), {}, 0, 4)
  with pytest.raises(ValueError, match='make_params returned arrays of shapes'):
    cycles.after_evaluation(4, 1.0, 0.4, state)


def test_an_optimizer_of_ones_own():
  lion = NamedSlots(
    lambda rate, decay: optax.lion(rate, weight_decay=decay),
    moments=['mu'],
    counts=['count'],
  )
  cycles = make(inner=lion)
  step, state = loops.make_step(cycles), loops.start(cycles)
  state, _ = loops.train(cycles, state, {}, 0, 4, step)
  before = host(lion.slots(state.opt_state.clocked.inner))
  assert np.abs(before.moments[0]['kernel']).max() > 0
  state, events = cycles.after_evaluation(4, 1.0, 0.4, state)
  after = lion.slots(state.opt_state.clocked.inner)
  for name in ('bias', 'kernel'):
    np.testing.assert_allclose(
      after.moments[0][name], 0.75 * before.moments[0][name], rtol=1e-6
    )
  loops.train(cycles, state, {}, 4, 6, step)
  assert len(step.traces) == 1


@pytest.mark.parametrize(
  ('slots', 'said'),
  [
    ({'moments': ['nu']}, "moments='nu': .* field of the optimizer's state"),
    ({'moments': ['count']}, "moments='count': .* parameters' structure"),
    ({'counts': ['steps']}, "counts='steps'"),
  ],
)
def test_slots_that_are_not_there_are_refused(slots, said):
  lion = NamedSlots(lambda rate, decay: optax.lion(rate), **slots)
  with pytest.raises(ValueError, match=said):
    loops.start(make(inner=lion))


def test_the_rate_is_that_of_the_schedule():
  cycles = make()
  state = loops.start(cycles)
  rates = [float(cycles.rules.cycles[0].rate(t)) for t in (0, 1)]
  assert cycles.learning_rate(state) == pytest.approx(rates[0])
  state, _ = loops.train(cycles, state, {}, 0, 1)
  assert cycles.learning_rate(state) == pytest.approx(rates[1])


def test_what_is_handed_in_is_not_for_loops_and_not_their_default():
  cycles = Cycles(num_steps=12, make_params=loops.init, target=0.8)
  assert [cycle.steps for cycle in cycles.rules.cycles] == [4, 4, 4]
  assert cycles.rules.policy == Repeat()
  assert cycles.rules.distance == 'linear'
  with pytest.raises(ValueError, match="^horizon='time': .* no time budget"):
    make(COMPETITION)
  said = r'^cycles\[1\].optimizer=.* a loop has one compiled step'
  with pytest.raises(ValueError, match=said):
    make(dataclasses.replace(COMPETITION, horizon='steps'))
