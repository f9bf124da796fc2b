"""The study of six small loops: its rows, its table, its page."""

import re

import jax
import numpy as np
import optax
import pytest

from helpers.documents import ROOT
from reset_cycles import State
from reset_cycles.research import run_logs
from reset_cycles.research.own_loop import study

LOG = ROOT / 'research' / 'own_loop' / 'runs.csv'


@pytest.mark.parametrize(
  ('name', 'metrics', 'row'),
  [
    # A target of at least .985, at the second evaluation after the start.
    ('mlp_accuracy', [0.1, 0.5, 0.985, 0.97], (32, 0.1, 0.97)),
    # Of at most .2: the untrained model does not count.
    ('mlp_loss', [0.1, 0.3, 0.4], (0, 0.1, 0.4)),
  ],
)
def test_the_row_that_a_run_adds(name, metrics, row):
  assert study.row_of(study.make_loops()[name], metrics) == row


def test_the_table_by_hand():
  """From a loss of 2.2 to the target of .2: half, three quarters, all of it."""
  lasts = {'cosine': (1.2, 0.7, 0.2), 'loop': (0.2, 0.2, 0.2)}
  rows = [
    dict(
      zip(study.FIELDS, map(str, ('mlp_loss', arm, peak, seed, hit, 2.2, x)))
    )
    for arm in study.ARMS
    for peak in study.PEAKS
    for seed, x in enumerate(lasts.get(arm, (2.2, 2.2, 2.2)))
    for hit in [480 if x == 0.2 else 0]
  ]
  none = '0.000 (0.000 to 0.000), 0'
  cells = '0.750 (0.500 to 1.000), 1', none, '1.000 (1.000 to 1.000), 3', none
  line = f'| mlp_loss | 0.0025 | {" | ".join(cells)} |'
  assert study.table(rows).splitlines()[1] == line


def test_the_page_has_the_table_of_the_log():
  """In per cent."""
  page = LOG.with_name('OWN_LOOP.md').read_text()
  percent = lambda match: f'{100 * float(match[0]):.1f}'
  lines = study.table(run_logs.read(LOG, study.FIELDS)).splitlines()
  assert len(lines) == 18
  for line in lines:
    _, name, peak, *cells, _ = line.split('|')
    shares = '|'.join(re.sub(r'-?\d\.\d+', percent, cell) for cell in cells)
    name = name.replace('_', ', ')
    assert f'|{name}|{peak}|{shares}|\n' in page


def test_the_page_counts_the_cases_of_its_table():
  """From the medians that it shows."""
  page = LOG.with_name('OWN_LOOP.md').read_text()
  rows = re.findall(r'(?m)^\| (?:mlp|cnn|transformer), .*$', page)
  medians = np.array(
    [[float(m) for m in re.findall(r'(\d+\.\d) \(', row)] for row in rows]
  )
  cosine, schedule_free, loop, soft_reset = medians.T
  more = np.maximum(cosine, schedule_free) - loop
  assert sum(more <= 0) == 16
  np.testing.assert_allclose(more[more > 0], [5.9, 2.2])
  gains = soft_reset - loop
  assert (sum(gains < 0), sum(gains > 0)) == (10, 4)
  np.testing.assert_allclose((min(gains), max(gains)), (-30.5, 3.9))
  for words in (
    '16 of 18 cases',
    '5.9 % and 2.2 %',
    '10 of 18',
    'in 4, by 3.9',
  ):
    assert words in page


@pytest.mark.parametrize('arm', ('loop', 'soft_reset'))
def test_the_cycles_step_adamw_at_the_peak_of_the_row(arm):
  """And what they train is what is evaluated: AdamW has no average."""
  loop = study.make_loops()['mlp_accuracy']
  cycles = study.cycles_of(loop, arm, 0.0025, 0)
  rates = cycles.schedule(np.arange(study.STEPS))
  assert max(rates) == pytest.approx(0.0025)
  params = loop.init(jax.random.PRNGKey(0))
  state = State(params, cycles.optimizer.init(params))
  expected = optax.adamw(0.0025).init(params)
  like = jax.tree_util.tree_structure(state.opt_state.inner)
  assert like == jax.tree_util.tree_structure(expected)
  assert cycles.eval_params(state) is params


def test_what_the_log_has_is_not_trained_again(tmp_path, monkeypatch):
  trained, log = [], tmp_path / 'log.csv'

  def metrics_of(loop, arm, peak, seed):
    trained.append((arm, peak, seed))
    return [2.0, 1.0]

  monkeypatch.setattr(study, 'metrics_of', metrics_of)
  study.train(['cnn_loss'], [3], log)
  assert len(trained) == 12
  with log.open('a') as file:
    file.write('cnn_loss,cosine,0.0')  # whoever wrote it was killed
  study.train(['cnn_loss'], [3, 4], log)
  assert trained[12:] == [(arm, peak, 4) for arm, peak, _ in trained[:12]]
  lines = log.read_text().splitlines()
  assert lines[:2] == [
    'loop,arm,peak,seed,reached,first,last',
    'cnn_loss,cosine,0.001,3,0,2.0,1.0',
  ]
  assert len(lines) == 25
