"""All shapes and their parameters as Markdown, from the registries.

python -m reset_cycles.studies.preview.shape_table > docs/shapes.md
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from ...schedules.decays import DECAYS
from ...schedules.warmups import WARMUPS
from ...schedules.weight_decay import WEIGHT_DECAYS
from ...settings.named import REQUIRED, Parameter, Registry, as_plain

_HEAD = """# Shapes

Written by `python -m reset_cycles.studies.preview.shape_table`, from the code: a test
compares the two. A shape is written as its name, or as an object with its name
and parameters. t counts the steps of a phase, N is its length and u = t / N the
share that has passed. Values are shares of the cycle's peak. L is the length of
the cycle and W that of its warm-up, in steps."""


def as_markdown() -> str:
  """The table, with a line break at its end."""
  lines = [
    _HEAD,
    *_section('Warm-ups', WARMUPS, list(WARMUPS)),
    *_section('Decays', DECAYS, list(DECAYS)),
    '\n## Weight decays\n\nAll decays, over the whole cycle, and:',
    *_shape(WEIGHT_DECAYS, 'ratio'),
  ]
  return '\n'.join(lines) + '\n'


def _section(title: str, registry: Registry, names: list[str]) -> Iterator[str]:
  yield f'\n## {title}'
  for name in names:
    yield from _shape(registry, name)


def _shape(registry: Registry, name: str) -> Iterator[str]:
  paragraphs = inspect.getdoc(registry[name].make).split('\n\n')
  yield f'\n### `{name}`\n\n{paragraphs[0]}'
  parameters = registry.parameters(name)
  if parameters:
    yield '\n| parameter | default | what it may be |\n|---|---|---|'
  for key, parameter in parameters.items():
    yield f'| `{key}` | {_default(parameter)} | {parameter.kind.right} |'
  for paragraph in paragraphs[1:]:
    if paragraph.startswith(('Example:', 'Source:')):
      yield f'\n{paragraph}'


def _default(parameter: Parameter) -> str:
  if parameter.default is REQUIRED:
    return 'must be given'
  default = as_plain(parameter.default)
  if isinstance(default, tuple):
    return f'`{list(default)}`'
  return f'`{default}`'


if __name__ == '__main__':
  print(as_markdown(), end='')
