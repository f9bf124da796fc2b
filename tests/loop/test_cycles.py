"""Cycles in a loop of one's own: decisions, stops, refusals."""

import dataclasses
import math
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from helpers import documents, loops
from helpers.replay import config_of, replay
from helpers.trees import assert_close, assert_same, host
from reset_cycles.core.evaluation import Target
from reset_cycles.core.horizon import TimeHorizon
from reset_cycles.early_switching import Progress, SmoothedLossRule
from reset_cycles.engine.model_reset import Effect
from reset_cycles.loop import State
from reset_cycles.loop.events import event_of
from reset_cycles.schedule_params import MUON, SOFT_RESET
from reset_cycles.soft_reset import Cyclic, FullReset, SoftReset

SWITCHING, EVALUATIONS = loops.SWITCHING, loops.EVALUATIONS
CYCLIC = dataclasses.replace(loops.CHAIN, switching=Progress(), reset=Cyclic())
RESET = ['reset', 'cycle_start']


def taus(tape):
  return [event.numbers['tau'] for event in tape if event.kind == 'reset']


def test_a_run_on_tape():
  """Equal cycles of 4 steps; 6 of 8 to go when the second is abandoned."""
  rule = dataclasses.replace(SWITCHING.switching, lam=1.0)
  cycles = loops.make(dataclasses.replace(SWITCHING, switching=rule))
  evaluations = {**EVALUATIONS, 5: (0.9, 0.6)}
  _, tape = loops.train(cycles, loops.start(cycles), evaluations, 0, 14)
  assert [(e.step, e.kind, e.cycle) for e in tape] == [
    (0, 'cycle_start', 1),
    (2, 'evaluation', 1),
    (4, 'evaluation', 1),
    (4, 'reset', 2),
    (4, 'cycle_start', 2),
    (5, 'evaluation', 2),
    (6, 'evaluation', 2),
    (6, 'abandon', 2),
    (6, 'reset', 3),
    (6, 'cycle_start', 3),
    (9, 'evaluation', 3),
    (12, 'reset', 4),
    (12, 'cycle_start', 4),
  ]
  assert taus(tape) == pytest.approx([0.25, 0.375, 0.125])
  assert [str(e) for e in tape[1:5]] == [
    'step 2: loss 1 and metric 0.4 after 2 steps.',
    'step 4: loss 0.9 and metric 0.6 after 4 steps.',
    'step 4: cycle 2 starts with 0.25 of the model fresh (SoftReset, '
    'scheduled).',
    'step 4: cycle 2 starts, up to step 8, with a peak of 0.01.',
  ]
  assert str(tape[7]) == 'step 6: cycle 2 is abandoned: loss rises.'


@pytest.mark.parametrize('seed', range(30))
def test_random_chains_are_decided_as_by_the_submission(seed):
  """Word for word; nothing is trained but the clock."""
  rng = np.random.default_rng(seed)
  pick = lambda *parts: parts[rng.integers(len(parts))]
  rule = SmoothedLossRule(lam=0.9, k=int(rng.integers(1, 4)), m=2)
  chain = dataclasses.replace(
    loops.CHAIN,
    reset=pick(SoftReset(), SoftReset(0.0, 'linear'), FullReset(), Cyclic()),
    switching=pick(rule, Progress()),
    early_switching=bool(rng.integers(2)),
    repeat=bool(rng.integers(2)),
    horizon=pick(None, TimeHorizon()),
  )
  steps, every = int(rng.integers(12, 60)), int(rng.integers(1, 6))
  rises = bool(rng.integers(2))
  losses = np.cumsum(rng.normal(-0.1, 0.3, 60)) + 9
  losses[rng.random(60) < 0.03] = math.nan
  rows = list(zip(losses.tolist(), rng.uniform(0.1, 1.2, 60).tolist()))
  evaluations = {i * every: row for i, row in enumerate(rows) if i}

  cycles = loops.make(
    chain,
    num_steps=steps,
    make_params=lambda key: {'w': jax.random.normal(key, (2,))},
    optimizer=optax.sgd,
    rises=rises,
  )

  def count(state, _):
    own = state.opt_state
    own = own._replace(clock=own.clock.at[0].add(1))
    return state._replace(opt_state=own)

  params = {'w': jnp.ones(2)}
  state = State(params, cycles.optimizer.init(params))
  _, said = loops.train(cycles, state, evaluations, 0, steps, count)

  chain = dataclasses.replace(chain, budget_factor=1.0)
  config = config_of(chain, steps, Target('metric', 0.8, rises))
  seen = [(step, *row) for step, row in evaluations.items()]
  tape, *_ = replay(config, None, seen, until=steps + 1)
  # What follows the last step is not asked for.
  last = [e for e in tape if e['global_step'] == steps]
  tape = tape[: len(tape) - len(last)] + last[: steps in evaluations]
  decided = [event_of(e, e.pop('global_step')) for e in tape]
  # What a reset did to the model is no decision.
  said = [
    event._replace(
      numbers={
        k: v for k, v in event.numbers.items() if k not in Effect._fields
      }
    )
    for event in said
  ]
  assert list(map(repr, said)) == list(map(repr, decided))


