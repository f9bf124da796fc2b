"""What `Cycles` does by default, and what it tells about a run."""

import dataclasses
import math

import jax
import numpy as np
import optax
import pytest

from helpers import loops
from reset_cycles.early_switching import ChainLossRule
from reset_cycles.loop import LOOP, Cycles
from reset_cycles.optimizers.schedule_free import ScheduleFreeAdamW
from reset_cycles.schedule_params import SOFT_RESET, THESIS


def make(**changes):
  """Cycles by default, over 40 steps: 12 of the first cycle, 28 of the second."""
  usual = {'num_steps': 40, 'make_params': loops.init, 'optimizer': optax.adamw}
  return Cycles(**{**usual, **changes})


def kinds(tape):
  return [(e.step, e.kind) for e in tape if e.kind != 'evaluation']


def test_by_default_no_finite_model_is_replaced():
  """No target; a run that only gets worse is the run that only gets better."""
  worse = {i: (float(i), 1.0 / i) for i in range(2, 40, 2)}
  better = {i: (1.0 / i, float(i)) for i in range(2, 40, 2)}
  cycles = make()
  one, tape = loops.train(cycles, loops.start(cycles), worse, 0, 40)
  two, _ = loops.train(cycles, loops.start(cycles), better, 0, 40)
  assert [e.numbers['tau'] for e in tape if e.kind == 'reset'] == [0.0] * 2
  assert not [e for e in tape if e.kind == 'abandon']
  for a, b in zip(*(jax.tree_util.tree_leaves(s.params) for s in (one, two))):
    np.testing.assert_array_equal(a, b)


def test_by_default_a_model_that_is_not_finite_is_replaced():
  cycles = make()
  state = loops.start(cycles)
  state, _ = cycles.before_step(0, state)
  broken = jax.tree_util.tree_map(lambda x: x * math.nan, state.params)
  state = loops.make_step(cycles)(state, loops.inputs_of(0))
  state = state._replace(params=broken)
  state, events = cycles.after_evaluation(1, math.nan, math.nan, state)
  assert [e.kind for e in events] == [
    *('evaluation', 'abandon', 'reset', 'cycle_start'),
  ]
  assert events[1].reason == 'loss is not finite'
  assert events[2].numbers['tau'] == 1
  half = make().schedule(10) / 2
  assert cycles.schedule(10) == pytest.approx(half) and half > 0
  for leaf in jax.tree_util.tree_leaves(state.params):
    assert np.all(np.isfinite(leaf))


def test_another_run_at_step_0_has_its_own_peaks():
  """Not those that the failure of the run before has halved."""
  cycles = make()
  plan = cycles.schedule(10)
  state, _ = cycles.before_step(0, loops.start(cycles))
  cycles.after_evaluation(0, math.nan, math.nan, state)
  assert cycles.schedule(10) == pytest.approx(plan / 2)
  cycles.before_step(0, loops.start(cycles))
  assert cycles.schedule(10) == pytest.approx(plan)


def test_a_loop_that_has_only_a_loss_begins_anew_where_it_stands_still():
  """S(t) alone, without a target; the metric is the loss.

  Of 20 evaluations .175 are 3.5. That of step 4, the second, has the minimum.
  """
  settings = dataclasses.replace(LOOP, switching=ChainLossRule(1.0, k=0.175))
  cycles = make(settings=settings, rises=False)
  losses = {2: 8.0, 4: 4.0, 6: 5.0, 8: 5.0, 10: 5.0, 12: 5.0}
  seen = {step: (loss, loss) for step, loss in losses.items()}
  _, tape = loops.train(cycles, loops.start(cycles), seen, 0, 13)
  assert kinds(tape)[-3:] == [
    *((12, 'abandon'), (12, 'reset'), (12, 'cycle_start')),
  ]
  abandon, reset, start = tape[-3:]
  assert abandon.reason == 'minimum out of reach'
  terms = ('smoothed_loss', 'derivative', 'case1', 'case2', 'stopping')
  assert [abandon.numbers[name] for name in terms] == [5.0, 0.0, 0, 1, 1]
  assert reset.numbers['tau'] == 1
  assert start.numbers['rate_factor'] == 0.5


