"""The page about runs: what it says, and that it needs nothing else."""

from __future__ import annotations

import html.parser
import pathlib

import pytest

from registry_logs import write_log
from reset_cycles.cli import main as cli
from reset_cycles.mini_algoperf import files
from reset_cycles.studies.report import page
from reset_cycles.studies.thesis.run_logs import Job


class Text(html.parser.HTMLParser):
  """The page's text, its tags, and what it would load."""

  def __init__(self, text):
    super().__init__()
    self.words, self.tags, self.loaded = [], [], []
    self.feed(text)

  def handle_starttag(self, tag, attributes):
    self.tags.append(tag)
    for name, value in attributes:
      if name == 'src' or (name.endswith('href') and value[:1] != '#'):
        self.loaded.append(value)

  def handle_data(self, data):
    self.words.append(data)

  @property
  def said(self):
    return ' '.join(' '.join(self.words).split())


@pytest.fixture
def trials(tmp_path):
  """Two runs with the same title: a finished one, and one that goes on."""
  job = Job('molecules', 'peaks_soft', 1)
  return [
    write_log(tmp_path / name, job, finished=name == 'done').log_dir
    for name in ('done', 'going')
  ]


def test_a_page_of_two_runs(trials):
  read = Text(page.make_page(trials))
  assert read.tags.count('svg') == 3
  assert read.tags.count('h2') == 3
  assert 'molecules, compared' in read.said
  assert all(str(folder) in read.said for folder in trials)
  assert 'finish' in read.said
  assert 'settings' in read.said
  assert '"reset_mode"' in read.said


def test_it_loads_nothing(trials):
  read = Text(page.make_page(trials))
  assert read.loaded == []
  assert not {'script', 'link', 'img', 'iframe'} & set(read.tags)


def test_events_have_their_reasons(trials):
  log = trials[0] / 'cycles.csv'
  rows = files.read_rows(log)
  resets = [row for row in rows if row['event'] in ('reset', 'switch')]
  assert {row['event'] for row in resets} == {'reset', 'switch'}
  said = Text(page.make_page(trials[:1])).said
  for row in resets:
    assert row.get('reason', '') in said
    if row.get('tau'):
      assert f'tau {float(row["tau"]):.4g}' in said


def test_what_files_say_is_text(trials):
  flags = files.read_json(trials[0] / 'flags_0.json')
  files.write_json(
    trials[0] / 'flags_0.json', {**flags, 'experiment_name': '<script>x'}
  )
  text = page.make_page(trials[:1])
  assert '<script>' not in text
  assert '&lt;script&gt;x' in text


def test_the_command(trials, tmp_path, monkeypatch, capsys):
  monkeypatch.chdir(tmp_path)
  assert cli.main(['report', *map(str, trials), str(tmp_path)]) == 0
  assert capsys.readouterr().out == 'report.html\n'
  first = pathlib.Path('report.html').read_text()
  assert Text(first).tags.count('h2') == 3  # no run twice
  assert cli.main(['report', str(tmp_path)]) == 2
  assert '--out=report.html exists' in capsys.readouterr().err
  assert cli.main(['report', str(tmp_path), '--overwrite']) == 0
  assert cli.main(['report', 'nowhere', '--out=x.html']) == 2
  assert 'nowhere has no trial' in capsys.readouterr().err
