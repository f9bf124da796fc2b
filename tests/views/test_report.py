"""One page about runs."""

import base64
import re

import pytest

from helpers.log_files import EVENTS, write_run
from reset_cycles.mini_algoperf import files
from reset_cycles.schedule_params import SCHEDULE_PARAMS
from reset_cycles.views import report

FINISH = {'global_step': 60, 'event': 'finish', 'cycle': 2, 'reason': 'all'}


@pytest.fixture
def trial(tmp_path):
  folder = tmp_path / 'experiment' / 'digits_jax' / 'trial_1'
  folder.mkdir(parents=True)
  return folder


def read(folder, now=0.0):
  return report.read_reported(folder, now)


def page_of(*folders):
  out = folders[0] / 'page.html'
  report.save_page(folders, out, 0.0)
  return out.read_text(encoding='utf-8')


def test_a_cycle_that_is_abandoned_and_one_that_is_going(trial):
  write_run(trial, EVENTS, metric=(0.9, 0.2, 0.1))
  _, first, second = report.cycle_rows(read(trial))
  assert first[:4] == ['1', '0', '20', '–']
  assert first[-1] == 'abandoned: loss rises'
  assert second[:4] == ['2', '20', '40', '0.25']
  assert second[5:] == ['0.1', '60', 'no end logged']


def test_the_story_in_sentences(trial):
  events = [
    *EVENTS[:3],
    {'event': 'evaluation', 'global_step': 31},  # told by the curves
    {'event': 'wait', 'global_step': 50, 'cycle': 2, 'cycle_end': 60},
    {'event': 'abandon', 'global_step': 60, 'cycle': 2, 'loss_drop': 0.125},
    {**FINISH, 'rate_factor': 0.5},
  ]
  write_run(trial, events)
  steps, said, numbers = zip(*report.story(read(trial)))
  assert steps == ('0', '20', '20', '50', '60', '60')
  assert numbers == ('pace 1', '', '', '', 'loss drop 0.125', 'rate factor 0.5')
  words = 'Cycle start, loss rises, 0.25, step 60, Cycle 2, over: all'.split(
    ', '
  )
  for sentence, word in zip(said, words):
    assert word in sentence and sentence.endswith('.')


@pytest.mark.parametrize(
  ('events', 'flags', 'last', 'hours', 'state'),
  [
    ([FINISH], {}, {}, 0, 'finished: all'),
    ([], {'max_global_steps': 60}, {'score': 6}, 0, 'ended by --max_global_st'),
    ([], {'max_global_steps': 61}, {'score': 6}, 0, 'finished'),
    ([], {}, {}, 0.1, 'running'),
    ([], {}, {'score': 6, 'validation/error_rate': 0.1}, 0.1, 'running'),
    ([], {}, {}, 2, 'not finished; nothing was written for 2.0 hours'),
  ],
  ids=['finish', 'limit', 'score', 'recent', 'going', 'silent'],
)
def test_how_a_run_has_ended(events, flags, last, hours, state, trial):
  write_run(trial, [*EVENTS, *events])
  # A resumption's count, in the order of their numbers.
  for number, own in ((2, {'max_global_steps': 20}), (10, flags)):
    files.write_json(trial / f'flags_{number}.json', own)
  rows = files.read_rows(trial / 'measurements.csv')
  columns = [*rows[0], 'score']
  rows[-1] = {'global_step': 60, **last}
  files.write_rows(trial / 'measurements.csv', columns, rows)
  written = max(p.stat().st_mtime for p in trial.iterdir())
  assert read(trial, written + 3600 * hours).state.startswith(state)


def test_rows_of_a_damaged_file_without_their_event(trial):
  write_run(trial, [*EVENTS, {'global_step': 60, 'cycle': 2}])
  page_of(trial)
  assert len(read(trial).events) == len(EVENTS)


def test_several_runs_are_compared(tmp_path):
  folders = [tmp_path / name for name in ('a', 'b')]
  for seed, folder in enumerate(folders):
    folder.mkdir()
    write_run(folder, EVENTS, seed=seed)
  write_run(folders[1], EVENTS, params=SCHEDULE_PARAMS, seed=1)
  runs = [
    report.read_reported(folder, 0.0, i)
    for i, folder in enumerate(folders, start=1)
  ]
  rows = report.differing(runs)
  assert rows[0] == ['setting', 'run 1', 'run 2']
  # A row per field, and not one in which the two agree.
  found = {name: values for name, *values in rows[1:]}
  assert found['horizon'] == ['None', 'TimeHorizon']
  assert found['horizon.slack'] == ['–', '0.03']
  assert found['cycles.length'] == ['1.0', '1.0, 2.0, 4.0, 8.0']
  assert found['cycles.decay'] == ['Cosine', 'Cooldown']
  assert 'cycles' not in found and 'step_hint' not in found
  assert not any('{' in value for values in found.values() for value in values)
  row, _ = report.compared(runs)
  assert row[2:8] == ['not reached', '–', '0.2', '30', '–', '60']
  text = page_of(*folders)
  assert text.count('<img ') == 2 + 2
  assert 'href="#run-2"' in text and 'id="run-2"' in text


def test_the_page_fetches_nothing_and_escapes_what_files_say(trial):
  write_run(trial, [*EVENTS, {**FINISH, 'reason': '<script>&'}])
  text = page_of(trial)
  assert '&lt;script&gt;&amp;' in text and '<script>' not in text
  assert not re.search(r'(src|href)="(?!data:|#)', text)
  picture = re.search('base64,([^"]+)"', text)[1]
  assert b'<svg' in base64.b64decode(picture)


def test_a_run_that_has_just_begun_and_one_of_another_submission(trial):
  write_run(trial)
  for name in ('eval_measurements.csv', 'measurements.csv'):
    (trial / name).unlink()
  text = page_of(trial)
  assert 'Not evaluated yet.' in text and 'No cycles.csv' in text
