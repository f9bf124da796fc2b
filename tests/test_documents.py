"""Links of the documents, and the code in them."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import runpy
import shlex

import jax
import jax.numpy as jnp
import optax
import pytest

from documents import DOCUMENTS, ROOT, anchors, blocks, without_code
from reset_cycles.cli import main as cli
from reset_cycles.schedule_params import (
  PARTS,
  THESIS,
  ScheduleParams,
  check_plan,
)

NAMES = [str(path.relative_to(ROOT)) for path in DOCUMENTS]
ALL_BLOCKS = [(name, b) for name in NAMES for b in blocks(ROOT / name)]
SETTINGS = ROOT / 'docs' / 'settings.md'


def block_of(name, language):
  """The one block of a document in a language."""
  (found,) = (b for b in blocks(ROOT / name) if b.language == language)
  return found.text


def test_the_documents():
  assert {'README.md', 'RULES.md', 'docs/settings.md'} <= set(NAMES)
  assert 'studies/real_runs/FINDINGS.md' in NAMES
  lines = (ROOT / 'README.md').read_text().splitlines()
  assert len(lines) <= 200


@pytest.mark.parametrize('name', NAMES)
def test_links_lead_somewhere(name):
  path = ROOT / name
  for link in re.findall(r'\]\(([^)\s]+)\)', without_code(path)):
    if re.match('https?:', link):
      continue
    file, _, anchor = link.partition('#')
    target = (path.parent / file).resolve() if file else path
    assert target.is_file(), link
    if anchor:
      assert anchor in anchors(target), link


def test_every_document_is_linked_to():
  linked = {
    (ROOT / name).parent.joinpath(link.partition('#')[0]).resolve()
    for name in NAMES
    for link in re.findall(
      r'\]\(([^)\s]+\.md[^)\s]*)\)', without_code(ROOT / name)
    )
  }
  assert [
    name
    for name in NAMES
    if ROOT / name not in linked and name not in ('README.md', 'CHANGELOG.md')
  ] == []


def commands(block):
  """(command line, what it is said to print) of a block's soft-reset lines."""
  found = []
  for line in block.text.splitlines(keepends=True):
    text = line.removeprefix('$ ')
    if text.startswith('soft-reset '):
      found.append([text.strip(), ''])
    elif found:
      found[-1][1] += line
  return found


def test_commands_have_the_flags_that_they_are_given():
  lines = [line for _, block in ALL_BLOCKS for line, _ in commands(block)]
  assert len(lines) > 20
  parser = cli.make_parser()
  for line in lines:
    words = shlex.split(line, comments=True)[1:]
    if '--help' not in words:
      options, rest = parser.parse_known_args(words)
      assert rest == [], line
      assert options.run, line


def test_commands_in_the_text_exist():
  for name in NAMES:
    text = (ROOT / name).read_text(encoding='utf-8')
    for command in re.findall(r'`soft-reset ([a-z-]+)', text):
      assert command in cli.COMMANDS, (name, command)


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


def test_there_are_marked_blocks():
  assert len(MARKED) >= 3


def test_the_loop_of_the_readme(compilations):
  """Least squares; the metric comes to 1 as the error goes to 0."""
  metrics = []

  def evaluate(params):
    error = float(jnp.sum((params - 0.2) ** 2))
    metrics.append(1 / (1 + error))
    return error, metrics[-1]

  names = {
    'jax': jax,
    'optax': optax,
    'init': lambda key: 0.1 * jax.random.normal(key, (3,)),
    'loss_fn': lambda params, batch: jnp.mean((params - batch) ** 2),
    'batches': itertools.repeat(jnp.full(3, 0.2)),
    'evaluate': evaluate,
  }
  text = block_of('README.md', 'python')
  exec(compile(text, 'README.md', 'exec'), names)
  assert len(metrics) == 30
  assert metrics[-1] > 0.99 > metrics[0]
  with compilations() as compiled:
    names['train_step'](names['state'], next(names['batches']))
  assert compiled == []


