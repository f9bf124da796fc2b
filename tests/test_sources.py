"""tests/sources.csv: what it refers to is there. What a test holds, only it says.

Sources are the thesis (rows 1 to 30 are its UML diagram), `scheduled` (Schaipp et
al. 2025), pytorch-accelerated, Cerebras' modelzoo, and the card, the project's
brief. `here` has names below `reset_cycles` and files; `held_by` has tests, with a
case's name in brackets, headings of pages, and phrases. What is answered
otherwise than in its source is said by a phrase of a page.
"""

import ast
import csv
import functools
import pkgutil
import re

from helpers.documents import ROOT, anchors

with (ROOT / 'tests' / 'sources.csv').open(encoding='utf-8') as _lines:
  ROWS = list(csv.DictReader(_lines))


@functools.cache
def read(file):
  """A file's text with single spaces, and the names of its functions."""
  text = (ROOT / file).read_text(encoding='utf-8')
  tree = ast.walk(ast.parse(text if file.endswith('.py') else ''))
  names = {node.name for node in tree if isinstance(node, ast.FunctionDef)}
  return ' '.join(text.split()), names


def is_there(reference):
  """Whether there is what a cell refers to."""
  file, mark, rest = re.match(r'([\w./]+)(::|#|: |$)(.*)', reference).groups()
  if not (ROOT / file).exists():
    try:
      pkgutil.resolve_name(f'reset_cycles.{file}')
    except (AttributeError, ImportError, ValueError):
      return False
    return not mark
  if mark == '::':
    test, case = re.fullmatch(r'(test_\w+)(?:\[(.+)\])?', rest).groups()
    text, functions = read(file)
    if 'from helpers.neighbours import' in text:  # where its cases stand
      text += read('tests/helpers/neighbours.py')[0]
    return test in functions and (case is None or f"'{case}'" in text)
  if mark == '#':
    return rest in anchors(ROOT / file)
  return rest in read(file)[0] if mark else True


def test_what_the_table_refers_to_is_there():
  numbers = [*map(str, range(1, 169)), *(f'card {i}' for i in range(1, 7))]
  assert [row['number'] for row in ROWS] == numbers
  gone = [
    (row['number'], reference)
    for row in ROWS
    for reference in f'{row["here"]}; {row["held_by"]}'.split('; ')
    if not is_there(reference)
  ]
  assert gone == []
  assert [row['number'] for row in ROWS if '::' not in row['held_by']] == []