def test_the_settings_in_force_fill_the_steps():
  """4 : 8 of 150 steps; of 1 : 2 : 4 : 8, two would be too short for evaluations
  that are 10 steps apart. Schedule-Free's gradient is taken at y, which a loop
  keeps in its parameters."""
  chain = dataclasses.replace(SOFT_RESET, early_switching=False)
  cycles = loops.make(chain, num_steps=150)
  evaluations = {step: (1.0, 0.6) for step in range(10, 151, 10)}
  state, tape = loops.train(cycles, loops.start(cycles), evaluations, 0, 150)
  starts = [event for event in tape if event.kind == 'cycle_start']
  assert [event.step for event in starts] == [0, 50]
  # a quarter of the way is missing, a third of the run is over
  assert taus(tape) == pytest.approx([0.25 * (1 - 2 / 3)])
  x, z = cycles.eval_params(state), state.opt_state.inner.z
  y = jax.tree_util.tree_map(lambda x, z: 0.9 * x + 0.1 * z, x, z)
  assert_close(state.params, y)
  assert_same(cycles.gradient_point(state), state.params)


def test_the_last_model_is_not_reset():
  cycles = loops.make()
  state, _ = loops.train(cycles, loops.start(cycles), {}, 0, 12)
  after, events = cycles.after_evaluation(12, 1.0, 0.4, state)
  assert [event.kind for event in events] == ['evaluation']
  assert_same(after.params, state.params)
  assert cycles.steps_until_due(12) == 0
  _, events = cycles.before_step(12, after)
  assert [event.kind for event in events] == ['reset', 'cycle_start']
  assert events[0].numbers['tau'] == 0.5


@pytest.mark.parametrize('evaluated', [(), (0,), (1,), (0, 1)])
def test_two_runs_in_lockstep_are_each_decided_as_alone(evaluated):
  """In lockstep, by one object; only the first is told that it begins."""

  def run_of(numbers):
    cycles = loops.make(SWITCHING)
    step = loops.make_step(cycles)
    states = {k: loops.start(cycles, seed=k) for k in numbers}
    tapes = {k: [] for k in numbers}
    for i in range(14):
      for k in numbers:
        states[k], events = cycles.before_step(i, states[k])
        tapes[k] += events
        states[k] = step(states[k], loops.inputs_of(i))
      for k in set(numbers) & {*evaluated}:
        if i + 1 in EVALUATIONS:
          row = EVALUATIONS[i + 1]
          states[k], events = cycles.after_evaluation(i + 1, *row, states[k])
          tapes[k] += events
    return states, tapes

  states, tapes = run_of((0, 1))
  for k in (0, 1):
    alone, tape = run_of((k,))
    assert repr(tapes[k]) == repr(tape[k][k:])  # a NaN is not itself
    assert 'reset' in [event.kind for event in tape[k]]
    assert_same(states[k], alone[k])


def test_a_step_asked_for_twice_waits_for_the_state_no_longer_than_that():
  """Reading a state costs a wait: at the second call, and at the next step.

  Not in a run that begins, or goes on, before that step.
  """
  cycles = loops.make()
  step = loops.make_step(cycles)
  states, counts = {0: loops.start(cycles)}, []
  with mock.patch.object(cycles, '_reading', wraps=cycles._reading) as reading:
    for i in (0, 1, 1, 2, 3, 0, 1, 2, 2, 1, 2, 3):
      before = reading.call_count
      copied = jax.tree_util.tree_map(jnp.copy, states[i])
      state, _ = cycles.before_step(i, copied)
      counts.append(reading.call_count - before)
      states[i + 1] = step(state, loops.inputs_of(i))
  assert counts == [1, 0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 0]


