"""The best chain, in sample and on left-out workloads."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from reset_cycles.studies.chains import board as board_lib
from reset_cycles.studies.chains import outcomes
from reset_cycles.studies.chains.board import Board
from reset_cycles.studies.chains.outcomes import Links, Outcomes
from reset_cycles.studies.chains.runs import by_point
from reset_cycles.studies.chains.search import ChainSearch, Choice, Scope
from reset_cycles.studies.chains.settings import read_list
from reset_cycles.studies.real_runs import reading

INF = np.inf
SETTINGS, BASE = 4, ('criteo1tb', 'fastmri', 'ogbg')
VARIANTS = ('fastmri_tanh', 'ogbg_model_size')


@pytest.fixture
def board():
  names = (*BASE, *VARIANTS)
  return Board(
    {'entry': dict.fromkeys(names, 40.0)},
    BASE,
    VARIANTS,
    dict.fromkeys(names, 100.0),
  )


@pytest.fixture(params=range(3))
def links(request):
  """Random runs under two policies."""
  rng = np.random.default_rng(request.param)
  found = []
  for _ in range(2):
    seconds = rng.uniform(1, 100, size=(SETTINGS, 5, 3))
    reaches = rng.uniform(size=seconds.shape) < 0.4
    single = Outcomes(
      np.where(reaches, seconds, INF), np.where(reaches, INF, seconds)
    )
    found.append(Links(single, single))
  return found


def slow_shares(links, choice, budget):
  """By the definitions, one workload after the other; r against 40 s."""
  shares = []
  for workload in range(5):
    times = []
    for study in range(3):
      spent, time = 0.0, INF
      for i in choice.chain:
        single = links[choice.policy].later
        if spent + single.reached[i, workload, study] < INF:
          time = spent + single.reached[i, workload, study]
          break
        spent += single.cost[i, workload, study]
      times.append(time if time <= 100 * budget else INF)
    median = sorted(times)[1]
    ratio = INF if median == INF else median / min(median, 40)
    shares.append(max(0, 4 - ratio) / 3)
  return shares


def slow_best(links, budget, length, counted):
  """The first of the best chains over workloads, by their indices."""
  chains = [
    Choice(policy, chain)
    for cycles in range(1, length + 1)
    for policy in range(2)
    for chain in itertools.product(range(SETTINGS), repeat=cycles)
  ]
  scores = [
    sum(np.array(slow_shares(links, choice, budget))[counted])
    for choice in chains
  ]
  best = max(scores)
  return next(c for c, s in zip(chains, scores) if s > best - 1e-9)


def test_all_chains_one_by_one(board, links):
  found = ChainSearch(links, board, Scope(length=2)).best(1.5)
  for length, best in enumerate(found, start=1):
    assert best.choice == slow_best(links, 1.5, length, [0, 1, 2])
    shares = slow_shares(links, best.choice, 1.5)
    assert best.in_sample == pytest.approx(np.mean(shares[:3]))
    left_out = []
    for i, fold in enumerate(best.folds):
      others = [j for j in range(3) if j != i]
      assert fold.choice == slow_best(links, 1.5, length, others)
      left_out.append(slow_shares(links, fold.choice, 1.5)[i])
      assert fold.share == pytest.approx(left_out[-1])
    assert best.left_out == pytest.approx(np.mean(left_out))


def test_variants_are_left_out_with_their_workloads(board, links):
  scope = Scope(length=1, with_variants=True)
  [best] = ChainSearch(links, board, scope).best(1.5)
  assert best.choice == slow_best(links, 1.5, 1, [0, 1, 2, 3, 4])
  chosen = [fold.choice for fold in best.folds]
  assert chosen == [
    slow_best(links, 1.5, 1, [1, 2, 3, 4]),
    slow_best(links, 1.5, 1, [0, 2, 4]),
    slow_best(links, 1.5, 1, [0, 1, 3]),
  ]


def test_chosen_by_one_budget_and_judged_in_another(board, links):
  _, best = ChainSearch(links, board, Scope(length=2, choose_by=0.6)).best(3.0)
  assert best.choice == slow_best(links, 0.6, 2, [0, 1, 2])
  shares = slow_shares(links, best.choice, 3.0)
  assert best.in_sample == pytest.approx(np.mean(shares[:3]))


def test_a_wide_beam_finds_the_same(board, links):
  wide = ChainSearch(links, board, Scope(length=3, beam=SETTINGS**2)).best(1.5)
  assert wide == ChainSearch(links, board, Scope(length=3)).best(1.5)


def test_a_greedy_search_keeps_the_best_beginning(board, links):
  first, second = ChainSearch(links, board, Scope(length=2, beam=1)).best(1.5)
  assert second.in_sample >= first.in_sample
  if len(second.choice.chain) == 2:
    own = [ChainSearch([one], board, Scope(1)).best(1.5)[0] for one in links]
    begun = own[second.choice.policy].choice.chain
    assert second.choice.chain[:1] == begun


def test_a_chain_that_adds_nothing_is_not_longer(board):
  """One setting that always reaches its target at once."""
  reached = np.full((2, 5, 3), INF)
  reached[1] = 1.0
  single = Outcomes(reached, np.where(reached < INF, INF, 50.0))
  found = ChainSearch([Links(single, single)], board, Scope(length=3)).best(1.5)
  assert [best.choice.chain for best in found] == [(1,), (1,), (1,)]
  assert [best.targets for best in found] == [3, 3, 3]


@pytest.fixture(scope='module')
def recorded():
  """Links of the 35 settings, and the board of 2024."""
  runs = reading.read_runs()
  board = board_lib.read_board(runs)
  settings = read_list('--settings', 'all')
  found = outcomes.recorded(settings, by_point(runs), board.workloads)
  single = outcomes.outcomes(found, outcomes.DEFAULT_POLICY)
  return board, [Links(single, single)], list(map(str, settings))


@pytest.mark.parametrize(
  ('budget', 'expected'),
  [
    (
      1.5,
      [
        ('cyclic_lr/2', 0.667, 6, 0.372, 4),
        ('lawa_queue/2 cyclic_lr/3', 0.829, 7, 0.674, 6),
        ('lawa_queue/2 cyclic_lr/3', 0.829, 7, 0.674, 6),
      ],
    ),
    (
      3.0,
      [
        ('cyclic_lr/2', 0.667, 6, 0.372, 4),
        ('lawa_queue/2 cyclic_lr/3', 0.829, 7, 0.674, 6),
        ('lawa_queue/2 baseline/1 nadamp/2', 0.942, 8, 0.623, 7),
      ],
    ),
  ],
)
def test_the_best_chains_of_the_recorded_runs(recorded, budget, expected):
  board, links, names = recorded
  found = ChainSearch(links, board, Scope(length=3, beam=40)).best(budget)
  assert [
    (
      ' '.join(names[i] for i in best.choice.chain),
      round(best.in_sample, 3),
      best.targets,
      round(best.left_out, 3),
      best.left_out_targets,
    )
    for best in found
  ] == expected


def test_with_all_chains_of_three_the_left_out_score_is_lower(recorded):
  board, links, _ = recorded
  *_, best = ChainSearch(links, board, Scope(length=3)).best(1.5)
  assert (round(best.in_sample, 3), round(best.left_out, 3)) == (0.829, 0.55)
