"""Models on the host: races, and cycles that start from the best model."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest

from made_up_parts import AveragedDescent, registered
from reset_cycles.optimizers import INNER
from reset_cycles.schedules import cycle_clock
from reset_cycles.training import snapshots
from reset_cycles.training.events import read_events
from reset_cycles.training.resetting import Model
from runs import GENERATIONS, PARAMS, assert_equal_trees, host, new_driver

# 40 steps in one cycle; two probes of 8 steps, evaluated every 4.
RACE = {
  'name': 'race',
  'probes': 2,
  'rounds': [0.2],
  'scales': [1.0, 2.0],
  'start': 'current',
}
ONE = {
  name: getattr(PARAMS, name)[:1]
  for name in ('warmups', 'decays', 'alter_lr', 'alter_warmup', 'lengths')
}


def race(**changes):
  return dataclasses.replace(
    PARAMS, **ONE, early_switching=False, policy=RACE, **changes
  )


def evaluations(winner, until=60):
  """The winner's metric is the better one at the end of its probe."""
  ends = {8: 0.3, 16: 0.2} if winner == 0 else {8: 0.2, 16: 0.3}
  return {s: (1.0, ends.get(s, 0.1)) for s in range(4, until, 4)}


def model_of(driver):
  """A copy of what is trained, without the clock."""
  saved, run = driver.optimizer_state
  trees = (driver.params, driver.model_state, saved.inner.inner)
  return host(run.setup.devices.get(trees))


def columns(folder, *names):
  kinds = ('pause', 'reset', 'cycle_start', 'wait')
  return [
    tuple(row[name] for name in names)
    for row in read_events(folder)
    if row['event'] in kinds
  ]


@pytest.mark.parametrize('generation', GENERATIONS)
def test_a_paused_model_goes_on_as_if_it_had_not_been(generation):
  """But for its batches: it is the model of its pause that goes on."""
  driver = new_driver(race(), generation, evaluations(winner=0), 20)
  driver.run(until=8)
  paused = model_of(driver)
  driver.run(until=16)
  assert driver.optimizer_state[1].kept.keys() == {0}
  other = model_of(driver)
  assert not np.array_equal(other[0]['kernel'], paused[0]['kernel'])
  # Step 17 is taken with the model of step 8.
  seen = []
  run = driver.optimizer_state[1]
  step = run.setup.train_steps[0]

  def listening(*arguments):
    seen.append(host(run.setup.devices.get(arguments[:3])))
    return step(*arguments)

  setup = run.setup._replace(train_steps=(listening,))
  driver.optimizer_state = (
    driver.optimizer_state[0],
    run._replace(setup=setup),
  )
  driver.step()
  params, model_state, state = seen[0]
  assert_equal_trees((params, model_state, state.inner), paused)
  assert (int(state.clock.anchor_step), float(state.clock.anchor_local)) == (
    16,
    8.0,
  )
  kept = driver.optimizer_state[1].kept
  assert kept.keys() == {1}
  assert_equal_trees(tuple(kept[1].model), other)


@pytest.mark.parametrize('generation', GENERATIONS)
def test_a_probe_has_its_own_pace_and_scale_from_the_first_step(generation):
  # A whole cycle is 20 of the 40 steps, and a probe is 4; the nominal 40 steps
  # are gone through at twice the pace.
  policy = {**RACE, 'full': 0.5, 'scales': [2.0, 1.0]}
  params = dataclasses.replace(race(), policy=policy)
  driver = new_driver(params, generation, {}, 20)
  saved, run = driver.optimizer_state
  clock = host(run.setup.devices.get(saved.inner.clock))
  assert (float(clock.pace), float(clock.scale)) == (2.0, 2.0)
  driver.run(until=3)
  saved, run = driver.optimizer_state
  clock = host(run.setup.devices.get(saved.inner.clock))
  assert float(cycle_clock.local_step(clock)) == pytest.approx(6.0)


@pytest.mark.parametrize('generation', GENERATIONS)
def test_a_race_compiles_nothing(generation, compilations, folder):
  driver = new_driver(race(), generation, evaluations(winner=1), 20)
  driver.step()
  with compilations() as compiled:
    driver.run(until=50)
  assert compiled == []
  names = ('global_step', 'event', 'setting', 'scale', 'mode', 'cycle_end')
  assert columns(folder, *names) == [
    ('0', 'cycle_start', '1', '1.0', '', '8'),
    ('8', 'pause', '1', '1.0', '', ''),
    ('8', 'reset', '', '', 'full', ''),
    ('8', 'cycle_start', '1', '2.0', '', '16'),
    ('16', 'pause', '1', '2.0', '', ''),
    ('16', 'reset', '', '', 'paused', ''),
    ('16', 'cycle_start', '1', '2.0', '', '40'),
    ('40', 'reset', '', '', 'paused', ''),
    ('40', 'cycle_start', '1', '1.0', '', '72'),
  ]