def test_the_end_is_said_once():
  chain = dataclasses.replace(loops.CHAIN, repeat=False)
  cycles = loops.make(chain)
  state, tape = loops.train(cycles, loops.start(cycles), {}, 0, 13)
  step = loops.make_step(cycles)
  for i in range(12, 15):
    state, events = cycles.before_step(i, state)
    assert events == []
    state = step(state, loops.inputs_of(i))
    state, events = cycles.after_evaluation(i + 1, 1.0, 0.4, state)
    assert [event.kind for event in events] == ['evaluation']
  assert [event.kind for event in tape].count('finish') == 1
  assert cycles.learning_rate(state) == 0


def test_events_go_where_the_page_sends_them():
  cycles = loops.make()
  evaluations = {np.int64(2): (jnp.float32(1), np.float32(0.5))}
  _, tape = loops.train(cycles, loops.start(cycles), evaluations, 0, 5)
  names = {'events': tape, 'writer': mock.Mock(), 'wandb': mock.Mock()}
  page = documents.blocks(documents.ROOT / 'docs' / 'loop_reference.md')
  for block in page[-2:]:
    exec(block.text, dict(names))
  said = [call.args for call in names['writer'].add_text.call_args_list]
  assert said == [(e.kind, str(e), e.step) for e in tape]
  names['writer'].add_scalar.assert_any_call('reset/tau', 0.375, 4)
  logged = [call.args[0] for call in names['wandb'].log.call_args_list]
  assert logged[1]['evaluation/metric_step'] == 2


def test_a_late_evaluation_counts_for_its_cycle_or_not_at_all():
  cycles = loops.make()
  state, _ = loops.train(cycles, loops.start(cycles), {}, 0, 7)
  clock = host(state.opt_state.clock)
  state, events = cycles.after_evaluation(3, 1.0, 0.4, state)
  assert [(e.kind, e.reason) for e in events] == [
    ('refused', 'cycle 2 began at step 4')
  ]
  state, events = cycles.after_evaluation(jnp.int32(5), 1.0, 0.4, state)
  assert [(e.step, e.kind, e.cycle) for e in events] == [(7, 'evaluation', 2)]
  assert events[0].numbers['metric_step'] == 5
  state, events = cycles.after_evaluation(5, 1.0, 0.8, state)
  assert events[0].reason == 'one after 5 steps has been taken in'
  assert_same(state.opt_state.clock, clock)
  for step, said in (
    (8, '8: must be at most 7'),
    (-1, '-1: must be a whole number of at least 0'),
    (5.0, '5.0: must be a whole number of at least 0'),
    (True, 'True: must be a whole number of at least 0'),
  ):
    with pytest.raises(ValueError, match=f'step={said}'):
      cycles.after_evaluation(step, 1.0, 0.4, state)
  state, events = loops.train(cycles, state, {}, 7, 9)
  assert events[0].numbers['tau'] == 0.5  # that of the evaluation after step 5


def schedule_free():
  contrib = pytest.importorskip('optax.contrib')
  if not hasattr(contrib, 'schedule_free_sgd'):
    pytest.skip('this optax has no Schedule-Free')
  return contrib


def test_a_reset_before_the_first_step_leaves_what_one_began_with():
  """Schedule-Free begins with the parameters themselves in its state."""
  cycles = loops.make(SWITCHING, optimizer=schedule_free().schedule_free_adamw)
  params = loops.init(jax.random.PRNGKey(7))
  state = State(params, cycles.optimizer.init(params))
  state, _ = cycles.before_step(0, state)
  state, events = cycles.after_evaluation(0, math.nan, 0.0, state)
  assert [event.kind for event in events] == ['evaluation', 'abandon', *RESET]
  loops.train(cycles, state, {}, 0, 2)
  assert_same(params, loops.init(jax.random.PRNGKey(7)))


def test_a_broken_weight_of_an_average_breaks_the_model():
  cycles = loops.make(optimizer=schedule_free().schedule_free_sgd)
  state, _ = loops.train(cycles, loops.start(cycles), {2: (1.0, 0.8)}, 0, 4)
  inner = state.opt_state.inner
  inner = inner._replace(weight_sum=math.nan * inner.weight_sum)
  opt_state = state.opt_state._replace(inner=inner)
  state, events = cycles.before_step(4, state._replace(opt_state=opt_state))
  assert events[0].reason.endswith('the model is not finite')
  assert state.opt_state.inner.weight_sum == 0


