"""The table of all shapes, and the copy of it among the documents."""

from __future__ import annotations

import pathlib

from reset_cycles.schedules.decays import DECAYS
from reset_cycles.schedules.warmups import WARMUPS
from reset_cycles.studies.preview import shape_table

DOCUMENT = pathlib.Path(__file__).parents[3] / 'docs/shapes.md'


def test_every_shape_and_parameter_is_in_the_table():
  text = shape_table.as_markdown()
  sections = text.split('\n## ')
  for registry, section in ((WARMUPS, sections[1]), (DECAYS, sections[2])):
    shapes = dict(part.split('`\n', 1) for part in section.split('\n### `')[1:])
    assert list(shapes) == list(registry)
    for name, shape in shapes.items():
      rows = [line for line in shape.splitlines() if line.startswith('| `')]
      keys = [row.split('`')[1] for row in rows]
      assert keys == list(registry.parameters(name))
  assert '### `ratio`' in sections[3]


def test_rows_by_hand():
  text = shape_table.as_markdown()
  row = '| `floor` | `0.0` | a number from 0 up to, not including, 1 |'
  assert row in text
  assert '| `shapes` | must be given | a list of at least one shape |' in text
  assert '| `at` | `[0.5, 0.75]` | a list of numbers above 0 and' in text


def test_the_document_is_the_table():
  # After a change: python -m reset_cycles.studies.preview.shape_table > docs/shapes.md
  assert DOCUMENT.read_text() == shape_table.as_markdown()
