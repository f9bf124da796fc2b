"""The submission as the benchmark sees it, on a workload of two arrays."""

from __future__ import annotations

import csv
import dataclasses
import json
import math

import flax
import jax
import numpy as np
import pytest

import tiny
from soft_reset import (
  cycle_clock,
  cycle_control,
  lr_schedule,
  optimizer,
  records,
  submission,
)
from soft_reset import run as run_lib
from soft_reset.schedule_params import SCHEDULE_PARAMS, ScheduleParams

GENERATIONS = ('jit', 'pmap')

# 12 steps in 3 cycles of 4. The target accuracy is 0.8.
PARAMS = ScheduleParams(switch_k=2, switch_m=2)
# After step 3 of cycle 1 the smoothed loss has risen by 0.7 * 0.5 >= 0.01.
SWITCHING = {1: (1.0, 0.4), 2: (0.9, 0.6), 3: (1.4, 0.6), 8: (0.5, 0.72)}


def new_driver(params=PARAMS, generation='jit', evaluations=None, step_hint=6):
  workload = tiny.WORKLOADS[generation](step_hint)
  return tiny.Driver(
    submission.make_submission(params),
    workload,
    SWITCHING if evaluations is None else evaluations,
  )


@pytest.fixture
def folder(tmp_path, monkeypatch):
  """Makes runs write their files into a temporary folder."""
  monkeypatch.setattr(records, 'find_folder', lambda hyperparameters: tmp_path)
  return tmp_path


def column(folder, name, **having):
  rows = [
    row
    for row in records.read_events(folder)
    if all(row[key] == value for key, value in having.items())
  ]
  return [row[name] for row in rows]


def host(tree):
  return jax.tree_util.tree_map(np.asarray, jax.device_get(tree))


def assert_equal_trees(a, b):
  """To the last bit, where sums over CPU devices come in a fixed order.

  In jaxlib 0.4 they come in the order in which the threads arrive. An ulp of
  a gradient can make 1e-5 of a step of Adam, which is 2e-3 here.
  """
  tolerance = 0 if jax.__version_info__ >= (0, 5) else 1e-6
  jax.tree_util.tree_map(
    lambda x, y: np.testing.assert_allclose(
      x, y, rtol=tolerance, atol=tolerance
    ),
    host(a),
    host(b),
  )


@pytest.mark.parametrize('generation', GENERATIONS)
def test_tape_of_a_run(folder, generation):
  # Cycle 1 is left before step 3; the remaining 9 steps are 5 + 4. The first
  # evaluation after a boundary belongs to the cycle that has just ended.
  assert new_driver(generation=generation).run()
  tape = [
    (int(r['global_step']), r['event'], int(r['cycle']), r['reason'])
    for r in records.read_events(folder)
  ]
  assert tape == [
    (0, 'cycle_start', 1, ''),
    (1, 'evaluation', 1, ''),
    (2, 'evaluation', 1, ''),
    (3, 'evaluation', 1, ''),
    (3, 'switch', 1, 'loss rises'),
    (3, 'reset', 2, 'early'),
    (3, 'cycle_start', 2, ''),
    (8, 'evaluation', 2, ''),
    (8, 'reset', 3, 'scheduled'),
    (8, 'cycle_start', 3, ''),
    (12, 'finish', 3, 'cycles have run out'),
  ]
  # tau = 1 - 0.6 / 0.8 and 1 - 0.72 / 0.8, in float32 as it is saved.
  taus = [float(tau) for tau in column(folder, 'tau', event='reset')]
  np.testing.assert_allclose(taus, [0.25, 0.1], rtol=1e-6)
  assert column(folder, 'metric_step', event='reset') == ['3', '8']
  starts = {'event': 'cycle_start'}
  assert column(folder, 'cycle_end', **starts) == ['4', '8', '12']
  assert [float(p) for p in column(folder, 'pace', **starts)] == [
    1.0,
    pytest.approx(4 / 5),
    1.0,
  ]


