"""The chain of cycles over the steps of a run."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from helpers import reference
from helpers.curves import assert_close
from reset_cycles.core.chain import cycle_ends, jax_lr_schedule
from reset_cycles.core.clock import sampled_rates
from reset_cycles.core.schedules import Cooldown, Cosine, Cycle, LinearWarmup
from reset_cycles.schedule_params import SCHEDULE_PARAMS, SOFT_RESET, THESIS

COSINE = Cosine()


def cycle(peak=0.5, warmup_factor=0.0, decay=COSINE, **fields):
  return Cycle(peak, warmup_factor=warmup_factor, decay=decay, **fields)


def lay_out(step_hint, *cycles, budget_factor=1.0):
  return jax_lr_schedule(step_hint, cycles, budget_factor)


def all_rates(chain):
  """Those of all steps of a chain."""
  return np.asarray(jax.jit(chain)(np.arange(chain.steps)))


@pytest.mark.parametrize(
  ('start', 'horizon', 'lengths', 'ends'),
  (
    (0, 12, (1, 1, 1), (4, 8, 12)),
    (0, 10, (1, 1, 1), (4, 7, 10)),  # the longer ones first
    (3, 12, (1, 1), (8, 12)),
    (0, 14, (1, 2, 4), (2, 6, 14)),
    (10, 100, (1, 2), (40, 100)),
    (0, 10, (0.1, 0.2, 0.7), (1, 3, 10)),  # in decimals, not in binary
    (10, 12, (1, 1, 1), (11, 12, 12)),  # one gets no step
    (5, 5, (1,), (5,)),
  ),
)
def test_how_steps_are_split(start, horizon, lengths, ends):
  assert cycle_ends(start, horizon, lengths) == ends


@pytest.mark.parametrize(
  ('step_hint', 'budget_factor', 'warmup_factor', 'steps', 'warmup'),
  (
    # Floors of decimals: of the run, and of a cycle's warm-up.
    (100, 0.29, 0.0, 29, 0),
    (7, 1.5, 0.0, 10, 0),
    (30, 0.1, 0.0, 3, 0),
    (100, 1.0, 0.29, 100, 29),
    (49, 1.0, 0.02, 49, 0),
    (5, 1.0, 1.0, 5, 5),
  ),
)
def test_the_steps_of_a_run_and_of_its_warmup(
  step_hint, budget_factor, warmup_factor, steps, warmup
):
  only = cycle(0.5, warmup_factor)
  found = lay_out(step_hint, only, budget_factor=budget_factor)
  assert found.cycles == ((steps, warmup, only, None),)


def test_chains_that_do_not_fit():
  with pytest.raises(
    ValueError,
    match=r'cycles have the lengths \[1.0, 1.0, 1.0\]: over 2 steps .* they '
    'get 1, 1, 0, and each needs at least one',
  ):
    lay_out(2, cycle(), cycle(), cycle())
  lay_out(3, cycle(), cycle(), cycle())
  with pytest.raises(ValueError, match='at most 2,147,483,647 steps'):
    lay_out(2**31, cycle())
  assert lay_out(2**31 - 1, cycle()).steps == 2**31 - 1


@pytest.mark.parametrize(
  ('params', 'step_hint'),
  ((THESIS, 500), (SOFT_RESET, 1001), (SCHEDULE_PARAMS, 900)),
)
def test_sampled_rates_agree_with_their_twin(params, step_hint):
  chain = lay_out(step_hint, *params.cycles, budget_factor=params.budget_factor)
  expected = reference.chain_rates(step_hint, params)
  assert_close(all_rates(chain), expected, params.cycles[0].peak)
  # A cycle's rate at its end is its own, and not the next one's.
  samples = sampled_rates(chain.cycles)
  assert samples.shape == (len(chain.cycles), 1000)
  for rates, (steps, _, cycle, _) in zip(samples, chain.cycles):
    nominal = np.linspace(0, steps, 1000).tolist()
    expected = [reference.cycle_rate(t, steps, cycle) for t in nominal]
    assert_close(rates, expected, cycle.peak)


def test_a_chain_is_a_schedule():
  """Steps 0 to 3 of a straight fall from .5, then 2 steps of one from .25."""
  chain = lay_out(
    6,
    cycle(0.5, decay=Cooldown(1.0), length=2.0),
    cycle(0.25, decay=Cooldown(1.0)),
  )
  assert (chain.steps, chain.reinit_steps, chain.has_multiple) == (
    6,
    (4,),
    True,
  )
  expected = [0.5, 0.375, 0.25, 0.125, 0.25, 0.125]
  rate_of = jax.jit(chain)
  assert [float(rate_of(step)) for step in range(6)] == expected
  # The last cycle's final rate stays; an array has its own shape.
  assert rate_of(np.array([[5, 6], [9, 2**31 - 1]])).tolist() == [
    [0.125, 0],
    [0, 0],
  ]
  assert chain(0).dtype == jnp.float32 and chain(0).shape == ()
  own = optax.sgd(chain)
  state, step = own.init(jnp.float32(1.0)), jax.jit(own.update)
  for rate in expected:
    update, state = step(jnp.float32(1.0), state)
    assert float(update) == -rate
  alone = lay_out(6, cycle())
  assert (alone.reinit_steps, alone.has_multiple) == ((), False)


def test_the_rates_of_the_thesis_run():
  """Cycles of 53,334, 53,333 and 53,333 steps, of which 1,066 are a warm-up."""
  chain = lay_out(80_000, *THESIS.cycles, budget_factor=2.0)
  shares = {
    # Half of the warm-up, its end, and half of the cosine's 52,268 steps.
    **{0: 0, 533: 1 / 2, 1066: 1, 1066 + 26_134: 1 / 2},
    **{53_334: 0, 53_334 + 533: 1 / 2, 53_334 + 1066: 1},
    **{106_667: 0, 106_667 + 1066: 1},
    # One of 52,267 steps before the end.
    159_999: (1 - math.cos(math.pi / 52_267)) / 2,
  }
  rates = jax.jit(chain)(np.array([*shares]))
  peak = 0.0017486387539278373
  assert_close(rates, peak * np.array([*shares.values()]), peak)


def fails(x_from, value):
  """A shape that gives a value from a share of its phase on."""
  return lambda x, warmup=0.0: jnp.where(x >= x_from, value, 1.0)


@pytest.mark.parametrize(
  ('shape', 'said'),
  (
    (fails(0.375, -0.5), '-0.25'),
    (fails(0.875, math.nan), 'nan'),
    (fails(0.875, math.inf), 'inf'),
  ),
  ids=('negative', 'nan', 'infinite'),
)
@pytest.mark.parametrize('field', ('warmup', 'decay'))
def test_shapes_that_give_no_rates_are_refused(field, shape, said):
  bad = cycle(warmup_factor=float(field == 'warmup'), **{field: shape})
  with pytest.raises(
    ValueError, match=rf'^learning rate of cycles\[1\]={said}: .* at least 0'
  ):
    lay_out(16, cycle(), bad)


def test_a_cycles_end_counts():
  """Where the rate would jump; a warm-up's end is the decay's beginning."""
  bad = fails(1.0, math.nan)
  lay_out(16, cycle(warmup_factor=1.0, warmup=bad))
  with pytest.raises(ValueError, match=r'^learning rate of cycles\[0\]=.*nan'):
    lay_out(16, cycle(decay=bad))


def test_shapes_of_a_chain_may_differ():
  """Those of the current cycle count; a decay is told the warm-up's share."""

  def told(x, warmup=0.0):
    return warmup + 0.0 * x

  cycles = (
    cycle(1.0, 0.25, decay=told),
    cycle(1.0, 0.5, decay=Cooldown(1.0), warmup=LinearWarmup(0.5)),
    cycle(1.0, 0.5, decay=told),
  )
  found = all_rates(lay_out(12, *cycles))
  expected = [0, 0.25, 0.25, 0.25, 0.5, 0.75, 1, 0.5, 0, 0.5, 0.5, 0.5]
  np.testing.assert_allclose(found, expected, atol=1e-7)
