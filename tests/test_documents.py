"""Links of the documents, and the code in them."""

import collections
import dataclasses
import hashlib
import importlib
import inspect
import itertools
import json
import pathlib
import re
import shlex

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from helpers import runs, trees
from helpers.documents import (
  DOCUMENTS,
  ROOT,
  anchors,
  blocks,
  files_of,
  without_code,
  write_files,
)
from reset_cycles.cli import main as cli
from reset_cycles.core import checks, horizon, schedules
from reset_cycles.early_switching import (
  COLUMNS,
  AnyOf,
  ChainLossRule,
  Progress,
  SmoothedLossRule,
)
from reset_cycles.mini_algoperf.submission_loader import load_submission
from reset_cycles.optimizers.adamw import Adam, AdamW, Rms, RmsW
from reset_cycles.optimizers.average import Averaged
from reset_cycles.optimizers.muon import Muon
from reset_cycles.optimizers.peaks import RelativePeak, SpectralPeak
from reset_cycles.schedule_params import SCHEDULE_PARAMS, ScheduleParams
from reset_cycles.soft_reset import Cyclic, SoftReset
from reset_cycles.views import settings_json

NAMES = [str(path.relative_to(ROOT)) for path in DOCUMENTS]
ALL_BLOCKS = [(name, b) for name in NAMES for b in blocks(ROOT / name)]
SETTINGS = ROOT / 'docs' / 'settings.md'


def blocks_of(name, language):
  """The texts of a document's blocks in a language."""
  return [b.text for b in blocks(ROOT / name) if b.language == language]


def links_of(text):
  found = re.findall(r'\]\(([^)\s]+)\)', text)
  return [link for link in found if not re.match('https?:', link)]


@pytest.mark.parametrize('name', NAMES)
def test_links_lead_somewhere(name):
  path = ROOT / name
  for link in links_of(without_code(path)):
    file, _, anchor = link.partition('#')
    target = (path.parent / file).resolve() if file else path
    assert target.is_file(), link
    assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize('name', NAMES)
def test_lists_are_lists_on_the_site(name):
  """An item follows another one of its paragraph, or an empty line.

  GitHub needs no such line; Python's Markdown takes the item for text.
  """
  text = re.sub(r'(?ms)^```.*?^```$', '', (ROOT / name).read_text())
  for paragraph in re.split(r'\n\s*\n', text):
    lines = paragraph.strip('\n').splitlines()
    is_item = [bool(re.match(r'\s*([-*]|\d+\.) ', line)) for line in lines]
    assert not any(is_item) or is_item[0], paragraph


def test_the_index_has_every_page():
  page = ROOT / 'docs' / 'index.md'
  links = links_of(page.read_text())
  linked = {(page.parent / link.partition('#')[0]).resolve() for link in links}
  not_linked = {name for name in NAMES if ROOT / name not in linked | {page}}
  assert not not_linked


def commands(block):
  """(command line, what it is said to print) of a block's reset-cycles lines."""
  found = []
  for line in block.text.replace('\\\n', '').splitlines(keepends=True):
    text = line.removeprefix('$ ')
    if text.startswith('reset-cycles '):
      found.append([text.strip(), ''])
    elif found:
      found[-1][1] += line
  return found


def test_commands_have_the_flags_that_they_are_given():
  lines = [line for _, block in ALL_BLOCKS for line, _ in commands(block)]
  assert len(lines) > 20
  for line in lines:
    name, *words = shlex.split(line, comments=True)[1:]
    command = cli.cli.commands[name]
    known = {
      flag for p in command.params for flag in (*p.opts, *p.secondary_opts)
    }
    flags = {word.partition('=')[0] for word in words if word[:2] == '--'}
    assert flags <= known | {'--help'}, line
  for name in NAMES:
    text = (ROOT / name).read_text(encoding='utf-8')
    for command in re.findall(r'`reset-cycles ([a-z-]+)', text):
      assert command in cli.cli.commands, (name, command)


PYTHON = [(name, b) for name, b in ALL_BLOCKS if b.language == 'python']