@pytest.mark.parametrize('generation', GENERATIONS)
def test_learning_rate_of_every_step(generation):
  # No warm-up fits into 4 steps; cycle 2 is stretched from 4 steps to 5.
  nominal_steps = [0, 1, 2, 0, 0.8, 1.6, 2.4, 3.2, 0, 1, 2, 3]
  peak = 0.0017486387539278373
  expected = [peak / 2 * (1 + math.cos(math.pi * t / 4)) for t in nominal_steps]
  driver = new_driver(generation=generation)
  run = driver.optimizer_state[1]
  schedules = lr_schedule.cycle_schedules(6, PARAMS.hparams, PARAMS)
  actual = []
  for _ in expected:
    driver.step()
    inner = driver.optimizer_state[0].inner
    clock = run.setup.devices.get(
      optimizer.find_state(inner, cycle_clock.CycleClock)
    )
    assert clock.count == driver.global_step
    clock = clock._replace(count=clock.count - 1)
    rate = cycle_clock.clock_learning_rate(clock, schedules, (4, 4, 4))
    actual.append(float(rate))
  # A few roundings of float32 at the size of the peak.
  np.testing.assert_allclose(actual, expected, rtol=0, atol=4e-7 * peak)


@pytest.mark.parametrize('generation', GENERATIONS)
def test_nothing_compiles_after_the_first_step(generation, compilations):
  driver = new_driver(generation=generation)
  driver.step()
  with compilations() as compiled:
    assert driver.run()
  assert driver.optimizer_state[1].control.num_early_stops == 1
  assert driver.optimizer_state[1].control.cycle == 2
  assert compiled == []


@pytest.mark.parametrize('mode', ['full', 'kept_momentum', 'cyclic'])
@pytest.mark.parametrize('generation', GENERATIONS)
def test_nothing_compiles_in_other_modes(mode, generation, compilations):
  params = dataclasses.replace(PARAMS, reset_mode=mode)
  driver = new_driver(params, generation)
  driver.step()
  with compilations() as compiled:
    assert driver.run()
  assert compiled == []


@pytest.mark.parametrize('generation', GENERATIONS)
def test_an_ordinary_step_costs_one_comparison(generation, monkeypatch):
  driver = new_driver(generation=generation, evaluations={1: (1.0, 0.4)})
  driver.run(until=2)  # takes over the state, and the first evaluation
  calls = []

  def spy(name):
    original = getattr(run_lib, name)

    def wrapped(*args):
      calls.append(name)
      return original(*args)

    monkeypatch.setattr(run_lib, name, wrapped)

  spy('is_due')
  spy('act')
  driver.run(until=4)
  assert calls == ['is_due', 'is_due']
  driver.step()  # the boundary
  assert calls == ['is_due', 'is_due', 'is_due', 'act']


@pytest.fixture
def reads_from_devices(monkeypatch):
  """A list that grows with every array whose value the host asks for."""
  from jax._src.array import ArrayImpl

  value = ArrayImpl._value
  seen = []

  def counted(self):
    seen.append(self.shape)
    return value.fget(self)

  monkeypatch.setattr(ArrayImpl, '_value', property(counted))
  return seen


@pytest.mark.parametrize('generation', GENERATIONS)
def test_an_ordinary_step_reads_nothing(generation, reads_from_devices):
  driver = new_driver(generation=generation, evaluations={1: (1.0, 0.4)})
  driver.run(until=2)
  del reads_from_devices[:]
  np.asarray(driver.params['bias'])
  assert len(reads_from_devices) == 1  # the fixture sees reads
  driver.run(until=4)
  assert len(reads_from_devices) == 1


def test_an_ordinary_step_transfers_only_what_it_is_given():
  driver = new_driver(evaluations={})
  driver.run(until=2)
  devices = driver.optimizer_state[1].setup.devices
  batch = jax.device_put(tiny.batch_of_step(2, 'jit'), batch_sharding())
  saved, run = driver.optimizer_state
  rng = devices.put(driver.rng)
  with jax.transfer_guard('disallow'):
    (_, run), _, _ = submission.update_params(
      workload=driver.workload,
      current_param_container=driver.params,
      current_params_types=None,
      model_state=driver.model_state,
      hyperparameters=None,
      batch=batch,
      loss_type=None,
      optimizer_state=(saved, run),
      eval_results=[],
      global_step=2,
      rng=rng,
    )
  assert np.isfinite(run.step_metrics['loss'])


def batch_sharding():
  mesh = jax.sharding.Mesh(np.asarray(jax.devices()), ('batch',))
  return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec('batch'))


