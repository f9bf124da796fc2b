"""Arguments of an optimizer that follow a shape over each cycle."""

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from helpers import loops
from helpers.documents import ROOT, blocks
from reset_cycles.core.schedules import Constant, Cosine, Cycle
from reset_cycles.loop import LOOP
from reset_cycles.shapes.simple import Exponential, Linear

CYCLES = tuple(
  dataclasses.replace(cycle, weight_decay=Linear(floor=0.5))
  for cycle in loops.CHAIN.cycles
)
DECAYING = dataclasses.replace(loops.CHAIN, cycles=CYCLES)


def told(**given):
  """What a maker of optimizers is told at steps 0, 2 and 5 of cycles of 4."""
  seen = []

  def make(learning_rate, weight_decay=0.7, b1=0.9, name='adam', b2=0.95):
    seen.append({'b1': b1, 'b2': b2, 'weight_decay': weight_decay})
    return optax.adam(learning_rate)

  changes = {'settings': loops.CHAIN, **given}
  make_it = functools.partial(make, **changes.pop('bound', {}))
  cycles = loops.make(optimizer=make_it, **changes)
  params = loops.init(jax.random.PRNGKey(0))
  state = cycles.optimizer.init(params)
  found = []
  for count, setting in ((0, 0), (2, 0), (5, 1)):
    start = 4 * setting
    clock = np.array(state.clock)
    clock[[0, 1, 4]] = count, setting, start
    seen.clear()
    cycles.optimizer.update(
      params, state._replace(clock=jnp.asarray(clock)), params
    )
    found.append({name: float(value) for name, value in seen[-1].items()})
  return found


def values(found, name):
  return [row[name] for row in found]


def test_an_argument_follows_its_shape_in_each_cycle():
  """b1 = .9 (1 - x / 2) at x = 0, 1/2 and 1/4; all else is as it was."""
  found = told(schedules={'b1': Linear(floor=0.5)})
  np.testing.assert_allclose(values(found, 'b1'), [0.9, 0.675, 0.7875])
  np.testing.assert_allclose(values(found, 'b2'), [0.95] * 3)
  # The chain's own, of loops.CHAIN.
  np.testing.assert_allclose(values(found, 'weight_decay'), [0.001] * 3)


def test_what_is_bound_is_an_arguments_own_value():
  found = told(
    bound={'b2': 0.8, 'weight_decay': 0.3},
    schedules={'b2': Exponential(0.25), 'weight_decay': Linear()},
  )
  np.testing.assert_allclose(values(found, 'b2'), [0.8, 0.4, 0.8 * 0.25**0.25])
  np.testing.assert_allclose(values(found, 'weight_decay'), [0.3, 0.15, 0.225])


def test_the_cycles_and_the_loop_may_both_schedule_the_decay():
  found = told(settings=DECAYING, schedules={'weight_decay': Linear()})
  expected = [0.001, 0.001 * 0.75 * 0.5, 0.001 * 0.875 * 0.75]
  np.testing.assert_allclose(values(found, 'weight_decay'), expected, rtol=1e-6)


def test_optax_trains_with_scheduled_arguments(compilations):
  """The same as with numbers where the shapes give these numbers."""
  schedules = {'b1': Exponential(1.0), 'b2': Cosine(0.5)}
  state = None
  runs = []
  for more in ({}, {'schedules': schedules}, {'schedules': {'b1': Linear()}}):
    cycles = loops.make(optimizer=optax.adamw, **more)
    state, _ = loops.train(cycles, loops.start(cycles), {}, 0, 8)
    runs.append(np.asarray(state.params['hidden']['kernel']))
  plain, other, third = runs
  assert np.isfinite(other).all() and np.isfinite(third).all()
  assert np.abs(other - plain).max() > 1e-4 < np.abs(third - plain).max()
  same = loops.make(optimizer=optax.adamw, schedules={'b1': Exponential(1.0)})
  state, _ = loops.train(same, loops.start(same), {}, 0, 8)
  found = np.asarray(state.params['hidden']['kernel'])
  np.testing.assert_allclose(found, plain, rtol=1e-5, atol=1e-7)


REFUSED = (
  ({'schedules': {'b9': Cosine()}}, "^schedules='b9': must be one of .*b1.*"),
  ({'schedules': {'nesterov': Cosine()}}, "^schedules='nesterov': must be one"),
  (
    {'schedules': {'learning_rate': Cosine()}},
    "^schedules='learning_rate': must be one of",
  ),
  ({'schedules': {'b1': 0.5}}, r"^schedules\['b1'\]=0.5: must be a shape"),
  ({'schedules': ['b1']}, r"^schedules=\['b1'\]: must be a dictionary"),
  (
    {'schedules': {'b1': Cosine()}, 'optimizer': None},
    '^schedules=.*: must be None unless optimizer is a callable',
  ),
  (
    {
      'schedules': {'b1': Cosine()},
      'optimizer': optax.inject_hyperparams(optax.adam)(learning_rate=0.0),
    },
    '^schedules=.*: must be None unless optimizer is a callable',
  ),
  (
    {'settings': DECAYING, 'optimizer': optax.adam},
    r'^weight_decay of a cycle=Linear\(floor=0.5\): must be Constant\(\) with',
  ),
)


@pytest.mark.parametrize(('given', 'said'), REFUSED)
def test_what_cannot_be_scheduled(given, said):
  with pytest.raises(ValueError, match=re.compile(said)):
    loops.make(**{'optimizer': optax.adamw, **given})


def test_the_chains_own_optimizer_takes_the_cycles_decay():
  chain = dataclasses.replace(loops.CHAIN, cycles=(Cycle(0.01),))
  decaying = dataclasses.replace(
    chain,
    cycles=(Cycle(0.01, weight_decay=Linear()),),
    optimizer=dataclasses.replace(chain.optimizer, weight_decay=5.0),
  )
  ends = []
  for settings in (chain, decaying):
    cycles = loops.make(settings)
    state, _ = loops.train(cycles, loops.start(cycles), {}, 0, 8)
    ends.append(np.abs(np.asarray(state.params['output']['kernel'])).sum())
  assert ends[1] < 0.95 * ends[0]


def test_the_groups_of_the_page():
  """The first step of Adam is its rate: .1 (1 - x / 2) of it for the output.

  Cycles of 100 steps without a warm-up, at a constant rate of .5.
  """
  [text] = [
    b.text
    for b in blocks(ROOT / 'docs' / 'loop_reference.md')
    if 'def grouped' in b.text
  ]
  cycle = Cycle(0.5, warmup_factor=0.0, decay=Constant())
  settings = {
    'settings': dataclasses.replace(LOOP, cycles=(cycle,)),
    'num_steps': 100,
    'make_params': loops.init,
  }
  names = {'settings': settings}
  exec(text, names)
  cycles = names['cycles']
  params = loops.init(jax.random.PRNGKey(0))
  ones = jax.tree_util.tree_map(jnp.ones_like, params)
  for count in (0, 50, 100):
    state = cycles.optimizer.init(params)
    clock = state.clock.at[0].set(count)
    state = state._replace(clock=clock)
    updates, _ = cycles.optimizer.update(ones, state, params)
    for name, factor in (('hidden', 1.0), ('output', 0.1 - count / 2000)):
      found = np.asarray(updates[name]['kernel'])
      np.testing.assert_allclose(found, -0.5 * factor, rtol=1e-5)