def test_statistics_follow_the_parameters():
  def init(key):
    return loops.init(key), {'mean': jnp.ones(3)}

  cycles = loops.make(make_params=init, has_batch_stats=True)
  params = loops.init(jax.random.PRNGKey(1))
  state = State(params, cycles.optimizer.init(params), {'mean': jnp.zeros(3)})
  state, _ = loops.train(cycles, state, {2: (1.0, 0.6)}, 0, 4)
  state, _ = cycles.before_step(4, state)
  np.testing.assert_allclose(state.batch_stats['mean'], 0.25, rtol=1e-6)


@pytest.mark.parametrize('optimizer', [None, optax.adamw])
def test_nothing_is_compiled_after_the_first_step(optimizer, compilations):
  fresh = jax.jit(loops.init)
  cycles = loops.make(make_params=fresh, optimizer=optimizer)
  step = loops.make_step(cycles)
  state = loops.start(cycles, fresh)
  state, _ = loops.train(cycles, state, {}, 0, 1, step)
  jax.random.fold_in(jax.random.PRNGKey(0), 1)
  evaluations = {**EVALUATIONS, 7: (math.nan, math.nan)}
  with compilations() as compiled:
    _, tape = loops.train(cycles, state, evaluations, 1, 14, step)
  assert taus(tape)[1] == 1
  assert not compiled


def test_many_steps_at_once_are_those_steps():
  cycles, one_by_one = loops.make(), loops.make()
  step = loops.make_step(one_by_one)
  expected, _ = loops.train(one_by_one, loops.start(one_by_one), {}, 0, 12)
  state, done, counts = loops.start(cycles), 0, []
  assert cycles.steps_until_due(0) == 0
  while done < 12:
    state, _ = cycles.before_step(done, state)
    count = min(3, cycles.steps_until_due(done))
    inputs = np.stack([loops.inputs_of(done + i) for i in range(count)])
    state, _ = jax.lax.scan(
      lambda state, batch: (step(state, batch), None), state, inputs
    )
    done += count
    counts.append(count)
  assert counts == [3, 1, 3, 1, 3, 1]
  assert_close(state, expected)


@pytest.mark.parametrize(
  ('changes', 'said'),
  [
    ({'num_steps': 0}, 'num_steps=0: must be a whole number'),
    (
      {'steps_per_epoch': 4, 'peak': 0.1},
      'steps_per_epoch=4: must be None where the peak is not that of a Spectra',
    ),
    ({'num_steps': 2}, 'each needs at least one'),
    ({'target': math.nan}, 'target=nan: must be a number in'),
    ({'rises': 1}, 'rises=1: must be True or False'),
    ({'tau': 0.5}, r'tau=0.5 \(.*\): must be a function of \(metric'),
    ({'tau': lambda metric: 0.5}, r'tau=.* \(too many positional'),
    ({'key': 0}, r'key=0 \(.*\): must be a single key of jax.random'),
    ({'make_params': lambda key: {}}, 'make_params=.*it returned dict'),
    ({'settings': 'thesis'}, "settings='thesis': must be a ScheduleParams"),
    ({'frozen': ['hidden']}, r'frozen=.*not callable\): must be a func'),
    ({'frozen': lambda path: True}, 'frozen=.*must be False for at least'),
    (
      {
        'settings': dataclasses.replace(loops.CHAIN, reset=FullReset()),
        'tau': lambda *asked: 0.5,
      },
      r'reset=FullReset\(\): must be a SoftReset where tau is given',
    ),
    (
      {'make_params': lambda key: {'w': jnp.zeros(2, complex)}},
      r"make_params=.*at \['w'\] it is complex",
    ),
    (
      {'make_params': lambda key: {'f': jax.nn.relu, 'w': jnp.zeros(2)}},
      r"make_params=.*at \['f'\].*eqx.filter",
    ),
    ({'make_params': lambda key: jax.nn.relu}, 'make_params=.*at the top'),
    (
      {'make_params': lambda key: {'w': jnp.zeros(2, jnp.float16)}},
      r"dtype of make_params\['w'\]='float16': must be bfloat16, float32 or",
    ),
    ({'has_batch_stats': True}, 'make_params=.*a pair of trees'),
    (
      {'make_params': lambda key: {**loops.init(key), 'n': jnp.int32(7)}},
      r"dtype of make_params\['n'\]='int32': must be a float; if it is not "
      'trained, let frozen= name it',
    ),
  ],
)
def test_what_cannot_work_is_refused(changes, said):
  with pytest.raises(ValueError, match=said) as error:
    loops.make(**changes)
  assert ' at 0x' not in str(error.value)  # no function's address