@pytest.mark.parametrize('generation', GENERATIONS)
def test_finish_comes_before_anything_is_donated(generation):
  driver = new_driver(generation=generation)
  assert driver.run()
  leaves = jax.tree_util.tree_leaves(
    (driver.params, driver.model_state, driver.optimizer_state[0])
  )
  assert not any(leaf.is_deleted() for leaf in leaves)
  assert driver.global_step == 12


def test_a_finished_run_is_not_reset():
  driver = new_driver(dataclasses.replace(PARAMS, reset_mode='full'))
  driver.run(until=12)
  before = host(driver.params)
  with pytest.raises(tiny.TrainingCompleteError):
    driver.step()
  assert_equal_trees(driver.params, before)


def test_hold_goes_on_at_the_final_rate(folder):
  constant = ('constant',) * 3
  params = dataclasses.replace(
    PARAMS, when_cycles_run_out='hold', decays=constant
  )
  driver = new_driver(params)
  assert not driver.run(until=20)
  assert column(folder, 'global_step', event='hold') == ['12']
  assert driver.optimizer_state[1].control.cycle == 2
  run = driver.optimizer_state[1]
  rate = cycle_clock.table_rate(run.setup.rate_tables, run.clock, 19)
  assert rate == pytest.approx(PARAMS.hparams.learning_rate)


@pytest.mark.parametrize('seen_after', [0, 1, 5])
@pytest.mark.parametrize('peak', [1e2, 1e10, 1e20])
def test_a_cycle_that_diverges_is_left_and_the_next_one_trains(
  peak, seen_after
):
  """Whenever an evaluation sees it, whatever is left in the moments."""
  params = ScheduleParams(
    alter_lr=(peak, 0.1, 0.1), warmups=('none',) * 3, switch_k=2
  )
  driver = new_driver(params, step_hint=1000, evaluations={})
  driver.step()
  while driver.global_step < 400 and np.isfinite(train_loss(driver)):
    driver.step()
  driver.run(until=driver.global_step + seen_after)
  driver.eval_results.append(
    (
      driver.global_step,
      {'validation/loss': math.nan, 'validation/accuracy': 0.79},
    )
  )
  driver.step()
  assert driver.optimizer_state[1].control.cycle == 1
  assert all(
    np.isfinite(leaf).all()
    for leaf in jax.tree_util.tree_leaves(host(driver.optimizer_state[0].inner))
  )
  fresh_loss = train_loss(driver)
  driver.run(until=driver.global_step + 100)
  assert train_loss(driver) < 0.1 * fresh_loss


# The statistics of the first step cannot take the place of the donated ones.
@pytest.mark.filterwarnings('ignore:Some donated buffers were not usable')
@pytest.mark.parametrize('generation', GENERATIONS)
@pytest.mark.parametrize('mode', ['soft', 'full'])
def test_batch_statistics_that_change_shape_at_the_first_step(generation, mode):
  """As in the benchmark's speech workloads, whose reductions keep a dimension."""

  class Reshaping(tiny.WORKLOADS[generation]):
    def model_fn(self, params, batch, model_state, mode, rng, *args, **kwargs):
      flat = {'mean': model_state.get('stats', model_state)['mean'].reshape(-1)}
      logits, new = super().model_fn(
        params, batch, flat, mode, rng, *args, **kwargs
      )
      return logits, {'stats': {'mean': new['mean'].reshape(1, 1, -1)}}

    if generation == 'jit':
      _jit_model_fn = model_fn

      def model_fn(
        self,
        params,
        batch,
        model_state,
        mode,
        rng,
        update_batch_norm,
        dropout_rate=0.0,
      ):
        return self._jit_model_fn(
          params, batch, model_state, mode, rng, update_batch_norm
        )

  params = dataclasses.replace(PARAMS, reset_mode=mode)
  functions = submission.make_submission(params)
  driver = tiny.Driver(functions, Reshaping(), SWITCHING)
  assert driver.run()
  assert driver.optimizer_state[1].control.cycle == 2
  assert host(driver.model_state)['stats']['mean'].shape[-3:] == (1, 1, 6)


def train_loss(driver):
  return float(driver.optimizer_state[1].step_metrics['loss'])