def test_what_code_imports_of_the_package_is_there():
  """Also in blocks that no other test runs."""
  names = []
  for page, block in PYTHON:
    imports = re.findall(
      r'(?m)^from (reset_cycles\S*) import (\(.*?\)|[^(\n]+)',
      block.text,
      re.DOTALL,
    )
    for module, text in imports:
      for name in re.findall(r'\w+', text):
        assert hasattr(importlib.import_module(module), name), (page, name)
        names.append(name)
  assert 'ScheduleFreeMuon' in names


MARKED = [
  pytest.param(block, id=f'{name}-{i}')
  for i, (name, block) in enumerate(ALL_BLOCKS)
  if block.before == '<!-- run -->'
]


@pytest.mark.parametrize('block', MARKED)
def test_marked_blocks_print_what_they_say(
  block, tmp_path, monkeypatch, capsys
):
  monkeypatch.chdir(tmp_path)
  for line, expected in commands(block):
    assert cli.main(shlex.split(line, comments=True)[1:]) == 0, line
    out = capsys.readouterr().out
    assert out
    if expected:
      assert out == expected


def test_the_loop_of_the_readme(compilations):
  """Least squares; the metric comes to 1 as the error goes to 0."""
  metrics = []

  def evaluate(params):
    error = float(jnp.sum((params['w'] - 0.2) ** 2))
    metrics.append(1 / (1 + error))
    return error, metrics[-1]

  names = {
    'init': lambda key: {'w': 0.1 * jax.random.normal(key, (3,))},
    'loss_fn': lambda params, batch: jnp.mean((params['w'] - batch) ** 2),
    'batches': itertools.repeat(jnp.full(3, 0.2)),
    'evaluate': evaluate,
  }
  _, text = blocks_of('README.md', 'python')
  text = text.replace(' state)\n', ' state); said += events\n')
  names['said'] = said = []
  exec(compile(text, 'README.md', 'exec'), names)
  assert names['optax'] is optax
  assert len(metrics) == 45
  starts = [event.step for event in said if event.kind == 'cycle_start']
  assert starts == [0, 60, 180, 420]
  assert metrics[-1] > 0.99 > metrics[0]
  with compilations() as compiled:
    names['train_step'](names['state'], next(names['batches']))
  assert compiled == []


def test_the_loop_of_the_page_on_muon():
  """Least squares, in the lines that README.md has as well."""
  goal, found = np.array([[0.5, -1.0]], np.float32), []
  inputs = np.eye(2, dtype=np.float32)
  names = {
    'params': {'kernel': 0.3 * jnp.eye(2)},
    'loss_fn': lambda params, batch: jnp.mean(
      (batch @ params['kernel'] - goal) ** 2
    ),
    'batches': itertools.repeat(inputs, 900),
    'evaluate': found.append,
  }
  text, _ = blocks_of('README.md', 'python')
  assert text == blocks_of('docs/schedule_free_muon.md', 'python')[0]
  with pytest.warns(UserWarning, match=r"the form of \['kernel'\]"):
    exec(compile(text, 'README.md', 'exec'), names)
  np.testing.assert_allclose(found[0]['kernel'], [*goal, *goal], atol=0.01)
  apart = np.abs(found[0]['kernel'] - names['params']['kernel'])
  assert apart.max() > 1e-5  # the average, not where the gradient is taken


def test_the_settings_of_the_page(tmp_path):
  [values] = blocks_of('docs/settings.md', 'python')
  names = {}
  exec(compile(values, SETTINGS.name, 'exec'), names)
  assert names['params'].reset == Cyclic()
  path = tmp_path / 'params.json'
  path.write_text(*blocks_of('docs/settings.md', 'json'))
  _, params = settings_json.read_file(path, SCHEDULE_PARAMS)
  in_force = SCHEDULE_PARAMS
  loss, progress = in_force.switching.rules
  changed = dataclasses.replace(progress, min_share=0.2)
  assert params == dataclasses.replace(  # the peak is that of any length
    in_force,
    reset=dataclasses.replace(in_force.reset, alpha=0.3),
    switching=AnyOf((loss, changed)),
  )