@pytest.mark.parametrize(
  ('changes', 'needing'),
  [
    ({'settings': MUON}, 'SoftReset and Progress'),
    ({}, 'SoftReset'),
    ({'settings': CYCLIC}, 'Progress'),
    ({'settings': SOFT_RESET, 'tau': lambda *asked: 0.5}, 'Progress'),
  ],
)
def test_a_missing_target_is_asked_for(changes, needing):
  """By what needs it; nobody has given a reset or a rule."""
  with pytest.raises(ValueError, match='^target') as error:
    loops.make(target=None, **changes)
  assert str(error.value) == (
    f'target=None: must be the metric to reach with {needing}; MUON_LOOP and '
    'LOOP need no target, nor do a SoftReset with tau=… and a rule such as '
    'ChainLossRule().'
  )


def test_parameters_in_the_place_of_make_params_are_not_printed():
  params = loops.init(jax.random.PRNGKey(0))
  for given in (params, params['hidden']['kernel']):
    with pytest.raises(ValueError, match='make_params') as error:
      loops.make(make_params=given)
    assert str(error.value) == (
      f'type of make_params={type(given).__name__!r}: must be a function of a '
      'key that makes the parameters, such as your init.'
    )

  class Model(dict):
    def __call__(self, inputs):
      return inputs @ self['hidden']['kernel']

  with pytest.raises(ValueError, match=r'^make_params=Model \(.*$'):
    loops.make(make_params=Model(params))


def test_a_state_of_something_else_is_refused():
  cycles = loops.make()
  state = loops.start(cycles)
  with pytest.raises(ValueError, match=r'state.opt_state=.*cycles.optimizer'):
    cycles.before_step(0, state._replace(opt_state=(state.opt_state,)))
  other = {**state.params, 'output': {'kernel': jnp.zeros((3, 2))}}
  said = r"state.params\['output'\]\['kernel'\]=\(3, 2\): must be \(8, 2\)"
  with pytest.raises(ValueError, match=said):
    cycles.before_step(0, state._replace(params=other))
  with pytest.raises(ValueError, match='step=3: must be 0'):
    cycles.before_step(3, state)
  with pytest.raises(ValueError, match="step='0': must be a whole"):
    cycles.before_step('0', state)
  with pytest.raises(ValueError, match="step='State': .*; the state is the la"):
    cycles.after_evaluation(state, 1, 1.0, 1.0)
  with pytest.raises(ValueError, match=r'step=\[0\]: must be a whole number'):
    cycles.before_step(jnp.array([0]), state)
  with pytest.raises(ValueError, match="state='dict': must be a Named"):
    cycles.before_step(0, state._asdict())
  with pytest.raises(ValueError, match='step=-1: must be a whole number'):
    cycles.after_evaluation(-1, 1.0, 0.5, state)
  with pytest.raises(ValueError, match=r'loss=None .*: must be a number'):
    cycles.after_evaluation(0, None, 0.5, state)
  stats = loops.make(
    make_params=lambda key: (loops.init(key), {'mean': jnp.zeros(2)}),
    has_batch_stats=True,
  )
  said = r"state.batch_stats\['mean'\]='absent': must be \(2,\)"
  with pytest.raises(ValueError, match=said):
    stats.before_step(0, state)


def test_a_loop_without_a_target():
  chain = dataclasses.replace(loops.CHAIN, repeat=False)
  asked = []

  def tau(metric, first_metric, step):
    asked.append((metric, first_metric, step))
    return 0.125

  cycles = loops.make(chain, target=None, tau=tau)
  _, tape = loops.train(cycles, loops.start(cycles), EVALUATIONS, 0, 99)
  assert taus(tape) == [0.125] * 2
  assert asked == [(0.6, 0.4, 4), (0.5, 0.4, 8)]
  assert tape[-1].kind == 'finish'
  full = dataclasses.replace(chain, reset=FullReset())
  cycles = loops.make(full, target=None)
  _, tape = loops.train(cycles, loops.start(cycles), EVALUATIONS, 0, 99)
  assert taus(tape) == [1.0] * 2
