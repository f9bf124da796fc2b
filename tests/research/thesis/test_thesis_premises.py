"""Whether a figure shows what the thesis' figure shows."""

import numpy as np
import pytest

from helpers.curves_of_runs import run_table
from reset_cycles.research.thesis import premises
from reset_cycles.research.thesis import registry as thesis
from reset_cycles.research.thesis.folders import find_logs, unpacked
from reset_cycles.research.thesis.settings import RUNS
from reset_cycles.views.run_files import Losses, read_run

GOOD, FAILED = [0.0, 0.8, 0.9], [0.0, 0.02, 0.05]


def test_every_figure_has_a_premise():
  assert list(premises.PREMISES) == list(thesis.FIGURES)


# Peaks in the middle or at a share of each cycle of 100 steps.
def with_rates(*cycles):
  """A run of cycles of 100 steps: (peak, warm-up, share of it at step 60)."""
  parts = []
  for peak, warmup, later in cycles:
    rise = np.linspace(0.0, peak, warmup, endpoint=False)
    flat = np.full(40 - warmup + 20, peak)
    parts += [rise, flat, np.full(40, later * peak)]
  ends = [100 * (i + 1) for i in range(len(cycles))]
  table = run_table(*([0.1] for _ in cycles), every=100)
  rates = np.concatenate(parts)
  return table._replace(rates=rates, rate_steps=np.arange(ends[-1]))


def switched(*cycles, at=(), **more):
  """A run whose cycles with these numbers, from 1, were abandoned."""
  table = run_table(*cycles, **more)
  ends = [table.cycle_ends[i - 1] for i in at]
  return table._replace(switches=[(step, 'loss rises') for step in ends])


