"""The page as a browser would read it."""

from __future__ import annotations

import collections
import dataclasses
import html.parser
import re

import pytest

from log_files import EVENTS, write_run
from reset_cycles.mini_algoperf import files
from reset_cycles.schedule_params import THESIS
from reset_cycles.studies.report import page

VOID = ('meta',)


class Reader(html.parser.HTMLParser):
  """Checks that elements are closed in order; keeps what they hold."""

  def __init__(self, text):
    super().__init__()
    self.open, self.seen, self.texts = [], [], collections.defaultdict(list)
    self.feed(text)
    self.close()
    assert self.open == []

  def handle_starttag(self, tag, attrs):
    self.seen.append((tag, dict(attrs)))
    if tag not in VOID:
      self.open.append(tag)
      self.texts[tag].append('')

  def handle_endtag(self, tag):
    assert self.open.pop() == tag

  def handle_data(self, data):
    if self.open:
      self.texts[self.open[-1]][-1] += data

  def attributes(self, tag, name):
    return [attrs[name] for t, attrs in self.seen if t == tag and name in attrs]


def make(tmp_path, *runs):
  """Writes the page on runs, each given as settings of write_run."""
  folders = []
  for i, (events, settings) in enumerate(runs):
    folder = tmp_path / f'experiment_{i}' / 'digits_jax' / 'trial_1'
    folder.mkdir(parents=True)
    write_run(folder, events, **settings)
    folders.append(folder)
  return folders


def written(folders, tmp_path):
  path = tmp_path / 'report.html'
  page.save_page(folders, path)
  return path.read_text(encoding='utf-8')


def rows_of(text, caption):
  """Cells of the tables with a caption, as text."""
  tables = re.findall(
    f'<caption>{re.escape(caption)}</caption>(.*?)</table>', text, re.S
  )
  return [
    [
      [
        re.sub('<[^>]*>', '', c)
        for c in re.findall('<t[hd][^>]*>.*?</t[hd]>', r)
      ]
      for r in re.findall('<tr>.*?</tr>', table, re.S)
    ]
    for table in tables
  ]


def test_one_run(tmp_path):
  text = written(make(tmp_path, (EVENTS, {})), tmp_path)
  reader = Reader(text)
  assert reader.texts['h1'] == ['digits: peaks, seed 1']
  assert 'Target: error rate at most 0.03 (validation).' in reader.texts['p']
  # Over time, and its course over the steps.
  assert reader.attributes('svg', 'role') == ['img', 'img']
  (events,) = rows_of(text, 'Events')
  assert [row[:4] for row in events[1:]] == [
    ['0', '–', '1', 'cycle starts'],
    ['20', '2.0', '1', 'left early'],
    ['20', '2.0', '2', 'reset'],
    ['20', '2.0', '2', 'cycle starts'],
  ]
  (cycles,) = rows_of(text, 'Cycles')
  assert [row[:7] for row in cycles[1:]] == [
    ['1', '1', '0', '20', '2.0', '–', '–'],
    ['2', '2', '20', '40', '4.0', 'reset', '0.25'],
  ]
  (evaluations,) = rows_of(text, 'Evaluations')
  assert evaluations == [
    ['step', 'seconds', 'error rate'],
    ['1', '0.1', '0.9'],
    ['30', '3.0', '0.2'],
    ['60', '6.0', '–'],
  ]


def test_the_page_is_one_file_that_all_can_read(tmp_path):
  folders = make(tmp_path, (EVENTS, {}), (EVENTS, {'seed': 2}), ((), {}))
  text = written(folders, tmp_path)
  reader = Reader(text)
  tags = collections.Counter(tag for tag, _ in reader.seen)
  assert not {'script', 'link', 'img', 'iframe'} & set(tags)
  assert 'http' not in text and '@import' not in text
  ids = [attrs['id'] for _, attrs in reader.seen if 'id' in attrs]
  assert len(ids) == len(set(ids))
  links = [a['href'] for _, a in reader.seen if 'href' in a]
  assert {link[1:] for link in links} <= set(ids)
  assert tags['table'] == tags['caption'] == tags['thead'] > 0
  assert set(reader.attributes('th', 'scope')) == {'row', 'col'}
  assert len(reader.attributes('th', 'scope')) == tags['th']
  labels = ' '.join(reader.attributes('svg', 'aria-labelledby')).split()
  assert len(labels) == 2 * tags['svg'] and set(labels) <= set(ids)
  assert reader.attributes('html', 'lang') == ['en']
  # Nothing of it depends on when it was made.
  assert written(folders, tmp_path) == text


