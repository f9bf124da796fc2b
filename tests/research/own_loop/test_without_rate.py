"""The study without a rate: its runs, its tables, its page."""

import gzip
import io
import sys
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from PIL import Image

from helpers.documents import ROOT
from reset_cycles.research import real_data, run_logs
from reset_cycles.research.own_loop import (
  networks,
  rate_tables,
  step_times,
  without_rate,
)
from reset_cycles.research.own_loop.networks import Network
from reset_cycles.research.own_loop.without_rate import Run

STEPS = 30


def scores(params, batch):
  """The mean of (w x - 2 x)^2, and a tenth of it."""
  loss = jnp.mean(jnp.square(batch @ params['w'] - 2 * batch))
  return loss, loss / 10


def small(folder):
  del folder
  return Network(
    init=lambda key: {'w': jax.random.normal(key, (2, 2))},
    scores=scores,
    draw=lambda data, key: data + jax.random.normal(key, (4, 2)),
    data=jnp.float32(0.5),
    test=jnp.ones((1, 2)),
    steps=STEPS,
    is_small=True,
  )


@pytest.fixture
def promoted():
  """Biases are added to batches, as research does."""
  with jax.numpy_rank_promotion('allow'):
    yield


@pytest.fixture
def tiny(promoted, monkeypatch):
  monkeypatch.setitem(without_rate.NETWORKS, 'tiny', small)
  without_rate.network_of.cache_clear()
  without_rate._program.cache_clear()


def test_a_run_beside_its_twin(tiny, tmp_path):
  """AdamW at the peak times the cosine, on the batches of the run's seed."""
  untrained, losses, tenths = without_rate.curves_of(
    Run('tiny', 'adamw', 0.1, 3), tmp_path
  )
  network = small(None)
  w = network.init(jax.random.PRNGKey(1003))
  assert untrained == pytest.approx(scores(w, network.test)[0])
  rates = [0.1 * (1 + np.cos(np.pi * (t - 1) / 29)) / 2 for t in range(STEPS)]
  tx = lambda rate: optax.adamw(rate, weight_decay=0.08121616522670176)
  state, expected = tx(0.0).init(w), []
  for t, rate in enumerate([0.0, *rates[1:]]):
    key = jax.random.fold_in(jax.random.PRNGKey(3), t)
    grad = jax.grad(lambda w, x: scores(w, x)[0])(w, network.draw(0.5, key))
    updates, state = tx(rate).update(grad, state, w)
    w = optax.apply_updates(w, updates)
    expected.append(float(scores(w, network.test)[0]))
  np.testing.assert_allclose(losses, expected, rtol=1e-4)
  np.testing.assert_allclose(tenths, np.asarray(losses) / 10, rtol=1e-6)


@pytest.mark.parametrize('arm', ('ours', 'one_cycle', 'optax_muon', 'wsd'))
def test_the_arms_train(tiny, tmp_path, arm):
  number = without_rate.ARMS[arm][-1]
  untrained, losses, _ = without_rate.curves_of(
    Run('tiny', arm, number, 0), tmp_path
  )
  assert losses[-1] < 0.8 * untrained


def test_the_rate_over_its_peak():
  """Of 100 steps: two up, and the last tenth of the other 98 down."""
  falling, cosine = without_rate.falling(100), without_rate.cosine(100)
  found = [float(falling(t)) for t in (0, 1, 2, 90, 95, 100)]
  np.testing.assert_allclose(found, [0, 0.5, 1, 1, 0.5, 0], atol=1e-6)
  found = [float(cosine(t)) for t in (0, 1, 2, 51, 100)]
  np.testing.assert_allclose(found, [0, 0.5, 1, 0.5, 0], atol=1e-6)


def test_one_cycle_is_the_last_of_the_default():
  network = small(None)._replace(steps=100)
  rates = without_rate.cycles_of(network, 'one_cycle', 0.0).schedule(
    np.arange(100)
  )
  # Two steps up; the last tenth of the other 98 is down.
  shares = np.asarray(rates) / np.max(np.asarray(rates))
  expected = [0, 0.5, 1, 1, 5 / 9.8, 1 / 9.8]
  np.testing.assert_allclose(shares[[0, 1, 2, 90, 95, 99]], expected, 1e-5)


def rows_of(network, ends):
  """Rows of a log, of which each run has four tests."""
  return [
    dict(
      zip(
        without_rate.FIELDS,
        (network, arm, str(number), str(seed), '4.2', curve, curve),
      )
    )
    for (arm, number, seed), curve in ends.items()
  ]


