"""The chain's own optimizer in a loop: y in the parameters, and its peak."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from helpers import documents, loops
from helpers.trees import assert_close, assert_same, host
from reset_cycles import (
  LOOP,
  MUON,
  MUON_LOOP,
  Cycles,
  schedule_free_muon,
)
from reset_cycles.any_optax.from_optax import FromOptax
from reset_cycles.core.clock import unpacked
from reset_cycles.core.forms import VECTOR, matrix
from reset_cycles.early_switching import ChainLossRule
from reset_cycles.optimizers.adamw import AdamW
from reset_cycles.optimizers.average import EMA
from reset_cycles.optimizers.muon import Muon
from reset_cycles.optimizers.peaks import SpectralPeak
from reset_cycles.optimizers.schedule_free import (
  ScheduleFreeAdamW,
  ScheduleFreeMuon,
)
from reset_cycles.optimizers.step import RunStart, Step
from reset_cycles.schedule_params import SOFT_RESET
from reset_cycles.shapes.composed import PiecewiseConstant
from reset_cycles.views import settings_json

map_ = jax.tree_util.tree_map
FORMS = (VECTOR, matrix((0,), (1,)), matrix((0,), (1,)))
told = functools.partial(
  Cycles, num_steps=40, make_params=loops.init, matrices=lambda path: None
)


def form_of(path):
  return matrix((0,), (1,)) if 'kernel' in path else False


def readme_step(cycles):
  """The train step of README.md, whatever is inside."""

  @jax.jit
  def step(state, inputs):
    grads = jax.grad(loops.loss_of)(state.params, inputs)
    updates, opt = cycles.optimizer.update(grads, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    return state._replace(params=params, opt_state=opt)

  return step


@pytest.mark.parametrize(
  'own',
  (ScheduleFreeMuon(), ScheduleFreeAdamW(), EMA(AdamW(), decay=0.5)),
  ids=('muon', 'adamw', 'ema'),
)
def test_the_readmes_step_is_the_submissions(own):
  """Steps of the submission, whose parameters are x, at the loop's rates."""
  settings = dataclasses.replace(LOOP, optimizer=own)
  cycles = loops.make(settings, num_steps=40, peak=0.02)
  state = loops.start(cycles)
  x = map_(jnp.copy, state.params)
  inner = own.build(Step(0.0, forms=FORMS)).init(x)
  size = unpacked(host(state.opt_state.clock)).size

  @jax.jit
  def submission(x, inner, rate, inputs):
    point = own.gradient_point(inner, x)
    grads = jax.grad(loops.loss_of)(point, inputs)
    tx = own.build(Step(rate, forms=FORMS, size=size))
    updates, inner = tx.update(grads, inner, x)
    return optax.apply_updates(x, updates), inner

  step = readme_step(cycles)
  for i in range(12):
    state, _ = cycles.before_step(i, state)
    rate = jnp.float32(cycles.learning_rate(state))
    state = step(state, loops.inputs_of(i))
    x, inner = submission(x, inner, rate, loops.inputs_of(i))
    assert_close(cycles.eval_params(state), x, rtol=1e-4, atol=1e-6)
  apart = map_(lambda x, y: np.abs(x - y).max(), x, state.params)
  assert max(jax.tree_util.tree_leaves(apart)) > 0.001


def test_in_bfloat16_the_average_is_computed_in_float32():
  """y is its copy, rounded; x is of the copy."""
  half = lambda key: map_(lambda p: p.astype(jnp.bfloat16), loops.init(key))
  settings = dataclasses.replace(LOOP, optimizer=ScheduleFreeMuon())
  cycles = loops.make(settings, num_steps=40, peak=0.02, make_params=half)
  state, step = loops.start(cycles, half), readme_step(cycles)
  for i in range(6):
    state, _ = cycles.before_step(i, state)
    state = step(state, loops.inputs_of(i))
  inner = state.opt_state.inner
  by_hand = lambda y, z: ((y - 0.3 * z) / 0.7).astype(jnp.bfloat16)
  expected = map_(by_hand, inner.copies, inner.inner.z)
  found = cycles.eval_params(state)
  assert found['output']['kernel'].dtype == jnp.bfloat16
  assert_close(map_(np.float32, found), map_(np.float32, expected), rtol=0.01)


