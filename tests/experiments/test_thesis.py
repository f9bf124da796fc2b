"""The registry of the thesis' figures, and the settings of their runs."""

from __future__ import annotations

import dataclasses
import json
import pathlib

import numpy as np
import pytest

from helpers.curves import assert_close, read
from reset_cycles import submission
from reset_cycles.core.cycle import Cosine, LinearWarmup
from reset_cycles.early_switching import SmoothedLossRule
from reset_cycles.experiments import submission as experiment
from reset_cycles.experiments import thesis
from reset_cycles.mini_algoperf.workloads import WORKLOADS
from reset_cycles.parts.shapes import HoldingExponential, HoldingLinear
from reset_cycles.schedule_params import THESIS
from reset_cycles.soft_reset import Cyclic, FullReset, KeptMomentum, SoftReset

# Written down from the thesis' chapter 3 and its appendix. Per cycle: what is
# added to the peak of 0.0017486..., the share of the warm-up, the decay.
PEAK = 0.0017486387539278373
COSINE = Cosine()
PEAKS = ((0.0, 0.02, COSINE), (0.001, 0.02, COSINE), (-0.001, 0.02, COSINE))
DECAYS = (
  (0.0, 0.02, COSINE),
  (0.0, 0.02, HoldingExponential()),
  (0.0, 0.02, HoldingLinear()),
)
WARMUPS = ((0.0, 0.02, COSINE), (0.0, 0.2, COSINE), (0.0, 0.005, COSINE))
FAILING = ((0.0, 0.02, COSINE), (0.02, 0.02, COSINE), (0.05, 0.02, COSINE))
TWO_CYCLES = ((0.05, 0.02, COSINE), (0.0, 0.02, COSINE))
ONE_CYCLE = ((0.0, 0.22, COSINE),)
FULL, KEPT, SOFT = FullReset(), KeptMomentum(), SoftReset(alpha=0.5)


def thesis_run(cycles, reset, budget_factor=2.0, lam=0.7, switching=False):
  """The settings of a run whose cycles are all of one length."""
  first = THESIS.cycles[0]
  return dataclasses.replace(
    THESIS,
    cycles=tuple(
      dataclasses.replace(
        first,
        hparams=dataclasses.replace(
          first.hparams, learning_rate=PEAK + added, warmup_factor=share
        ),
        warmup=LinearWarmup(),
        decay=decay,
      )
      for added, share, decay in cycles
    ),
    reset=reset,
    budget_factor=budget_factor,
    switching=SmoothedLossRule(lam, 0.01, 0.01, 9, 9),
    early_switching=switching,
  )


EXPERIMENTS = {
  '2.1': thesis_run(ONE_CYCLE, SOFT),
  '3.1 full': thesis_run(PEAKS, FULL),
  '3.1 soft': thesis_run(PEAKS, SOFT),
  '3.3ab': thesis_run(PEAKS, FULL),
  '3.3cd': thesis_run(DECAYS, FULL),
  '3.3ef': thesis_run(WARMUPS, FULL),
  '3.4a kept': thesis_run(PEAKS, KEPT),
  '3.4b kept': thesis_run(DECAYS, KEPT),
  '3.4c kept': thesis_run(WARMUPS, KEPT),
  # The run whose losses are in 3.6; lambda is logged only.
  '3.5': thesis_run(FAILING, FULL, lam=0.6),
  '3.6': thesis_run(FAILING, FULL, lam=0.6),
  '3.7': thesis_run(FAILING, FULL, switching=True),
  '3.8a': thesis_run(PEAKS, SOFT),
  '3.8b': thesis_run(DECAYS, SOFT),
  '3.8c': thesis_run(WARMUPS, SOFT),
  '3.9 full': thesis_run(PEAKS, FULL),
  '3.9 soft': thesis_run(PEAKS, SOFT),
  '3.10': thesis_run(TWO_CYCLES, Cyclic(), 1.0),
  '3.11': thesis_run(TWO_CYCLES, SOFT, 1.0),
  'A.1 full': thesis_run(PEAKS, FULL),
  'A.1 kept': thesis_run(PEAKS, KEPT),
}