def test_s_of_t_is_among_the_numbers_of_every_evaluation():
  """The thesis', by default, as if L of .5 followed on 1: .7 * .5 + .3."""
  cycles = make()
  seen = {2: (1.0, 0.1), 4: (0.5, 0.2)}
  _, tape = loops.train(cycles, loops.start(cycles), seen, 0, 5)
  found = [e.numbers for e in tape if e.kind == 'evaluation']
  assert [n['smoothed_loss'] for n in found] == [1.0, pytest.approx(0.65)]
  assert [n['stopping'] for n in found] == [0, 0]


@pytest.mark.parametrize('settings', [LOOP, SOFT_RESET, THESIS])
def test_a_peak_keeps_the_ratios_of_the_others(settings):
  more = {'target': 0.8} if settings is not LOOP else {}
  cycles = make(settings=settings, peak=0.02, **more)
  peaks = [c.peak for c in settings.cycles]
  found = [c.peak for c in cycles.config.settings.cycles]
  assert found == [0.02 * peak / peaks[0] for peak in peaks]


@pytest.mark.parametrize('peak', [0.0, -1.0, math.inf, math.nan, '0.1'])
def test_a_peak_that_is_no_rate_is_refused(peak):
  with pytest.raises(
    ValueError, match=r'peak=.*: must be a number in \(0, inf'
  ):
    make(peak=peak)


def test_the_schedule_is_the_rate_of_every_step():
  """Where no horizon moves it; an optimizer of optax takes it as it is."""
  cycles = make(settings=dataclasses.replace(LOOP, horizon=None))
  state, step = loops.start(cycles), loops.make_step(cycles)
  for i in range(40):
    state, _ = cycles.before_step(i, state)
    assert float(cycles.schedule(i)) == pytest.approx(
      cycles.learning_rate(state), rel=1e-6
    )
    state = step(state, loops.inputs_of(i))
  assert float(cycles.schedule(41)) == float(cycles.schedule(40))
  optimizer = optax.adamw(cycles.schedule)
  params = loops.init(jax.random.PRNGKey(0))
  gradients = jax.tree_util.tree_map(np.ones_like, params)
  updates, _ = optimizer.update(gradients, optimizer.init(params), params)
  assert all(np.all(np.isfinite(u)) for u in jax.tree_util.tree_leaves(updates))


def test_the_end_tells_where_the_best_evaluation_was():
  settings = dataclasses.replace(LOOP, repeat=False)
  losses = {8: 0.9, 16: 0.5, 24: 0.7, 32: math.nan, 40: 0.6}
  for rises, step, metric in ((False, 16, 0.5), (True, 8, 0.9)):
    cycles = make(settings=settings, rises=rises)
    evaluations = {i: (1.0, metric) for i, metric in losses.items()}
    _, tape = loops.train(cycles, loops.start(cycles), evaluations, 0, 42)
    assert tape[-1].kind == 'finish'
    numbers = tape[-1].numbers
    assert (numbers['metric_step'], numbers['metric']) == (step, metric)


LATE = (
  'the first evaluation came after 8 of 40 steps: evaluate after the first step '
  'too, where the way to the target begins'
)
WRONG = (
  'the loss has fallen and the metric has got worse in three evaluations: is '
  'rises={} right?'
)


