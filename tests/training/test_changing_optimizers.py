"""A chain whose cycles have different inner optimizers, on 8 devices."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest

from reset_cycles.schedule_params import THESIS
from runs import (
  GENERATIONS,
  assert_equal_trees,
  column,
  host,
  make_checkpoint,
  new_driver,
  restore,
)

FREE = {'name': 'schedule_free_adamw', 'r': 0.75}
OPTIMIZERS = ('adamw', 'nesterov', FREE, 'ademamix', 'nadamw', 'adamw')
EVALUATIONS = {4 * i + 3: (1.0, 0.6) for i in range(len(OPTIMIZERS))}
HPARAMS = dataclasses.replace(THESIS.hparams, learning_rate=0.01)


def chain(optimizers=OPTIMIZERS, **changes):
  """Cycles of 4 steps; a quarter of a model goes in each reset."""
  return dataclasses.replace(
    THESIS,
    cycles=[
      {'optimizer': o, 'beta2': 0.9 + i / 100} for i, o in enumerate(optimizers)
    ],
    budget_factor=float(len(optimizers)),
    hparams=HPARAMS,
    **changes,
  )


def driver_of(params, generation='jit'):
  return new_driver(params, generation, EVALUATIONS, step_hint=4)


def kinds(tree):
  return jax.tree_util.tree_map(lambda x: (x.shape, x.dtype), tree)


@pytest.mark.parametrize('generation', GENERATIONS)
def test_one_structure_and_one_compilation_per_optimizer(
  generation, compilations, folder
):
  driver = driver_of(chain(), generation)
  _, run = driver.optimizer_state
  steps = run.setup.train_steps
  assert len(set(map(id, steps))) == 5
  assert steps[0] is steps[5]
  driver.step()
  structure = kinds(driver.optimizer_state[0])
  counts = []
  for cycle in range(len(OPTIMIZERS)):
    with compilations() as compiled:
      driver.run(until=4 * cycle + 4)
    counts.append(len(compiled))
    assert driver.optimizer_state[1].control.cycle == cycle
    assert kinds(driver.optimizer_state[0]) == structure
  # The first was counted out; AdamW is there again at the end.
  assert counts == [0, 1, 1, 1, 1, 0]
  taus = [float(tau) for tau in column(folder, 'tau', event='reset')]
  assert taus == [1 - 0.6 / 0.8] * 5
  notes = column(folder, 'note', event='reset')
  assert notes == [
    'nesterov begins',
    'schedule_free_adamw(r=0.75) begins',
    'ademamix begins',
    'nadamw begins',
    'adamw begins',
  ]


@pytest.mark.parametrize('generation', GENERATIONS)
@pytest.mark.parametrize('optimizer', OPTIMIZERS[1:5], ids=str)
def test_numbers_alone_share_a_step(optimizer, generation, compilations):
  """Soft resets of each optimizer, its iterates among them."""
  driver = driver_of(chain([optimizer] * 3), generation)
  driver.step()
  run = driver.optimizer_state[1]
  assert len(set(map(id, run.setup.train_steps))) == 1
  assert run.setup.beginnings is None
  with compilations() as compiled:
    assert driver.run()
  assert compiled == []
  assert driver.global_step == 12
  leaves = jax.tree_util.tree_leaves(host(driver.params))
  assert all(np.isfinite(leaf).all() for leaf in leaves)


@pytest.mark.parametrize('generation', GENERATIONS)
@pytest.mark.parametrize('mode', ['soft', 'full', 'kept_momentum', 'cyclic'])
def test_another_optimizer_begins_from_the_parameters(mode, generation):
  """As if it had been handed them: the steps of its cycle by itself."""
  params = chain(['adamw', FREE], reset_mode=mode)
  driver = driver_of(params, generation)
  driver.run(until=5)  # one step of the second cycle
  inner = driver.optimizer_state[1].setup.inners[1]
  saved = driver.optimizer_state[1].setup.devices.get(driver.optimizer_state[0])
  slots = inner.slots(saved.inner.inner)
  count, largest = slots.counts
  assert count == 1
  # After one step x is z, and y as well.
  (z,) = slots.iterates
  for a, b in zip(*map(jax.tree_util.tree_leaves, (z, params_of(driver)))):
    np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
  assert float(slots.weights[0]) == pytest.approx(float(largest) ** 2)


def params_of(driver):
  return driver.optimizer_state[1].setup.devices.get(driver.params)


@pytest.mark.parametrize('generation', GENERATIONS)
def test_killed_in_any_cycle(generation, folder):
  """The half that is saved has all that another process needs."""
  whole = driver_of(chain(), generation)
  resumed = driver_of(chain(), generation)
  checkpoints = {}
  for step in (5, 8, 14, 24):  # after a first step, before one, in the middle
    whole.run(until=step)
    checkpoints[step] = make_checkpoint(whole), list(whole.eval_results)
  final = host((whole.params, whole.optimizer_state[0].inner))
  for checkpoint, entries in checkpoints.values():
    restore(resumed, checkpoint, entries)
    resumed.run(until=24)
    assert_equal_trees(
      (resumed.params, resumed.optimizer_state[0].inner), final
    )


def test_smoothing_and_dropout_of_a_cycle_are_its_own():
  """Each is compiled into a step of its own; see WithDropout."""
  cycles = [{}, {'label_smoothing': 0.5}, {'dropout_rate': 0.5}, {}]
  params = dataclasses.replace(THESIS, cycles=cycles, budget_factor=4.0)
  run = driver_of(params).optimizer_state[1]
  steps = run.setup.train_steps
  assert len(set(map(id, steps))) == 3
  assert steps[0] is steps[3]
  # In v0.5.0 the runner has built the model with its dropout.
  steps = driver_of(params, 'pmap').optimizer_state[1].setup.train_steps
  assert len(set(map(id, steps))) == 2
  # The gradient of the second cycle's first step knows its label smoothing.
  driver = driver_of(dataclasses.replace(params, reset_mode='cyclic'))
  driver.run(until=5)
  plain = driver_of(
    dataclasses.replace(params, reset_mode='cyclic', cycles=[{}, {}, {}, {}])
  )
  plain.run(until=5)
  losses = [
    float(d.optimizer_state[1].step_metrics['loss']) for d in (driver, plain)
  ]
  assert losses[0] < losses[1]


@pytest.mark.parametrize('generation', GENERATIONS)
def test_what_is_evaluated_is_that_of_the_cycles_optimizer(generation):
  driver = driver_of(chain(['adamw', FREE], reset_mode='cyclic'), generation)
  driver.workload.eval_period_time_sec = 0.0  # in v0.5.0 always foreseen
  for step, is_own in ((3, False), (7, True)):
    driver.run(until=step)
    saved, run = driver.optimizer_state
    assert run.averaged.out == is_own
    get = run.setup.devices.get
    if is_own:
      trained, state = get((saved.averaging.slot, saved.inner.inner))
      expected = run.setup.inners[1].eval_params(state, trained)
      found = get(driver.params)
      for name in found:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-6)
      assert not np.array_equal(found['kernel'], trained['kernel'])