def with_losses(*cycles):
  """A run whose cycles have these validation losses; l is their mean so far."""
  table = run_table(*cycles)
  loss = np.concatenate(cycles)
  smoothed = np.concatenate(
    [np.cumsum(x) / np.arange(1, len(x) + 1) for x in map(np.array, cycles)]
  )
  change = np.diff(smoothed, prepend=smoothed[:1])
  for start in table.cycle_starts[1:]:
    change[start // 10] = 0.0
  return table._replace(losses=Losses(table.eval_steps, loss, smoothed, change))


def seconds(table, last):
  return table._replace(eval_times=np.linspace(0, last, len(table.eval_steps)))


FALLS, RISES = [3.0, 2.0, 1.0], [3.0, 5.0, 2.0]
FULL = run_table([0.0, 0.9], [0.1, 0.5], [0.1, 0.5], taus=[1, 1])
SOFT = run_table([0.0, 0.9], [0.85, 0.9], [0.9, 0.9], taus=[0.1, 0.1])
DEEP = run_table([0.0, 0.9], [0.3, 0.9], [0.9, 0.9], taus=[0.1, 0.1])
ALIKE, APART = [0.5, 0.6], [0.5, 0.85]
START = (FAILED, GOOD)

# Of a figure: a seed's runs that show it, and others that do not.
CASES = {
  'fig2.1': ([with_rates((1, 22, 0.5))], [with_rates((1, 5, 0.5))]),
  'fig3.1': (
    [seconds(FULL, 10.0), seconds(SOFT, 10.2)],
    [seconds(FULL, 10.0), seconds(SOFT, 10.05)],
  ),
  'fig3.3a': (
    [with_rates((2, 2, 0.5), (3, 2, 0.5), (1, 2, 0.5))],
    [with_rates((2, 2, 0.5), (2, 2, 0.5), (1, 2, 0.5))],
  ),
  'fig3.3b': (
    [run_table([0, 0.5], [0.2, 0.8], [0, 0.3])],
    [run_table([0, 0.5], [0.2, 0.8], [0.3, 0.5])],
  ),
  'fig3.3c': (
    [with_rates((1, 2, 0.5), (1, 2, 0.2), (1, 2, 0.8))],
    [with_rates((1, 2, 0.5), (1, 2, 0.5), (1, 2, 0.8))],
  ),
  'fig3.3d': (
    [run_table([0, 0.6], [0, 0.65], [0, 0.69])],
    [run_table([0, 0.6], [0, 0.65], [0, 0.71])],
  ),
  'fig3.3e': (
    [with_rates((1, 2, 0.5), (1, 20, 0.5), (1, 1, 0.5))],
    [with_rates((1, 2, 0.5), (2, 20, 0.5), (1, 1, 0.5))],
  ),
  'fig3.4a': (
    [run_table([0], ALIKE, ALIKE), run_table([0], ALIKE, [0.55, 0.7])],
    [run_table([0], ALIKE, ALIKE), run_table([0], ALIKE, APART)],
  ),
  'fig3.5': (
    [run_table(GOOD, FAILED, FAILED)],
    [run_table(GOOD, FAILED, [0.0, 0.11])],
  ),
  'fig3.6a': (
    [with_losses(FALLS, RISES, RISES)],
    [with_losses(FALLS, RISES, [3.0, 2.0, 1.0])],
  ),
  'fig3.6b': (
    [with_losses(FALLS, RISES, RISES)],
    [
      with_losses(FALLS, RISES, RISES)._replace(
        losses=Losses(np.arange(10, 91, 10), *[np.array(RISES * 3)] * 3)
      )
    ],
  ),
  'fig3.6c': (
    [with_losses(FALLS, RISES, RISES)],
    [with_losses(FALLS, FALLS, RISES)],
  ),
  'fig3.7': (
    [switched(GOOD, FAILED, FAILED, at=(2, 3))],
    [switched(GOOD, FAILED, FAILED, at=(2,))],
  ),
  'fig3.8a': ([FULL, SOFT], [FULL, FULL]),
  'fig3.9b': ([FULL, SOFT], [FULL, DEEP]),
  'fig3.10': (
    [run_table(FAILED, FAILED, taus=[0])],
    [run_table(FAILED, GOOD, taus=[0])],
  ),
  'fig3.11': (
    [run_table(*START, taus=[0.95])],
    [run_table(*START, taus=[0.85])],
  ),
}
# Others that are not shown: no first cycle that fails, none that is good, …
MORE = [
  ('fig3.5', [run_table(FAILED, FAILED, FAILED)]),
  ('fig3.6a', [with_losses(FALLS, [3.0, 0.9, 2.0], RISES)]),
  ('fig3.7', [switched(GOOD, FAILED, FAILED, at=(1, 2, 3))]),
  ('fig3.7', [switched(GOOD, FAILED, GOOD, at=(2, 3))]),
  ('fig3.10', [run_table(GOOD, FAILED, taus=[0])]),
  ('fig3.11', [run_table(FAILED, FAILED, taus=[0.95])]),
  ('fig3.11', [run_table(GOOD, GOOD, taus=[0.95])]),
]


def held(name, seeds):
  """Asks the figure's runs, of each seed a list."""
  names = thesis.FIGURES[name].runs
  runs = {
    run: [tables[i]._replace(seed=n) for n, tables in enumerate(seeds)]
    for i, run in enumerate(names)
  }
  return premises.held(name, runs)


@pytest.mark.parametrize('name', CASES)
def test_a_seed_that_shows_it_and_one_that_does_not(name):
  yes, no = CASES[name]
  assert held(name, [yes]) == (1, 1)
  assert held(name, [no]) == (0, 1)
  assert held(name, [yes, no, yes]) == (2, 3)


@pytest.mark.parametrize(('name', 'tables'), MORE)
def test_a_part_of_the_premise_is_missing(name, tables):
  assert held(name, [tables]) == (0, 1)


def test_what_is_tested_by_another_figure_of_the_same_premise():
  functions = {name: p.holds for name, p in premises.PREMISES.items()}
  tested = {functions[name] for name in CASES}
  assert set(functions.values()) == tested


def test_who_is_not_asked():
  early = run_table(GOOD, FAILED)  # its third cycle has not begun
  blind = run_table(GOOD, FAILED, FAILED)
  blind = blind._replace(
    eval_steps=blind.eval_steps[:6], metric=blind.metric[:6]
  )
  assert held('fig3.5', [[early], [blind]]) == (0, 0)
  # Nothing recovers after a cycle that was not good.
  bad = run_table([0.0, 0.3], [0.0, 0.3], [0.0, 0.3])
  assert held('fig3.8a', [[bad, bad]]) == (0, 0)
  # Seeds that all runs have.
  runs = {'peaks_full': [FULL], 'peaks_soft': [SOFT._replace(seed=2)]}
  assert premises.held('fig3.8a', runs) == (0, 0)


@pytest.mark.parametrize(
  ('seeds', 'asked', 'verdict'),
  [
    (6, 10, 'as'),
    (5, 10, 'unlike'),
    (10, 19, 'as'),
    (9, 9, 'no verdict'),
    (0, 0, 'no verdict'),
  ],
)
def test_more_than_half_of_ten_seeds_or_more(seeds, asked, verdict):
  assert premises.Held(seeds, asked).verdict == verdict


@pytest.fixture(scope='module')
def shipped():
  """All tables of the project's own logs, by workload and run."""
  found = {}
  with unpacked([thesis.LOGS]) as roots:
    for job, log_dir in find_logs(roots):
      tables = found.setdefault((job.workload, job.run), [])
      tables.append(read_run(log_dir))
  return found


# Figures that do not show on the stand-ins what the thesis' figures show.
NOT_SHOWN = {
  'fig3.3d': 'the decay makes a difference',
  'fig3.4c': 'of two seeds one recovers in as many evaluations',
  'fig3.6c': 'the loss falls in the cycles that fail, too, only less',
}
# Figures that have no verdict: their runs have fewer than ten seeds.
FEW = {'fig3.3d', 'fig3.3f', 'fig3.4b', 'fig3.4c', 'fig3.8b', 'fig3.8c'}


@pytest.mark.parametrize('name', thesis.FIGURES)
def test_the_shipped_logs_show_what_the_figure_shows(name, shipped):
  figure = thesis.FIGURES[name]
  runs = {run: shipped[figure.workload.stand_in, run] for run in figure.runs}
  found = premises.held(name, runs)
  assert found.asked == min(len(tables) for tables in runs.values())
  assert found.in_most is (name not in NOT_SHOWN), (name, str(found))
  if figure.shows != 'schedule':
    assert (found.verdict == 'no verdict') is (name in FEW)


@pytest.mark.parametrize(
  'name',
  ['fig3.5', 'fig3.6a', 'fig3.6b', 'fig3.6c', 'fig3.7', 'fig3.10', 'fig3.11'],
)
def test_the_figures_of_failed_cycles_have_ten_seeds(name, shipped):
  figure = thesis.FIGURES[name]
  for run in figure.runs:
    assert len(shipped[figure.workload.stand_in, run]) == 10
    assert run in RUNS