@pytest.mark.parametrize(
  ('changes', 'metrics', 'said'),
  [
    pytest.param(
      {'settings': SOFT_RESET, 'target': 0.1, 'rises': False},
      {8: 2.0, 16: 1.9, 24: 1.8},
      [(8, LATE)],
      id='late',
    ),
    pytest.param(
      {'settings': SOFT_RESET, 'target': 0.1, 'rises': False},
      {1: 2.0, 8: 1.9, 16: 1.8},
      [],
      id='in time',
    ),
    pytest.param(
      {'settings': SOFT_RESET, 'target': 3.0},
      {8: 2.0, 16: 2.1, 24: 2.2},
      [],
      id='a metric that rises needs no start',
    ),
    *(
      pytest.param(
        {'settings': SOFT_RESET, 'target': -1.0, 'rises': rises},
        {1: first, 8: first, 16: later, 24: -1.0},
        [
          (
            16,
            'no metric was finite before that after 16 of 40 steps: take one '
            'that is finite for an untrained model, where the way to the '
            'target begins',
          )
        ],
        id=f'{first} at first',
      )
      for first, later, rises in (
        (-math.inf, -2.0, True),
        (math.inf, 2.0, False),
        (math.nan, -2.0, True),
      )
    ),
    pytest.param(
      {'settings': SOFT_RESET, 'target': -1.0},
      {1: -0.5, 8: -0.25},
      [
        (
          1,
          'the first metric, -0.5, is no worse than the target, -1: are both '
          'of one kind and in one unit?',
        )
      ],
      id='beyond the target',
    ),
    pytest.param(
      {'settings': SOFT_RESET, 'target': 60.0, 'rises': False},
      {8: 0.4, 16: 0.3},
      [
        (8, LATE),
        (
          8,
          'the first metric, 0.4, is no worse than the target, 60: are both '
          'of one kind and in one unit?',
        ),
      ],
      id='late, and in another unit',
    ),
    # In percent, where the target is a fraction.
    pytest.param(
      {'settings': SOFT_RESET, 'target': 0.99},
      {8: 57.8, 16: 60.5},
      [
        (
          8,
          'the first metric, 57.8, is no worse than the target, 0.99: are both '
          'of one kind and in one unit?',
        )
      ],
      id='in another unit',
    ),
    *(
      pytest.param(
        {'settings': SOFT_RESET, 'target': 0.6, 'rises': False},
        {1: first, 8: 0.3},
        [
          (
            1,
            f'the first metric, {first:g}, is no worse than the target, 0.6: '
            'are both of one kind and in one unit?',
          )
        ]
        * is_there,
        id=f'{first:g} at first, of a target of .6 that falls',
      )
      for first, is_there in ((0.42, True), (0.6, True), (0.61, False))
    ),
    pytest.param(
      {'rises': False},
      {8: 2.0, 16: 2.3, 24: 2.6, 32: 2.9},
      [(24, WRONG.format(False))],
      id='rises, and not said so',
    ),
    pytest.param(
      {},
      {8: 2.0, 16: 1.7, 24: 1.4, 32: 1.1},
      [(24, WRONG.format(True))],
      id='falls, and not said so',
    ),
    pytest.param({}, {8: 2.0, 16: 2.1, 24: 1.8}, [], id='once better'),
    pytest.param({}, {8: 2.0, 16: 2.0, 24: 2.0}, [], id='the same'),
    # The loss falls by 2 / 3, the metric by less than a fifth of that.
    pytest.param({}, {8: 2.0, 16: 1.9, 24: 1.75}, [], id='noise'),
    pytest.param(
      {}, {8: 2.0, 16: 1.9, 24: 1.72}, [(24, WRONG.format(True))], id='more'
    ),
  ],
)
def test_what_looks_wrong_is_said_once(changes, metrics, said):
  cycles = make(**changes)
  evaluations = {i: (1 / i, metric) for i, metric in metrics.items()}
  _, tape = loops.train(cycles, loops.start(cycles), evaluations, 0, 40)
  found = [(e.step, e.reason) for e in tape if e.kind == 'warning']
  assert found == said
  for event in tape:  # each is one sentence, or one question
    end = '?' if event.reason.endswith('?') else '.'
    assert str(event).endswith(end) and not str(event).endswith('?.')


def test_a_metric_that_is_worse_by_noise_is_no_warning():
  """An accuracy on 512 points, while the loss falls by less than a tenth."""
  cycles = make()
  step = loops.make_step(cycles)
  for loss, said in ((0.58, []), (0.579, [WRONG.format(True)])):
    evaluations = {8: (0.644, 0.609), 16: (0.644, 0.568), 24: (loss, 0.58)}
    state = loops.start(cycles)
    _, tape = loops.train(cycles, state, evaluations, 0, 25, step)
    assert [e.reason for e in tape if e.kind == 'warning'] == said


