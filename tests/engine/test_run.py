"""Whole runs of the submission: tapes, preemptions, resets and what they cost."""

import dataclasses
import functools
import inspect
import itertools
import math

import flax
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from helpers import fake_benchmark
from helpers.reference import numbers_in
from helpers.runs import (
  GENERATIONS,
  PARAMS,
  SWITCHING,
  TIMED,
  TIMING,
  assert_equal_trees,
  column,
  devices_of,
  make_checkpoint,
  new_driver,
  newly_set_up,
  restore,
  train_loss,
  with_cycles,
)
from helpers.trees import assert_close, host
from reset_cycles.core.clock import unpacked
from reset_cycles.engine import run as run_lib
from reset_cycles.engine.model_reset import Effect
from reset_cycles.engine.records import read_events
from reset_cycles.engine.state import clock_of, to_words
from reset_cycles.engine.train_step import train_step
from reset_cycles.optimizers.average import Averaged
from reset_cycles.optimizers.schedule_free import ScheduleFreeAdamW
from reset_cycles.schedule_params import MUON
from reset_cycles.soft_reset import Cyclic, FullReset
from reset_cycles.submission import make_submission

NAN, INF = math.nan, math.inf
BOTH = pytest.mark.parametrize('generation', GENERATIONS)
FINISHING = (PARAMS, 'jit', SWITCHING, 6)
ON_TIME = (TIMED, 'jit', TIMING, 20)
_MUON = {name: getattr(MUON, name) for name in ('optimizer', 'relative_peak')}
MUON_ON_TIME = (dataclasses.replace(TIMED, **_MUON), 'jit', TIMING, 20)


def tape(folder):
  """What came before each step, in order."""
  rows = read_events(folder / 'cycles.csv')
  return [
    f'{step}: ' + ', '.join(f'{row["event"]} {row["cycle"]}' for row in found)
    for step, found in itertools.groupby(rows, lambda r: r['global_step'])
  ]


@pytest.mark.parametrize(
  ('run', 'until', 'expected'),
  (
    # Cycle 1 is abandoned before step 3; the remaining 9 steps are 5 + 4.
    (
      FINISHING,
      100,
      [
        '0: cycle_start 1',
        '1: evaluation 1',
        '2: evaluation 1',
        '3: evaluation 1, abandon 1, reset 2, cycle_start 2',
        '8: evaluation 2, reset 3, cycle_start 3',
        '12: finish 3',
      ],
    ),
    # At 5, an interval is known: there are 48 steps. Cycle 1 fails, and its chain
    # begins anew up to 29, where an evaluation is due; it comes a step late.
    # From then on the intervals say 45 steps.
    (
      ON_TIME,
      48,
      [
        '0: cycle_start 1',
        '1: evaluation 1',
        '5: evaluation 1, clock 1',
        '9: evaluation 1, abandon 1, reset 2, cycle_start 2',
        '13: evaluation 2',
        '17: evaluation 2',
        '21: evaluation 2',
        '25: evaluation 2',
        '29: wait 2',
        '30: evaluation 2, reset 3, cycle_start 3',
        '34: evaluation 3',
        '45: wait 3',
      ],
    ),
  ),
  ids=('finish', 'timed'),
)
def test_the_whole_tape(run, until, expected, folder):
  driver = new_driver(*run)
  is_complete = driver.run(until=until)
  assert is_complete == (driver.global_step < until)
  assert tape(folder) == expected


def test_evaluations_are_seen_where_earlier_ones_are_gone(folder):
  """A runner hands over fewer entries than before, the newest among them."""
  driver = new_driver()
  driver.run(until=2)
  driver.step()
  driver.eval_results = driver.eval_results[-1:]
  driver.run()
  assert tape(folder)[3] == '3: evaluation 1, abandon 1, reset 2, cycle_start 2'


# Preemptions.


def intact(entries):
  return entries


def mangled(entries):
  """As v0.5.0 restores them."""
  return [
    ({'0': step, '1': results}, str(i))
    for i, (step, results) in enumerate(entries)
  ]


