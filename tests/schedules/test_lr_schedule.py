"""How steps are shared out, one cycle, the static chain."""

from __future__ import annotations

import dataclasses
import json
import pathlib

import numpy as np
import pytest

import reference
from curves import assert_close, read
from reset_cycles.schedule_params import THESIS, ScheduleParams
from reset_cycles.schedules import lr_schedule
from reset_cycles.settings.hparams import HPARAMS
from thesis_experiments import EXPERIMENTS

DATA = pathlib.Path(__file__).parents[1] / 'data'
WARMUPS = ('linear', 'cosine', 'exponential', 'none')
DECAYS = (
  'cosine',
  'holding_exponential',
  'holding_linear',
  'step',
  'constant',
)


def make_params(warmup='linear', decay='cosine', n=1, **changes):
  """n equal cycles of one kind."""
  return ScheduleParams(
    **{
      'warmups': (warmup,) * n,
      'decays': (decay,) * n,
      'alter_lr': (0.0,) * n,
      'alter_warmup': (0.0,) * n,
      'lengths': (1.0,) * n,
      'budget_factor': 1.0,
      **changes,
    }
  )


@pytest.mark.parametrize('decay', DECAYS)
@pytest.mark.parametrize('warmup', WARMUPS)
def test_all_cycles_agree_with_twin(warmup, decay):
  # W = floor(0.08 * 201) = 16. Whole counts, and fractional ones as they come
  # about when the pace is not 1; the boundary and one step on either side of it
  # are among them.
  length = 201
  params = make_params(warmup, decay, alter_lr=(0.001,), alter_warmup=(0.06,))
  fractions = np.random.default_rng(0).uniform(0, length, 400)
  counts = np.concatenate([np.arange(length + 1), fractions, [15.5, 16.5]])
  counts = counts.astype(np.float32)
  (cycle,) = lr_schedule.lay_out(length, params)
  expected = [reference.cycle_rate(float(t), length, params, 0) for t in counts]
  assert cycle.peak == params.hparams.learning_rate + 0.001
  assert_close(read(cycle.rate, counts), expected, cycle.peak)


@pytest.mark.parametrize(
  ('factor', 'step_hint', 'horizon'),
  ((2.0, 80_000, 160_000), (0.29, 100, 29), (1.1, 10, 11), (0.5, 7, 3)),
)
def test_horizon_is_exact(factor, step_hint, horizon):
  assert lr_schedule.horizon_steps(step_hint, factor, 1) == horizon


@pytest.mark.parametrize(
  ('start', 'horizon', 'lengths', 'ends'),
  (
    (0, 12, (1, 1, 1), (4, 8, 12)),
    (0, 1600, (1.0, 1.0, 1.0), (534, 1067, 1600)),
    (0, 11, (1, 1, 1), (4, 8, 11)),
    (0, 10, (1, 1, 1), (4, 7, 10)),
    (3, 12, (1, 1), (8, 12)),
    (0, 100, (1, 1, 2), (25, 50, 100)),
    (0, 100, (0.1, 0.2, 0.7), (10, 30, 100)),
    (0, 10, (0.7, 0.2, 0.1), (7, 9, 10)),
    (0, 3, (1, 1, 1), (1, 2, 3)),
    (0, 3, (100, 1, 1), (3, 3, 3)),
    (0, 1, (1, 1, 1), (1, 1, 1)),
    (5, 5, (1, 1), (5, 5)),
    (0, 7, (3,), (7,)),
  ),
)
def test_cycle_ends_by_hand(start, horizon, lengths, ends):
  assert lr_schedule.cycle_ends(start, horizon, lengths) == ends


LENGTHS = ((1.0,) * 3, (1.0,) * 7, (1, 1, 2), (0.1, 0.2, 0.7), (3, 0.05, 1.7))


@pytest.mark.parametrize('lengths', LENGTHS)
def test_a_plan_made_at_a_boundary_is_the_rest_of_the_plan(lengths):
  for horizon in (*range(7, 60), 1600, 160_000):
    ends = lr_schedule.cycle_ends(0, horizon, lengths)
    assert list(ends) == reference.cycle_ends(0, horizon, lengths)
    assert ends[-1] == horizon
    for i, end in enumerate(ends[:-1]):
      rest = lr_schedule.cycle_ends(end, horizon, lengths[i + 1 :])
      assert rest == ends[i + 1 :]


