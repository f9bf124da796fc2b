"""The registry of the thesis' figures, and the settings of their runs."""

import fnmatch
import json
import pathlib
import zipfile

import pytest

from helpers.curves import assert_close
from reset_cycles import submission
from reset_cycles.core.chain import jax_lr_schedule
from reset_cycles.research.thesis import registry as thesis
from reset_cycles.research.thesis import submission as experiment
from reset_cycles.views.planned_runs import PlannedRun, planned_rates
from reset_cycles.views.settings_json import from_plain


def test_the_figures_of_the_thesis():
  """But 3.2, its UML diagram, and A.1a and b, which are 3.3a and b."""
  parts = {
    '3.3': 'abcdef',
    '3.4': 'abc',
    '3.6': 'abc',
    '3.8': 'abc',
    '3.9': 'ab',
  }
  alone = {f'fig{n}' for n in '2.1 3.1 3.5 3.7 3.10 3.11'.split()}
  lettered = {f'fig{n}{part}' for n in parts for part in parts[n]}
  assert set(thesis.FIGURES) == {*alone, *lettered, 'figA.1c'}


@pytest.mark.parametrize(
  ('workload', 'names'),
  [
    # Ours: the stand-in.
    ('molecules', {'fig3.1', 'fig3.8a'}),
    ('translation', {'fig3.7', 'fig3.9b'}),
    ('digits', set()),
    # Real data: where its stand-in is drawn, and no seconds.
    ('ogbg_tox21', {'fig3.8a'}),
    ('wmt_multi30k', {'fig3.7', 'fig3.9b'}),
    # The benchmark's: any.
    ('ogbg', {'fig3.1', 'fig3.7', 'fig3.8a', 'fig3.9b'}),
    ('librispeech_conformer', {'fig3.1', 'fig3.7', 'fig3.8a', 'fig3.9b'}),
  ],
)
def test_which_figures_are_drawn_of_a_workload(workload, names):
  asked = ('fig3.1', 'fig3.7', 'fig3.8a', 'fig3.9b')
  found = {
    name for name in asked if thesis.FIGURES[name].is_drawn_for(workload)
  }
  assert found == names


@pytest.mark.parametrize('run', thesis.RUNS)
def test_every_run_has_the_settings_of_its_logs(run):
  """Those with which the archived runs were trained, on every workload."""
  archives = [*thesis.LOGS.glob(f'*_{run}.zip')]
  assert archives
  for archive in archives:
    with zipfile.ZipFile(archive) as logs:
      for name in fnmatch.filter(logs.namelist(), '*/schedule_params.json'):
        written = json.loads(logs.read(name))['schedule_params']
        assert from_plain(written) == thesis.RUNS[run]


def test_the_environment_chooses_the_run(monkeypatch):
  def make(params):
    init = lambda *args, **kwargs: (params, args, kwargs)
    made = submission.make_submission(params)
    return made._replace(init_optimizer_state=init)

  monkeypatch.setenv('EXPERIMENT', 'peaks_kept')
  monkeypatch.setattr(experiment, 'make_submission', make)
  expected = (thesis.RUNS['peaks_kept'], (1,), {'rng': 2})
  assert experiment.init_optimizer_state(1, rng=2) == expected
  assert experiment.update_params is submission.update_params


@pytest.mark.parametrize('name', (None, 'peaks_sft'))
def test_an_environment_that_names_no_run(monkeypatch, name):
  monkeypatch.delenv('EXPERIMENT', raising=False)
  if name:
    monkeypatch.setenv('EXPERIMENT', name)
  with pytest.raises(
    ValueError, match='EXPERIMENT=.* must be one of one_cycle'
  ):
    experiment.init_optimizer_state()


@pytest.mark.oracle
@pytest.mark.parametrize(
  ('run', 'figure'),
  (('peaks_full', '3.3a'), ('decays_full', '3.3c_publiccode')),
)
def test_whole_runs_agree_with_the_reference_values(run, figure):
  path = pathlib.Path(__file__).parents[2] / 'data' / 'thesis_chain.json'
  expected = json.loads(path.read_text())[f'fig{figure}|T=1600|even']
  params = thesis.RUNS[run]
  chain = jax_lr_schedule(800, params.cycles, params.budget_factor)
  assert [cycle.steps for cycle in chain.cycles] == expected['lengths']
  boundaries = [*chain.reinit_steps, chain.steps]
  assert boundaries == [*expected['boundaries']]
  rates = planned_rates(PlannedRun(800, params))
  assert_close(rates, expected['values'], max(expected['peaks']))
