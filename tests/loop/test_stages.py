"""`new_stage`: a chain anew on the model at hand."""

import dataclasses
import math
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from helpers import loops
from helpers.trees import assert_close, assert_same, host
from reset_cycles.core.clock import decay_factor, steps_taken
from reset_cycles.loop import Cycles, State
from reset_cycles.schedule_params import SOFT_RESET
from reset_cycles.soft_reset import Cyclic, SoftReset


def trained(cycles, steps=12):
  """The state after a first stage of 12 steps: cycles 1 to 3."""
  return loops.train(cycles, loops.start(cycles), {}, 0, steps)[0]


def adam_of(state):
  """Adam's own state in that of the chain's optimizer."""
  return next(s for s in state.opt_state.inner if hasattr(s, 'nu'))


def taus(tape):
  return [event.numbers['tau'] for event in tape if event.kind == 'reset']


def test_a_stage_on_tape():
  """Three cycles of two steps, after three of four."""
  cycles = loops.make()
  state, said = cycles.new_stage(trained(cycles), num_steps=6, tau=0.25)
  state, tape = loops.train(cycles, state, {}, 12, 18)
  assert [(e.step, e.kind, e.cycle, e.reason) for e in said + tape] == [
    (12, 'reset', 4, 'SoftReset, new stage'),
    (12, 'cycle_start', 4, ''),
    (
      14,
      'reset',
      5,
      'SoftReset, scheduled, no evaluation in the cycle: tau is 0',
    ),
    (14, 'cycle_start', 5, ''),
    (
      16,
      'reset',
      6,
      'SoftReset, scheduled, no evaluation in the cycle: tau is 0',
    ),
    (16, 'cycle_start', 6, ''),
  ]
  begun = (said + tape)[1::2]
  assert [e.numbers['cycle_end'] for e in begun] == [14, 16, 18]
  assert said[0].numbers['tau'] == 0.25
  assert said[0].numbers['alpha'] == 0.5


def told(cycles, state):
  """What the clock tells an optimizer: t, and the factor of the epochs."""
  clock = state.opt_state.clock
  planned = cycles.config.chain.cycles
  return float(steps_taken(clock)), float(decay_factor(clock, planned))


def test_an_optimizer_is_told_the_steps_of_the_stage():
  """By which the momentum of Muon grows; over cycles of four, then of eight."""
  cycles = loops.make()
  state = trained(cycles)
  assert told(cycles, state)[0] == 12
  state, _ = cycles.new_stage(state, num_steps=24, tau=0.0)
  assert told(cycles, state)[0] == 0
  state, _ = loops.train(cycles, state, {}, 12, 23)
  assert told(cycles, state)[0] == 11


def epochs_of(steps_per_epoch=10.0, **changes):
  usual = {'num_steps': 40, 'matrices': is_kernel, 'rises': False}
  usual['steps_per_epoch'] = steps_per_epoch
  return Cycles(make_params=loops.init, **{**usual, **changes})


def test_a_stage_has_epochs_of_its_own():
  """Its steps are those of cycles that are set up for it, with one state."""
  cycles = epochs_of()
  marks = {i: (1.0 / i, 1.0 / i) for i in range(1, 121)}
  state = loops.train(cycles, loops.start(cycles), marks, 0, 40)[0]
  assert told(cycles, state) == (40, 4)
  state, _ = cycles.new_stage(state, num_steps=80, steps_per_epoch=5.0, tau=0.0)
  alone, other = epochs_of(5.0, num_steps=80), copied(state)
  factors = [told(cycles, state)[1]]
  for first, last in ((40, 50), (50, 80), (80, 120)):
    state = loops.train(cycles, state, marks, first, last)[0]
    other = loops.train(alone, other, marks, first, last)[0]
    assert_same(state, other)
    factors.append(told(cycles, state)[1])
  # Cycles that end with the steps 6, 17, 39 and 80 of the stage.
  expected = [1.2, 3.4, 1 / 0.24, 1 / 0.24]
  np.testing.assert_allclose(factors, expected, rtol=1e-6)


def copied(state):
  return jax.tree_util.tree_map(jnp.copy, state)


