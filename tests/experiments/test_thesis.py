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


RUNS = {
  'one_cycle': thesis_run(ONE_CYCLE, SOFT),
  'peaks_full': thesis_run(PEAKS, FULL),
  'peaks_kept': thesis_run(PEAKS, KEPT),
  'peaks_soft': thesis_run(PEAKS, SOFT),
  'decays_full': thesis_run(DECAYS, FULL),
  'decays_kept': thesis_run(DECAYS, KEPT),
  'decays_soft': thesis_run(DECAYS, SOFT),
  'warmups_full': thesis_run(WARMUPS, FULL),
  'warmups_kept': thesis_run(WARMUPS, KEPT),
  'warmups_soft': thesis_run(WARMUPS, SOFT),
  # The run whose losses are in 3.6; lambda is logged only.
  'failing_full': thesis_run(FAILING, FULL, lam=0.6),
  'failing_switching': thesis_run(FAILING, FULL, switching=True),
  'failed_start_cyclic': thesis_run(TWO_CYCLES, Cyclic(), 1.0),
  'failed_start_soft': thesis_run(TWO_CYCLES, SOFT, 1.0),
  # These two are not the thesis'.
  'peaks_cyclic': thesis_run(PEAKS, Cyclic()),
  'failed_start_params': thesis_run(TWO_CYCLES, SoftReset(alpha=0.0), 1.0),
}

# The runs of each figure, and what it shows of them if not the metric.
SHOWN = {
  'fig2.1': ('one_cycle', 'schedule'),
  'fig3.1': ('peaks_full peaks_soft',),
  'fig3.3a': ('peaks_full', 'schedule'),
  'fig3.3b': ('peaks_full',),
  'fig3.3c': ('decays_full', 'schedule'),
  'fig3.3d': ('decays_full',),
  'fig3.3e': ('warmups_full', 'schedule'),
  'fig3.3f': ('warmups_full',),
  'fig3.4a': ('peaks_full peaks_kept',),
  'fig3.4b': ('decays_full decays_kept',),
  'fig3.4c': ('warmups_full warmups_kept',),
  'fig3.5': ('failing_full',),
  'fig3.6a': ('failing_full', 'loss'),
  'fig3.6b': ('failing_full', 'smoothed_loss'),
  'fig3.6c': ('failing_full', 'loss_change'),
  'fig3.7': ('failing_switching',),
  'fig3.8a': ('peaks_full peaks_soft',),
  'fig3.8b': ('decays_full decays_soft',),
  'fig3.8c': ('warmups_full warmups_soft',),
  'fig3.9a': ('peaks_full', 'schedule'),
  'fig3.9b': ('peaks_full peaks_soft',),
  'fig3.10': ('failed_start_cyclic',),
  'fig3.11': ('failed_start_soft',),
  'figA.1a': ('peaks_full', 'schedule'),
  'figA.1b': ('peaks_full',),
  'figA.1c': ('peaks_kept',),
}


def test_every_run_has_the_settings_of_the_thesis():
  assert thesis.RUNS == RUNS


def test_every_figure_shows_its_runs():
  assert {
    name: (' '.join(figure.runs), *({figure.shows} - {'metric'}))
    for name, figure in thesis.FIGURES.items()
  } == SHOWN
  assert list(thesis.FIGURES) == list(SHOWN)
  for name, figure in thesis.FIGURES.items():
    expected = thesis.WMT if name.startswith('fig3.9') else thesis.OGBG
    assert figure.workload == expected
    assert figure.workload.stand_in in WORKLOADS
    assert figure.x_axis == ('time' if name == 'fig3.1' else 'steps')
    budget_factor = 1 if name in ('fig3.10', 'fig3.11') else 2
    for params in map(thesis.RUNS.get, figure.runs):
      assert params.budget_factor == figure.budget_factor == budget_factor
    assert 0 < len(figure.title) <= 60


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
  assert made == [RUNS['peaks_kept']]
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