@pytest.mark.parametrize('tau', (0.25, 1.0))
def test_a_reset_blends_the_average(tau):
  chain = dataclasses.replace(loops.CHAIN, optimizer=ScheduleFreeMuon())
  cycles = loops.make(chain, tau=lambda *_: tau)
  state, _ = loops.train(cycles, loops.start(cycles), {2: (1.0, 0.5)}, 0, 4)
  old = host(cycles.eval_params(state))
  state, [reset, _] = cycles.before_step(4, state)
  share = reset.numbers['tau']  # it fades
  fresh = loops.init(jax.random.fold_in(jax.random.PRNGKey(0), 2))
  blend = lambda a, b: (1 - share) * a + share * b
  assert 0 < share <= tau
  expected = map_(blend, old, host(fresh))
  assert_close(cycles.eval_params(state), expected, rtol=1e-4, atol=1e-6)


def spectral_size(params):
  kernels = params['hidden']['kernel'], params['output']['kernel']
  sizes = [math.sqrt(8 * np.mean(np.square(k, dtype=float))) for k in kernels]
  return math.sqrt(sizes[0] * sizes[1])


FRESH = loops.init(jax.random.fold_in(jax.random.PRNGKey(0), 1))


@pytest.mark.parametrize(('num_steps', 'length'), ((40, 1.0), (18000, 0.5)))
def test_by_default_it_is_muon_at_the_peak_of_the_fresh_weights(
  num_steps, length
):
  cycles = told(num_steps=num_steps)
  state = loops.start(cycles)
  assert cycles.config.settings == MUON_LOOP
  peak = 0.16 * length * spectral_size(FRESH)
  _, events = cycles.before_step(0, state)
  [begun] = [event for event in events if event.kind == 'cycle_start']
  assert begun.numbers['peak_value'] == pytest.approx(peak, rel=1e-6)
  ends = [stop.steps for stop in cycles.config.chain.cycles]
  rates = np.split(
    np.asarray(cycles.schedule(np.arange(num_steps))), np.cumsum(ends[:-1])
  )
  falls = [1.0] * 4 if length == 1.0 else [1 / n**0.5 for n in (1, 3, 7, 15)]
  largest = [part.max() for part in rates]
  np.testing.assert_allclose(largest, [peak * f for f in falls], rtol=1e-6)
  assert told(peak=0.03).config.chain.cycles[0].cycle.peak == 0.03
  first_end = cycles.config.chain.cycles[0].steps
  shared = SpectralPeak().peak(RunStart(FRESH, FORMS, first_end))
  assert peak == pytest.approx(shared)


def test_the_weight_decay_follows_the_epochs():
  """Those at each cycle's end, up to 1 / (5 * .3 * .16): as written out."""
  cycles = told(steps_per_epoch=4.0)
  planned = cycles.config.chain.cycles
  assert [cycle.steps for cycle in planned] == [3, 6, 11, 20]
  factors = [1.0, 2.25, 1 / 0.24, 1 / 0.24]
  found = [cycle.decay_factor for cycle in planned]
  np.testing.assert_allclose(found, factors, rtol=1e-6)
  by_hand = dataclasses.replace(
    MUON_LOOP,
    cycles=tuple(
      dataclasses.replace(c, weight_decay=PiecewiseConstant((f, f), (0.5,)))
      for c, f in zip(MUON_LOOP.cycles, factors)
    ),
  )

  evaluations = {step: (1.0, 0.5) for step in range(1, 41)}
  settings = []

  def end_of(cycles):
    state = loops.start(cycles)
    for last in (3, 9, 20, 40):
      first = max(int(unpacked(host(state.opt_state.clock)).count), 0)
      state, _ = loops.train(cycles, state, evaluations, first, last)
      settings.append(int(unpacked(host(state.opt_state.clock)).setting))
    return state.params

  end = end_of(cycles)
  assert_close(end, end_of(told(by_hand)), rtol=1e-5, atol=1e-6)
  apart = map_(lambda a, b: np.abs(a - b).max(), end, end_of(told()))
  assert max(jax.tree_util.tree_leaves(apart)) > 1e-3
  assert settings == 3 * [1, 2, 3, 3]


def test_the_schedule_has_the_peak_of_the_optimizer_at_hand():
  """Not that of Muon, which AdamW does not survive."""
  largest = lambda cycles: np.asarray(cycles.schedule(np.arange(40))).max()
  assert largest(told(optimizer=optax.adamw)) == pytest.approx(0.0025)
  assert largest(told(optimizer=optax.adamw, peak=0.01)) == pytest.approx(0.01)


