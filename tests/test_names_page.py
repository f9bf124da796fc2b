"""docs/thesis.md: every name on it is in the code."""

import pkgutil
import re

import pytest

from helpers.documents import ROOT

PAGE = ROOT / 'docs' / 'thesis.md'
ROWS = [
  [cell.strip() for cell in line.strip('|').split(' | ')]
  for line in PAGE.read_text().splitlines()
  if line.startswith('| ') and ' | here | ' not in line
]
# Every name of the thesis' UML diagram, figure 3.2.
UML = (
  *('SCHEDULE_PARAMS', 'has_multiple', 'reinit_times', 'reinit_steps'),
  *('warmup_schedule_fns', 'decay_schedule_fns', 'alter_decays'),
  *('alter_warmups', 'num_early_stops', 'currently_stopping', 'stop_metric'),
  *('reset_metric', 'init_optimizer_state', 'decay_fn', 'warmup_fn'),
  *('combine_warmup_decay_fn', 'jax_lr_schedule', 'model_reinit_schedule'),
  *('early_stopping', 'is_stopping_early', 'update_params'),
)


def dotted(text):
  """The names with a dot, such as core.chain.Chain, of a cell."""
  return re.findall(r'`(\w+(?:\.\w+)+)`', text)


def find(name):
  """What a name below the package stands for; an error if it is gone."""
  return pkgutil.resolve_name(f'reset_cycles.{name}')


@pytest.mark.parametrize('row', ROWS, ids=[row[0][:40] for row in ROWS])
def test_the_names_of_a_row_are_in_the_code(row):
  theirs, here, _ = row
  names = [name for name in dotted(here) if not name.endswith('.csv')]
  assert names, theirs
  for name in names:
    find(name)


def test_a_name_that_is_gone_is_found_out():
  for name in (
    'core.chain.Chain.has_some',
    'core.plans',
    'core.schedules.Cycle.x',
  ):
    with pytest.raises((AttributeError, ModuleNotFoundError)):
      find(name)


def test_the_page_has_every_name_of_the_diagram():
  said = {name for row in ROWS for name in re.findall(r'`(\w+)`', row[0])}
  assert set(UML) <= said