@pytest.mark.parametrize(
  ('make', 'said'),
  (
    (lambda: epochs_of(None), 'None where Cycles was set up without'),
    (lambda: loops.make(optimizer=optax.adamw), 'None where Cycles was set up'),
  ),
)
def test_epochs_that_no_step_would_be_told(make, said):
  cycles = make()
  with pytest.raises(ValueError, match=f'steps_per_epoch=2: must be {said}'):
    cycles.new_stage(loops.start(cycles), steps_per_epoch=2)


def is_kernel(path):
  return True if 'kernel' in path else False


def test_the_rates_are_those_of_the_chain_over_the_new_steps():
  """A cosine over two steps, from .01: half of it at the second one."""
  cycles = loops.make()
  state, _ = cycles.new_stage(trained(cycles), num_steps=6, tau=0.25)
  step = loops.make_step(cycles)
  rates = []
  for i in range(12, 18):
    state, _ = cycles.before_step(i, state)
    rates.append(cycles.learning_rate(state))
    state = step(state, loops.inputs_of(i))
  np.testing.assert_allclose(rates, [0.01, 0.005] * 3, rtol=1e-6)


def test_a_stage_blends_the_model_and_donates_it():
  """A quarter of cycle 4's fresh model; an eighth of the moments is gone."""
  cycles = loops.make()
  # Another copy, since what is looked at on the host cannot be donated.
  state, twin = trained(cycles), trained(loops.make())
  old, old_adam = host(twin.params), host(adam_of(twin))
  after, _ = cycles.new_stage(state, num_steps=6, tau=0.25)
  fresh = host(loops.init(jax.random.fold_in(jax.random.PRNGKey(0), 4)))
  mixed = jax.tree_util.tree_map(lambda a, b: 0.75 * a + 0.25 * b, old, fresh)
  assert_close(after.params, mixed, 1e-6)
  adam = adam_of(after)
  shrunk = jax.tree_util.tree_map(lambda m: 0.875 * m, old_adam)
  assert_close(adam.mu, shrunk.mu, 1e-6)
  assert_close(adam.nu, shrunk.nu, 1e-6)
  assert int(adam.count) == int(old_adam.count) == 12
  assert all(
    leaf.is_deleted() for leaf in jax.tree_util.tree_leaves(state.params)
  )


def test_without_a_reset_the_model_stays_as_it_is():
  cycles = loops.make()
  state = trained(cycles)
  before = host((state.params, state.opt_state.inner))
  after, said = cycles.new_stage(state, tau=0.0)
  assert_same((after.params, after.opt_state.inner), before)
  assert said[0].numbers['tau'] == 0
  assert said[1].numbers['cycle_end'] == 16  # as many steps as before


@pytest.mark.parametrize('optimizer', [None, optax.adamw, optax.sgd])
def test_a_stage_that_is_resumed(optimizer):
  """With the stage's number of steps, bit by bit; evaluations on both sides."""
  make = lambda steps: loops.make(num_steps=steps, optimizer=optimizer)
  cycles, seen = make(12), {13: (1.0, 0.5), 17: (0.9, 0.6), 20: (0.8, 0.7)}
  begun, _ = cycles.new_stage(trained(cycles), num_steps=9, tau=0.4)
  middle, _ = loops.train(cycles, begun, seen, 12, 16)
  saved = pickle.dumps(host(middle))
  whole, tape = loops.train(cycles, middle, seen, 16, 21)
  assert 'reset' in [event.kind for event in tape]

  again = make(9)
  state = loops.start(again)
  restored = pickle.loads(saved)
  restored = jax.tree_util.tree_map(lambda _, new: new, state, restored)
  resumed, same = loops.train(again, restored, seen, 16, 21)
  assert_same(resumed, whole)
  assert list(map(repr, same)) == list(map(repr, tape))


def test_a_stage_resumed_as_the_first_one_is_refused():
  cycles = loops.make()
  state, _ = cycles.new_stage(trained(cycles), num_steps=9, tau=0.4)
  with pytest.raises(ValueError, match='steps of the saved run=9'):
    loops.make().before_step(12, state)


def test_other_cycles_may_begin_the_stage():
  """In another process: the state of 12 steps, cycles of 9."""
  cycles = loops.make()
  saved = host(trained(cycles))
  one, said = cycles.new_stage(saved, num_steps=9, tau=0.4)
  two, same = loops.make(num_steps=9).new_stage(saved, tau=0.4)
  assert_same(one, two)
  assert list(map(repr, said)) == list(map(repr, same))