def test_several_runs_are_compared(tmp_path):
  changed = dataclasses.replace(THESIS, alpha=0.25)
  text = written(
    make(
      tmp_path,
      (EVENTS, {}),
      (
        EVENTS,
        {'params': changed, 'metric': (0.9, 0.03, 0.02), 'seed': 2},
      ),
      ((), {'seed': 3}),
    ),
    tmp_path,
  )
  assert Reader(text).texts['h1'] == ['3 runs on digits']
  (runs,) = rows_of(text, 'Runs on digits')
  assert [row[:-1] for row in runs[1:]] == [
    [
      'run 1', 'peaks, seed 1', 'not reached', '–', '0.2', '30', '–', '60',
      '6.0', '3', '2', '1', '1',
    ],
    [
      'run 2', 'peaks, seed 2', '30', '3.0', '0.02', '60', '0.02', '60',
      '6.0', '3', '2', '1', '1',
    ],
    [
      'run 3', 'peaks, seed 3', 'not reached', '–', '0.2', '30', '–', '60',
      '6.0', '3', '–', '–', '–',
    ],
  ]  # fmt: skip
  assert rows_of(text, 'Settings in which the runs differ') == [
    [['setting', 'run 1', 'run 2'], ['alpha', '0.5', '0.25']]
  ]
  # That of its own picture, too.
  assert re.findall(r'run 2: peaks, seed 2</text>', text)
  settings = rows_of(text, 'Settings')[1]
  assert ['alpha', '0.25', '0.5'] in settings
  # Those other than the default come first.
  usual = [row[2] == '–' for row in settings[1:]]
  assert usual == sorted(usual) and any(usual)


def test_runs_with_other_targets_are_apart(tmp_path):
  folders = make(tmp_path, (EVENTS, {}), (EVENTS, {}), (EVENTS, {}))
  path = folders[1] / 'meta_data_0.json'
  values = files.read_json(path)
  files.write_json(path, {**values, 'workload.validation_target_value': 0.3})
  text = written(folders, tmp_path)
  tables = rows_of(text, 'Runs on digits')
  assert [[row[0] for row in table[1:]] for table in tables] == [
    ['run 1', 'run 3'],
    ['run 2'],
  ]


def test_a_run_that_has_just_begun(tmp_path):
  folders = make(tmp_path, (EVENTS[:1], {}))
  for name in ('eval_measurements.csv', 'measurements.csv'):
    (folders[0] / name).unlink()
  text = written(folders, tmp_path)
  assert 'Not evaluated yet.' in text and '<svg' not in text
  (runs,) = rows_of(text, 'Runs on digits')
  assert runs[1][2:9] == ['not reached', '–', '–', '–', '–', '0', '–']


def test_a_run_that_has_only_diverged_is_drawn(tmp_path):
  nan = float('nan')
  text = written(make(tmp_path, (EVENTS, {'metric': (nan,) * 3})), tmp_path)
  assert text.count('<svg') == 2


@pytest.mark.parametrize('finishes', [True, False])
def test_whether_a_run_has_ended(finishes, tmp_path):
  finish = {
    'global_step': 60,
    'event': 'finish',
    'cycle': 2,
    'reason': 'cycles have run out',
  }
  events = [*EVENTS, finish] if finishes else EVENTS
  text = written(make(tmp_path, (events, {})), tmp_path)
  state = rows_of(text, 'Runs on digits')[0][1][-1]
  if finishes:
    assert state == 'ended itself: cycles have run out'
  else:
    assert re.fullmatch(r'last written \d{4}(-\d\d){2} \d\d:\d\d UTC', state)


def test_names_from_files_are_text(tmp_path):
  name = '<script>alert(1)</script> & _x $y$'
  folders = make(tmp_path, (EVENTS, {}), (EVENTS, {'seed': 2}))
  for folder in folders:
    flags = files.read_json(folder / 'flags_0.json')
    files.write_json(
      folder / 'flags_0.json', {**flags, 'experiment_name': name}
    )
  reader = Reader(written(folders, tmp_path))
  assert 'script' not in {tag for tag, _ in reader.seen}
  assert f'Run 1: digits: {name}, seed 1' in reader.texts['h3']