def lost(entries):
  """As main restores them."""
  del entries


def assert_resumed_is_unbroken(folder, make, until, lefts, unordered=1e-6):
  """Decisions, events and parameters, bit for bit.

  Killed after every step, and after every fourth one, from each of the first
  four on.
  """

  def end_of(driver):
    completes = driver.run(until=until + 1)
    rows = read_events(folder / 'cycles.csv')
    # Norms of the model: numbers that are equal as its arrays are.
    norms = [[row.pop(name) for name in Effect._fields] for row in rows]
    measured = np.array([[x or NAN for x in row] for row in norms], np.float64)
    arrays = (driver.params, driver.model_state, driver.optimizer_state[0])
    return (completes, rows), host((arrays, measured))

  told, final = end_of(make())
  for first, every in ((1, 1), (1, 4), (2, 4), (3, 4), (4, 4)):
    driver = make()
    for step in range(first, until + 1, every):
      driver.run(until=step)
      left = lefts[step % len(lefts)]
      # An evaluation after the very step is in eval_results alone.
      left = intact if left is lost and step in driver.evaluations else left
      restore(driver, make_checkpoint(driver), left(driver.eval_results or []))
    found, arrays = end_of(driver)
    assert found == told
    assert_equal_trees(arrays, final, unordered)


@BOTH
@pytest.mark.parametrize(
  ('run', 'until'),
  ((FINISHING, 12), (ON_TIME, 40), (MUON_ON_TIME, 40)),
  ids=('finish', 'timed', 'muon'),
)
def test_a_resumed_run_is_the_unbroken_one(folder, generation, run, until):
  params, _, evaluations, step_hint = run
  make = functools.partial(
    new_driver, params, generation, evaluations, step_hint
  )
  # Muon's steps multiply what the order of a sum leaves open.
  unordered = 1e-4 if run is MUON_ON_TIME else 1e-6
  lefts = intact, mangled, lost
  assert_resumed_is_unbroken(folder, make, until, lefts, unordered)


def test_a_restored_state_with_a_device_axis_loses_it():
  """As main's restore leaves it; the run goes on as it was."""
  driver, other = new_driver(), new_driver()
  other.run(until=6)
  driver.run(until=3)
  saved, run = driver.optimizer_state
  stack = flax.jax_utils.replicate
  driver.optimizer_state = (
    stack(host(saved)),
    dataclasses.replace(run, has_begun=False),
  )
  driver.params = stack(host(driver.params))
  driver.model_state = stack(host(driver.model_state))
  driver.run(until=6)
  assert_equal_trees(driver.params, other.params)


# What is written.


def cosine_rate(t):
  """The rate at nominal step t of a cycle of 4: no warm-up fits into it."""
  return 0.0017486387539278373 / 2 * (1 + math.cos(math.pi * t / 4))


@BOTH
def test_what_is_written_and_logged(folder, generation):
  driver = new_driver(generation=generation)
  losses, calls = [], driver.workload.metrics_logger.logged
  for _ in range(12):
    driver.step()
    losses.append(train_loss(driver))
  assert driver.run()
  # In every row, the rate of the step which is named in it: what is evaluated
  # before a boundary is written with the rate of the step behind it.
  nominal_steps = [0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 4]
  np.testing.assert_allclose(
    [float(rate) for rate in column(folder, 'learning_rate')],
    [cosine_rate(t) for t in nominal_steps],
    rtol=0,
    atol=4e-7 * cosine_rate(0),
  )
  assert list(calls) == [0, 1, 2, 3, 8, 12]
  assert 'loss' not in calls[0]
  for step in (1, 2, 3, 8, 12):
    assert calls[step]['loss'] == pytest.approx(losses[step - 1])
    assert calls[step]['grad_norm'] > 0
  assert calls[2]['smoothed_loss'] == pytest.approx(0.3 * 1.0 + 0.7 * 0.9)
  assert (calls[3]['tau'], calls[3]['cycle']) == (1 - 0.6 / 0.8, 2)


# What is trained.