def test_ordinary_steps_cost_no_more():
  """A model is copied where it is paused, and nowhere else."""
  driver = new_driver(race(), 'jit', evaluations(winner=1), 20)
  copied = []
  take = snapshots.take
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(snapshots, 'take', lambda *a: copied.append(1) or take(*a))
    driver.run(until=39)
  assert len(copied) == 2


def queue(start, **changes):
  policy = {'name': 'queue', 'start': start, 'peaks': [1.0], 'lengths': [1.0]}
  return dataclasses.replace(
    PARAMS, **ONE, early_switching=False, policy=policy, **changes
  )


@pytest.mark.parametrize('generation', GENERATIONS)
def test_a_further_cycle_from_the_best_model(generation, compilations, folder):
  seen = {4: (1.0, 0.3), 6: (1.0, 0.6), 8: (1.0, 0.5), 12: (1.0, 0.4)}
  driver = new_driver(queue('best'), generation, seen, 6)
  driver.run(until=6)
  best = model_of(driver)
  with compilations() as compiled:
    driver.run(until=13)
  assert compiled == []
  _, run = driver.optimizer_state
  assert_equal_trees(tuple(run.kept[snapshots.BEST].model), best)
  assert columns(folder, 'global_step', 'event', 'mode', 'note')[1] == (
    '12',
    'reset',
    'best',
    '',
  )


@pytest.mark.parametrize('start', ['current', 'fresh', ''])
def test_other_starts(start, folder):
  driver = new_driver(queue(start), 'jit', {12: (1.0, 0.4)}, 6)
  driver.run(until=13)
  mode = {'current': 'cyclic', 'fresh': 'full', '': 'soft'}[start]
  assert columns(folder, 'mode')[1] == (mode,)
  assert driver.optimizer_state[1].kept == {}


@pytest.mark.parametrize('field', ['start', 'then'])
def test_a_policy_takes_fresh_models_where_no_reset_would(field, folder):
  policy = {'name': 'queue', 'start': 'current', field: 'fresh'}
  params = dataclasses.replace(
    PARAMS, early_switching=False, policy=policy, reset_mode='cyclic'
  )
  new_driver(params, 'jit', {}, 6).run(until=13)
  # Two more settings, and a further cycle.
  modes = {'start': ['cyclic', 'cyclic', 'full'], 'then': ['full', 'full']}
  expected = modes[field] + ['cyclic'] * (field == 'then')
  rows = columns(folder, 'event', 'mode')
  assert [mode for event, mode in rows if event == 'reset'] == expected


@pytest.mark.parametrize('generation', GENERATIONS)
@pytest.mark.parametrize('mode', ['soft', 'cyclic'])
def test_nothing_goes_on_with_a_model_that_is_not_finite(
  generation, mode, folder
):
  driver = new_driver(queue('current', reset_mode=mode), generation, {}, 6)
  driver.run(until=12)
  driver.params = jax.tree_util.tree_map(lambda x: x * np.nan, driver.params)
  driver.step()
  row = columns(folder, 'global_step', 'mode', 'note')[1]
  assert row == ('12', 'full', 'the current model is not finite')
  assert all(
    np.isfinite(x).all() for x in jax.tree_util.tree_leaves(model_of(driver))
  )


def test_a_model_that_is_not_kept_is_said(folder):
  driver = new_driver(queue('best'), 'jit', {}, 6)
  driver.run(until=13)
  assert columns(folder, 'mode', 'note')[1] == ('soft', 'no best model is kept')


@pytest.mark.parametrize('generation', GENERATIONS)
def test_a_cycles_end_waits(generation, compilations, folder):
  params = dataclasses.replace(PARAMS, wait=True, early_switching=False)
  seen = {s: (1.0, 0.1 * s) for s in (3, 6, 9, 12, 15)}
  driver = new_driver(params, generation, seen)
  driver.step()
  with compilations() as compiled:
    assert driver.run(until=30)
  assert compiled == []
  assert driver.global_step == 12
  names = ('global_step', 'event', 'cycle_end', 'metric_step')
  assert columns(folder, *names) == [
    ('0', 'cycle_start', '4', ''),
    ('4', 'wait', '7', ''),
    ('6', 'reset', '', '6'),
    ('6', 'cycle_start', '9', ''),
    ('9', 'reset', '', '9'),
    ('9', 'cycle_start', '12', ''),
  ]


