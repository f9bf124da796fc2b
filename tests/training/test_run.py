"""What happens between the train steps of a run."""

from __future__ import annotations

import dataclasses
import inspect
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import reference
import tiny
from made_up_parts import (
  AveragedDescent,
  Moved,
  Patience,
  RateKeeper,
  registered,
)
from reset_cycles import submission
from reset_cycles.control import decide
from reset_cycles.control.horizons import HORIZONS
from reset_cycles.control.state import from_words
from reset_cycles.control.switching import SWITCHING_RULES
from reset_cycles.optimizers import INNER
from reset_cycles.optimizers.inner import find_state
from reset_cycles.training import evaluated
from reset_cycles.training import run as run_lib
from reset_cycles.training.events import read_events
from runs import (
  GENERATIONS,
  PARAMS,
  SWITCHING,
  assert_equal_trees,
  column,
  host,
  new_driver,
)


@pytest.fixture(autouse=True)
def nothing_fails(caplog):
  """What cannot be written down ends no run, but is said."""
  yield
  said = [record.getMessage() for record in caplog.get_records('call')]
  assert [text for text in said if ' failed: ' in text] == []


@pytest.mark.parametrize('generation', GENERATIONS)
def test_tape_of_a_run(folder, generation):
  # Cycle 1 is left before step 3; the remaining 9 steps are 5 + 4. The first
  # evaluation after a boundary belongs to the cycle that has just ended.
  assert new_driver(generation=generation).run()
  tape = [
    (int(r['global_step']), r['event'], int(r['cycle']), r['reason'])
    for r in read_events(folder)
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
  taus = [float(tau) for tau in column(folder, 'tau', event='reset')]
  assert taus == [1 - 0.6 / 0.8, 1 - 0.72 / 0.8]
  assert column(folder, 'metric_step', event='reset') == ['3', '8']
  assert column(folder, 'note', event='reset') == ['', '']
  starts = {'event': 'cycle_start'}
  assert column(folder, 'cycle_end', **starts) == ['4', '8', '12']
  paces = [float(pace) for pace in column(folder, 'pace', **starts)]
  assert paces == [1.0, float(np.float32(4 / 5)), 1.0]
  assert column(folder, 'anchor_local', **starts) == ['0.0'] * 3
  assert column(folder, 'scale', **starts) == ['1.0'] * 3
  assert column(folder, 'setting', **starts) == ['1', '2', '3']


def cosine_rate(t):
  """The rate at nominal step t of a cycle of 4: no warm-up fits into it."""
  return 0.0017486387539278373 / 2 * (1 + math.cos(math.pi * t / 4))


def test_what_is_written_of_resets_and_rates(folder):
  assert new_driver().run()
  reset = {'event': 'reset'}
  assert column(folder, 'mode', **reset) == ['soft', 'soft']
  assert column(folder, 'alpha', **reset) == ['0.5', '0.5']
  assert column(folder, 'metric', **reset) == ['0.6', '0.72']
  # In every row, that of the step which is named in it: what is evaluated
  # before a boundary is written with the rate of the step behind it.
  nominal_steps = [0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 4]
  np.testing.assert_allclose(
    [float(rate) for rate in column(folder, 'learning_rate')],
    [cosine_rate(t) for t in nominal_steps],
    rtol=0,
    atol=4e-7 * cosine_rate(0),
  )


class RecordingLogger:
  """In the place of the benchmark's metrics logger."""

  def __init__(self):
    self.calls, self.drawn = [], []
    self._tb_metric_writer = self

  def append_scalar_metrics(self, metrics, global_step):
    self.calls.append((global_step, dict(metrics)))

  def write_scalars(self, step, scalars):
    self.drawn.append((step, scalars))


@pytest.mark.parametrize('generation', GENERATIONS)
def test_what_goes_to_the_benchmarks_logger(generation):
  driver = new_driver(generation=generation)
  logger = driver.workload.metrics_logger = RecordingLogger()
  losses = []
  for _ in range(12):
    driver.step()
    losses.append(train_loss(driver))
  assert driver.run()
  # One call per decision: each rewrites the benchmark's files.
  calls = dict(logger.calls)
  assert [step for step, _ in logger.calls] == [0, 1, 2, 3, 8, 12]
  assert 'loss' not in calls[0]
  for step in (1, 2, 3, 8, 12):
    assert calls[step]['loss'] == pytest.approx(losses[step - 1])
    assert calls[step]['grad_norm'] > 0
  assert calls[2]['smoothed_loss'] == pytest.approx(0.3 * 1.0 + 0.7 * 0.9)
  assert calls[3]['tau'] == 1 - 0.6 / 0.8
  assert calls[3]['cycle'] == 2
  rates = [calls[step]['learning_rate'] for step in (0, 1, 2, 3, 8, 12)]
  expected = [cosine_rate(t) for t in (0, 1, 2, 0, 0, 4)]
  np.testing.assert_allclose(rates, expected, rtol=0, atol=4e-7 * expected[0])


@pytest.fixture
def rate_keeper():
  """PARAMS with an optimizer that keeps the rate of its last step."""
  with registered(INNER, rate_keeper=RateKeeper):
    yield dataclasses.replace(PARAMS, optimizer='rate_keeper')


def rate_of_last_step(driver):
  """The learning rate that the train step has used, as it computed it."""
  saved, run = driver.optimizer_state
  return run.setup.devices.get(saved.inner.inner.rate)


def rates_of_steps(driver, until):
  rates = []
  while driver.global_step < until:
    driver.step()
    rates.append(float(rate_of_last_step(driver)))
  return rates


@pytest.mark.parametrize('generation', GENERATIONS)
def test_learning_rate_of_every_step(generation, rate_keeper):
  # Cycle 2 is stretched from 4 steps to 5.
  nominal_steps = [0, 1, 2, 0, 0.8, 1.6, 2.4, 3.2, 0, 1, 2, 3]
  expected = [cosine_rate(t) for t in nominal_steps]
  driver = new_driver(rate_keeper, generation)
  actual = rates_of_steps(driver, 12)
  # A few roundings of float32 at the size of the peak.
  np.testing.assert_allclose(
    actual, expected, rtol=0, atol=4e-7 * cosine_rate(0)
  )
  saved, run = driver.optimizer_state
  clock = run.setup.devices.get(saved.inner.clock)
  assert clock.count == driver.global_step == 12


# Cycle 1 of 67, 67 and 66 steps is left before step 9 and cycle 2 before step
# 81: paces of 1, 67 / 96 and 66 / 119.
ODD_PACES = {
  **{step: (1.0, 0.5) for step in range(3, 200, 2)},
  9: (1.5, 0.6),
  81: (2.0, 0.7),
}


@pytest.mark.parametrize('generation', GENERATIONS)
def test_the_logged_rate_is_the_steps_to_the_last_bit(
  generation, rate_keeper, folder
):
  warm = dataclasses.replace(PARAMS.hparams, warmup_factor=0.31)
  params = dataclasses.replace(
    rate_keeper,
    hparams=warm,
    decays=('cosine', 'holding_exponential', 'cosine'),
    alter_warmup=(0.0, -0.1, 0.0),
  )
  driver = new_driver(params, generation, ODD_PACES, step_hint=100)
  logger = driver.workload.metrics_logger = RecordingLogger()
  rates = rates_of_steps(driver, 200)
  starts = {'event': 'cycle_start'}
  assert column(folder, 'global_step', **starts) == ['0', '9', '81']
  logged = [
    (int(step), float(rate))
    for step, rate in zip(
      column(folder, 'global_step'), column(folder, 'learning_rate')
    )
  ]
  assert {step for step, _ in logged} == {0, *ODD_PACES}
  assert logged == [(step, rates[step]) for step, _ in logged]
  # The metrics logger has the same, and TensorBoard those in between.
  for step, metrics in logger.calls:
    assert metrics['learning_rate'] == rates[step]
  drawn = [(step, scalars['learning_rate']) for step, scalars in logger.drawn]
  assert drawn == list(enumerate(rates[:199]))


@pytest.mark.parametrize('generation', GENERATIONS)
def test_the_rate_is_drawn_on_a_grid_at_the_next_event(generation, rate_keeper):
  # 1500 steps in cycles of 500: every third is a point.
  evaluations = {100: (1.0, 0.5), 401: (0.9, 0.5)}
  params = dataclasses.replace(rate_keeper, budget_factor=1.0)
  driver = new_driver(params, generation, evaluations, step_hint=1500)
  logger = driver.workload.metrics_logger = RecordingLogger()
  seen, rates = {}, []
  for until in (100, 101, 401, 402, 500, 501):
    rates += rates_of_steps(driver, until)
    seen[until] = [step for step, _ in logger.drawn]
  assert [step for step, _ in logger.calls] == [0, 100, 401, 500]
  grids = {n: list(range(0, n, 3)) for n in (100, 401, 500)}
  assert seen == {
    100: [],
    101: grids[100],
    401: grids[100],
    402: grids[401],
    500: grids[401],
    501: grids[500],
  }
  drawn = [scalars for _, scalars in logger.drawn]
  assert drawn == [{'learning_rate': rates[step]} for step in grids[500]]


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


def test_hold_goes_on_at_the_final_rate(folder, rate_keeper):
  constant = ('constant',) * 3
  params = dataclasses.replace(rate_keeper, policy='hold', decays=constant)
  driver = new_driver(params)
  rates = rates_of_steps(driver, 20)
  assert column(folder, 'global_step', event='hold') == ['12']
  assert driver.optimizer_state[1].control.cycle == 2
  assert rates == [float(np.float32(PARAMS.hparams.learning_rate))] * 20


def test_a_run_that_would_hold_a_rate_of_zero_does_not_begin():
  with pytest.raises(ValueError, match=r"^policy='hold': .* ends at 0, "):
    new_driver(dataclasses.replace(PARAMS, policy='hold'))


def test_the_evaluation_after_the_last_step_is_written_down(folder):
  driver = new_driver(dataclasses.replace(PARAMS, policy='repeat'))
  driver.run(until=8)  # evaluated after 1, 2, 3 and 8 steps
  steps = column(folder, 'global_step', event='evaluation')
  assert steps == ['1', '2', '3']
  _, run = driver.optimizer_state
  run_lib.record_last_evaluations(run, driver.eval_results, 8)
  steps = column(folder, 'global_step', event='evaluation')
  assert steps == ['1', '2', '3', '8']
  assert column(folder, 'metric', event='evaluation')[-1] == '0.72'
  assert column(folder, 'event')[-1] == 'evaluation'  # and nothing follows


def test_so_is_one_that_a_cycles_end_waits_for(folder):
  params = dataclasses.replace(PARAMS, wait=True, early_switching=False)
  seen = {2: (1.0, 0.4), 5: (1.0, 0.5), 7: (1.0, 0.6), 11: (1.0, 0.7)}
  driver = new_driver(params, 'jit', {**seen, 14: (1.0, 0.75)})
  driver.run(until=14)
  assert column(folder, 'event')[-1] == 'wait'
  _, run = driver.optimizer_state
  run_lib.record_last_evaluations(run, driver.eval_results, 14)
  steps = column(folder, 'metric_step', event='evaluation')
  assert steps == ['2', '5', '7', '11', '14']


def tape_of(folder, *columns):
  """Those columns of the events at which a cycle ends or begins."""
  kinds = ('switch', 're_anchor', 'reset', 'cycle_start', 'finish', 'hold')
  return [
    (int(row['global_step']), row['event'], *(row[name] for name in columns))
    for row in read_events(folder)
    if row['event'] in kinds
  ]


@pytest.mark.parametrize('generation', GENERATIONS)
def test_repeat_goes_on_with_the_last_cycle(folder, generation, rate_keeper):
  params = dataclasses.replace(rate_keeper, policy='repeat', alter_lr=(0, 0, 1))
  driver = new_driver(params, generation, evaluations={14: (1.0, 0.6)})
  rates = rates_of_steps(driver, 30)  # no TrainingCompleteError
  columns = ('cycle', 'setting', 'cycle_end', 'scale', 'tau')
  tau = str(1 - 0.6 / 0.8)
  assert tape_of(folder, *columns) == [
    (0, 'cycle_start', '1', '1', '4', '1.0', ''),
    (4, 'reset', '2', '', '', '', '0.0'),
    (4, 'cycle_start', '2', '2', '8', '1.0', ''),
    (8, 'reset', '3', '', '', '', '0.0'),
    (8, 'cycle_start', '3', '3', '12', '1.0', ''),
    (12, 'reset', '4', '', '', '', '0.0'),
    (12, 'cycle_start', '4', '3', '16', '1.0', ''),
    (16, 'reset', '5', '', '', '', tau),
    (16, 'cycle_start', '5', '3', '20', '1.0', ''),
    (20, 'reset', '6', '', '', '', '0.0'),
    (20, 'cycle_start', '6', '3', '24', '1.0', ''),
    (24, 'reset', '7', '', '', '', '0.0'),
    (24, 'cycle_start', '7', '3', '28', '1.0', ''),
    (28, 'reset', '8', '', '', '', '0.0'),
    (28, 'cycle_start', '8', '3', '32', '1.0', ''),
  ]
  # Like the last one, to the last bit.
  assert rates[12:] == (rates[8:12] * 5)[:18]
  assert driver.optimizer_state[1].control.cycle == 2


@pytest.mark.parametrize('left_at', [9, 10, 11, 14, 15, None])
@pytest.mark.parametrize('warmup_factor', [0.0, 0.25])
def test_repeat_never_trains_at_a_rate_of_zero(
  folder, rate_keeper, warmup_factor, left_at
):
  """But for the first step of a warm-up; when it is over, there is another one.

  The planned steps end at 12, those of a further cycle after four.
  """
  hparams = dataclasses.replace(PARAMS.hparams, warmup_factor=warmup_factor)
  params = dataclasses.replace(rate_keeper, policy='repeat', hparams=hparams)
  evaluations = {} if left_at is None else {left_at: (math.nan, 0.4)}
  rates = rates_of_steps(new_driver(params, 'jit', evaluations), 100)
  starts = [int(s) for s in column(folder, 'global_step', event='cycle_start')]
  left = 100 if left_at is None else left_at
  assert starts == [*range(0, left, 4), *range(left, 100, 4)]
  zeros = [step for step, rate in enumerate(rates) if rate == 0]
  assert zeros == (starts if warmup_factor else [])
  later = [step for step in zeros if step >= 12]
  assert all(b - a > 1 for a, b in zip(later, later[1:]))


@pytest.mark.parametrize('generation', GENERATIONS)
def test_repeat_leaves_a_last_cycle_that_diverged(folder, generation):
  """A further cycle of as many steps follows; the run goes on and trains."""
  params = dataclasses.replace(
    PARAMS, policy='repeat', alter_lr=(0.1,) * 3, budget_factor=100.0
  )
  diverged = {510: (math.nan, 0.4), 590: (0.5, math.nan), 750: (math.inf, 0.4)}
  driver = new_driver(params, generation, diverged)
  driver.run(until=510)
  driver.params = jax.tree_util.tree_map(lambda x: x * np.nan, driver.params)
  assert not driver.run(until=1000)
  columns = ('cycle', 'setting', 'cycle_end', 'reason', 'tau')
  assert tape_of(folder, *columns)[5:] == [
    (510, 'switch', '3', '', '', 'loss is not finite', ''),
    (510, 'reset', '4', '', '', 'early', '1.0'),
    (510, 'cycle_start', '4', '3', '710', '', ''),
    # A metric that is not finite makes the reset full, and ends no cycle.
    (710, 'reset', '5', '', '', 'scheduled', '1.0'),
    (710, 'cycle_start', '5', '3', '910', '', ''),
    (750, 'switch', '5', '', '', 'loss is not finite', ''),
    (750, 'reset', '6', '', '', 'early', '1.0'),
    (750, 'cycle_start', '6', '3', '950', '', ''),
    (950, 'reset', '7', '', '', 'scheduled', '0.0'),
    (950, 'cycle_start', '7', '3', '1150', '', ''),
  ]
  assert np.isfinite(train_loss(driver))


@pytest.mark.parametrize('mode', ['soft', 'full', 'kept_momentum', 'cyclic'])
def test_a_reset_without_an_evaluation_in_its_cycle(folder, mode):
  """An evaluation of the cycle before says nothing of this one."""
  params = dataclasses.replace(
    PARAMS, early_switching=False, reset_mode=mode, policy='repeat'
  )
  driver = new_driver(params, evaluations={3: (1.0, 0.4), 14: (1.0, 0.2)})
  driver.run(until=17)
  soft, tau = mode == 'soft', {'full': '1.0', 'kept_momentum': '1.0'}.get(mode)
  nothing = 'no evaluation in the cycle: tau is 0'
  columns = ('tau', 'note', 'metric', 'metric_step')
  resets = [row[2:] for row in tape_of(folder, *columns) if row[1] == 'reset']
  assert resets == [
    ('0.5' if soft else tau or '0.0', '', '0.4', '3'),
    (tau or '0.0', nothing if soft else '', '0.4', '3'),
    (tau or '0.0', nothing if soft else '', '0.4', '3'),
    ('0.75' if soft else tau or '0.0', '', '0.2', '14'),
  ]


def test_without_an_evaluation_a_model_that_is_not_finite_is_replaced(folder):
  driver = new_driver(evaluations={})
  driver.run(until=4)
  driver.params = jax.tree_util.tree_map(lambda x: x * np.nan, driver.params)
  driver.step()
  assert column(folder, 'tau', event='reset') == ['1.0']
  assert column(folder, 'note', event='reset') == ['']
  assert np.isfinite(train_loss(driver))


@pytest.mark.parametrize('mode', ['full', 'kept_momentum', 'cyclic'])
@pytest.mark.parametrize('target', [0.0, -1.0])
def test_a_target_of_which_there_is_no_tau(folder, target, mode):
  """Refused before the first step where tau is needed, else of no matter."""

  class Negative(tiny.TinyWorkload):
    validation_target_value = target

  def driver_of(mode):
    params = dataclasses.replace(PARAMS, reset_mode=mode)
    functions = submission.make_submission(params)
    return tiny.Driver(functions, Negative(), {3: (1.0, -2.0), 8: (1.0, 0.0)})

  said = rf'^validation_target_value={target}: .* above 0 where a reset needs'
  with pytest.raises(ValueError, match=said):
    driver_of('soft')
  assert driver_of(mode).run()
  tau = '0.0' if mode == 'cyclic' else '1.0'
  assert column(folder, 'tau', event='reset') == [tau, tau]


def recomputed_rates(folder, params, lengths, until):
  """The rate of every step, from the columns of cycles.csv alone."""
  clocks = [r for r in read_events(folder) if r['anchor_local']]
  rates = []
  for step in range(until):
    (*_, row) = (r for r in clocks if int(r['global_step']) <= step)
    cycle = int(row['setting']) - 1
    elapsed = step - int(row['global_step'])
    t = float(row['anchor_local']) + elapsed * float(row['pace'])
    rate = reference.cycle_rate(t, lengths[cycle], params, cycle)
    rates.append(float(row['scale']) * rate)
  return rates


@pytest.mark.parametrize('generation', GENERATIONS)
@pytest.mark.parametrize('to', [90, 30, 61])
def test_a_horizon_that_moves_in_mid_cycle(folder, generation, to, rate_keeper):
  """The clock is anchored anew, the rate does not jump, the file says it all."""
  warm = dataclasses.replace(PARAMS.hparams, warmup_factor=0.3)
  params = dataclasses.replace(
    rate_keeper, hparams=warm, alter_lr=(0, 0, 0.001)
  )
  with registered(HORIZONS, moved=Moved):
    params = dataclasses.replace(params, horizon={'name': 'moved', 'to': to})
    driver = new_driver(params, generation, {7: (1.0, 0.5)}, step_hint=30)
    rates = rates_of_steps(driver, to)
    assert driver.run()
  # Step 7 of 60 in cycles of 20: 13, 20 and 20 nominal steps are left.
  left = to - 7
  ends = [7 + -(-left * 13 // 53)]
  ends.append(ends[0] + -(-(to - ends[0]) // 2))
  tape = [
    (int(row['global_step']), row['event'], row['cycle'], row['cycle_end'])
    for row in read_events(folder)
    if row['event'] in ('clock', 'cycle_start', 'finish')
  ]
  assert tape == [
    (0, 'cycle_start', '1', '20'),
    (7, 'clock', '1', str(ends[0])),
    (ends[0], 'cycle_start', '2', str(ends[1])),
    (ends[1], 'cycle_start', '3', str(to)),
    (to, 'finish', '3', ''),
  ]
  anchored = {'event': 'clock'}
  assert column(folder, 'anchor_local', **anchored) == ['7.0']
  (pace,) = column(folder, 'pace', **anchored)
  assert float(pace) == float(np.float32(13 / (ends[0] - 7)))
  # Step 7 is taken at the rate at which it would have been.
  peak = PARAMS.hparams.learning_rate
  np.testing.assert_allclose(
    rates[7], reference.cycle_rate(7, 20, params, 0), rtol=2 * 2.0**-24
  )
  np.testing.assert_allclose(
    rates,
    recomputed_rates(folder, params, (20, 20, 20), to),
    rtol=0,
    atol=16 * 2.0**-24 * (peak + 0.001),
  )


def test_columns_of_another_rule(folder):
  """Its terms are columns, and the thesis' are not."""
  with registered(SWITCHING_RULES, patience=Patience):
    params = dataclasses.replace(PARAMS, switching='patience')
    assert new_driver(params, evaluations=SWITCHING).run()
  kinds = [(int(r['global_step']), r['event']) for r in read_events(folder)]
  assert (2, 'switch') in kinds
  assert column(folder, 'reason', event='switch') == ['patience is over']
  assert column(folder, 'stopping', event='evaluation')[:2] == ['0', '1']
  assert 'smoothed_loss' not in read_events(folder)[0]


@pytest.mark.parametrize('seen_after', [0, 1, 5])
@pytest.mark.parametrize('peak', [1e2, 1e10, 1e20])
def test_a_cycle_that_diverges_is_left_and_the_next_one_trains(
  peak, seen_after
):
  """Whenever an evaluation sees it, whatever is left in the moments."""
  params = dataclasses.replace(
    PARAMS, alter_lr=(peak, 0.1, 0.1), warmups=('none',) * 3
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
  params = dataclasses.replace(PARAMS, reset_mode=mode)
  functions = submission.make_submission(params)
  driver = tiny.Driver(functions, tiny.reshaping(generation)(), SWITCHING)
  assert driver.run()
  assert driver.optimizer_state[1].control.cycle == 2
  assert host(driver.model_state)['stats']['mean'].shape[-3:] == (1, 1, 6)


def train_loss(driver):
  run = driver.optimizer_state[1]
  return float(run.setup.devices.get(run.step_metrics)['loss'])


def fresh_models(params, generation='jit'):
  """Those of a run with the same seed."""
  run = new_driver(params, generation).optimizer_state[1]
  return run.setup.fresh_models


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
  fresh_params, _ = fresh_models(params, generation).take(0)
  driver.step()
  kernel = host(driver.params)['kernel'].reshape(-1, *(6, 2))
  # The first step of a warm-up, at a learning rate of 0, leaves them fresh.
  for replica in kernel:
    np.testing.assert_array_equal(replica, fresh_params['kernel'])


@pytest.mark.parametrize('generation', GENERATIONS)
def test_each_reset_takes_a_model_of_its_own(generation):
  # The first step of a warm-up, at a learning rate of 0, leaves them fresh.
  warm = dataclasses.replace(PARAMS.hparams, warmup_factor=0.25)
  params = dataclasses.replace(
    PARAMS, hparams=warm, reset_mode='full', policy='repeat'
  )
  driver = new_driver(params, generation, evaluations={})
  devices = driver.optimizer_state[1].setup.devices
  models, kernels = fresh_models(params, generation), []
  # The last two are of cycles that were not planned.
  for i, boundary in enumerate((4, 8, 12, 16)):
    driver.run(until=boundary + 1)
    kernels.append(devices.get(driver.params)['kernel'])
    fresh_params, _ = models.take(i)
    np.testing.assert_array_equal(kernels[i], fresh_params['kernel'])
  assert len({kernel.tobytes() for kernel in kernels}) == 4


@pytest.mark.parametrize('generation', GENERATIONS)
def test_an_iterate_of_another_optimizer_is_reset_with_the_parameters(
  generation,
):
  """tau is a half: of both, half is the same fresh model's."""
  warm = dataclasses.replace(PARAMS.hparams, warmup_factor=0.25)
  with registered(INNER, averaged=AveragedDescent):
    params = dataclasses.replace(PARAMS, hparams=warm, optimizer='averaged')
    driver = new_driver(params, generation, {4: (1.0, 0.4)})
    driver.run(until=4)
    fresh, _ = fresh_models(params, generation).take(0)

  def kernels():
    saved, run = driver.optimizer_state
    # What the driver has may have been handed out for an evaluation.
    *_, trained = evaluated.take_back(saved, run, driver.params, 0)
    found = (trained, saved.inner.inner.average)
    return [tree['kernel'] for tree in run.setup.devices.get(found)]

  before = kernels()
  assert not np.array_equal(*before)
  driver.step()
  # At a rate of 0 the parameters stay, and go to the average by a half.
  blended = [reference.blend(old, fresh['kernel'], 0.5) for old in before]
  blended[1] = (blended[0] + blended[1]) / 2
  # Four roundings of numbers below 4.
  for found, expected in zip(kernels(), blended):
    np.testing.assert_allclose(found, expected, rtol=0, atol=4 * 4 * 2.0**-24)


@pytest.mark.parametrize('generation', GENERATIONS)
@pytest.mark.parametrize(
  ('distance', 'expected'), (('log', 0.5), ('linear', 0.25))
)
def test_tau_of_a_metric_that_falls(folder, generation, distance, expected):
  class Falling(tiny.WORKLOADS[generation]):
    validation_target_value = 0.1

    def has_reached_validation_target(self, eval_result):
      return eval_result['validation/accuracy'] < self.validation_target_value

  params = dataclasses.replace(PARAMS, early_switching=False, distance=distance)
  # From the first evaluation to the target it is a factor of 9, or 0.8; left to
  # go, a factor of 3, or 0.2, at the first boundary and less than nothing at the
  # second.
  evaluations = {1: (1.0, 0.9), 3: (1.0, 0.5), 4: (1.0, 0.3), 8: (1.0, 0.09)}
  functions = submission.make_submission(params)
  assert tiny.Driver(functions, Falling(), evaluations).run()
  taus = [float(tau) for tau in column(folder, 'tau', event='reset')]
  np.testing.assert_allclose(taus, [expected, 0.0], rtol=4 * 2.0**-53)


def test_a_loss_that_is_not_finite_makes_a_soft_reset_full(folder):
  # The metric says that 1/16 is still to go, and nothing in the model is wrong.
  params = dataclasses.replace(PARAMS, early_switching=False)
  driver = new_driver(params, evaluations={4: (math.nan, 0.75)})
  driver.run(until=5)
  assert column(folder, 'tau', event='reset') == ['1.0']
  adam = find_state(driver.optimizer_state[0].inner, optax.ScaleByAdamState)
  assert adam.count == 1


def test_a_metric_that_is_not_finite_makes_a_soft_reset_full(folder):
  params = dataclasses.replace(PARAMS, early_switching=False)
  driver = new_driver(params, evaluations={4: (0.5, math.nan)})
  driver.run(until=5)
  assert column(folder, 'tau', event='reset') == ['1.0']
  adam = find_state(driver.optimizer_state[0].inner, optax.ScaleByAdamState)
  assert adam.count == 1


@pytest.mark.parametrize('generation', GENERATIONS)
def test_statistics_that_the_first_step_adds_are_recovered(generation):
  """There are no fresh ones; what is not finite becomes zero."""

  class Adding(tiny.WORKLOADS[generation]):
    def _init(self, rng):
      params, _ = super()._init(rng)
      return params, {}

    def model_fn(self, params, batch, model_state, *args, **kwargs):
      state = model_state or {'mean': jnp.zeros(tiny.NUM_INPUTS)}
      return super().model_fn(params, batch, state, *args, **kwargs)

    if generation == 'jit':
      # The signature tells the generation.
      model_fn.__signature__ = inspect.signature(tiny.TinyWorkload.model_fn)

  driver = tiny.Driver(submission.make_submission(PARAMS), Adding(), {})
  driver.run(until=4)
  driver.model_state = jax.tree_util.tree_map(
    lambda x: x * np.nan, driver.model_state
  )
  driver.step()
  state = driver.optimizer_state[1].setup.devices.get(driver.model_state)
  # 0.9 * 0 + 0.1 * the mean of the step's inputs
  inputs = tiny.batch_of_step(4, 'jit')['inputs']
  np.testing.assert_allclose(state['mean'], 0.1 * inputs.mean(0), rtol=1e-5)


def test_without_an_evaluation_a_soft_reset_keeps_the_model():
  """To the last bit; the next step is taken with it."""
  kept, cyclic = (
    new_driver(dataclasses.replace(PARAMS, reset_mode=mode), evaluations={})
    for mode in ('soft', 'cyclic')
  )
  for driver in (kept, cyclic):
    driver.run(until=6)
  assert_equal_trees(kept.params, cyclic.params)
  assert_equal_trees(kept.optimizer_state[0], cyclic.optimizer_state[0])


def test_unknown_metric_is_named_at_the_first_evaluation():
  driver = new_driver(evaluations={})
  driver.step()
  driver.eval_results.append((1, {'validation/loss': 1.0, 'train/loss': 1.0}))
  with pytest.raises(
    ValueError, match="'validation/accuracy'.*train/loss, validation/loss"
  ):
    driver.step()


def test_fresh_models_differ_and_repeat():
  first, again = fresh_models(PARAMS), fresh_models(PARAMS)
  a, b = (first.take(i)[0]['kernel'] for i in (0, 1))
  c, d = (again.take(i)[0]['kernel'] for i in (0, 1))
  assert not np.array_equal(a, b)
  np.testing.assert_array_equal(a, c)
  np.testing.assert_array_equal(b, d)


@pytest.mark.parametrize('generation', GENERATIONS)
def test_control_decides_by_what_is_saved(generation):
  """The host copy and the arrays are the same, to the last bit of a float64."""
  # 0.1 and 1/3 are no float32; of the second cycle, there is nothing yet.
  evaluations = {1: (0.1, 0.4), 2: (1 / 3, 0.7), 5: (0.3, 2 / 3)}
  for until in (3, 5, 6):
    driver = new_driver(PARAMS, generation, evaluations)
    driver.run(until=until)
    saved, run = driver.optimizer_state
    words = run.setup.devices.get(saved.control)
    control = from_words(words, decide.start(run.setup.rules))
    assert words.dtype == np.int32
    assert control == run.control
    types = jax.tree_util.tree_map(type, tuple(control))
    assert types == jax.tree_util.tree_map(type, tuple(run.control))