def clock_of_run(run):
  return clock_of(run.control, run.config)


@BOTH
def test_a_clock_that_was_moved_is_that_of_the_compiled_step(generation):
  seen = {1: (1.0, 0.4, 1.0), 5: (0.9, 0.5, 21.0)}
  driver = new_driver(TIMED, generation, seen, 20)
  driver.run(until=8)
  saved, run = driver.optimizer_state
  assert run.control.anchor_step == 5 and clock_of_run(run).pace != 1
  assert run.due == run.control.end  # until then, nothing is to be decided
  clock = unpacked(devices_of(driver).get(saved.opt_state.clock))
  assert clock == clock_of_run(run)._replace(count=8)


@BOTH
def test_the_weight_decay_follows_the_epochs(folder, generation):
  """16 steps an epoch: 20 / 16 and 40 / 16 epochs at the ends of two cycles."""
  settings, _, *rest = MUON_ON_TIME
  driver = new_driver(settings, generation, *rest)
  _, run = driver.optimizer_state
  assert [c.decay_factor for c in run.config.chain.cycles] == [1.0, 1.0]
  factors = set()
  while driver.global_step < (34 if generation == 'jit' else 80):
    driver.step()
    saved, run = driver.optimizer_state
    clock = unpacked(run.devices.get(saved.opt_state.clock))
    factors.add((int(clock.setting), float(clock.decay_factor)))
  assert factors == {(0, 1.25), (1, 2.5)}
  # A chain begun anew, at 9, has the factor of its first cycle again.
  written = column(folder, 'decay_factor', event='cycle_start')
  assert [float(text) for text in written] == [1.25, 1.25, 2.5]


def test_the_rows_of_a_batch_are_counted_over_devices():
  """Also where targets are a tuple, as (transcripts, paddings) of speech."""
  settings, _, *rest = MUON_ON_TIME
  for generation, shape in (('jit', (32, 3)), ('pmap', (8, 4, 3))):
    driver = new_driver(settings, generation, *rest)
    saved, run = driver.optimizer_state
    targets = np.zeros(shape), np.zeros((*shape, 2))
    model, batch = (driver.params, driver.model_state), {'targets': targets}
    args = run, saved, *model, driver.workload, None, 0, batch
    run_lib.model_reinit_schedule(*args)
    factors = [c.decay_factor for c in run.config.chain.cycles]
    # 8 steps an epoch: 2.5 and 5 epochs, but the factor ends at 1 / .24.
    assert factors == pytest.approx([2.5, 1 / 0.24])


@BOTH
def test_the_factor_of_the_epochs_is_one_on_the_weight_decay(generation):
  """And there is none where the number of examples is unknown."""
  settings, _, *rest = MUON_ON_TIME
  inner = dataclasses.replace(MUON.optimizer.inner, weight_decay=0.375)
  stronger = dataclasses.replace(MUON.optimizer, inner=inner)
  by_hand = dataclasses.replace(settings, optimizer=stronger)
  ends = []
  for params, examples in (
    (settings, 256),
    (by_hand, None),
    (settings, None),
  ):
    driver = new_driver(params, generation, *rest)
    driver.workload.num_train_examples = examples
    driver.run(until=9)  # of the first cycle
    ends.append(host(driver.params))
  assert_close(ends[0], ends[1], rtol=1e-5, atol=1e-6)
  apart = np.abs(ends[0]['kernel'] - ends[2]['kernel']).max()
  assert apart > 1e-3