@pytest.mark.parametrize('generation', GENERATIONS)
def test_put_back_exactly(generation):
  """Whatever the leaves are: small, huge, none, not finite, whole numbers."""
  with registered(INNER, averaged_descent=AveragedDescent):
    driver = new_driver(race(optimizer='averaged_descent'), generation, {}, 20)
  driver.run(until=3)
  saved, run = driver.optimizer_state
  model = Model(driver.params, driver.model_state, saved.inner.inner)
  kept = snapshots.take(model, run.setup.devices)
  odd = np.asarray(kept.params['kernel']).copy()
  odd.reshape(-1)[:5] = [np.nan, np.inf, -0.0, 1e-42, 3e38]
  kept.params['kernel'][...] = odd
  driver.run(until=6)
  saved, run = driver.optimizer_state
  model = Model(driver.params, driver.model_state, saved.inner.inner)
  back = snapshots.restore(model, kept, run.setup.reset_ops)
  found = run.setup.devices.get(back)
  np.testing.assert_array_equal(found.params['kernel'][:, :2].shape, (6, 2))
  for a, b in zip(*map(jax.tree_util.tree_leaves, (found, kept))):
    normal = ~(np.abs(b) == np.float32(1e-42))
    np.testing.assert_array_equal(np.asarray(a)[normal], b[normal])


def settings(optimizers, policy):
  """A cycle of 16 steps for each optimizer."""
  return dataclasses.replace(
    PARAMS,
    cycles=[{'optimizer': optimizer} for optimizer in optimizers],
    budget_factor=float(len(optimizers)),
    early_switching=False,
    policy=policy,
  )


@pytest.mark.parametrize('generation', GENERATIONS)
def test_a_race_of_optimizers(generation, compilations, folder):
  """Each compiles its step once, and goes on with the state of its pause."""
  optimizers = ('adamw', 'nesterov', 'ademamix')
  policy = {**RACE, 'probes': 3, 'rounds': [0.25], 'scales': [1.0]}
  seen = {s: (1.0, {8: 0.3}.get(s, 0.1)) for s in range(4, 60, 4)}
  driver = new_driver(settings(optimizers, policy), generation, seen, 16)
  driver.step()
  counts, models = [], []
  for until in (4, 8, 12, 24, 36):
    with compilations() as compiled:
      driver.run(until=until)
    counts.append(len(compiled))
    models.append(model_of(driver))
  assert counts == [0, 1, 1, 0, 0]
  # Nesterov's went on for 12 steps; then AdamW's, from step 4.
  names = ('global_step', 'setting', 'anchor_local')
  rows = columns(folder, 'event', 'note', *names)
  starts = [row[2:] for row in rows if row[0] == 'cycle_start']
  assert starts == [
    ('0', '1', '0.0'),
    ('4', '2', '0.0'),
    ('8', '3', '0.0'),
    ('12', '2', '4.0'),
    ('24', '1', '4.0'),
  ]
  kept = driver.optimizer_state[1].kept
  assert kept.keys() == {2}
  assert_equal_trees(tuple(kept[2].model), models[2])


def test_a_setting_from_the_best_model_of_another(folder):
  """Its optimizer begins from the parameters that were kept."""
  policy = {'name': 'queue', 'then': 'best'}
  params = settings(('adamw', 'nesterov'), policy)
  seen = {8: (1.0, 0.5), 16: (1.0, 0.4)}
  driver = new_driver(params, 'jit', seen, 16)
  driver.run(until=8)
  best = host(driver.params)
  driver.run(until=16)
  seen, run = [], driver.optimizer_state[1]
  steps = list(run.setup.train_steps)

  def listening(params, *others):
    seen.append(host((params, others[1].inner)))
    return run.setup.train_steps[1](params, *others)

  steps[1] = listening
  setup = run.setup._replace(train_steps=tuple(steps))
  driver.optimizer_state = (
    driver.optimizer_state[0],
    run._replace(setup=setup),
  )
  driver.step()
  begun_with, pool = seen[0]
  assert_equal_trees(begun_with, best)
  assert not any(np.any(leaf) for leaf in jax.tree_util.tree_leaves(pool))
  assert columns(folder, 'event', 'mode', 'note')[1] == (
    'reset',
    'best',
    'nesterov begins',
  )