# The runs of each figure, by their names in thesis_experiments.
SHOWN = {
  'fig2.1': ['2.1'],
  'fig3.1': ['3.1 full', '3.1 soft'],
  'fig3.3a': ['3.3ab'],
  'fig3.3b': ['3.3ab'],
  'fig3.3c': ['3.3cd'],
  'fig3.3d': ['3.3cd'],
  'fig3.3e': ['3.3ef'],
  'fig3.3f': ['3.3ef'],
  'fig3.4a': ['3.3ab', '3.4a kept'],
  'fig3.4b': ['3.3cd', '3.4b kept'],
  'fig3.4c': ['3.3ef', '3.4c kept'],
  'fig3.5': ['3.5'],
  'fig3.6a': ['3.6'],
  'fig3.6b': ['3.6'],
  'fig3.6c': ['3.6'],
  'fig3.7': ['3.7'],
  'fig3.8a': ['3.3ab', '3.8a'],
  'fig3.8b': ['3.3cd', '3.8b'],
  'fig3.8c': ['3.3ef', '3.8c'],
  'fig3.9a': ['3.9 full'],
  'fig3.9b': ['3.9 full', '3.9 soft'],
  'fig3.10': ['3.10'],
  'fig3.11': ['3.11'],
  'figA.1a': ['A.1 full'],
  'figA.1b': ['A.1 full'],
  'figA.1c': ['A.1 kept'],
}


def test_every_figure_is_there():
  assert list(thesis.FIGURES) == list(SHOWN)


@pytest.mark.parametrize('name', SHOWN)
def test_runs_have_the_settings_of_the_thesis(name):
  figure = thesis.FIGURES[name]
  shown = [thesis.RUNS[run] for run in figure.runs]
  assert shown == [EXPERIMENTS[key] for key in SHOWN[name]]
  assert {params.budget_factor for params in shown} == {figure.budget_factor}
  assert figure.budget_factor == (1 if name in ('fig3.10', 'fig3.11') else 2)


@pytest.mark.parametrize('name', SHOWN)
def test_workloads_axes_and_texts(name):
  figure = thesis.FIGURES[name]
  expected = thesis.WMT if name.startswith('fig3.9') else thesis.OGBG
  assert figure.workload == expected
  assert figure.workload.stand_in in WORKLOADS
  assert figure.x_axis == ('time' if name == 'fig3.1' else 'steps')
  drawn = {'fig3.6a': 'loss', 'fig3.6b': 'smoothed_loss'}
  drawn['fig3.6c'] = 'loss_change'
  for schedule in ('fig2.1', 'fig3.3a', 'fig3.3c', 'fig3.3e', 'fig3.9a'):
    drawn[schedule] = 'schedule'
  drawn['figA.1a'] = 'schedule'
  assert figure.shows == drawn.get(name, 'metric')
  assert 0 < len(figure.title) <= 60
  assert figure.caption.endswith('.')


def test_every_run_is_shown_but_those_that_take_comparisons_apart():
  shown = {run for figure in thesis.FIGURES.values() for run in figure.runs}
  assert set(thesis.RUNS) - shown == {'peaks_cyclic', 'failed_start_params'}
  assert shown <= set(thesis.RUNS)
  assert thesis.RUNS['peaks_cyclic'] == thesis_run(PEAKS, Cyclic())
  assert thesis.RUNS['failed_start_params'] == thesis_run(
    TWO_CYCLES, SoftReset(alpha=0.0), 1.0
  )


def test_the_environment_chooses_the_run(monkeypatch):
  made = []
  monkeypatch.setenv('EXPERIMENT', 'peaks_kept')
  monkeypatch.setattr(
    experiment,
    'make_submission',
    lambda params: (
      made.append(params)
      or submission.make_submission(params)._replace(
        init_optimizer_state=lambda *args, **kwargs: (args, kwargs)
      )
    ),
  )
  assert experiment.init_optimizer_state(1, rng=2) == ((1,), {'rng': 2})
  assert made == [EXPERIMENTS['A.1 kept']]
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


def test_an_unknown_figure_is_named_with_those_that_are_near():
  assert thesis.find_figure('fig3.8a') is thesis.FIGURES['fig3.8a']
  with pytest.raises(ValueError, match=r"'fig3\.8' .* fig3\.8a, fig3\.8b, fig"):
    thesis.find_figure('fig3.8')
  with pytest.raises(ValueError, match=r"'x' is not .* fig2\.1, .*, figA\.1c"):
    thesis.find_figure('x')


@pytest.mark.oracle
@pytest.mark.parametrize(
  ('run', 'figure'),
  (('peaks_full', '3.3a'), ('decays_full', '3.3c_publiccode')),
)
def test_whole_runs_agree_with_the_reference_values(run, figure):
  path = pathlib.Path(__file__).parents[1] / 'data' / 'thesis_chain.json'
  expected = json.loads(path.read_text())[f'fig{figure}|T=1600|even']
  chain = thesis.RUNS[run].chain(800)
  assert [cycle.steps for cycle in chain.cycles] == expected['lengths']
  rates = read(chain.schedule, np.arange(1600, dtype=np.float32))
  assert_close(rates, expected['values'], max(expected['peaks']))
