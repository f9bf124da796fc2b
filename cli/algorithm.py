"""docs/algorithm.md: the page of the algorithm, with the numbers of a setting.

The page is the README of what is handed in. `README.md` of an export of the
setting in force is the page as it must stand in docs/.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from .. import __version__

PAGE = pathlib.Path(__file__).resolve().parents[1] / 'docs' / 'algorithm.md'
_MARK = re.compile('(?<=<!-- numbers -->\n).*?(?=<!-- /numbers -->)', re.DOTALL)
_WIDTH = 80


class _Row(NamedTuple):
  """A number of a setting: where it stands, and what is known of it."""

  part: str  # the name of its class
  field: str
  does: str
  found: str  # where it was measured; the values compared are in the text


_MUON = '`research/muon/MUON.md`'
_PEAKS = '`research/peaks/PEAKS.md`'
_REPLAY = '`research/replay/FINDINGS.md`'
_LEGEND = (
  '*.3: 1.04* means: a value of .3 takes 1.04 of the steps to the target that '
  'the setting takes, a geometric mean over ten seeds of eight small stand-ins '
  'on a CPU. **Beside the other numbers in force only one cycle, `alpha`, '
  '`fade`, no soft resets, and ten times and a tenth of the share were '
  'measured,** all but the last two with a weight decay not yet over the size, '
  'and without the epochs. The other rows of `research/muon/MUON.md` compare '
  'with an earlier setting, `before_the_law`: '
  'coherence 0, a peak of .08 up to 1,500 steps, a weight decay of .02, a rest '
  'share of .3.'
)
_ROWS = (
  _Row(
    *('Cycle', 'length', 'relative lengths of the cycles'),
    f'one cycle: 1.02 on four workloads, five seeds; two cycles: 1.05; {_MUON}',
  ),
  _Row(
    *('Cycle', 'warmup_factor', 'share of a cycle in which the rate rises'),
    "the thesis' .02; not varied",
  ),
  _Row(
    *('Cooldown', 'share', 'share after the warm-up in which the rate falls'),
    f'.3: 1.04; {_MUON}',
  ),
  _Row(
    *('SpectralPeak', 'share', "peak of short cycles over the matrices' size"),
    f'with coherence, on other tasks: {_PEAKS}; without, .05: 1.15, .12: .98; '
    f'{_MUON}',
  ),
  _Row(
    *('SpectralPeak', 'whole', "a cycle's end from which on the share falls"),
    f'with coherence, on runs of one cycle: {_PEAKS}',
  ),
  _Row(
    *('Muon', 'momentum', "mu: decay of the mean of a matrix's gradients"),
    f'.6: .98, .95: 1.53; {_MUON}',
  ),
  _Row(
    *('Muon', 'growth_start', 'steps from which on the momentum grows'),
    f'beside 300 and no growth: {_PEAKS}',
  ),
  _Row(
    *('Muon', 'coherence', 'power of the coherence in a step of a matrix'),
    f'beside 0: {_PEAKS}',
  ),
  _Row(
    *('Muon', 'weight_decay', 'times a power of rate / size'),
    f'with the power: {_PEAKS}; without, 0: 1.03, .081: .96, but long runs '
    f'come to rest under .081; {_MUON}',
  ),
  _Row(
    *('Muon', 'decay_lr_power', 'power of rate / size in the weight decay'),
    f'beside 0: {_PEAKS}',
  ),
  _Row(
    *('Muon', 'rest_share', 'share of the rate for what is no matrix'),
    f'beside .1 and .3, with coherence: {_PEAKS}; without, .2: 1.02, .5: 1.01, '
    f'and at .1 a click model misses its target; {_MUON}',
  ),
  _Row(
    *('Muon', 'fall_start', 'steps from which on updates of embeddings shrink'),
    f'beside 1000 and none: {_PEAKS}',
  ),
  _Row(
    *('Muon', 'least_norm', 'where the weight decay by the epochs ends'),
    f'beside 3, 4, 8 and none, on few data: {_PEAKS}',
  ),
  _Row(
    *('Rms', 'beta2', 'decay of the mean of squared gradients'),
    "of the benchmark's baseline, and of the self-tuning winner of 2024; not "
    'varied',
  ),
  _Row(
    *('Rms', 'eps', 'added to the root of that mean'),
    "Adam's; not varied",
  ),
  _Row(
    *('Averaged', 'one_minus_beta1', 'share of z where the gradient is taken'),
    f'.5: 1.00, .1: 1.20; {_MUON}',
  ),
  _Row(
    *('Averaged', 'r', "power of the step's number in the average's weights"),
    f'1: 1.04, 4: .98; {_MUON}',
  ),
  _Row(
    *('Averaged', 'weight_lr_power', 'power of the rate in these weights'),
    "Schedule-Free's; not varied",
  ),
  _Row(
    *('SoftReset', 'alpha', 'share of tau that moments get'),
    f'0: 1.00; {_MUON}',
  ),
  _Row(
    *('SoftReset', 'fade', 'tau is 0 from 1 / fade of the run on'),
    f'0: 1.01; {_MUON}',
  ),
  _Row(
    *('Progress', 'min_share', 'share of a chain that is not judged'),
    f'on recorded runs of the benchmark; {_REPLAY}',
  ),
  _Row(
    *('Progress', 'margin', 'share of the way that may be missing'),
    'as above',
  ),
  _Row(
    *('Progress', 'gain', 'share of the way that a whole chain gains'),
    'as above',
  ),
  _Row(
    *('Progress', 'window', 'share of a chain without a new best'),
    'as above; with weights that begin ten times too small 0 loses 17 targets '
    f'of 40 that .06 reaches; {_MUON}',
  ),
  _Row(
    *('ChainLossRule', 'lam', 'weight of the newest loss'),
    f"the thesis'; {_REPLAY}",
  ),
  _Row(
    *('ChainLossRule', 'k', 'share of a chain without a minimum'),
    f'on recorded runs of the benchmark; {_REPLAY}',
  ),
  _Row(
    *('TimeHorizon', 'slack', 'share of an interval kept free at the end'),
    'chosen by the conditions of both runners; not varied',
  ),
  _Row(
    *('TimeHorizon', 'margin', 'share of the last steps not relied on'),
    'as above',
  ),
  _Row(
    *('ScheduleParams', 'budget_factor', 'planned steps over `step_hint`'),
    'not varied',
  ),
)


def page(settings: Any, title: str, ruleset: str) -> str:
  """The page with the numbers of these settings.

  Args:
    settings: a ScheduleParams.
    title: the name of the settings; the page is of `muon`.
    ruleset: 'self-tuning' or 'external'.
  """
  text = PAGE.read_text(encoding='utf-8')
  numbers = _numbers(settings, title, ruleset)
  return _MARK.sub(lambda match: numbers, text)


def _numbers(settings: Any, title: str, ruleset: str) -> str:
  """A sentence on the settings, and a table of their numbers."""
  lines = [
    f'Settings `{title}` of reset-cycles {__version__}, for the {ruleset} '
    'ruleset.'
  ]
  if title != 'muon':
    lines[0] += (
      ' The rest of this page is of `muon`. Where these settings have other '
      'parts, the end of `schedule_params.py` says what is in force.'
    )
  lines += [
    '',
    _LEGEND,
    '',
    '| number | value | what it does | where it was measured |',
  ]
  lines.append('|---|---|---|---|')
  all_parts = [*parts(settings)]
  for row in _ROWS:
    values = [
      str(getattr(part, row.field)).removesuffix('.0')
      for part in all_parts
      if type(part).__name__ == row.part
    ]
    shown = ', '.join(values if len({*values}) > 1 else values[:1])
    if shown:
      name = f'`{row.part}.{row.field}`'
      lines.append(f'| {name} | {shown} | {row.does} | {row.found} |')
  return '\n'.join([*lines, ''])


def parts(value: Any) -> Iterator[Any]:
  """A setting and all that it is made of, from the outside in."""
  if isinstance(value, (tuple, list)):
    for item in value:
      yield from parts(item)
  elif dataclasses.is_dataclass(value):
    yield value
    for field in dataclasses.fields(value):
      yield from parts(getattr(value, field.name))


def classes(settings: Any) -> set[type]:
  """The classes of a setting and of its fields, at any depth."""
  return {type(part) for part in parts(settings)}


def written(value: Any, indent: str = '', before: str = '') -> str:
  """A setting as code, with every number, in lines of up to 80 columns.

  Args:
    value: a setting, or what is in one.
    indent: of the line that it begins in.
    before: what stands in that line, and a comma that follows.
  """
  text = repr(value)
  if len(f'{indent}{before}{text}') <= _WIDTH:
    return text
  inner = indent + '  '
  if isinstance(value, tuple):
    items = [('', item) for item in value]
    opening = '('
  elif dataclasses.is_dataclass(value):
    fields = dataclasses.fields(value)
    items = [(f'{f.name}=', getattr(value, f.name)) for f in fields if f.init]
    opening = f'{type(value).__name__}('
  else:
    return text
  lines = (
    f'{inner}{name}{written(item, inner, f"{name},")},\n'
    for name, item in items
  )
  return f'{opening}\n{"".join(lines)}{indent})'