@BOTH
def test_the_first_cycle_begins_with_a_model_made_anew(generation):
  """Whatever model is handed over; its weights tell the peaks."""
  driver, broken = (new_driver(TIMED, generation) for _ in range(2))
  scale = lambda leaf: 1e30 * leaf
  broken.params = jax.tree_util.tree_map(scale, broken.params)
  for one in (driver, broken):
    one.step()
  get = devices_of(driver).get
  first, other = get(driver.params)['kernel'], get(broken.params)['kernel']
  np.testing.assert_array_equal(first, other)
  run = driver.optimizer_state[1]
  later = jax.random.fold_in(run.rng, 2**31 - 1)
  fresh = driver.workload.init_model_fn(jax.random.fold_in(later, 2**31 - 1))
  kernel = np.float64(run.devices.get(fresh[0])['kernel'])
  # Its only matrix; no reset has this model.
  peak = 0.06 * math.sqrt(np.mean(kernel**2))
  assert float(clock_of_run(run).peak) == pytest.approx(peak, rel=1e-6)
  words = to_words(run.control)
  np.testing.assert_array_equal(
    to_words(broken.optimizer_state[1].control), words
  )


def step_by_hand(h, p, state, t, rate, grads_at):
  """AdamW, or the paper's algorithm 1, whose x the runner has.

  Args:
    h: the optimizer's numbers.
    p: name -> parameter; it and the state are replaced.
    state: name -> name -> moments, z or the sum of the weights.
    t, rate: of the step, t from 1.
    grads_at: parameters -> (loss, gradients).
  """
  b1, b2, is_free = 1 - h.one_minus_beta1, h.beta2, 'z' in state
  y = {k: b1 * p[k] + (1 - b1) * state['z'][k] for k in p} if is_free else p
  loss, grads = grads_at(y)
  weight = rate**2
  state['sum']['w'] += weight
  for k, g in grads.items():
    v = state['nu'][k] = b2 * state['nu'][k] + (1 - b2) * g**2
    scale = np.sqrt(v / (1 - b2**t)) + h.eps
    if is_free:
      move = rate * (g / scale + h.weight_decay * y[k])
      z = state['z'][k] = state['z'][k] - move
      p[k] = p[k] + weight / state['sum']['w'] * (z - p[k])
    else:
      m = state['mu'][k] = b1 * state['mu'][k] + (1 - b1) * g
      p[k] = p[k] - rate * (m / (1 - b1**t) / scale + h.weight_decay * p[k])
  return loss, grads


@BOTH
@pytest.mark.parametrize(
  'optimizer',
  (PARAMS.optimizer, ScheduleFreeAdamW(r=0.0)),
  ids=('adamw', 'free'),
)
def test_a_run_agrees_with_numpy(generation, optimizer):
  """Two cycles, a soft reset between them, all devices: step by step.

  The gradient is that of the mean over all examples that count.
  """
  params = dataclasses.replace(
    with_cycles(PARAMS, warmup_factor=0.0), optimizer=optimizer
  )
  driver = new_driver(params, generation, {4: (1.0, 0.6)})
  get = devices_of(driver).get
  p = {name: np.float64(x) for name, x in get(driver.params).items()}
  mean = np.float64(get(driver.model_state)['mean'])
  is_free, numbers = isinstance(optimizer, Averaged), numbers_in(optimizer)
  moments = ('nu',) if is_free else ('mu', 'nu')
  state = {m: {k: np.zeros_like(x) for k, x in p.items()} for m in moments}
  state |= {'sum': {'w': 0.0}, **({'z': dict(p)} if is_free else {})}
  fresh = fresh_model(driver, 0)

  def grads_at(p):
    batch = fake_benchmark.batch_of_step(driver.global_step, 'jit')
    x, y, w = (np.float64(batch[k]) for k in ('inputs', 'targets', 'weights'))
    error = (x @ p['kernel'] + p['bias'] - y) * w[:, None] * 2 / w.sum()
    loss = np.sum(error**2) * w.sum() / 4
    return loss, {'kernel': x.T @ error, 'bias': error.sum(0)}

  for t in range(8):
    if t == 4:
      tau = 1 - 0.6 / 0.8
      mean = (1 - tau) * mean + tau * fresh[1]['mean']
      state['sum']['w'] *= 1 - tau
      for blended in (p, state['z']) if is_free else (p,):
        for k in blended:
          blended[k] = (1 - tau) * blended[k] + tau * fresh[0][k]
      for m, k in itertools.product(moments, p):
        state[m][k] = (1 - tau / 2) * state[m][k]
    rate = cosine_rate(t % 4)
    loss, grads = step_by_hand(numbers, p, state, t + 1, rate, grads_at)
    inputs = fake_benchmark.batch_of_step(t, 'jit')['inputs']
    mean = 0.9 * mean + 0.1 * np.float64(inputs).mean(0)
    driver.step()
    metrics = driver.optimizer_state[0].step_metrics
    norm = np.sqrt(sum((g**2).sum() for g in grads.values()))
    found = get((driver.params, driver.model_state, metrics))
    expected = (p, {'mean': mean}, np.array([loss, norm]))
    assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_a_batch_without_a_valid_example():
  """All of it is padding: loss and gradient are 0, not 0 / 0."""

  def loss_fn(params, model_state, batch, rng):
    losses = params['w'] * batch['inputs'] * batch['weights']
    return jnp.sum(losses), (jnp.sum(batch['weights']), model_state)

  body = train_step(loss_fn, optax.sgd(0.5))
  batch = {'inputs': jnp.ones(3), 'weights': jnp.zeros(3)}
  params = {'w': jnp.float32(2.0)}
  state = optax.sgd(0.5).init(params)
  params, _, _, metrics = body(params, None, state, batch, None, lambda t: t)
  assert params['w'] == 2.0
  np.testing.assert_array_equal(metrics, [0.0, 0.0])