def test_the_peak_is_saved_with_the_state():
  """It belongs to the run: another model of the same shapes has another one."""
  cycles, later = told(), told(key=jax.random.PRNGKey(3))
  state = loops.start(cycles)
  state, _ = loops.train(cycles, state, {}, 0, 3)
  rate = cycles.learning_rate(state)
  assert cycles.schedule(3) == pytest.approx(rate, rel=1e-6)
  assert later.schedule(3) != pytest.approx(rate, rel=1e-3)
  state, _ = later.before_step(3, state)
  assert later.learning_rate(state) == rate
  assert later.schedule(3) == pytest.approx(rate, rel=1e-6)
  size = lambda state: float(unpacked(host(state.opt_state.clock)).size)
  assert size(state) == pytest.approx(spectral_size(FRESH), rel=1e-6)
  state, events = later.new_stage(state, num_steps=80, tau=0.0)
  assert size(state) == pytest.approx(spectral_size(FRESH), rel=1e-6)
  [begun] = [event for event in events if event.kind == 'cycle_start']
  assert begun.numbers['peak_value'] == pytest.approx(
    0.16 * spectral_size(FRESH), rel=1e-6
  )


def test_a_given_peak_has_the_size_of_the_fresh_weights():
  """The weight decay goes by it, as in `schedule_free_muon(0.05)`."""
  size = lambda cycles: float(
    unpacked(host(loops.start(cycles).opt_state.clock)).size
  )
  expected = spectral_size(FRESH)
  assert size(told(peak=0.05)) == pytest.approx(expected, rel=1e-6)
  # Of what is trained alone.
  trained = {**FRESH, 'output': FRESH['hidden']}
  frozen = told(peak=0.05, frozen=lambda path: 'output' in path)
  assert size(frozen) == pytest.approx(spectral_size(trained), rel=1e-6)
  # AdamW is not asked.
  assert size(told(optimizer=optax.adamw, peak=0.05)) == 1.0


@pytest.mark.parametrize('size', (math.nan, 0.0, math.inf, 'much'))
def test_a_size_that_is_no_size_is_refused(size):
  own = type('Own', (Muon,), {'size': lambda self, start: size})()
  settings = dataclasses.replace(MUON_LOOP, optimizer=own, relative_peak=None)
  with pytest.raises(ValueError, match='Own.size=.*: must be a number in'):
    told(settings, peak=0.05)


def test_a_second_run_has_the_size_of_the_first_in_a_new_stage():
  """`Cycles` knows one fresh model; a run of the stage's steps begins there."""
  cycles = told()
  state, _ = cycles.before_step(0, loops.start(cycles))
  cycles.new_stage(state, num_steps=80)
  words = cycles.optimizer.init(loops.start(cycles).params).clock
  assert float(unpacked(host(words)).size) == pytest.approx(
    spectral_size(FRESH), rel=1e-6
  )


def test_an_average_of_optax_is_evaluated():
  if not hasattr(getattr(optax, 'contrib', None), 'schedule_free_sgd'):
    pytest.skip('this optax has no Schedule-Free')
  cycles = told(optimizer=optax.contrib.schedule_free_sgd)
  state, _ = loops.train(cycles, loops.start(cycles), {}, 0, 5)
  expected = optax.contrib.schedule_free_eval_params(
    state.opt_state.inner, state.params
  )
  assert_same(cycles.eval_params(state), expected)
  plain = told(optimizer=optax.adam)
  state = loops.start(plain)
  assert plain.eval_params(state) is state.params


def test_a_state_of_other_cycles_has_no_average_here():
  """Without a check, the ones would give y, the others an AttributeError."""
  muon, adam = told(), told(optimizer=optax.adam)
  message = "state.opt_state='.*': must be of these cycles' optimizer, as opt"
  for cycles, others in ((muon, adam), (adam, muon)):
    with pytest.raises(ValueError, match=message):
      cycles.eval_params(loops.start(others))