@pytest.mark.parametrize('generation', GENERATIONS)
def test_an_infinite_model_is_replaced_whole(generation):
  """Even with a finite loss and tau = 0 from a stale evaluation."""
  warm = dataclasses.replace(PARAMS.hparams, warmup_factor=0.25)
  params = dataclasses.replace(PARAMS, hparams=warm)
  driver = new_driver(params, generation, evaluations={1: (1.0, 0.9)})
  driver.run(until=4)
  driver.params = jax.tree_util.tree_map(
    lambda x: x.at[..., 0].set(np.nan), driver.params
  )
  fresh_params = driver.optimizer_state[1].setup.fresh_models[0][0]
  driver.step()
  kernel = host(driver.params)['kernel'].reshape(-1, *(6, 2))
  # The first step of a warm-up, at a learning rate of 0, leaves them fresh.
  for replica in kernel:
    np.testing.assert_array_equal(replica, fresh_params['kernel'])


def test_without_an_evaluation_a_soft_reset_keeps_the_model(folder):
  driver = new_driver(evaluations={})
  driver.run(until=5)
  assert column(folder, 'tau', event='reset') == ['0.0']


def test_two_runs_in_one_process_do_not_see_each_other():
  alone = new_driver()
  assert alone.run()
  together = new_driver()
  other = new_driver(
    dataclasses.replace(PARAMS, reset_mode='full', early_switching=False)
  )
  for _ in range(12):
    together.step()
    other.step()
  assert_equal_trees(together.params, alone.params)
  assert_equal_trees(together.optimizer_state[0], alone.optimizer_state[0])
  assert other.optimizer_state[1].control.num_early_stops == 0


def host_copy(run, tree):
  return run.setup.devices.get(tree)


def make_checkpoint(driver):
  """What the benchmark saves: one replica of the state, as a state dict."""
  saved, run = driver.optimizer_state
  return (
    flax.serialization.to_state_dict(host_copy(run, saved)),
    host_copy(run, driver.params),
    host_copy(run, driver.model_state),
    driver.global_step,
  )


def restore(driver, checkpoint, eval_results):
  """What the benchmark does after a preemption: [0] comes from the checkpoint.

  The other half is that of a new init_optimizer_state, whose set-up can serve
  several restores.
  """
  saved, params, model_state, step = checkpoint
  target, run = driver.optimizer_state
  put = run.setup.devices.put
  state = flax.serialization.from_state_dict(host_copy(run, target), saved)
  driver.optimizer_state = (put(state), run_lib.Run(run.setup))
  driver.params, driver.model_state = put(params), put(model_state)
  driver.global_step, driver.eval_results = step, eval_results


def intact(entries):
  return list(entries)


def mangled(entries):
  """As v0.5.0 restores them."""
  return [
    ({'0': step, '1': results}, str(i))
    for i, (step, results) in enumerate(entries)
  ]


def lost(entries):
  del entries
  return []


def none(entries):
  """As the current benchmark restores them."""
  del entries


def write_benchmark_log(folder, entries):
  with (folder / 'eval_measurements.csv').open('w', newline='') as lines:
    names = ['accumulated_eval_time', 'global_step', *entries[0][1]]
    writer = csv.DictWriter(lines, names)
    writer.writeheader()
    writer.writerows({'global_step': s, **results} for s, results in entries)


@pytest.mark.parametrize('generation', GENERATIONS)
def test_a_resumed_run_is_the_uninterrupted_one(folder, generation):
  """Killed after any evaluation, whatever is left of eval_results."""
  driver = new_driver(generation=generation)
  checkpoints, logged = [], []
  for step in range(1, 13):
    driver.run(until=step)
    if step in SWITCHING:
      checkpoints.append(make_checkpoint(driver))
      logged.append(list(driver.eval_results))
  assert driver.run()
  events = (folder / records.CYCLES).read_text()
  final = host((driver.params, driver.optimizer_state[0]))

  resumed = new_driver(generation=generation)
  for checkpoint, entries in zip(checkpoints, logged):
    for left in (intact, mangled, lost, none):
      # cycles.csv goes on beyond the checkpoint, up to the preemption.
      write_benchmark_log(folder, entries)
      restore(resumed, checkpoint, left(entries))
      assert resumed.run()
      assert (folder / records.CYCLES).read_text() == events
      assert_equal_trees((resumed.params, resumed.optimizer_state[0]), final)


