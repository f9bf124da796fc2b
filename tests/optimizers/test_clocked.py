"""An inner optimizer at the cycle clock: the numbers of the cycle in force."""

from __future__ import annotations

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import made_up_parts
import reference
from made_up_parts import AveragedDescent
from reset_cycles.optimizers import INNER
from reset_cycles.optimizers.adamw import AdamW
from reset_cycles.optimizers.clocked import ClockedState, clocked, hparams_at
from reset_cycles.optimizers.inner import InnerHparams, Slots
from reset_cycles.schedule_params import THESIS
from reset_cycles.schedules import cycle_clock, lr_schedule
from reset_cycles.schedules.cycle import Cycle
from reset_cycles.schedules.lr_schedule import lay_out
from reset_cycles.settings.hparams import HPARAMS
from thesis_experiments import EXPERIMENTS

SHAPES = ((5, 3), (4,))
STEPS = 20  # of a cycle
# Whatever a cycle may have of its own, but for its rate and its length.
HPARAMS_OF_CYCLES = tuple(
  dataclasses.replace(HPARAMS, **changes)
  for changes in (
    {'grad_clip': None},
    {'one_minus_beta1': 0.5, 'beta2': 0.9, 'eps': 1e-3},
    {'weight_decay': 0.5, 'grad_clip': 1.0},
    {
      'one_minus_beta1': 1.0,
      'eps': 1e-2,
      'weight_decay': 0.0,
      'grad_clip': 2.0,
    },
  )
)
RATES = (0.01, 0.02, 0.01, 0.005)


def constant_cycle(rate, hparams, steps=STEPS):
  schedule = optax.constant_schedule(rate)
  return Cycle(steps, 0, rate, schedule, None, hparams, 1.0)


DIFFERENT = tuple(map(constant_cycle, RATES, HPARAMS_OF_CYCLES))


def start_of(cycle, cycles=DIFFERENT):
  """The clock at the start of a cycle."""
  ends = np.cumsum([0, *(c.steps for c in cycles)]).tolist()
  return cycle_clock.anchored_clock(
    ends[cycle], cycle, 0.0, cycles[cycle].steps, ends[cycle + 1]
  )


def compiled_update(optimizer):
  @jax.jit
  def update(values, state, grad):
    updates, state = optimizer.update(grad, state, values)
    return optax.apply_updates(values, updates), state

  return update


def draws(count, seed):
  rng = np.random.default_rng(seed)
  return [
    [rng.normal(size=shape).astype(np.float32) for shape in SHAPES]
    for _ in range(count)
  ]


def emptied(state):
  """As a full reset leaves the optimizer."""
  inner = AdamW()
  zeros = jax.tree_util.tree_map(jnp.zeros_like, inner.slots(state.inner))
  return state._replace(inner=inner.with_slots(state.inner, zeros))


def test_cycles_of_other_numbers_share_one_step_and_agree_with_twin(
  compilations,
):
  """In every cycle AdamW starts from nothing, so that the twin can as well."""
  optimizer = clocked(AdamW(), DIFFERENT)
  update = compiled_update(optimizer)
  (values,), grads = draws(1, seed=1), draws(STEPS * len(DIFFERENT), seed=0)
  state = jax.device_put(optimizer.init(values))
  # A step before the others, so that what compiles is known.
  with compilations() as first:
    update(values, state, grads[0])
  assert len(first) == 1
  for i, cycle in enumerate(DIFFERENT):
    state = emptied(state)._replace(clock=jax.device_put(start_of(i)))
    of_cycle = grads[i * STEPS : (i + 1) * STEPS]
    expected = reference.adamw(
      values, of_cycle, [RATES[i]] * STEPS, cycle.hparams
    )
    with compilations() as later:
      found = []
      for grad in of_cycle:
        values, state = update(values, state, grad)
        found.append(values)
    assert later == []
    assert int(state.clock.count) == (i + 1) * STEPS
    assert_close_to_twin(found, expected, RATES[i], cycle.hparams)