@pytest.mark.parametrize(
  ('changes', 'message'),
  (
    ({'optimizer': ScheduleFreeMuon()}, r'dataclasses.replace\(MUON_LOOP, opt'),
    ({'optimizer': AdamW()}, 'must be one of optax; ScheduleFreeMuon'),
    ({'optimizer': ScheduleFreeMuon}, 'must be None: the cycles have it'),
    (
      {'optimizer': schedule_free_muon(0.1, matrices=dict.fromkeys)},
      'must be a callable of learning_rate',
    ),
    ({'optimizer': schedule_free_muon}, 'must be None: the cycles have it'),
    (
      {
        'settings': dataclasses.replace(
          LOOP, cycles=LOOP.cycles[:2], optimizer=ScheduleFreeMuon()
        )
      },
      'peak=None: must be a number where an optimizer of matrices is put into',
    ),
    (
      {'optimizer': functools.partial(schedule_free_muon, num_steps=9)},
      'must be None: the cycles have it inside',
    ),
    (
      {'optimizer': lambda rate: schedule_free_muon(rate, matrices=form_of)},
      'peak=None: must be a number with schedule_free_muon inside optimizer=',
    ),
    (
      {'make_params': lambda key: {'bias': jax.random.normal(key, (3,))}},
      'peak=None: must be a number where no parameter that is trained is a',
    ),
    (
      {'optimizer': lambda rate: EMA(AdamW()).build(Step(rate)), 'peak': 0.1},
      'must be one that trains the parameters that it is given',
    ),
    (
      {'settings': MUON, 'target': 0.8, 'optimizer': optax.adamw},
      r'relative_peak=SpectralPeak\(.*: must be None with an optimizer that',
    ),
  ),
  ids=range(11),
)
def test_what_does_not_go_together_is_refused(changes, message):
  with pytest.raises(ValueError, match=message):
    told(**changes)


def test_a_peak_of_ones_own_goes_with_any_optimizer():
  cycles = told(settings=MUON, target=0.8, optimizer=optax.adamw, peak=0.01)
  assert [c.peak for c in cycles.config.settings.cycles] == [0.01] * 4
  assert told(settings=SOFT_RESET, target=0.8, optimizer=optax.adamw)


def test_muon_that_is_handed_over_is_evaluated_at_its_average():
  own = lambda rate: schedule_free_muon(rate, matrices=form_of)
  cycles = told(optimizer=own, peak=0.05)
  state, _ = loops.train(cycles, loops.start(cycles), {}, 0, 5)
  y, z = state.params, state.opt_state.inner.z
  average = map_(lambda y, z: (y - 0.3 * z) / 0.7, y, z)
  assert_close(cycles.eval_params(state), average, rtol=1e-5, atol=1e-6)
  apart = map_(lambda x, y: np.abs(x - y).max(), average, y)
  assert max(jax.tree_util.tree_leaves(apart)) > 0.001


def test_settings_of_the_spectral_peak_need_matrices():
  lion, message = FromOptax('lion'), r"FromOptax\(name='lion'.*one of matrices"
  with pytest.raises(ValueError, match=message):
    dataclasses.replace(MUON, optimizer=lion)
  plain = {'optimizer': {'class': 'FromOptax', 'name': 'lion'}}
  with pytest.raises(ValueError, match=message):
    settings_json.from_plain(plain, MUON)
  read = settings_json.from_plain({**plain, 'relative_peak': None}, MUON)
  assert read.optimizer == lion


def test_a_loop_that_has_only_a_loss_as_its_page_says():
  """Its optimizer and its peak are those of the default."""
  page = documents.blocks(documents.ROOT / 'docs' / 'switching.md')
  [code] = [block.text for block in page if block.language == 'python']
  *begun, evaluated = code.splitlines()
  names = {'init': loops.init}
  exec('\n'.join(begun), names)
  cycles = names['cycles']
  expected = dataclasses.replace(MUON_LOOP, switching=ChainLossRule())
  assert cycles.config.settings == expected
  state, _ = loops.train(cycles, loops.start(cycles), {}, 0, 5)
  names |= {'step': 4, 'loss': 0.5, 'state': state}
  exec(evaluated, names)
  [event] = names['events']
  numbers = [event.numbers[name] for name in ('metric_step', 'loss', 'metric')]
  assert (event.kind, numbers) == ('evaluation', [5, 0.5, 0.5])


def test_an_optimizer_of_matrices_needs_peaks_of_its_own():
  muon = ScheduleFreeMuon()
  message = (
    r'relative_peak=RelativePeak\(.*must be a SpectralPeak, or None with'
  )
  with pytest.raises(ValueError, match=message):
    dataclasses.replace(SOFT_RESET, optimizer=muon)
  with pytest.raises(ValueError, match=message):
    settings_json.from_plain({'relative_peak': {'class': 'RelativePeak'}}, MUON)
  loop = dataclasses.replace(LOOP, optimizer=muon)
  with pytest.raises(
    ValueError, match='peak=None: must be a number where an op'
  ):
    told(settings=loop)
  peaks = lambda cycles: [c.peak for c in cycles.config.settings.cycles]
  assert peaks(told(settings=loop, peak=0.05)) == [0.05] * 4
  # Peaks that somebody has written for it.
  own = dataclasses.replace(MUON_LOOP, relative_peak=None)
  assert peaks(told(settings=own)) == [0.16] * 4