def test_a_new_run_of_the_same_cycles_is_one_of_the_new_steps():
  cycles = loops.make()
  cycles.new_stage(trained(cycles), num_steps=6, tau=0.4)
  _, tape = loops.train(cycles, loops.start(cycles), {}, 0, 3)
  assert [(e.step, e.kind) for e in tape] == [
    *((0, 'cycle_start'), (2, 'reset'), (2, 'cycle_start')),
  ]


def test_the_first_metric_stays_that_of_the_untrained_model():
  """Error rates: .9 untrained, .4 in the stage, .2 wanted."""
  cycles = loops.make(rises=False, target=0.2)
  first = {1: (2.0, 0.9), 11: (1.0, 0.3)}
  state, _ = loops.train(cycles, loops.start(cycles), first, 0, 12)
  state, said = cycles.new_stage(state, tau=0.1)
  assert said[0].numbers['metric'] == 0.3
  _, tape = loops.train(cycles, state, {15: (1.0, 0.4)}, 12, 17)
  assert taus(tape) == pytest.approx([math.log(2) / math.log(4.5)])


def test_tau_fades_by_the_share_of_the_stage():
  """A quarter of the way is missing; a third of the stage is over."""
  chain = dataclasses.replace(loops.CHAIN, reset=SoftReset(fade=2.0))
  cycles = loops.make(chain)
  state, _ = cycles.new_stage(trained(cycles), tau=0.1)
  _, tape = loops.train(cycles, state, {15: (1.0, 0.6)}, 12, 17)
  assert taus(tape) == pytest.approx([0.25 * (1 - 2 / 3)])


def test_a_tau_of_ones_own_is_told_the_steps_of_the_stage():
  told = []
  tau = lambda *given: told.append(given) or 0.1
  cycles = loops.make(target=None, tau=tau)
  state, _ = cycles.new_stage(trained(cycles), tau=0.1)
  told.clear()
  loops.train(cycles, state, {15: (1.0, 0.6)}, 12, 17)
  assert [(metric, step) for metric, _, step in told] == [(0.6, 4)]


def test_a_first_metric_that_came_late_is_told_in_each_stage():
  """As in the first stage; a `tau` of NaN would raise."""
  told = []
  tau = lambda metric, first, step: told.append((metric, first)) or first
  cycles = loops.make(target=None, tau=tau, num_steps=40)
  first = {5: (1.0, 0.25), 13: (1.0, 0.5)}
  state, _ = loops.train(cycles, loops.start(cycles), first, 0, 40)
  state, _ = cycles.new_stage(state, tau=0.0)
  _, tape = loops.train(cycles, state, {53: (1.0, 0.75)}, 40, 55)
  assert told == [(0.5, 0.25), (0.75, 0.25)]
  assert taus(tape) == [0.25]


def test_evaluations_of_the_stage_before():
  """A late one is refused, and one after the last step ends no cycle."""
  cycles = loops.make()
  state, _ = cycles.new_stage(trained(cycles), num_steps=6, tau=0.1)
  state, said = cycles.after_evaluation(12, 1.0, 0.5, state)
  assert [event.kind for event in said] == ['refused']
  state, _ = loops.train(cycles, state, {}, 12, 18)
  state, said = cycles.after_evaluation(18, 1.0, 0.5, state)
  assert [event.kind for event in said] == ['evaluation']


def test_a_stage_after_the_end():
  """The chain has run out, and runs out again."""
  chain = dataclasses.replace(loops.CHAIN, repeat=False)
  cycles = loops.make(chain)
  state, tape = loops.train(cycles, loops.start(cycles), {}, 0, 13)
  assert tape[-1].kind == 'finish'
  state, _ = cycles.new_stage(state, num_steps=3, tau=0.1)
  _, tape = loops.train(cycles, state, {}, 12, 16)
  assert (tape[-1].step, tape[-1].kind) == (15, 'finish')


