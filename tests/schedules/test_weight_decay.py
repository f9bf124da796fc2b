"""The weight decay of each cycle: its schedule, and what it does to a step."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import tiny
from curves import assert_close, read
from reset_cycles import submission
from reset_cycles.optimizers.adamw import AdamW
from reset_cycles.optimizers.clocked import clocked
from reset_cycles.schedule_params import ScheduleParams
from reset_cycles.schedules import cycle_clock, lr_schedule
from reset_cycles.schedules.cycle import Cycle
from reset_cycles.schedules.lr_schedule import lay_out
from reset_cycles.settings.hparams import HPARAMS
from runs import GENERATIONS, SWITCHING

LENGTH = 100
RISING = {'name': 'polynomial', 'start': 0.0, 'end': 1.0}


def make_params(shapes=(), added=(), decay=0.5):
  """Three cycles of 100 steps with warm-ups of 10, peaks of 1, 2 and 1."""
  hparams = dataclasses.replace(
    HPARAMS, learning_rate=1.0, warmup_factor=0.1, weight_decay=decay
  )
  return ScheduleParams(
    alter_lr=(0.0, 1.0, 0.0),
    budget_factor=3.0,
    hparams=hparams,
    weight_decays=shapes,
    alter_weight_decay=added,
  )


def decays_of(params):
  cycles = lay_out(LENGTH, params)
  assert [cycle.steps for cycle in cycles] == [LENGTH] * 3
  return [cycle.weight_decay for cycle in cycles]


def test_nothing_is_scheduled_by_default():
  assert decays_of(make_params()) == [None] * 3


def test_shapes_and_peaks_by_hand():
  params = make_params(('cosine', 'ratio', RISING), (0.5, 0.0, -0.25))
  decays = decays_of(params)
  counts = np.asarray([0, 5, 10, 50, 55, 100])
  # A shape takes the whole cycle, warm-up included: cos(pi / 2) is at 50.
  assert_close(read(decays[0], counts[[0, 3, 5]]), [1.0, 0.5, 0.0], 1.0)
  # The rate is half its peak at 5 and at 55.
  expected = [0.0, 0.25, 0.5, 0.25, 0.0]
  assert_close(read(decays[1], counts[[0, 1, 2, 4, 5]]), expected, 0.5)
  expected = [0.0, 0.0125, 0.025, 0.125, 0.1375, 0.25]
  assert_close(read(decays[2], counts), expected, 0.25)


def test_one_list_without_the_other():
  decays = decays_of(make_params(added=(0.0, 0.5, -0.5)))
  values = [read(decay, np.arange(3)) for decay in decays]
  np.testing.assert_array_equal(values, [[0.5] * 3, [1.0] * 3, [0.0] * 3])
  decays = decays_of(make_params(('constant',) * 3))
  values = [read(decay, np.arange(3)) for decay in decays]
  np.testing.assert_array_equal(values, [[0.5] * 3] * 3)


def test_a_step_by_hand():
  # As in test_adamw: Adam's first update is the sign of the gradient.
  rate, half = map(optax.constant_schedule, (0.01, 0.5))
  adamw = clocked(AdamW(), [Cycle(10, 0, 0.01, rate, half, HPARAMS, 1.0)])
  start = jnp.float32([2.0, -2.0])
  updates, _ = adamw.update(jnp.float32([3.0, 0.5]), adamw.init(start), start)
  np.testing.assert_allclose(updates, [-0.02, 0.0], atol=1e-7)


def test_the_default_is_optax_to_the_last_bit():
  cycles = lay_out(LENGTH, make_params())
  chain, _, _ = lr_schedule.static_chain(cycles)
  optax_own = optax.chain(
    optax.scale_by_adam(
      b1=1 - HPARAMS.one_minus_beta1, b2=HPARAMS.beta2, eps=HPARAMS.eps
    ),
    optax.add_decayed_weights(0.5),
    optax.scale_by_schedule(lambda count: -chain(count)),
  )

  def train(transformation):
    @jax.jit
    def update(state, grad, params):
      updates, state = transformation.update(grad, state, params)
      return state, optax.apply_updates(params, updates)

    params = jnp.linspace(-1.0, 1.0, 50)
    state = transformation.init(params)
    for grad in jax.random.normal(jax.random.PRNGKey(0), (40, 50)):
      state, params = update(state, grad, params)
    return np.asarray(params).view(np.int32)

  ours = train(clocked(AdamW(), cycles))
  np.testing.assert_array_equal(ours, train(optax_own))


def test_a_cycle_stays_at_its_final_decay():
  cycles = lay_out(LENGTH, make_params((RISING,) * 3))
  clock = cycle_clock.anchored_clock(300, 2, 100.0, 100, 301)
  beyond = clock._replace(count=np.int32(1000))
  values = [cycle_clock.weight_decay(c, cycles) for c in (clock, beyond)]
  np.testing.assert_allclose(values, 0.5, rtol=1e-6)
  assert clocked(AdamW(), cycles).init(jnp.ones(3)).clock.count == 0


@pytest.mark.parametrize('generation', GENERATIONS)
def test_nothing_compiles_at_a_cycle_change(generation, compilations):
  """A whole run through the benchmark's functions, with an early switch."""
  params = make_params(('cosine', 'ratio', RISING), decay=0.1)
  params = params.override(
    {
      'learning_rate': 0.01,
      'alter_lr': [0.0] * 3,
      'budget_factor': 2.0,
      'switching_k': 2,
      'switching_m': 2,
      'policy': 'finish',
    }
  )
  functions = submission.make_submission(params)
  workload = tiny.WORKLOADS[generation]()
  driver = tiny.Driver(functions, workload, SWITCHING)
  driver.step()
  with compilations() as compiled:
    assert driver.run()
  assert driver.optimizer_state[1].control.cycle == 2
  assert compiled == []