def test_the_parts_of_the_page_on_extending_run(folder, tmp_path):
  """12 steps in cycles of 4.

  The second is abandoned at its third evaluation.
  """
  _, *files = files_of('docs/extending.md').values()
  assert files == blocks_of('docs/extending.md', 'python')
  own = write_files('docs/extending.md', tmp_path / 'mine')
  page = load_submission(str(own / 'my_submission.py'))
  params = page.init_optimizer_state.settings
  metrics = {2: 0.5, 5: 0.4, 6: 0.3, 7: 0.2, 10: 0.6}
  driver = runs.newly_set_up(
    params, evaluations={s: (1.0, m) for s, m in metrics.items()}
  )
  start = trees.host(driver.params)['kernel']
  driver.run(until=12)
  end = trees.host(driver.params)['kernel']
  assert np.isfinite(end).all()
  assert not np.array_equal(end, start)
  waited = runs.column(folder, 'waited', event='evaluation')
  assert waited == [*'00120']
  assert runs.column(folder, 'reason', event='abandon') == ['no progress']
  factors = runs.column(folder, 'rate_factor', event='cycle_start')
  assert factors == ['1.0'] * 3
  # .3 times what is left of the 12 steps after 4 and after 7.
  taus = [float(tau) for tau in runs.column(folder, 'tau', event='reset')]
  np.testing.assert_allclose(taus, [0.2, 0.125])
  steps, rates = (
    runs.column(folder, name) for name in ('global_step', 'learning_rate')
  )
  # .25 of the peak from the middle of a cycle on.
  rate, peak = float(dict(zip(steps, rates))['2']), params.cycles[0].peak
  np.testing.assert_allclose(rate, 0.25 * peak, rtol=1e-6)


def test_the_page_on_extending_names_the_columns_of_every_run():
  text = (ROOT / 'docs/extending.md').read_text()
  said = text.partition('than those of every run:')[2].partition('. ')[0]
  assert re.findall(r'`(\w+)`', said) == [*COLUMNS]


@pytest.mark.usefixtures('fake_workload')
def test_the_page_on_extending_as_it_is_written(capsys):
  """Its files, run and drawn: no class of theirs is needed back."""
  write_files('docs/extending.md', pathlib.Path('mine'))
  words = ['--workload=fake', '--max_global_steps=30', '--experiment_dir=runs']
  path = '--submission_path=mine/my_submission.py'
  assert cli.main(['run', path, *words]) == 0
  captured = capsys.readouterr()
  assert captured.out.startswith('fake: 30 steps in ')
  assert 'warning' not in captured.err
  assert cli.main(['plot', 'runs']) == 0
  assert capsys.readouterr().out.endswith('metric.png\n')
  assert cli.main(['report', 'runs']) == 0
  assert 'Plateau' in pathlib.Path('report.html').read_text(encoding='utf-8')


CLASSES = (
  *(ScheduleParams, schedules.Cycle, schedules.LinearWarmup, schedules.Cosine),
  *(schedules.Cooldown, Adam, AdamW, Rms, RmsW, Muon, Averaged),
  *(SoftReset, SmoothedLossRule, ChainLossRule, Progress),
  *(RelativePeak, SpectralPeak, horizon.TimeHorizon),
)


def meanings(kind):
  """What is said of each field: in its line, or under `Attributes`."""
  lines = re.findall(r'(?m)^  (\w+): .*?  # (.*)$', inspect.getsource(kind))
  section = (inspect.getdoc(kind) or '').partition('\nAttributes:\n')[2]
  section = re.match(r'((?:  .*\n?|\n)*)', section)[1]
  items = re.findall(r'(?m)^  (\w+): (.*(?:\n    .*)*)', section)
  return {name: ' '.join(text.split()) for name, text in [*lines, *items]}


def right_of(kind, name):
  """What a refusal says must be there, and whether None may be."""
  check = checks.checks_of(kind)[name]
  with pytest.raises(ValueError) as refusal:
    check(name, object())
  right = re.search(r': must be (.*)\.$', str(refusal.value))[1]
  right = right.removeprefix('a number in ')
  try:
    check(name, None)
  except ValueError:
    return right
  return f'{right}, or None'