def test_a_stage_may_be_abandoned_in_its_first_half():
  """Step 52 of a stage from 40 to 80, whose run is half over."""
  cycles = loops.make(SOFT_RESET, num_steps=40)
  state, _ = cycles.new_stage(trained(cycles, 40), tau=0.1)
  bad = {step: (9.0, 0.001) for step in range(42, 80, 2)}
  _, tape = loops.train(cycles, state, bad, 40, 60)
  found = [e.step for e in tape if e.kind == 'abandon']
  assert found
  assert found[0] < 60


def test_a_model_that_is_not_finite_is_replaced():
  cycles = loops.make()
  state = trained(cycles)
  broken = jax.tree_util.tree_map(lambda x: x * math.nan, state.params)
  state, said = cycles.new_stage(state._replace(params=broken), tau=0.1)
  assert said[0].reason == 'FullReset, new stage, the model is not finite'
  fresh = loops.init(jax.random.fold_in(jax.random.PRNGKey(0), 4))
  assert_same(state.params, fresh)


def test_frozen_parameters_and_statistics():
  """The bias stays; the statistics are blended like parameters."""
  make = lambda key: (loops.init(key), {'mean': jnp.full(3, 8.0)})
  cycles = loops.make(
    make_params=make, has_batch_stats=True, frozen=lambda path: 'bias' in path
  )
  params, stats = make(jax.random.PRNGKey(7))
  stats = {'mean': stats['mean'] / 2}
  params['hidden']['bias'] += 1.0
  state = State(params, cycles.optimizer.init(params), stats)
  state, _ = cycles.before_step(0, state)
  state, _ = cycles.new_stage(state, tau=0.25)
  np.testing.assert_array_equal(state.params['hidden']['bias'], np.ones(8))
  np.testing.assert_allclose(state.batch_stats['mean'], np.full(3, 5.0))


def test_a_model_from_elsewhere_begins_a_stage():
  """At step 0, as in fine-tuning; no other start is told."""
  cycles = loops.make()
  state, said = cycles.new_stage(loops.start(cycles), tau=0.1)
  _, tape = loops.train(cycles, state, {}, 0, 3)
  assert [event.kind for event in said] == ['reset', 'cycle_start']
  assert tape == []


@pytest.mark.parametrize(
  ('changes', 'said'),
  [
    ({'tau': -0.1}, r'tau=-0.1: must be .*\[0, 1\]'),
    ({'tau': 1.5}, 'tau=1.5'),
    ({'tau': math.nan}, 'tau=nan'),
    ({'tau': None}, 'tau=None'),
    ({'num_steps': 0}, 'num_steps=0'),
    ({'num_steps': 2.5}, 'num_steps=2.5'),
    ({'num_steps': 2}, r'over 2 steps \(num_steps\)'),
    ({'num_steps': 2**31 - 5}, 'at most 2,147,483,635 after 12 steps'),
  ],
)
def test_bad_values(changes, said):
  """They change nothing: the first stage goes on."""
  cycles = loops.make()
  state = trained(cycles)
  with pytest.raises(ValueError, match=said):
    cycles.new_stage(state, **{'tau': 0.1, **changes})
  state, tape = cycles.before_step(12, state)
  assert [event.kind for event in tape] == ['reset', 'cycle_start']


def test_an_optimizer_without_a_blend():
  """One that keeps three rows for each of a parameter: earlier gradients."""

  def optimizer(learning_rate):
    def init(params):
      memory = lambda p: jnp.zeros((3, *p.shape))
      return {'memory': jax.tree_util.tree_map(memory, params)}

    def update(grads, state, params=None):
      moves = jax.tree_util.tree_map(lambda g: -learning_rate * g, grads)
      rows = lambda m, g: jnp.concatenate([m[1:], g[None]])
      memory = jax.tree_util.tree_map(rows, state['memory'], grads)
      return moves, {'memory': memory}

    return optax.GradientTransformation(init, update)

  chain = dataclasses.replace(loops.CHAIN, reset=Cyclic())
  cycles = loops.make(chain, optimizer=optimizer)
  state = trained(cycles)
  with pytest.raises(ValueError, match='tau=0.1: must be 0 .this optimizer'):
    cycles.new_stage(state, tau=0.1)
  before = host(state.opt_state.inner)
  state, _ = cycles.new_stage(state, tau=0.0)
  assert_same(state.opt_state.inner, before)