def assert_close_to_twin(found, expected, rate, hparams):
  """As in test_adamw: every step rounds the parameters and adds an update.

  Of at most 4 times the rate, off by some 32 half ulps, and by half an ulp of
  beta2 in 1 - beta2^t, which is small at first.
  """
  half_ulp, allowed = 2.0**-24, 0.0
  for t, (values, wanted) in enumerate(zip(found, expected), start=1):
    largest = max(np.max(np.abs(p)) for p in wanted)
    relative = half_ulp * (32 + 1 / (1 - hparams.beta2**t))
    allowed += half_ulp * largest + 4 * rate * relative
    for value, want in zip(values, wanted):
      np.testing.assert_allclose(value, want, rtol=0, atol=allowed)


@pytest.mark.parametrize('cycle', range(4))
def test_the_numbers_at_a_clock(cycle):
  read = jax.jit(functools.partial(hparams_at, cycles=DIFFERENT))
  found = read(start_of(cycle))
  h = HPARAMS_OF_CYCLES[cycle]
  # No clipping is clipping at infinity, where another cycle clips.
  clip = math.inf if h.grad_clip is None else h.grad_clip
  expected = np.float32([h.one_minus_beta1, h.beta2, h.eps, clip])
  np.testing.assert_array_equal(found, expected)


def test_numbers_in_which_cycles_agree_are_constants():
  one = [constant_cycle(0.1, HPARAMS)] * 2
  h = HPARAMS
  expected = InnerHparams(h.one_minus_beta1, h.beta2, h.eps, None)
  assert hparams_at(start_of(1, one), one) == expected
  clipped = dataclasses.replace(HPARAMS, grad_clip=2.0, beta2=0.9)
  other = [constant_cycle(0.1, clipped), constant_cycle(0.2, clipped)]
  found = hparams_at(start_of(1, other), other)
  assert found == InnerHparams(h.one_minus_beta1, 0.9, h.eps, 2.0)
  assert all(type(number) is float for number in found)


def test_the_next_cycles_numbers_are_used_on_what_the_last_one_left():
  """Two steps, one in each cycle, with the moments going on, by hand."""
  first = dataclasses.replace(
    HPARAMS, one_minus_beta1=0.5, beta2=0.75, eps=1.0, weight_decay=0.5
  )
  second = dataclasses.replace(
    HPARAMS,
    one_minus_beta1=0.25,
    beta2=0.5,
    eps=2.0,
    weight_decay=0.25,
    grad_clip=2.0,
  )
  cycles = [constant_cycle(0.5, first, 1), constant_cycle(0.25, second, 1)]
  optimizer = clocked(AdamW(), cycles)
  update = compiled_update(optimizer)
  values = jnp.float32([2.0])
  values, state = update(values, optimizer.init(values), jnp.float32([4.0]))
  # m = 0.5 * 4 = 2 and v = 0.25 * 16 = 4. Corrected they are 4 and 16, and the
  # step is 4 / (4 + 1) = 0.8. With the decay, -0.5 * (0.8 + 0.5 * 2).
  assert float(values[0]) == pytest.approx(2.0 - 0.9, rel=1e-6)
  state = state._replace(clock=start_of(1, cycles))
  values, state = update(values, state, jnp.float32([8.0]))
  # The gradient of 8 is clipped to 2: m = 0.75 * 2 + 0.25 * 2 = 2 and
  # v = 0.5 * 4 + 0.5 * 4 = 4. Corrected by 1 - 0.75^2 = 7/16 and 1 - 0.5^2 = 3/4
  # they are 32/7 and 16/3.
  step = (32 / 7) / (math.sqrt(16 / 3) + 2.0)
  expected = 1.1 - 0.25 * (step + 0.25 * 1.1)
  assert float(values[0]) == pytest.approx(expected, rel=1e-6)
  (mu, nu), _, (count,), _ = AdamW().slots(state.inner)
  np.testing.assert_allclose([*mu, *nu], [2.0, 4.0], rtol=1e-6)
  assert (int(count), int(state.clock.count)) == (2, 2)


@dataclasses.dataclass(frozen=True)
class Stateless:
  """Descent without a state: its updates are minus the rate."""

  def build(self, hparams, rate, weight_decay):
    del hparams, weight_decay
    return optax.stateless(
      lambda updates, params: jax.tree_util.tree_map(
        lambda u: -rate * u, updates
      )
    )