def fresh_model(driver, index):
  """The new initialisation of a run's reset, from the key of the run."""
  run = driver.optimizer_state[1]
  planned = len(run.config.chain.cycles) - 1
  key = jax.random.split(run.rng, planned)[index]
  workload = type(driver.workload)(driver.workload.step_hint)
  return run.devices.get(workload.init_model_fn(key))


@BOTH
def test_finish_comes_before_anything_is_donated_or_reset(generation):
  params = dataclasses.replace(PARAMS, reset=FullReset())
  driver = new_driver(params, generation)
  driver.run(until=12)
  before = host(driver.params)
  assert driver.run()
  trees = (driver.params, driver.model_state, driver.optimizer_state[0])
  leaves = jax.tree_util.tree_leaves(trees)
  assert not any(leaf.is_deleted() for leaf in leaves)
  assert_equal_trees(driver.params, before)
  assert driver.global_step == 12


@BOTH
def test_each_reset_takes_a_model_of_its_own(generation):
  # The first step of a warm-up, at a learning rate of 0, leaves them fresh.
  params = with_cycles(PARAMS, warmup_factor=0.25)
  params = dataclasses.replace(params, reset=FullReset(), repeat=True)
  driver, again = (new_driver(params, generation, {}) for _ in range(2))
  # init_model_fn of v0.5.0 replaces the model with the runner's dropout.
  driver.workload.dropout_of_model = 0.3
  attributes, kernels = dict(vars(driver.workload)), []
  # The last two are of cycles that were not planned.
  for i, boundary in enumerate((4, 8, 12, 16)):
    driver.run(until=boundary + 1)
    kernels.append(devices_of(driver).get(driver.params)['kernel'])
    assert driver.optimizer_state[1].control.chain_start == boundary
    if i < 2:
      fresh = fresh_model(driver, i)[0]['kernel']
      np.testing.assert_array_equal(kernels[i], fresh)
  assert len({kernel.tobytes() for kernel in kernels}) == 4
  assert vars(driver.workload) == attributes
  again.run(until=17)
  kernel = devices_of(again).get(again.params)['kernel']
  np.testing.assert_array_equal(kernel, kernels[-1])


def test_a_run_knows_the_steps_that_the_runner_allows(monkeypatch):
  monkeypatch.setattr('reset_cycles.core.workload.most_steps', lambda: 60.0)
  assert newly_set_up().optimizer_state[1].config.most_steps == 60


# Models that are not finite.


