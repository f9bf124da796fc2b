"""The grid of tasks, lengths and shares: its tasks, a run, and its table."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from helpers import reference
from reset_cycles.core.forms import Kind
from reset_cycles.research import run_logs
from reset_cycles.research.peaks import study, tables, tasks
from reset_cycles.research.peaks.study import Arm, Run
from reset_cycles.research.peaks.tasks import Task

STEPS = 30


def square(folder):
  """The mean of (w x - 2 x)^2 over a batch of four numbers."""
  del folder
  return Task(
    init=lambda key: {'w': jnp.full((2, 2), 1.0)},
    loss=lambda params, x: jnp.mean(jnp.square(x @ params['w'] - 2 * x)),
    draw=lambda data, key, size=4: data + jax.random.normal(key, (size, 2)),
    data=jnp.float32(0.5),
    test=jnp.ones((1, 2)),
  )


@pytest.fixture
def promoted():
  """Biases are added to batches, as research does."""
  with jax.numpy_rank_promotion('allow'):
    yield


@pytest.fixture
def small(monkeypatch):
  monkeypatch.setitem(tasks.TASKS, 'square', square)
  study._task.cache_clear()
  study._program.cache_clear()


@pytest.mark.parametrize('coherence', (0.0, 1.0))
def test_a_run_beside_its_twin(small, monkeypatch, tmp_path, coherence):
  """Losses of the average, tested after each step of a run of thirty."""
  optimizer = dataclasses.replace(
    study.ARMS['share'].optimizer,
    inner=dataclasses.replace(
      study.ARMS['share'].optimizer.inner, coherence=coherence
    ),
  )
  monkeypatch.setitem(study.ARMS, 'ours', Arm(optimizer, (0.1,)))
  untrained, losses = study.losses_of(
    Run('square', STEPS, 'ours', 0.1, 3), tmp_path
  )
  assert untrained == 0.0  # 2 - 2: rows of w add up to 2
  # The peak: .1 of rms(w) sqrt(fan in).
  peak = 0.1 * np.sqrt(2)
  rates = [
    peak
    * min(1, (t + 1) / (0.02 * STEPS))
    * min(1, (1 - (t + 1) / STEPS) / 0.1)
    for t in range(STEPS)
  ]
  task, key = square(None), jax.random.PRNGKey(3)
  at = optimizer.gradient_point
  w, state = {'w': jnp.full((2, 2), 1.0)}, None
  tx = lambda rate: optimizer.build(study.Step(rate, forms=FORMS))
  state = tx(0.0).init(w)
  expected, grads = [], []

  @jax.jit
  def step(w, state, t, rate):
    batch = task.draw(task.data, jax.random.fold_in(key, t))
    grad = jax.grad(task.loss)(at(state, w), batch)
    updates, state = tx(rate).update(grad, state, w)
    return optax.apply_updates(w, updates), state, grad

  for t, rate in enumerate(rates):
    w, state, grad = step(w, state, t, rate)
    grads.append([np.asarray(grad['w'])])
    expected.append(float(task.loss(w, task.test)))
  np.testing.assert_allclose(losses, expected, rtol=1e-3, atol=1e-6)
  numbers = reference.numbers_in(optimizer)
  twin = reference.muon([np.ones((2, 2))], grads, rates, numbers, [(2, 2)])
  np.testing.assert_allclose(w['w'], twin[-1][1][0], rtol=1e-3, atol=1e-4)


FORMS = study.forms_of(square(None), {'w': jnp.ones((2, 2))})


def test_the_share_of_the_law(small, monkeypatch, tmp_path):
  """The whole share up to 300 steps, half of it at four times as many."""
  peaks, sizes = [], set()

  def train(data, carry, key, ends, steps, peak, size, epochs):
    assert epochs == 1.0
    peaks.append(peak)
    sizes.add(size)
    return carry, 0.0

  carry = {'w': jnp.ones((2, 2))}, None
  monkeypatch.setattr(
    study, '_program', lambda *_: (lambda key: (carry, 0.0), train)
  )
  for steps in (100, 300, 1200):
    study.losses_of(Run('square', steps, 'law', 0.16, 0), tmp_path)
  study.losses_of(Run('square', 1200, 'share', 0.16, 0), tmp_path)
  size = np.sqrt(2)  # rms(w) sqrt(fan in)
  expected = [0.16 * size, 0.16 * size, 0.08 * size, 0.16 * size]
  np.testing.assert_allclose(peaks[::30], expected)
  assert [*sizes] == pytest.approx([size])


def test_the_weight_decay_by_the_epochs(small, monkeypatch, tmp_path):
  """Three epochs: a weight decay three times as strong. Endless data: as is.

  With an embedding, which takes more than that, losses are others.
  """
  few = lambda folder: square(folder)._replace(steps_per_epoch=STEPS / 3)
  monkeypatch.setitem(tasks.TASKS, 'few', few)
  table = lambda folder: few(folder)._replace(
    init=lambda key: {name: jnp.full((2, 2), 0.5) for name in ('table', 'w')},
    loss=lambda params, x: square(folder).loss({'w': sum(params.values())}, x),
    tables=('table',),
  )
  monkeypatch.setitem(tasks.TASKS, 'table', table)
  law = study.ARMS['law'].optimizer
  inner = dataclasses.replace(law.inner, weight_decay=3 * 0.3)
  stronger = dataclasses.replace(law, inner=inner)
  monkeypatch.setitem(study.ARMS, 'stronger', Arm(stronger, (0.16,), 300))
  ends = {
    (name, arm): study.losses_of(Run(name, STEPS, arm, 0.16, 3), tmp_path)[1]
    for name in ('square', 'few', 'table')
    for arm in ('law_without_epochs', 'law', 'stronger')
  }
  assert ends['square', 'law'] == ends['square', 'law_without_epochs']
  found, expected = ends['few', 'law'], ends['few', 'stronger']
  np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)
  apart = lambda a, b: np.abs(np.subtract(ends[a], ends[b])).max()
  assert apart(('few', 'law'), ('few', 'law_without_epochs')) > 1e-3
  assert apart(('table', 'law'), ('table', 'stronger')) > 1e-3


def test_a_chain_of_cycles_in_a_loop(small, monkeypatch, tmp_path):
  """The decay is told the epochs where an arm has them, and data an end."""
  few = lambda folder: square(folder)._replace(steps_per_epoch=STEPS / 10)
  monkeypatch.setitem(tasks.TASKS, 'few', few)
  ends = {
    (name, arm): study.losses_of(Run(name, STEPS, arm, 0.16, 3), tmp_path)
    for name in ('square', 'few')
    for arm in ('chain_without_epochs', 'chain')
  }
  untrained, losses = ends['square', 'chain_without_epochs']
  assert untrained == 0.0 and len(losses) == 30 and min(losses) > 0
  without = ends['few', 'chain_without_epochs']
  assert ends['square', 'chain'] == ends['square', 'chain_without_epochs']
  assert without == ends['square', 'chain_without_epochs']
  apart = np.subtract(ends['few', 'chain'][1], losses)
  assert np.abs(apart).max() > 1e-3


@pytest.mark.parametrize(
  ('arm', 'decay'), (('adamw', 0.01), ('adamw_decay_1', 1.0))
)
def test_adamw_has_one_cosine(small, tmp_path, arm, decay):
  run = Run('square', STEPS, arm, 0.01, 3)
  losses = study.losses_of(run, tmp_path)[1]
  task, key = square(None), jax.random.PRNGKey(3)
  w = {'w': jnp.full((2, 2), 1.0)}
  schedule = lambda t: (
    0.01 * (0.5 * (1 + np.cos(np.pi * ((t + 1) / STEPS - 0.02) / 0.98)))
  )
  tx = optax.adamw(schedule, weight_decay=decay)
  state, expected = tx.init(w), []
  for t in range(STEPS):
    batch = task.draw(task.data, jax.random.fold_in(key, t))
    updates, state = tx.update(jax.grad(task.loss)(w, batch), state, w)
    w = optax.apply_updates(w, updates)
    expected.append(float(task.loss(w, task.test)))
  np.testing.assert_allclose(losses, expected, rtol=1e-3, atol=1e-6)


def test_what_is_trained_is_not_trained_again(small, tmp_path, monkeypatch):
  log = tmp_path / 'runs.csv'
  runs = [Run('square', STEPS, 'adamw', peak, 0) for peak in (0.01, 0.03)]
  study.train(runs[:1], tmp_path, log)
  first = log.read_bytes()
  monkeypatch.setattr(study, 'losses_of', lambda *_: (1.0, [0.5, 0.25]))
  study.train(runs, tmp_path, log)
  assert log.read_bytes() == first + (
    b'square,30,adamw,0.03,0,1.0000,0.5000 0.2500\n'
  )


def rows():
  """Untrained 3; the best share ends at 1, AdamW at 1.2, and .08 as below."""
  curves = {
    ('share', 0.02): '2.0 1.5 1.4 1.0',
    ('share', 0.08): '1.8 1.6 1.5 1.4',
    ('law', 0.16): '1.6 1.2 1.0 0.9',
    ('adamw', 0.001): '2.5 2.0 1.5 1.3',
    ('adamw', 0.01): '2.5 2.0 1.5 1.2',
  }
  return [
    dict(zip(study.FIELDS, ('square', '300', arm, str(number), '0', '3', text)))
    for arm in ('share', 'law', 'adamw')
    for number in study.ARMS[arm].numbers
    for text in [curves.get((arm, number), '2.9 2.8 2.7 2.6')]
  ]


def test_a_cell_by_hand():
  (cell,) = tables.cells(rows())
  share, law, adamw = ('share', 0.08), ('law', 0.16), ('adamw', 0.01)
  assert cell.best('share') == ('share', 0.02)
  assert cell.best('adamw') == adamw
  assert cell.over(share, ('share', 0.02)) == pytest.approx(0.4 / 2)
  assert cell.over(law, ('share', 0.02)) == pytest.approx(-0.1 / 2)
  assert cell.over(law, ('adamw', 0.001)) == pytest.approx(-0.4 / 1.7)
  assert cell.reaches(share, adamw) is None
  assert cell.reaches(law, adamw) == 2 / 4
  log_rows = [[*row.values()] for row in rows()]
  assert len(log_rows[0]) == len(study.FIELDS)


def test_the_table_by_hand(tmp_path):
  log = tmp_path / 'runs.csv'
  whole = [[*row.values()] for row in rows()]
  partial = [['square', '600', *row[2:]] for row in whole[1:]]
  run_logs.append(log, study.FIELDS, [*whole, *partial])
  assert tables.table(log).splitlines()[2:] == [
    '| square | 300 | 1.000 (0.02) | 1.200 (0.01) | +20.0 %, never '
    '| -5.0 %, 0.50 |'
  ]


def test_the_table_of_seeds_by_hand(tmp_path):
  log = tmp_path / 'runs.csv'
  assert tables.seeds(log) == ''
  of_seeds = [[*row.values()] for row in rows()]
  for arm, number, text in (
    ('law', 0.16, '2.0 1.8 1.6 1.2'),
    ('adamw', 0.001, '2.5 2.0 1.5 0.9'),  # 0.01 is the best of seed 0
    ('adamw', 0.01, '2.5 2.0 1.5 1.0'),
  ):
    of_seeds.append(['square', 300, arm, number, 1, '3', text])
  for seed in (1, 2):  # without seed 0 there is no peak to compare at
    for arm, number in (('law', 0.16), ('adamw', 0.01)):
      of_seeds.append(['cube', 300, arm, number, seed, '3', '2.0 1.0'])
  # A seed without that peak does not count.
  for arm, number in (('law', 0.16), ('adamw', 0.001)):
    of_seeds.append(['square', 300, arm, number, 2, '3', '2.0 1.0'])
  of_seeds.append(['square', 600, 'law', 0.16, 0, '3', '2.0 1.0'])
  run_logs.append(log, study.FIELDS, of_seeds)
  # By seed: +.3 / 1.8 and -.2 / 2, after 2 of 4 tests and never.
  assert tables.seeds(log).splitlines()[2:] == [
    '| square | 300 | 2 | +3.3 [-10.0, +16.7] % | 1 | never |'
  ]
  # The grid itself is of seed 0.
  assert len(tables.table(log).splitlines()) == 3


def test_the_table_of_all_arms_over_seeds_by_hand(tmp_path):
  """Best in the median of three seeds: a share of .02, a peak of .01."""
  log = tmp_path / 'runs.csv'
  assert tables.over_seeds(log) == ''
  ends = {
    ('share', 0.02): (1.5, 1.0, 1.25),
    ('share', 0.04): (0.5, 2.0, 2.0),  # lowest of all, with seed 0
    ('adamw', 0.003): (1.0, 2.5, 2.5),
    ('adamw', 0.01): (2.0, 1.5, 2.0),
    ('law', 0.16): (1.5, 1.25, 1.5),
  }
  of_seeds = [
    ['square', 300, name, number, seed, '4', f'3.0 {loss}']
    for name in ('share', 'adamw', 'law')
    for number in study.ARMS[name].numbers
    for seed, loss in enumerate(ends.get((name, number), (3.0, 3.0, 3.0)))
  ]
  partial = [['square', 600, *row[2:]] for row in of_seeds if row[3] != 0.005]
  run_logs.append(log, study.FIELDS, [*of_seeds, *partial])
  # By seed: 0, .25 / 3, .25 / 2.75; .5 / 2, .25 / 2.5, .5 / 2.
  assert tables.over_seeds(log).splitlines()[2:] == [
    '| square | 300 | 3 | 1.250 (0.02) | 2.000 (0.01) | 1.500 '
    '| +8.3 [+0.0, +9.1] % | +25.0 [+10.0, +25.0] % |'
  ]


def test_the_table_of_few_data_by_hand(tmp_path):
  """Medians of 1 to 3 seeds; AdamW at what is best with seed 0."""
  log, grid = tmp_path / 'few.csv', tmp_path / 'runs.csv'
  ends = (
    *(('law', 0.16, 0, 1.25), ('law', 0.16, 1, 1.5)),
    *(('law', 0.16, 2, 1.75), ('adamw_decay_1', 0.01, 0, 1.75)),
    *(('adamw_decay_1', 0.03, 0, 2.5), ('adamw_decay_1', 0.01, 1, 2.25)),
    ('chain', 0.16, 0, 1.625),
  )
  run_logs.append(
    log,
    study.FIELDS,
    [['images', 1500, *run[:3], '3', f'2.0 {run[3]}'] for run in ends],
  )
  of_grid = (
    ('law_without_epochs', 0.16, 0, 2.0),
    ('adamw', 0.01, 0, 1.875),
  )
  run_logs.append(
    grid,
    study.FIELDS,
    [['images', 1500, *run[:3], '3', f'2.0 {run[3]}'] for run in of_grid],
  )
  assert tables.few(log, grid).splitlines()[2:] == [
    '| images | 1,500 | 4.8 | 2.000 [1.750, 2.250], 2 seeds | 2.000 '
    '| 1.500 [1.250, 1.750], 3 seeds |  | 1.625 |'
  ]


def test_the_table_has_the_epochs_of_the_tasks(promoted):
  """Of made-up data: the others need a folder of data."""
  for name in ('labels_of_2k', 'regression_of_8k', 'clicks_of_32k'):
    found = tasks.FEW[name](None).steps_per_epoch
    assert found == tables._STEPS_PER_EPOCH[name]
  assert tables._STEPS_PER_EPOCH.keys() == tasks.FEW.keys() | {*tasks.REAL}


def test_what_was_tried_by_hand(tmp_path):
  log, tried = tmp_path / 'runs.csv', tmp_path / 'tried.csv'
  text = '2.0 1.25'
  cells = (('noisy_labels', 1500), ('images', 300))
  run_logs.append(
    log,
    study.FIELDS,
    [[task, steps, 'law', 0.16, 0, '3', text] for task, steps in cells],
  )
  names = ('what', 'task', 'steps', 'seed', 'untrained', 'loss')
  row = ['rest 1', 'images', 300, 0, '3', '1.5004']
  run_logs.append(tried, names, [row])
  assert tables.tried(tried, log).splitlines()[2:] == [
    '| the law | 1.250 |  |  |  |  |  |  | 1.250 |',
    '| rest 1 |  |  |  |  |  |  |  | 1.500 |',
  ]
  assert tables.tried_on_few(tried).splitlines()[2:] == [
    '| rest 1 |  |  |  |  |  |  |  |  |'
  ]


def test_the_page_has_the_table_of_the_log():
  page = study.LOG.with_name('PEAKS.md').read_text()
  assert tables.table(study.LOG) in page
  assert tables.seeds(study.LOG) in page
  assert tables.over_seeds(study.LOG) in page
  assert tables.few(study.LOG.with_name('few.csv'), study.LOG) in page
  assert tables.tried_on_few(study.LOG.with_name('few_tried.csv')) in page
  log = study.LOG.with_name('tried.csv')
  assert tables.tried(log, study.LOG) in page


@functools.cache
def task_of(name):
  return tasks.TASKS[name](None)


@pytest.mark.parametrize(
  ('name', 'untrained'),
  [('noisy_labels', 10), ('markov_chain', 32), ('clicks', 2)],
)
def test_a_task(promoted, name, untrained):
  """Batches of one key are equal; a constant guess has the loss of chance."""
  task = task_of(name)
  draw = jax.jit(task.draw)
  first, again, other = (
    draw(task.data, jax.random.PRNGKey(seed)) for seed in (0, 0, 1)
  )
  leaves = jax.tree_util.tree_leaves
  assert all(np.array_equal(a, b) for a, b in zip(leaves(first), leaves(again)))
  assert not np.array_equal(leaves(first)[0], leaves(other)[0])
  params = jax.jit(task.init)(jax.random.PRNGKey(0))
  assert all(np.isfinite(leaf).all() for leaf in leaves(params))
  assert any(np.any(leaf) for leaf in leaves(params))
  zeros = jax.tree_util.tree_map(np.zeros_like, params)
  assert float(jax.jit(task.loss)(zeros, first)) == pytest.approx(
    np.log(untrained), rel=1e-4
  )


def test_few_data_are_drawn_again_and_again():
  """Of four examples, batches of three have no other ones."""
  task = tasks.few(square(None), 4, 3)
  known = {row.tobytes() for row in np.asarray(task.data)}
  batches = [task.draw(task.data, jax.random.PRNGKey(i)) for i in range(20)]
  assert {batch.shape for batch in batches} == {(3, 2)}
  found = {row.tobytes() for batch in batches for row in np.asarray(batch)}
  assert found == known and len(known) == 4
  assert task.steps_per_epoch == 4 / 3


def test_tables_are_no_matrices(promoted):
  task = task_of('clicks')
  kinds = study.forms_of(task, jax.eval_shape(task.init, jax.random.PRNGKey(0)))
  assert [kind.kind for kind in kinds] == [
    Kind.VECTOR,
    Kind.MATRIX,
    Kind.VECTOR,
    Kind.MATRIX,
    Kind.VECTOR,
    Kind.VECTOR,
    Kind.TABLE,
  ]
