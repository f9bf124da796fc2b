"""The study of growing data: what is trained, and what its tables count."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.documents import ROOT
from reset_cycles.mini_algoperf.workloads.molecules import (
  mean_average_precision,
)
from reset_cycles.research.growing import study, tables, tasks

SEEDS = range(2)


@pytest.fixture(autouse=True)
def broadcasting():
  """As in NumPy; the study is no part of what is handed in."""
  with jax.numpy_rank_promotion('allow'):
    yield


@pytest.fixture(scope='module')
def programs():
  return study.Compiled(tasks.TASKS['images_norm']())


def part_of(programs, steps=15, seeds=SEEDS):
  whole = study.parts_of(programs.task, study.CONDITIONS['stream'], seeds)[-1]
  return study.StageData(steps, whole.chosen, whole.labels, whole.test_labels)


@pytest.fixture(scope='module')
def models(programs):
  """Of 15 steps, and fresh ones."""
  # Made before `broadcasting`, since it is the module's.
  with jax.numpy_rank_promotion('allow'):
    old, new = (study._fresh(programs, SEEDS, i) for i in (0, 1))
    return study.stage(programs, old, part_of(programs), 0, SEEDS)[0], new


def leaves(tree):
  return jax.tree_util.tree_leaves(tree)


def test_a_soft_reset_is_that_of_the_thesis(programs, models):
  """Parameters and statistics by tau, moments by half of it, counts stay."""
  old, new = models
  mixed = study.begun(programs, study.Arm(0.4), old, new, [0.4, 0.4])
  for field in ('params', 'stats'):
    three = (leaves(getattr(m, field)) for m in (mixed, old, new))
    for got, a, b in zip(*three):
      np.testing.assert_allclose(got, 0.6 * a + 0.4 * b, rtol=1e-5, atol=1e-7)
  for field in ('mu', 'nu'):
    pair = (leaves(getattr(m.adam, field)) for m in (mixed, old))
    for got, a in zip(*pair):
      np.testing.assert_allclose(got, 0.8 * a, rtol=1e-6, atol=1e-12)
  assert mixed.adam.count.tolist() == [15, 15]


@pytest.mark.parametrize(
  ('arm', 'keep', 'share', 'count'),
  [
    ('go on', 1.0, 0.0, 15),
    ('go on, new optimizer', 1.0, 0.0, 0),
    ('fresh', 0.0, 1.0, 0),
    ('shrink and perturb', 0.4, 0.1, 0),
  ],
)
def test_the_other_ways_to_begin(programs, models, arm, keep, share, count):
  old, new = models
  how = study.ARMS[arm]
  got = study.begun(programs, how, old, new, [float(how.tau)] * 2)
  three = (leaves(m.params) for m in (got, old, new))
  for one, a, b in zip(*three):
    np.testing.assert_allclose(one, keep * a + share * b, rtol=1e-6, atol=1e-8)
  assert got.adam.count.tolist() == [count] * 2
  moments = max(float(jnp.abs(leaf).max()) for leaf in leaves(got.adam.mu))
  assert (moments > 0) == (count > 0)


def test_a_seed_is_trained_the_same_alone_and_beside_another(programs):
  """Seeds do not see each other; evaluations are where they should be."""
  metrics = [
    study.stage(
      programs,
      study._fresh(programs, seeds, 0),
      part_of(programs, 30, seeds),
      3,
      seeds,
    )[1]
    for seeds in ((0, 1), (1, 2), (1,))
  ]
  assert [values.shape for values in metrics] == [(2, 3), (2, 3), (1, 3)]
  assert not np.allclose(metrics[0][0], metrics[0][1], atol=0.005)
  np.testing.assert_allclose(metrics[0][1], metrics[1][0], atol=0.005)
  np.testing.assert_allclose(metrics[0][1], metrics[2][0], atol=0.005)


def test_the_data_of_the_conditions():
  task = tasks.TASKS['images']()
  count, labels = 1000, task.train[1]
  parts = {
    name: study.parts_of(task, condition, SEEDS)
    for name, condition in study.CONDITIONS.items()
  }
  sizes = {
    name: [(p.steps, p.chosen.shape[1]) for p in own]
    for name, own in parts.items()
  }
  assert sizes['10 %, short'] == [(180, 100), (360, count)]
  assert sizes['50 %, long'] == [(1080, 500), (360, count)]
  assert sizes['stream'] == [(180, n) for n in (200, 400, 600, 800, 1000)]
  assert sizes['permuted labels'] == [(180, count)] * 5
  for own in (parts['10 %, short'], parts['stream']):  # what was old stays
    small, large = own[0].chosen[1], own[1].chosen[1]
    assert set(small) < set(large)
    assert len(set(large)) == len(large)
  wrong, right = parts['wrong labels']
  share = np.mean(wrong.labels[0] != labels)
  assert 0.3 < share < 0.42  # .4, of which a tenth is right by chance
  np.testing.assert_array_equal(right.labels[0], labels)
  first, second = parts['permuted labels'][:2]
  assert np.mean(first.labels[0] == second.labels[0]) < 0.5
  names = first.labels[0][[np.argmax(labels == k) for k in range(10)]]
  np.testing.assert_array_equal(first.labels[0], names[labels])
  np.testing.assert_array_equal(first.test_labels[0], names[task.test[1]])


def test_examples_come_equally_often():
  chosen = np.array([3, 5, 8])
  order = study.order_of(1, 2, chosen, 7)
  assert sorted(np.unique(order, return_counts=True)[1]) == [2, 2, 3]
  np.testing.assert_array_equal(order, study.order_of(1, 2, chosen, 7))


def test_the_average_precision_is_that_of_the_workload():
  task = tasks.TASKS['molecules']()
  rng = np.random.default_rng(0)
  labels = task.test[1]
  logits = rng.normal(size=labels.shape).astype(np.float32)
  is_there = labels < 2
  expected = mean_average_precision(labels == 1, logits, is_there)
  assert float(task.metric(logits, labels)) == pytest.approx(expected, rel=1e-5)


def row(arm, seed, *metrics, part=1):
  return {
    **{'task': 'images', 'condition': '10 %, short', 'arm': arm},
    **{'part': part, 'seed': seed, 'tau': '0.4', 'metrics': np.array(metrics)},
  }


ROWS = [
  row('fresh', 0, 0.1, 0.5, 0.6, 0.8, 0.8),  # reaches .7 at the third of four
  row('fresh', 1, 0.1, 0.5, 0.6, 0.6, 0.6),  # never
  row('go on', 0, 0.9, 0.7, 0.6, 0.6, 0.6),  # at the first, and falls again
  row('go on', 1, 0.1, 0.2, 0.3, 0.4, 0.9),  # at the last
]


def test_costs_are_counted_from_the_first_step():
  """The target is .7, the median of the fresh models' last metrics."""
  results = tables.results_of(ROWS)
  key = 'images', '10 %, short'
  assert results[(*key, 'fresh')].costs.tolist() == [0.75, tables.NEVER]
  assert results[(*key, 'go on')].costs.tolist() == [0.25, 1.0]
  assert results[(*key, 'fresh')].reached == 1
  mean = tables.cost(results, ['images'], 'go on')
  assert mean == pytest.approx(0.5)


def test_the_tally_of_pairs():
  """Going on is sooner on both seeds, and ends better on one."""
  results = tables.results_of(ROWS)
  lines = tables.summary(results, ['images'], has_chains=False)
  told = {line.split('|')[1].strip(): line for line in lines}
  cells = [cell.strip() for cell in told['go on'].split('|')[1:-1]]
  assert cells == ['go on', '2 of 2', '0.41', '2 : 0', '1 : 1', '', '']


@pytest.fixture(scope='module')
def shipped():
  return tables.results_of(study.read(tables.LOG))


def test_the_page_has_the_tables_of_the_log(shipped):
  folder = ROOT / 'research' / 'growing'
  pages = [
    (folder / name).read_text(encoding='utf-8')
    for name in ('GROWING_DATA.md', 'ARMS.md')
  ]
  assert tables.by_set(shipped).rstrip() in pages[0]
  assert tables.by_task(shipped).rstrip() in pages[1]


def test_nothing_is_missing_in_the_log(shipped):
  for task in (*study.SELECTION, *study.HELD_OUT):
    for name, condition in study.CONDITIONS.items():
      for arm in study.arms_of(condition):
        assert len(shipped[task, name, arm].costs) == 10
