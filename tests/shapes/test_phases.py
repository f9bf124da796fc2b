"""Phases and checkpoints of plans: by hand, and against the rates themselves."""

import itertools

import jax
import numpy as np
import pytest

from reset_cycles.core.chain import jax_lr_schedule
from reset_cycles.core.schedules import Constant, Cooldown, Cosine, Cycle
from reset_cycles.schedule_params import THESIS
from reset_cycles.shapes.composed import WSD, CosineWarmRestarts, Sequential
from reset_cycles.shapes.phases import (
  Period,
  checkpoint_steps,
  period_at,
  periods,
)
from reset_cycles.shapes.simple import HoldingLinear, InversePower


def chain(steps, decay, warmup_factor=0.0, num=1):
  cycle = Cycle(peak=1.0, warmup_factor=warmup_factor, decay=decay)
  return jax_lr_schedule(steps, (cycle,) * num, 1.0)


@pytest.mark.parametrize(
  ('num', 'steps', 'expected'),
  (
    (2, 100_000, (50_000, 100_000)),
    (3, 200_000, (50_000, 100_000, 200_000)),
    (4, 200_000, (25_000, 50_000, 100_000, 200_000)),
  ),
)
def test_checkpoints_as_wsd_lr_scheduler_documents_them(num, steps, expected):
  assert checkpoint_steps(chain(steps, WSD(num, decay=0.1))) == expected


def test_its_initial_run():
  """Warm-up up to 50, stable up to 900, decay up to 1000 (100 of 950 steps)."""
  [found] = periods(chain(1000, WSD(decay=100 / 950), warmup_factor=0.05))
  assert found == Period(1, 0, 50, 900, 1000)
  assert found.decay_steps == 100
  phases = [found.phase(step) for step in (0, 49, 50, 899, 900, 999)]
  assert phases == [
    *('warm-up', 'warm-up', 'stable', 'stable', 'decay', 'decay')
  ]


@pytest.mark.parametrize(
  ('decay', 'warmup_factor', 'expected'),
  (
    # A tenth of 250, of 250 and of 500 steps.
    (
      WSD(3, decay=0.1),
      0.0,
      [(0, 0, 225, 250), (250, 250, 475, 500), (500, 500, 950, 1000)],
    ),
    (Cooldown(0.29), 0.0, [(0, 0, 710, 1000)]),
    (Cosine(), 0.1, [(0, 100, 100, 1000)]),
    (Constant(), 0.1, [(0, 100, 1000, 1000)]),
    (Cosine(), 1.0, [(0, 1000, 1000, 1000)]),
    (InversePower(hold=0.25), 0.2, [(0, 200, 400, 1000)]),
    # W + 0.2 L after the warm-up of W.
    (HoldingLinear(), 0.1, [(0, 100, 400, 1000)]),
    (
      CosineWarmRestarts(2, multiplier=3.0),
      0.0,
      [(0, 0, 0, 250), (250, 250, 250, 1000)],
    ),
    # Stable for 3/10 and half of the rest; then a stable rate without a decay.
    (
      Sequential((Constant(), Cooldown(0.5), Constant()), at=(0.3, 0.7)),
      0.0,
      [(0, 0, 500, 700), (700, 700, 1000, 1000)],
    ),
  ),
  ids=repr,
)
def test_periods_by_hand(decay, warmup_factor, expected):
  plan = chain(1000, decay, warmup_factor)
  assert periods(plan) == tuple(Period(1, *numbers) for numbers in expected)
  annealed = [end for *_, begin, end in expected if begin < end]
  assert checkpoint_steps(plan) == tuple(annealed)


@pytest.mark.parametrize('steps', (7, 10, 101, 1009, 65_537))
@pytest.mark.parametrize(
  'decay',
  (
    Cooldown(0.1),
    WSD(2, decay=0.3),
    WSD(3, decay=0.1, fall='sqrt'),
    Sequential((Constant(), WSD(2, decay=0.7)), at=(0.1,)),
  ),
  ids=repr,
)
def test_the_rate_is_stable_up_to_where_the_decay_is_said_to_begin(
  steps, decay
):
  plan = chain(steps, decay, warmup_factor=0.1)
  rates = np.asarray(jax.jit(plan)(np.arange(steps)))
  found = periods(plan)
  assert [found[0].start, found[-1].end] == [0, steps]
  for before, after in itertools.pairwise(found):
    assert before.end == after.start == after.warmup_end
  for period in found:
    # The decay begins at its first step, or between it and the one before.
    assert np.all(rates[period.warmup_end : period.pre_decay_step] == 1.0)
    assert np.all(rates[period.pre_decay_step + 1 : period.end] < 1.0)
    if period.end < steps:  # the next one has the whole rate again
      assert rates[period.end] == 1.0


def test_the_periods_of_a_chain():
  """Three cosines over 2 * 80,000 steps: the thesis' reinit_steps, and the end."""
  plan = jax_lr_schedule(80_000, THESIS.cycles, THESIS.budget_factor)
  assert checkpoint_steps(plan) == (53_334, 106_667, 160_000)
  assert checkpoint_steps(plan)[:-1] == plan.reinit_steps
  assert period_at(plan, 53_333).cycle == 1
  # floor(.02 * 53,333) = 1,066 steps of warm-up.
  assert period_at(plan, 53_334) == Period(2, 53_334, 54_400, 54_400, 106_667)
  with pytest.raises(ValueError, match='step=160000: .* at most 159999'):
    period_at(plan, 160_000)