@BOTH
def test_a_broken_model_is_replaced_whole(generation):
  """Even with a finite loss and tau = 0 from an evaluation."""
  params = with_cycles(PARAMS, warmup_factor=0.25)
  driver = new_driver(params, generation, {4: (1.0, 0.9)})
  driver.run(until=4)
  driver.model_state = jax.tree_util.tree_map(
    lambda x: x.at[..., 0].set(INF), driver.model_state
  )
  fresh, _ = fresh_model(driver, 0)
  driver.step()
  # The first step of a warm-up, at a learning rate of 0, leaves them fresh.
  get = devices_of(driver).get
  np.testing.assert_array_equal(get(driver.params)['kernel'], fresh['kernel'])
  inner = get(driver.optimizer_state[0].opt_state.inner)
  [adam] = [x for x in inner if isinstance(x, optax.ScaleByAdamState)]
  assert adam.count == 1
  for leaf in jax.tree_util.tree_leaves((driver.model_state, adam)):
    assert np.isfinite(leaf).all()


# Batch statistics that are not those of init_model_fn.


def reshaping(generation):
  """Batch statistics get another shape and tree at step 1, as in speech."""

  def flat(state):
    return {'mean': state.get('stats', state)['mean'].reshape(-1)}

  base = fake_benchmark.WORKLOADS[generation]

  class Reshaping(base):
    def model_fn(self, params, batch, state, *rest, **named):
      logits, new = super().model_fn(params, batch, flat(state), *rest, **named)
      return logits, {'stats': {'mean': new['mean'].reshape(1, 1, -1)}}

    model_fn.__signature__ = inspect.signature(base.model_fn)

  return Reshaping()


# The statistics of the first step cannot take the place of the donated ones.
@pytest.mark.filterwarnings('ignore:Some donated buffers were not usable')
@BOTH
def test_batch_statistics_that_change_shape_at_the_first_step(
  generation, caplog
):
  """There are no fresh ones; what is not finite becomes zero."""
  driver = newly_set_up(PARAMS, reshaping(generation))
  driver.run(until=8)
  driver.model_state = jax.tree_util.tree_map(
    lambda x: x * NAN, driver.model_state
  )
  driver.step()
  assert driver.optimizer_state[1].control.cycle == 3
  # 0.9 * 0 + 0.1 * the mean of the step's inputs
  mean = devices_of(driver).get(driver.model_state)['stats']['mean']
  inputs = fake_benchmark.batch_of_step(8, 'jit')['inputs']
  expected = 0.1 * inputs.mean(0).reshape(1, 1, 6)
  np.testing.assert_allclose(mean, expected, rtol=1e-5)
  assert 'batch statistics differ in shape' in caplog.text


# As above.
@pytest.mark.filterwarnings('ignore:Some donated buffers were not usable')
@BOTH
def test_leaves_keep_their_types_through_steps_and_resets(generation):
  """But for statistics, which have those that the model gives them."""
  base = fake_benchmark.WORKLOADS[generation]
  halved = lambda tree: jax.tree_util.tree_map(
    lambda x: x.astype(jnp.bfloat16), tree
  )

  class Halves(base):
    def _init(self, rng):
      params, stats = super()._init(rng)
      return halved(params), {**stats, 'begun': jnp.bool_(False)}

    def model_fn(self, params, batch, state, *rest, **named):
      logits, new = super().model_fn(params, batch, state, *rest, **named)
      return logits, {**halved(new), 'begun': jnp.bool_(True)}

    model_fn.__signature__ = inspect.signature(base.model_fn)

  driver = newly_set_up(PARAMS, Halves(), {4: (1.0, 0.4)})
  types = lambda tree: [x.dtype for x in jax.tree_util.tree_leaves(tree)]
  before = types(driver.optimizer_state[0].opt_state.inner)
  driver.run(until=9)
  assert driver.optimizer_state[1].control.cycle == 3
  assert set(types(driver.params)) == {jnp.dtype(jnp.bfloat16)}
  assert types(driver.optimizer_state[0].opt_state.inner) == before
  assert types(driver.model_state) == [bool, jnp.bfloat16]


