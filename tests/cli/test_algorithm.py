"""docs/algorithm.md: its numbers are those in force, its files those handed in."""

import dataclasses
import re

from reset_cycles.cli import algorithm, handed_in
from reset_cycles.early_switching import AnyOf, ChainLossRule, Progress
from reset_cycles.optimizers.peaks import SpectralPeak
from reset_cycles.schedule_params import MUON, SCHEDULE_PARAMS, THESIS

TEXT = algorithm.PAGE.read_text()


def rows(settings):
  """The numbers of a page, by their names."""
  text = algorithm.page(settings, 'own', 'self-tuning')
  return dict(re.findall(r'(?m)^\| `(\w+\.\w+)` \| ([^|]+) \|', text))


def test_the_page_has_the_numbers_in_force():
  """If this fails: README.md of an export is the page as it must stand."""
  assert TEXT == algorithm.page(SCHEDULE_PARAMS, 'muon', 'self-tuning')


def test_numbers_are_those_of_the_settings():
  plain = dataclasses.replace(
    MUON, relative_peak=SpectralPeak(), switching=Progress(window=0.06)
  )
  changed = dataclasses.replace(
    plain,
    relative_peak=SpectralPeak(share=0.2, whole=400.0),
    switching=AnyOf((ChainLossRule(k=0.25), Progress(window=0.07))),
  )
  before, after = rows(plain), rows(changed)
  assert before['Cycle.length'] == '1, 2, 4, 8'
  assert before['Cycle.warmup_factor'] == '0.02'
  assert {name: v for name, v in after.items() if before.get(name) != v} == {
    'SpectralPeak.share': '0.2',
    'SpectralPeak.whole': '400',
    'ChainLossRule.lam': '0.7',
    'ChainLossRule.k': '0.25',
    'Progress.window': '0.07',
  }
  assert {*before} <= {*after}
  assert rows(THESIS) == {
    'Cycle.length': '1',
    'Cycle.warmup_factor': '0.02',
    'SoftReset.alpha': '0.5',
    'SoftReset.fade': '0',
    'ScheduleParams.budget_factor': '2',
  }


def test_every_number_of_the_setting_in_force_has_a_row():
  """But for those at which a part does nothing, and what a chain's name says."""
  fields = {
    f'{type(part).__name__}.{field.name}'
    for part in algorithm.parts(SCHEDULE_PARAMS)
    for field in dataclasses.fields(part)
    if isinstance(getattr(part, field.name), float)
  }
  assert fields - {*rows(SCHEDULE_PARAMS)} == {
    *('Averaged.keep', 'Cooldown.floor', 'Cycle.peak', 'LinearWarmup.start'),
    'ScheduleParams.label_smoothing',
  }


def test_every_module_that_is_handed_in_is_on_the_page_once():
  files = handed_in.contents('muon', SCHEDULE_PARAMS, 'muon')
  modules = {f for f in files if re.search(r'(?<!__init__)\.py$', f)}
  section = TEXT.partition('\n## Which files to read\n')[2].partition('\n## ')[
    0
  ]
  named = re.findall(r'`([\w/]+\.py)`', section)
  assert sorted(named) == sorted(modules)