def test_every_setting_is_in_the_table():
  """At most 65, with the defaults, ranges and sentences of the dataclasses."""
  rows = []
  for kind in CLASSES:
    said = meanings(kind)
    for field in dataclasses.fields(kind):
      is_given = field.default is not dataclasses.MISSING
      default = f'={field.default!r}' if is_given else ''
      name = f'`{kind.__name__}.{field.name}{default}`'
      if field.name in said:  # AdamW has those of Adam as well.
        right = right_of(kind, field.name)
        rows.append(f'| {name} | {right} | {said[field.name]} |')
  head = ['| setting and default | must be | meaning |', '|---|---|---|']
  table = '\n'.join([*head, *rows])
  text = SETTINGS.read_text()
  assert f'{table}\n' in text, f'the table must be\n{table}'
  assert f'The core has {len(rows)} settings' in text
  assert len(rows) <= 65


def test_tests_that_documents_name_exist():
  tests = collections.defaultdict(str)  # of all files of one name
  for path in ROOT.glob('tests/**/test_*.py'):
    tests[path.name] += path.read_text()
  found = [
    (file, name)
    for document in DOCUMENTS
    for file, name in re.findall(
      r'`(test_\w+\.py)(?:::(\w+))?`', document.read_text()
    )
  ]
  assert len(found) > 30
  missing = [(f, n) for f, n in found if f'def {n}' not in tests[f]]
  assert missing == []


def test_files_of_the_architecture_exist():
  text = (ROOT / 'docs' / 'architecture.md').read_text()
  files = re.findall(r'`((?:\w+/)*\w+\.py)`', text)
  assert [file for file in files if not (ROOT / file).is_file()] == []
  questions = [
    line for line in text.splitlines() if re.match(r'\| [A-Z].*\? \|', line)
  ]
  assert len(questions) == 10
  for line in questions:
    assert len(set(re.findall(r'\w+\.py', line))) <= 3


def test_the_tree_of_the_readme_has_every_folder():
  text = (ROOT / 'README.md').read_text()
  folders = {path.parent.name for path in ROOT.glob('[a-z]*/__init__.py')}
  assert [f for f in sorted(folders) if f'{f}/' not in text] == []
  modules = {p.name for p in ROOT.glob('[a-z]*.py')}
  assert [m for m in sorted(modules) if m not in text] == []


def test_the_notebook_has_the_outputs_of_its_code():
  """All cells ran once, in their order; then no line of code was changed."""
  text = (ROOT / 'docs' / 'first_look.ipynb').read_text()
  notebook = json.loads(text)
  cells = [c for c in notebook['cells'] if c['cell_type'] == 'code']
  code = [''.join(cell['source']) for cell in cells]
  counts = [cell['execution_count'] for cell in cells]
  assert counts == [*range(1, len(cells) + 1)]
  kinds = [
    [o.get('name') or [*o['data']][0] for o in cell['outputs']]
    for cell in cells
  ]
  assert kinds == [
    *[[], [], []],
    *[['stdout', 'image/png'], ['stdout']] * 2,
  ]  # fmt: skip
  digest = hashlib.sha256('\n'.join(code).encode()).hexdigest()
  assert digest == notebook['metadata']['code_sha256'], 'run `make notebook`'
  assert len(text) < 150_000


def test_the_notebook_runs(tmp_path, monkeypatch):
  """In short: 90 steps a run. With nbclient, of the extra `docs`."""
  nbclient = pytest.importorskip('nbclient')
  import nbformat

  monkeypatch.setenv('MPLBACKEND', 'agg')
  notebook = nbformat.read(ROOT / 'docs' / 'first_look.ipynb', as_version=4)
  for cell in notebook.cells:
    cell.source = cell.source.replace('num_steps=900', 'num_steps=90')
  nbclient.NotebookClient(notebook, timeout=600).execute(cwd=str(tmp_path))