@pytest.mark.parametrize(
  ('first', 'rises', 'is_abandoned'),
  [(1, False, True), (8, False, False), (8, True, True)],
)
def test_without_the_start_of_the_way_no_chain_is_abandoned(
  first, rises, is_abandoned
):
  """.3 of 40 steps are over at step 16, and little of the way."""
  target = 10.0 if rises else 0.1
  cycles = make(settings=SOFT_RESET, target=target, rises=rises)
  evaluations = {i: (1.0, 1.0) for i in (first, 16, 20)}
  _, tape = loops.train(cycles, loops.start(cycles), evaluations, 0, 21)
  assert ('abandon' in [e.kind for e in tape]) is is_abandoned


def test_an_evaluation_before_the_first_step_hides_no_start():
  cycles = make()
  state, seen = cycles.after_evaluation(0, 2.0, 0.1, loops.start(cycles))
  assert [e.kind for e in seen] == ['evaluation']
  _, tape = loops.train(cycles, state, {}, 0, 2)
  assert kinds(tape) == [(0, 'cycle_start')]


def test_a_second_run_begins_anew():
  """With the same states and the same events as the first."""
  cycles = make(settings=dataclasses.replace(LOOP, repeat=False))
  evaluations = {8: (1.0, 0.5), 20: (0.5, 0.6), 40: (0.4, 0.7)}
  run = lambda: loops.train(cycles, loops.start(cycles), evaluations, 0, 42)
  one, first = run()
  two, second = run()
  assert list(map(repr, first)) == list(map(repr, second))
  said = [e.kind for e in first]
  assert (said[0], said[-1]) == ('cycle_start', 'finish')
  for a, b in zip(*map(jax.tree_util.tree_leaves, (one, two))):
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
  ('changes', 'said'),
  [
    (
      {'num_steps': 90},
      'steps of the saved run=40: must be 90, as in this run: set up the run',
    ),
    (
      {'peak': 0.01},
      'peaks, lengths or warm-ups of the saved run=.*: must be those of this',
    ),
    (
      {'settings': SOFT_RESET, 'target': 0.8},
      r'shape of state.opt_state.control=\(104,\): must be \(108,\)',
    ),
  ],
)
def test_a_state_of_another_plan_is_refused(changes, said):
  """As a checkpoint of 40 steps restored into other cycles."""
  cycles = make()
  state, _ = loops.train(cycles, loops.start(cycles), {}, 0, 5)
  make().before_step(5, jax.tree_util.tree_map(np.copy, state))  # its own
  with pytest.raises(ValueError, match=said):
    make(**changes).before_step(5, state)


def test_a_state_of_another_average_is_refused():
  """y and z with another share give another x; so too in a new stage."""
  averaged = dataclasses.replace(LOOP, optimizer=ScheduleFreeAdamW(0.25))
  cycles = make(optimizer=None, settings=averaged)
  state = loops.start(cycles)
  state, _ = cycles.before_step(0, state)
  other = dataclasses.replace(LOOP, optimizer=ScheduleFreeAdamW(0.5))
  said = 'one_minus_beta1 of the saved run=0.25: must be 0.5, as in this run'
  with pytest.raises(ValueError, match=said):
    make(optimizer=None, settings=other).before_step(0, state)
  with pytest.raises(ValueError, match=said):
    make(optimizer=None, settings=other).new_stage(state, tau=0.0)


def test_an_average_that_trains_nothing_refuses_no_state():
  """With optimizer=, only the weight decay of the settings' own counts."""
  averaged = [
    dataclasses.replace(LOOP, optimizer=ScheduleFreeAdamW(share))
    for share in (0.25, 0.5)
  ]
  first, second = (make(settings=settings) for settings in averaged)
  state, _ = first.before_step(0, loops.start(first))
  second.before_step(0, state)
  for cycles in (first, second):
    assert cycles.config.settings.optimizer == averaged[0].optimizer.inner
