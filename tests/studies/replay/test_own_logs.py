"""Switching rules on the cycles of our own small workloads."""

from __future__ import annotations

import collections
import csv
import io
import json
import zipfile

import pytest

from reset_cycles.control.state import Evaluation, Target
from reset_cycles.control.switching import SWITCHING_RULES, Context
from reset_cycles.experiments import thesis


def rows(archive, name):
  text = archive.read(name).decode()
  return list(csv.DictReader(io.StringIO(text)))


def cycles():
  """(workload, target, [(f, loss, metric)]) of each cycle after full resets."""
  for path in sorted(thesis.LOGS.glob('*_full.zip')):
    archive = zipfile.ZipFile(path)
    for run in sorted({name.split('/')[0] for name in archive.namelist()}):
      meta = json.loads(archive.read(f'{run}/meta_data_0.json'))
      events = rows(archive, f'{run}/cycles.csv')
      starts = [e for e in events if e['event'] == 'cycle_start']
      for start in starts:
        first, end = int(start['global_step']), int(start['cycle_end'])
        found = [
          (
            (int(e['global_step']) - first) / (end - first),
            float(e['loss']),
            float(e['metric']),
          )
          for e in events
          if e['event'] == 'evaluation' and e['cycle'] == start['cycle']
          if int(e['global_step']) <= end
        ]
        if len(found) >= 4:
          target = meta['workload.validation_target_value']
          yield path.stem.split('_')[0], target, found


def is_left(rule, target, evaluations):
  state, first = rule.initial, evaluations[0][2]
  target = Target('metric', target, True)
  for step, (f, loss, metric) in enumerate(evaluations):
    context = Context(f, f, target, first)
    evaluation = Evaluation(step, loss, metric)
    state, verdict = rule.observe(state, evaluation, context)
    if verdict.reason:
      return True
  return False


@pytest.fixture(scope='module')
def all_cycles():
  return list(cycles())


@pytest.mark.parametrize(
  'name, expected',
  [
    (
      'thesis',
      {
        'digits good': (20, 60),
        'molecules good': (0, 2),
        'molecules between': (0, 64),
        'translation good': (0, 12),
        'translation failed': (0, 30),
        'translation between': (0, 18),
      },
    ),
    (
      'floor',
      {
        'digits good': (0, 60),
        'molecules good': (2, 2),
        'molecules between': (64, 64),
        'translation good': (12, 12),
        'translation failed': (30, 30),
        'translation between': (18, 18),
      },
    ),
    (
      'progress',
      {
        'digits good': (0, 60),
        'molecules good': (2, 2),
        'molecules between': (64, 64),
        'translation good': (0, 12),
        'translation failed': (30, 30),
        'translation between': (2, 18),
      },
    ),
  ],
)
def test_which_cycles_are_left(all_cycles, name, expected):
  rule = SWITCHING_RULES.make(name)
  found = collections.defaultdict(lambda: (0, 0))
  for workload, target, evaluations in all_cycles:
    best = max(metric for _, _, metric in evaluations) / target
    ending = 'good' if best >= 0.9 else 'failed' if best < 0.5 else 'between'
    left, count = found[f'{workload} {ending}']
    left += is_left(rule, target, evaluations)
    found[f'{workload} {ending}'] = left, count + 1
  assert found == expected