def test_the_tables_by_hand(monkeypatch):
  """A loss from 4.2 to a target of .2; AdamW ends best at .03."""
  ends = {
    ('adamw', 0.03, 0): '2 1 0.3 0.1',
    ('adamw', 0.03, 1): '2 1 0.5 0.1',
    ('adamw', 0.01, 0): '2 1 0.2 0.15',
    ('adamw', 0.01, 1): '2 1 0.2 0.15',
    ('schedule_free', 0.01, 0): '2 1 1 1',
    ('schedule_free', 0.03, 0): '2 2 2 2',
    ('optax_muon', 0.1, 0): '2 1 1 1',
    ('optax_muon', 0.03, 0): '2 2 2 2',
    ('wsd', 0.03, 0): '0 0 0 0',  # not at all its peaks: not shown
    ('ours', 0.0, 0): '2 0.2 0.1 0.05',
    ('one_cycle', 0.0, 0): '2 1 1 0.2',
    ('cycles', 0.0, 0): '2 1 1 0.22',
  }
  monkeypatch.setattr(rate_tables, '_PEAKS', 2)
  rows = rows_of('mlp', ends)
  line = rate_tables.table(rows).splitlines()[3]
  assert line == (
    '| mlp by loss, 0.200, 1 | 0.100, 0.75 (0.03, 0.01) '
    '| 1.000, never (0.01, 0.01) | 1.000, never (0.1, 0.1) |  |  '
    '| 0.050, 0.50 | 0.200, 1.00 | 0.220, never |'
  )
  # The best rival ends at .1; .2 is 2.5 % of the way of 4 worse.
  loss = rate_tables.summary(rows, ['mlp by loss']).splitlines()[2:]
  assert loss == [
    '| `schedule_free_muon` | 0.67 (0.67) in 1 loops | none |',
    '| the same in one cycle | 1.33 (1.33) in 1 loops | mlp by loss: 2.5 % |',
    '| `Cycles()` | never in mlp by loss | mlp by loss: 3.0 % |',
  ]


def test_the_target_of_a_larger_network():
  """What AdamW at its best end has at three quarters of its run."""
  curves = {
    ('adamw', 0.03, 0): '2 1 0.3 0.1',
    ('adamw', 0.01, 0): '2 1 0.2 0.15',
  }
  rows = rows_of('tox21', curves)
  assert rate_tables.loop_of(rows, 'Tox21 by loss').target == 0.3
  # The loss .2 is at most .3 as early as .3 is: that of the best end is taken.
  run = Run('tox21', 'adamw', 0.0, 1)
  assert rate_tables.best_of_seed_0(rows, run) == (0.03, 0.03)


def test_a_peak_that_seed_0_alone_has_is_not_the_best():
  """The median of two seeds, .2, is above the .15 of one."""
  curves = {
    ('adamw', 0.03, 0): '2 1 0.3 0.1',
    ('adamw', 0.03, 1): '2 1 0.5 0.3',
    ('adamw', 0.01, 0): '2 1 0.2 0.15',
  }
  loop = rate_tables.loop_of(rows_of('tox21', curves), 'Tox21 by loss')
  assert loop.best_end('adamw') == loop.best_reached('adamw') == 0.03
  assert loop.last('adamw', 0.03) == pytest.approx(0.2)


def test_what_the_log_has_is_not_trained_again(tmp_path, monkeypatch):
  trained, log = [], tmp_path / 'log.csv'

  def curves_of(run, folder):
    trained.append(run)
    return 4.2, [1.0, run.number], [0.5, 0.5]

  monkeypatch.setattr(without_rate, 'curves_of', curves_of)
  runs = without_rate.runs_of(['tox21'], ['adamw'], [0, 1])
  without_rate.train(runs, tmp_path, log)
  without_rate.train(runs, tmp_path, log)
  # Seed 1 only where seed 0 has ended best.
  assert [(run.number, run.seed) for run in trained] == [
    *((number, 0) for number in without_rate.PEAKS),
    (0.0003, 1),
  ]
  assert log.read_text().splitlines()[:2] == [
    'network,arm,number,seed,untrained,losses,accuracies',
    'tox21,adamw,0.0003,0,4.2000,1.0000 0.0003,0.5000 0.5000',
  ]


