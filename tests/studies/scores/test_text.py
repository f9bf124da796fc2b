"""Scores as text and as a picture."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure

from reset_cycles.studies.scores import picture, text
from reset_cycles.studies.scores.times import TrialTimes

TRIALS = [
  TrialTimes('slow', 'study_0', 'x', 20.0),
  TrialTimes('slow', 'study_1', 'x', 24.0),
  TrialTimes('slow', 'study_2', 'x', math.inf),
  TrialTimes('slow', 'study_0', 'y', math.inf),
  TrialTimes('fast', 'study_0', 'x', 12.0),
  TrialTimes('fast', 'study_0', 'y', 1234.4),
  TrialTimes('none', 'study_0', 'x', math.inf),
]


def test_the_best_submission_comes_first():
  found = text.entries(TRIALS)
  assert [(e.submission, e.targets) for e in found] == [
    ('fast', 2),
    ('slow', 1),
    ('none', 0),
  ]
  assert [e.score for e in found] == [1.0, found[1].score, 0.0]
  assert found[1].relative.tolist() == [2.0, math.inf]


def test_scores_and_times_in_words():
  score = text.entries(TRIALS)[1].score
  assert text.score_lines(TRIALS) == [
    '     submission  score   targets',
    '  1  fast        1.0000  2 of 2',
    f'  2  slow        {score:.4f}  1 of 2',
    '  3  none        0.0000  0 of 2',
    '',
    'Seconds to the target, median over studies; (3/5): in three of five.',
    '  workload  1      2         3',
    '  x         12     24 (2/3)  never',
    '  y         1,234  never     -',
  ]


def test_profiles_are_stairs(tmp_path):
  axes = Figure().subplots()
  picture.draw_profiles(axes, text.entries(TRIALS))
  lines = [line.get_xydata().tolist() for line in axes.get_lines()]
  assert lines == [
    [[1.0, 1.0], [4.0, 1.0]],
    [[1.0, 0.0], [2.0, 0.5], [4.0, 0.5]],
    [[1.0, 0.0], [4.0, 0.0]],
  ]
  labels = [entry.get_text() for entry in axes.get_legend().get_texts()]
  assert labels[0] == 'fast: 1.000'
  path = tmp_path / 'profiles.png'
  picture.save_profiles(path, text.entries(TRIALS))
  assert path.read_bytes().startswith(b'\x89PNG')
  assert np.isinf(text.entries(TRIALS)[2].relative).all()