def test_a_restored_state_with_a_stray_device_axis_is_understood(folder):
  """The restore of the current benchmark replicates as the old one did."""
  uninterrupted = new_driver()
  assert uninterrupted.run()
  killed = new_driver()
  killed.run(until=3)
  checkpoint, entries = make_checkpoint(killed), killed.eval_results
  resumed = new_driver()
  restore(resumed, checkpoint, entries)
  saved, run = resumed.optimizer_state
  stacked = flax.jax_utils.replicate(
    jax.device_get((saved, resumed.params, resumed.model_state))
  )
  saved, resumed.params, resumed.model_state = stacked
  resumed.optimizer_state = (saved, run)
  assert resumed.run()
  assert_equal_trees(resumed.params, uninterrupted.params)


def test_unknown_metric_is_named_at_the_first_evaluation():
  driver = new_driver(evaluations={})
  driver.step()
  driver.eval_results.append((1, {'validation/loss': 1.0, 'train/loss': 1.0}))
  with pytest.raises(
    ValueError, match="'validation/accuracy'.*train/loss, validation/loss"
  ):
    driver.step()


def test_external_hyperparameters_take_effect():
  workload = tiny.TinyWorkload()
  params, state = workload.init_model_fn(jax.random.PRNGKey(0))
  point = {'learning_rate': 0.5, 'alpha': 0.25}
  _, run = submission.init_optimizer_state(
    workload, params, state, point, jax.random.PRNGKey(1)
  )
  resolved = run.setup.plan.params
  assert resolved == dataclasses.replace(
    SCHEDULE_PARAMS,
    alpha=0.25,
    hparams=dataclasses.replace(SCHEDULE_PARAMS.hparams, learning_rate=0.5),
  )


def test_more_cycles_than_steps():
  with pytest.raises(ValueError, match='3 cycles do not fit into 2 steps'):
    new_driver(step_hint=1)


def test_no_folder_is_said_once(caplog):
  caplog.set_level('WARNING', logger='absl')
  assert new_driver().run()
  said = [r for r in caplog.messages if 'No experiment folder' in r]
  assert len(said) == 1


def test_files_at_initialisation(folder):
  new_driver()
  assert (folder / records.SCHEDULE_PICTURE).read_bytes()[:4] == b'\x89PNG'
  assert records.read_configuration(folder) == (6, PARAMS)


@pytest.mark.parametrize(
  ('generation', 'point', 'expected'),
  [
    ('jit', None, []),
    ('pmap', None, ['dropout_rate']),
    ('pmap', {'alpha': 0.25}, ['dropout_rate']),
    ('pmap', {'dropout_rate': 0.25}, []),
  ],
)
def test_a_dropout_rate_that_is_not_in_force_is_said(
  generation, point, expected, folder, caplog
):
  """In v0.5.0 the runner builds the model, with its own rate if self-tuned."""
  caplog.set_level('WARNING', logger='absl')
  workload = tiny.WORKLOADS[generation]()
  model = workload.init_model_fn(jax.random.PRNGKey(0))
  submission.init_optimizer_state(
    workload, *model, point, jax.random.PRNGKey(1)
  )
  written = json.loads((folder / records.CONFIGURATION).read_text())
  assert written['not_in_force'] == expected
  assert ('dropout_rate' in caplog.text) == bool(expected)


def test_the_runners_dropout_stays_with_the_model():
  """Fresh models are made without changing the workload (v0.5.0)."""
  workload = tiny.PmapTinyWorkload()
  params, state = workload.init_model_fn(jax.random.PRNGKey(0), 0.3)
  submission.init_optimizer_state(
    workload, params, state, None, jax.random.PRNGKey(1)
  )
  assert workload.dropout_of_model == 0.3


def test_fresh_models_differ_and_repeat():
  first, again = new_driver(), new_driver()
  a, b = (m[0]['kernel'] for m in first.optimizer_state[1].setup.fresh_models)
  c, d = (m[0]['kernel'] for m in again.optimizer_state[1].setup.fresh_models)
  assert not np.array_equal(a, b)
  np.testing.assert_array_equal(a, c)
  np.testing.assert_array_equal(b, d)


def test_control_decides_by_what_is_saved():
  """The host copy never knows more than the arrays do."""
  driver = new_driver()
  driver.run(until=4)
  saved, run = driver.optimizer_state
  on_devices = run.setup.devices.get(saved.control)
  assert cycle_control.as_saved(on_devices) == run.control
  assert jax.tree_util.tree_map(np.asarray, run.control) == on_devices