def test_the_experiment_of_the_settings():
  text = block_of('docs/settings.md', 'python').replace('..', 'reset_cycles.')
  names = {}
  exec(compile(text, 'settings.md', 'exec'), names)
  assert names['get_batch_size']('ogbg') == 512


def test_the_chain_of_the_settings():
  given = json.loads(block_of('docs/settings.md', 'json'))
  params = THESIS.override(given)
  assert [plan.optimizer for plan in params.plans][0] == 'nadamw'
  assert params.plans[1].start_from == 'fresh'
  assert params.plans[2].hparams.learning_rate == 0.002


def test_the_shapes_of_the_schedules():
  text = block_of('docs/schedules.md', 'python')
  params = eval(text, {'ScheduleParams': ScheduleParams})
  assert params.num_cycles == 3


def test_every_field_and_part_is_in_the_table_of_settings():
  rows = re.findall(r'^\| (`.*?) \|(.*)$', SETTINGS.read_text(), re.MULTILINE)
  text = {
    field: row for names, row in rows for field in re.findall('`(.*?)`', names)
  }
  fields = {field.name for field in dataclasses.fields(ScheduleParams)}
  assert fields <= set(text)
  for field, registry in PARTS.items():
    for name in registry:
      assert f'`{name}`' in text[field] or f'"{name}"' in text[field], name
    for part in re.findall(r'`(\{.*?\})`', text[field]):
      assert THESIS.override({field: json.loads(part)})


REFUSED = {
  'lists of unequal length': {'decays': ('cosine', 'cosine')},
  'unknown field': {'alhpa': 0.5},
  'λ outside (0, 1]': {'switching_lam': 1.5},
  'holding a rate of 0': {'policy': 'hold'},
  'negative warm-up': {'alter_warmup': (0.0, -0.5, 0.0)},
  'warm-up longer than its cycle': {'alter_warmup': (0.0, 1.5, 0.0)},
  'more cycles than steps': {},
  'a cycle without a step': {'lengths': (100.0, 1.0, 1.0)},
  'unknown parameter of a shape': {'decays': ({'name': 'wsd', 'k': 1},) * 3},
}


@pytest.mark.parametrize('what', REFUSED)
def test_messages_are_those_of_the_settings(what):
  (said,) = re.findall(
    rf'^\| {re.escape(what)} \| `(.*)` \|$', SETTINGS.read_text(), re.MULTILINE
  )
  step_hint = {'more cycles than steps': 1, 'a cycle without a step': 6}
  with pytest.raises(ValueError) as e:
    check_plan(step_hint.get(what, 100), THESIS.override(REFUSED[what]))
  parts = [re.escape(part.strip()) for part in said.split('…')]
  assert re.search('.*'.join(parts), str(e.value), re.DOTALL)


def test_the_rooms_of_the_picture_exist(tmp_path):
  drawing = runpy.run_path(str(ROOT / 'docs' / 'draw_architecture.py'))
  titles = {title for *_, title, _ in drawing['BOXES'].values()}
  rooms = titles - {'the runner', 'workload', 'Rules'}
  assert len(rooms) == 10
  for room in rooms:
    path = ROOT / room
    assert path.is_dir() or path.with_suffix('.py').is_file(), room
  drawing['draw'](tmp_path / 'architecture.png')
  assert (tmp_path / 'architecture.png').read_bytes()[:4] == b'\x89PNG'


def test_every_room_is_in_the_list_of_rooms():
  (rooms,) = (b for b in blocks(ROOT / 'docs' / 'architecture.md'))
  modules = [path.name for path in ROOT.glob('*.py') if path.name[0] != '_']
  folders = [f'{path.parent.name}/' for path in ROOT.glob('[a-z]*/__init__.py')]
  for name in [*modules, *folders]:
    assert re.search(rf'^(docs/ )?{re.escape(name)} ', rooms.text, re.M), name