def test_equal_cycles_differ_by_at_most_a_step():
  for horizon in range(5, 200):
    ends = lr_schedule.cycle_ends(0, horizon, (1.0,) * 5)
    sizes = np.diff((0, *ends))
    assert sizes.max() - sizes.min() <= 1
    assert list(sizes) == sorted(sizes, reverse=True)


def test_static_chain_of_the_thesis():
  chain, has_multiple, reinit_steps = lr_schedule.static_chain(
    lr_schedule.lay_out(80_000, THESIS)
  )
  # The horizon, 160,000, is no boundary.
  assert (has_multiple, reinit_steps) == (True, (53_334, 106_667))
  peak = 0.0017486387539278373
  starts = np.asarray([0, *reinit_steps])
  # W = floor(0.02 * 53,334) = floor(0.02 * 53,333) = 1066. The last step of a
  # cycle is a step short of zero: (pi / 52,267)^2 / 4 of the peak.
  assert_close(read(chain, starts), 0.0, peak)
  assert_close(read(chain, starts + 533), peak / 2, peak)
  assert_close(read(chain, starts + 1066), peak, peak)
  last = read(chain, np.append(starts[1:], 160_000) - 1)
  assert_close(last, 0.0, peak)


def test_one_cycle_has_no_boundary():
  cycles = lr_schedule.lay_out(100, make_params())
  _, has_multiple, reinit_steps = lr_schedule.static_chain(cycles)
  assert (has_multiple, reinit_steps) == (False, ())


def test_more_cycles_than_steps():
  assert lr_schedule.horizon_steps(6, 0.5, 3) == 3
  said = (
    r'^3 cycles do not fit into 2 steps \(budget_factor=0.5 \* step_hint=5\): '
  )
  with pytest.raises(ValueError, match=said):
    lr_schedule.horizon_steps(5, 0.5, 3)


def test_as_many_steps_as_an_int32_can_count():
  assert lr_schedule.horizon_steps(2**31 - 1, 1.0, 3) == 2**31 - 1
  with pytest.raises(ValueError, match='at most 2,147,483,647 steps'):
    lr_schedule.horizon_steps(2**31, 1.0, 3)
  with pytest.raises(ValueError, match='budget_factor=1e.308 .* at most'):
    lr_schedule.horizon_steps(10, 1e308, 3)


@pytest.mark.parametrize(
  ('lengths', 'steps'),
  (((1, 1, 1), (4, 4, 4)), ((1, 1, 2), (3, 3, 6)), ((10, 1, 1), (10, 1, 1))),
)
def test_cycle_lengths_by_hand(lengths, steps):
  assert lr_schedule.cycle_lengths(12, lengths) == steps


def test_a_cycle_without_a_step():
  said = (
    r'^lengths=\(1, 100, 1\): over 12 steps the cycles get 1, 11, 0 of them'
  )
  with pytest.raises(ValueError, match=said):
    lr_schedule.cycle_lengths(12, [1, 100, 1])


def test_cycles_are_laid_out_once():
  params = dataclasses.replace(
    THESIS,
    warmups=('linear', 'none', 'cosine'),
    alter_lr=(0.0, 0.001, -0.001),
    alter_warmup=(0.18, 0.5, 0.0),
    lengths=(1.0, 1.0, 2.0),
    budget_factor=1.0,
    weight_decays=('cosine', 'ratio', 'constant'),
    alter_weight_decay=(0.5, 0.0, 1.0),
  )
  first, second, third = lr_schedule.lay_out(400, params)
  peak, decay = HPARAMS.learning_rate, HPARAMS.weight_decay
  assert [c.steps for c in (first, second, third)] == [100, 100, 200]
  assert [c.length for c in (first, second, third)] == [1.0, 1.0, 2.0]
  # 0.2 of 100; none; 0.02 of 200.
  assert [c.warmup_steps for c in (first, second, third)] == [20, 0, 4]
  peaks = [peak, peak + 0.001, peak - 0.001]
  assert [c.peak for c in (first, second, third)] == peaks
  assert all(c.hparams == HPARAMS for c in (first, second, third))
  for i, cycle in enumerate((first, second, third)):
    counts = np.arange(cycle.steps + 1)
    rates = [reference.cycle_rate(t, cycle.steps, params, i) for t in counts]
    assert_close(read(cycle.rate, counts), rates, cycle.peak)
    decays = [reference.weight_decay(t, cycle.steps, params, i) for t in counts]
    assert_close(read(cycle.weight_decay, counts), decays, decay + 1.0)