@pytest.mark.parametrize('figure', ('3.3cd', '3.3ef', '3.10'))
def test_the_rate_of_single_steps_is_the_static_chains_to_the_last_bit(figure):
  # Called as a train step is, with the state of the step before.
  cycles = lay_out(60, EXPERIMENTS[figure])
  chain, _, boundaries = lr_schedule.static_chain(cycles)
  steps = np.arange(sum(cycle.steps for cycle in cycles), dtype=np.int32)

  def rate_of_chain(step):
    return jnp.asarray(chain(step), jnp.float32)

  static = np.asarray(jax.jit(lambda s: jax.lax.map(rate_of_chain, s))(steps))
  optimizer = clocked(Stateless(), cycles)
  update = jax.jit(lambda state: optimizer.update(jnp.float32(-1), state))
  state = optimizer.init(None)
  for step in steps.tolist():
    if step in boundaries:
      cycle = boundaries.index(step) + 1
      state = state._replace(clock=start_of(cycle, cycles))
    rate, state = update(state)
    assert int(state.clock.count) == step + 1
    assert np.asarray(rate).view(np.int32) == static[step].view(np.int32)


def test_the_first_clock_is_that_of_the_chains_start():
  cycles = lay_out(60, THESIS)
  state = clocked(AdamW(), cycles).init(jnp.ones(3))
  assert isinstance(state, ClockedState)
  assert tuple(state.clock) == (0, 0, 0, 0.0, 1.0, 1.0)
  dtypes = [np.asarray(leaf).dtype for leaf in state.clock]
  assert dtypes == ['int32'] * 3 + ['float32'] * 3


def test_an_optimizer_with_an_iterate_is_one_class():
  """Registered, written as a setting, run at the clock, reset by its slots."""
  with made_up_parts.registered(INNER, averaged=AveragedDescent):
    setting = INNER.read('optimizer', {'name': 'averaged', 'keep': 0.75})
    params = THESIS.override({'optimizer': 'averaged', 'optimizer_keep': 0.75})
    assert params.optimizer == setting
    inner = INNER.make(setting)
  assert inner == AveragedDescent(keep=0.75)
  with pytest.raises(ValueError, match="optimizer='averaged': optimizer must"):
    INNER.read('optimizer', 'averaged')

  cycles = [constant_cycle(0.5, dataclasses.replace(HPARAMS, weight_decay=1.0))]
  optimizer = clocked(inner, cycles)
  values = {'w': jnp.float32([4.0, 8.0])}
  state = optimizer.init(values)
  grads = {'w': jnp.float32([2.0, 0.0])}
  values, state = compiled_update(optimizer)(values, state, grads)
  # 4 - 0.5 * (2 + 4) and 8 - 0.5 * 8; a quarter of the new joins the average.
  np.testing.assert_array_equal(values['w'], [1.0, 4.0])
  np.testing.assert_array_equal(
    inner.eval_params(state.inner, values)['w'], [3.25, 7.0]
  )
  assert int(state.clock.count) == 1
  moments, (average,), counts, _ = inner.slots(state.inner)
  assert (moments, counts) == ((), ())
  doubled = Slots((), ({'w': 2 * average['w']},), ())
  new = inner.with_slots(state.inner, doubled)
  np.testing.assert_array_equal(new.average['w'], [6.5, 14.0])


@pytest.mark.parametrize(
  'values',
  [
    {'one_minus_beta1': (0.1, 0.2)},
    {'beta2': (0.9, 0.99)},
    {'eps': (1e-8, 1e-3)},
    {'grad_clip': (0.5, 1.0)},
    {'grad_clip': (None, 1.0)},
    {'weight_decay': (0.0, 0.1)},
  ],
  ids=str,
)
def test_traced_numbers_keep_the_types_of_leaves(values):
  [(name, pair)] = values.items()
  cycles = [
    lay_out(10, dataclasses.replace(THESIS, hparams=hparams))[0]
    for hparams in (
      dataclasses.replace(THESIS.hparams, **{name: value}) for value in pair
    )
  ]
  adamw = clocked(AdamW(), cycles)
  params = {'a': jnp.ones(3, jnp.bfloat16), 'b': jnp.ones(2)}
  state = adamw.init(params)
  updates, new = jax.jit(adamw.update)(params, state, params)

  def types(tree):
    return [jnp.asarray(x).dtype for x in jax.tree_util.tree_leaves(tree)]

  assert types(updates) == types(params)
  assert types(new) == types(state)
