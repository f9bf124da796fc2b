"""What an ordinary step may not cost: compilations, reads, transfers."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest

import tiny
from made_up_parts import Moved, registered
from reset_cycles import submission
from reset_cycles.control.horizons import HORIZONS
from reset_cycles.training import run as run_lib
from runs import GENERATIONS, PARAMS, SWITCHING, new_driver


class Logger:
  """In the place of the benchmark's metrics logger."""

  def __init__(self):
    self.drawn = []
    self._tb_metric_writer = self

  def append_scalar_metrics(self, metrics, global_step):
    del metrics, global_step

  def write_scalars(self, step, scalars):
    self.drawn.append(step)


@pytest.mark.parametrize('generation', GENERATIONS)
def test_nothing_compiles_after_the_first_step(
  generation, compilations, folder
):
  """Whatever is decided and written down."""
  driver = new_driver(generation=generation)
  driver.workload.metrics_logger = Logger()
  driver.step()
  with compilations() as compiled:
    assert driver.run()
  assert driver.optimizer_state[1].control.num_early_stops == 1
  assert driver.optimizer_state[1].control.cycle == 2
  assert compiled == []


@pytest.mark.parametrize('generation', GENERATIONS)
def test_nothing_compiles_where_a_horizon_moves_and_cycles_are_added(
  generation, compilations
):
  """But for the fresh models of resets that were not planned: none here."""
  with registered(HORIZONS, moved=Moved):
    horizon = {'name': 'moved', 'to': 17, 'at_evaluation': 2}
    params = dataclasses.replace(PARAMS, policy='repeat', horizon=horizon)
    evaluations = {2: (1.0, 0.4), 6: (1.0, 0.6), 21: (1.0, 0.9)}
    driver = new_driver(params, generation, evaluations)
  driver.step()
  with compilations() as compiled:
    driver.run(until=40)
  control = driver.optimizer_state[1].control
  # From step 6 to the end of cycle 2, and 17, in the shares 2 : 4; then by four.
  assert (control.cycle, control.number, control.cycle_end) == (2, 9, 41)
  assert compiled == []


@pytest.mark.parametrize('generation', GENERATIONS)
def test_nothing_compiles_where_the_run_is_laid_over_the_time_budget(
  generation, compilations
):
  """At every evaluation anew, by a rate that is never the same."""
  params = dataclasses.replace(
    PARAMS, policy='repeat', horizon='time', early_switching=False
  )
  # 60 s for the first step, 5 to 7 s for two: a run of 36 or 86 steps.
  seconds = {2 * i + 1: 60.0 + 6 * i + i % 3 for i in range(60)}
  evaluations = {step: (1.0, 0.4, time) for step, time in seconds.items()}
  driver = new_driver(params, generation, evaluations, step_hint=300)
  driver.step()
  with compilations() as compiled:
    driver.run(until={'jit': 24, 'pmap': 74}[generation])
  control = driver.optimizer_state[1].control
  budget = {'jit': 150, 'pmap': 300}[generation]
  assert driver.optimizer_state[1].setup.rules.budget == budget
  assert (control.cycle, control.number) == (2, 3)
  # 2 steps in a median of 7 s; the last evaluation is to see the end.
  assert budget - 14 < seconds[control.horizon | 1] < budget
  assert compiled == []


# The statistics of the first step cannot take the place of the donated ones.
@pytest.mark.filterwarnings('ignore:Some donated buffers were not usable')
@pytest.mark.parametrize('generation', GENERATIONS)
def test_what_compiles_where_the_model_changes_the_shape_of_its_state(
  generation, compilations
):
  """The second step, and at the first reset what the new shapes need."""
  jax.clear_caches()  # other tests may have compiled the same
  functions = submission.make_submission(PARAMS)
  driver = tiny.Driver(functions, tiny.reshaping(generation)(), SWITCHING)
  driver.run(until=2)
  with compilations() as compiled:
    driver.run(until=3)
  assert compiled == []
  with compilations() as compiled:
    driver.run(until=4)  # left early, and reset
  # For the one leaf: whether it is finite, its sample, its blend.
  assert len(compiled) == 3
  with compilations() as compiled:
    assert driver.run()
  assert compiled == []


@pytest.mark.parametrize('generation', GENERATIONS)
def test_the_step_has_no_branch(generation):
  """On a GPU the host waits for the index of a branch, at every step."""
  driver = new_driver(generation=generation)
  run = driver.optimizer_state[1]
  arguments = (
    driver.params,
    driver.model_state,
    driver.optimizer_state[0].inner,
    tiny.batch_of_step(0, generation),
    driver.rng,
  )
  program = run.setup.train_steps[0].lower(*arguments).compile().as_text()
  assert 'cosine' in program  # the rates are computed in it
  assert 'conditional' not in program


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
def test_an_ordinary_step_reads_nothing(generation, reads_from_devices, folder):
  """Of the steps 2 and 3, whose rates are on the grid."""
  driver = new_driver(generation=generation, evaluations={1: (1.0, 0.4)})
  logger = driver.workload.metrics_logger = Logger()
  driver.run(until=2)
  del reads_from_devices[:]
  np.asarray(driver.params['bias'])
  assert len(reads_from_devices) == 1  # the fixture sees reads
  driver.run(until=4)
  assert len(reads_from_devices) == 1
  assert logger.drawn == [0]
  driver.step()  # the boundary
  assert logger.drawn == [0, 1, 2, 3]


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