def test_two_runs_in_one_process_do_not_see_each_other():
  alone, together, other = (
    new_driver(),
    new_driver(),
    new_driver(dataclasses.replace(PARAMS, reset=Cyclic())),
  )
  other.workload.init_model_fn = None  # Cyclic takes no fresh model
  alone.run()
  for _ in range(12):
    together.step()
    other.step()
  assert_equal_trees(together.params, alone.params)
  assert_equal_trees(together.optimizer_state[0], alone.optimizer_state[0])


# What it costs.


def wide(generation, step_hint):
  """A workload with a table of 5,000 elements and no gradient."""

  class Wide(fake_benchmark.WORKLOADS[generation]):
    def _init(self, rng):
      params, state = super()._init(rng)
      params['table'] = jax.random.normal(rng, (100, 50))
      self.param_shapes['table'] = fake_benchmark.ShapeTuple((100, 50))
      return params, state

  return Wide(step_hint)


@pytest.mark.parametrize('run', (FINISHING, ON_TIME), ids=('finish', 'timed'))
@BOTH
def test_no_trained_model_is_copied_to_the_host(
  generation, run, reads, compilations, monkeypatch
):
  """What is read are the model's clock, metrics, and fresh models once.

  After the first step nothing is compiled but the fresh model, through resets
  and cycles; an ordinary step reads nothing.
  """
  params, _, evaluations, step_hint = run
  workload = wide(generation, step_hint)
  init, inside = workload.init_model_fn, []

  def counted(rng):
    with compilations() as compiled:
      found = jax.block_until_ready(init(rng))
    inside.append(len(compiled))
    return found

  driver = newly_set_up(params, workload, evaluations, step_hint)
  driver.run(until=1)
  copied = []

  def watched(read):
    def get(*args):
      copied.extend(jax.tree_util.tree_leaves(args[-1]))
      return read(*args)

    return get

  for home, name in ((jax, 'device_get'), (type(devices_of(driver)), 'get')):
    monkeypatch.setattr(home, name, watched(getattr(home, name)))
  workload.init_model_fn = counted
  num_quiet = outside = 0
  run = driver.optimizer_state[1]
  for step in range(2, 2 * step_hint + 1):
    first_read, first_inside, before = len(reads), len(inside), run.control
    is_ordinary = step - 1 < run.due and step - 1 not in evaluations
    assert not (is_ordinary and run.is_due(step - 1, driver.eval_results))
    with compilations() as compiled:
      driver.run(until=step)
    outside += len(compiled) - sum(inside[first_inside:])
    if is_ordinary:
      assert len(reads) == first_read and run.control is before
      num_quiet += 1
  assert outside == 0 and num_quiet >= 0.4 * driver.global_step
  assert len(inside) == run.control.cycle - 1 >= 1
  copied = [x.shape for x in copied if x.size >= 5000]
  assert set(copied) <= {(100, 50), (8, 100, 50)}
  assert len(copied) == len(inside)  # fresh ones
  # Some versions of jax ask for a value by another way, which sees them, too.
  assert len([x for x in reads if math.prod(x) >= 5000]) <= len(inside)


@pytest.mark.parametrize('params', (PARAMS, TIMED), ids=('finish', 'timed'))
@BOTH
def test_a_set_up_compiles_little(generation, params, compilations):
  workload = wide(generation, 20)
  model = workload.init_model_fn(jax.random.PRNGKey(0))
  init, *_ = make_submission(params)
  key = jax.random.PRNGKey(1)
  jax.clear_caches()
  with compilations() as compiled:
    init(workload, *model, None, key)
  assert len(compiled) <= 12


@BOTH
def test_the_step_has_no_branch(generation):
  """On a GPU the host waits for the index of a branch, at every step."""
  driver = new_driver(generation=generation)
  saved, run = driver.optimizer_state
  batch = fake_benchmark.batch_of_step(0, generation)
  arguments = (
    driver.params,
    driver.model_state,
    saved.opt_state,
    batch,
    driver.rng,
  )
  program = run.train_step.lower(*arguments).as_text()
  assert 'case' not in program.replace('"', ' ').split()
  assert 'stablehlo.case' not in program and 'conditional' not in program