def test_the_rows_and_the_tables_of_the_times(tmp_path):
  seconds = {
    'adamw': np.array([0.002, 0.002, 0.004]),
    'ours': np.array([0.002, 0.004, 0.016]),
    'schedule_free': np.array([0.002, 0.002, 0.004]),
    'optax_muon': np.array([0.004, 0.004, 0.008]),
  }
  rows = step_times.rows_of('cnn', seconds)
  assert rows == [
    ['cnn', 'ours', '3', '2.000', '1.500', '2.000', '3.000'],
    ['cnn', 'schedule_free', '3', '2.000', '1.000', '1.000', '1.000'],
    ['cnn', 'optax_muon', '3', '2.000', '2.000', '2.000', '2.000'],
  ]
  rows.append(['dense_128_512', *rows[0][1:]])
  log = tmp_path / 'log.csv'
  run_logs.append(log, step_times.FIELDS, rows)
  timed = run_logs.read(log, step_times.FIELDS)
  assert step_times.network_table(timed).splitlines()[2:] == [
    '| cnn | 2.00 | 2.00 (1.50 to 3.00) | 1.00 (1.00 to 1.00) '
    '| 2.00 (2.00 to 2.00) |'
  ]
  assert step_times.grid_table(timed).splitlines()[2:] == [
    '| 32 |  |  |  |  |',
    '| 128 |  |  | 2.00 ms, 2.00 (1.50 to 3.00) |  |',
    '| 512 |  |  |  |  |',
    '| 1024 |  |  |  |  |',
  ]


def test_the_readers_of_real_data(tmp_path, monkeypatch):
  with zipfile.ZipFile(tmp_path / 'cifar10.zip', 'w') as archive:
    for name, shade in (('train/cat/1', 255), ('train/ant/2', 0)):
      image = io.BytesIO()
      Image.new('RGB', (32, 32), (shade,) * 3).save(image, 'jpeg')
      archive.writestr(f'{name}.jpg', image.getvalue())
      archive.writestr(name.replace('train', 'test') + '.jpg', image.getvalue())
  (pixels, labels), _ = real_data.pictures(tmp_path)
  assert labels.tolist() == [0, 1]  # ant, cat
  np.testing.assert_allclose(pixels[:, 0, 0, 0], [-1.88, 2.12], rtol=1e-6)
  (tmp_path / 'train.en.gz').write_bytes(gzip.compress(b'abca'))
  (tmp_path / 'val.en.gz').write_bytes(gzip.compress(b'zc'))
  train, test, symbols = real_data.captions(tmp_path)
  assert (train.tolist(), test.tolist(), symbols) == ([0, 1, 2, 0], [3, 2], 4)
  monkeypatch.setitem(sys.modules, 'rdkit', None)
  with pytest.raises(ValueError, match='rdkit is not installed'):
    real_data.molecules(tmp_path)


def test_a_bond_is_heard_and_an_unknown_label_counts_for_nothing(
  promoted, tmp_path, monkeypatch
):
  atoms = real_data.MOST_ATOMS
  numbers = np.zeros((20, atoms), np.int32)
  numbers[:, :2] = 6, 8
  bonds = np.zeros((20, 4, atoms, atoms), np.uint8)
  bonds[:, 1, 0, 1] = bonds[:, 1, 1, 0] = 1
  features = np.zeros((20, atoms, 7), np.float32)
  labels = np.full((20, 12), -1)
  labels[:, 0] = 1
  molecules = lambda folder: ((numbers, features, bonds), labels)
  monkeypatch.setattr(real_data, 'molecules', molecules)
  network = networks.tox21(tmp_path)
  params = network.init(jax.random.PRNGKey(0))
  loss = lambda batch: float(network.scores(params, batch)[0])
  (x, y), other = network.test, network.test[1].copy()
  assert len(y) == 2
  other = other.at[:, 1].set(0)
  assert loss((x, y)) != loss((x, other))
  none = (x[0], x[1], jnp.zeros_like(x[2]))
  assert loss((x, y)) != loss((none, y))
  # Of one known label: softplus of minus its logit.
  rest = params['out'][1]
  only = {
    **params,
    'out': [
      params['out'][0],
      jax.tree_util.tree_map(lambda leaf: leaf.at[..., 1:].set(9.0), rest),
    ],
  }
  assert float(network.scores(only, (x, y))[0]) == pytest.approx(loss((x, y)))


def test_the_page_has_the_tables_of_the_log():
  page = (ROOT / 'research' / 'own_loop' / 'OWN_LOOP.md').read_text()
  rows = run_logs.read(without_rate.LOG, without_rate.FIELDS)
  assert rate_tables.table(rows) in page
  assert rate_tables.summary(rows) in page
  timed = run_logs.read(step_times.LOG, step_times.FIELDS)
  assert step_times.grid_table(timed) in page
  assert step_times.network_table(timed) in page