def test_a_constant_weight_decay_is_no_schedule():
  assert [c.weight_decay for c in lr_schedule.lay_out(30, THESIS)] == [None] * 3


def test_the_static_chain_in_the_words_of_the_thesis():
  """The hyperparameters handed over take the place of the configuration's."""
  hparams = dataclasses.replace(HPARAMS, learning_rate=1.0, warmup_factor=0.25)
  chain, has_multiple, reinit_steps = lr_schedule.jax_lr_schedule(
    6, hparams, THESIS
  )
  assert (has_multiple, reinit_steps) == (True, (4, 8))
  # A step of warm-up, and half a cosine over three.
  cycle = [0.0, 1.0, 0.75, 0.25]
  assert_close(read(chain, np.arange(12)), cycle * 3, 1.0)


def test_the_weight_decay_of_the_static_chain():
  assert (
    lr_schedule.static_weight_decay(lr_schedule.lay_out(30, THESIS)) is None
  )
  params = dataclasses.replace(
    THESIS,
    weight_decays=('constant', 'cosine', 'ratio'),
    alter_weight_decay=(0.5, 0.0, 1.0),
  )
  cycles = lr_schedule.lay_out(150, params)
  counts = np.arange(300)
  expected = [
    reference.weight_decay(t % 100, 100, params, t // 100) for t in counts
  ]
  found = read(lr_schedule.static_weight_decay(cycles), counts)
  assert_close(found, expected, HPARAMS.weight_decay + 1.0)


@pytest.mark.parametrize('figure', EXPERIMENTS)
def test_chain_of_every_experiment_agrees_with_twin(figure):
  params = EXPERIMENTS[figure]
  expected = reference.chain_rates(800, params)
  chain, _, _ = lr_schedule.static_chain(lr_schedule.lay_out(800, params))
  peak = params.hparams.learning_rate + max(params.alter_lr)
  assert_close(read(chain, np.arange(len(expected))), expected, peak)


ORACLE = json.loads((DATA / 'thesis_chain.json').read_text())
ORACLE_FIGURES = {
  'fig3.3a|T=1600': EXPERIMENTS['3.3ab'],
  'fig3.3c_publiccode|T=1600': EXPERIMENTS['3.3cd'],
}


@pytest.mark.oracle
@pytest.mark.parametrize('figure', ORACLE_FIGURES)
def test_chain_agrees_with_reference_values(figure):
  params, expected = ORACLE_FIGURES[figure], ORACLE[f'{figure}|even']
  cycles = lr_schedule.lay_out(800, params)
  chain, _, reinit_steps = lr_schedule.static_chain(cycles)
  assert [*reinit_steps, 1600] == expected['boundaries']
  assert [cycle.steps for cycle in cycles] == expected['lengths']
  rates = read(chain, np.arange(1600))
  assert_close(rates, expected['values'], max(expected['peaks']))


@pytest.mark.oracle
@pytest.mark.parametrize('figure', ORACLE_FIGURES)
def test_cycles_agree_with_reference_values(figure):
  # The other division, into cycles of 533 steps each.
  params, expected = ORACLE_FIGURES[figure], ORACLE[f'{figure}|floor']
  for i, values in enumerate(np.split(np.asarray(expected['values']), 3)):
    one = make_params(
      decay=params.decays[i], alter_lr=params.alter_lr[i : i + 1]
    )
    (cycle,) = lr_schedule.lay_out(533, one)
    peak = expected['peaks'][i]
    assert_close(read(cycle.rate, np.arange(533)), values, peak)


@pytest.mark.oracle
@pytest.mark.parametrize('figure', ORACLE_FIGURES)
def test_twin_agrees_with_reference_values(figure):
  expected = ORACLE[f'{figure}|even']
  rates = reference.chain_rates(800, ORACLE_FIGURES[figure])
  # The values are given with ten digits.
  np.testing.assert_allclose(rates, expected['values'], rtol=1e-9, atol=1e-13)
