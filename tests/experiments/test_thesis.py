"""The registry of the thesis' figures, and the modules of their runs."""

from __future__ import annotations

import ast
import importlib
import pathlib

import pytest

from reset_cycles import experiments, submission
from reset_cycles.experiments import thesis
from reset_cycles.mini_algoperf import submission_loader
from reset_cycles.mini_algoperf.workloads import WORKLOADS
from thesis_experiments import EXPERIMENTS

FOLDER = pathlib.Path(experiments.__file__).parent

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


def test_every_run_is_shown_and_has_a_module():
  shown = {run for figure in thesis.FIGURES.values() for run in figure.runs}
  compared = {'peaks_cyclic', 'failed_start_params'}
  assert shown | compared == set(thesis.RUNS)
  modules = {path.stem for path in FOLDER.glob('*.py')}
  others = {'__init__', 'full_reset', 'settings', 'thesis'}
  assert modules - others == set(thesis.RUNS)


@pytest.mark.parametrize('name', thesis.RUNS)
def test_a_module_is_the_submission_of_its_settings(name):
  path = thesis.run_path(name)
  module = importlib.import_module(f'reset_cycles.experiments.{name}')
  assert module.__file__ == str(path)
  expected = submission.make_submission(thesis.RUNS[name])
  init = module.init_optimizer_state
  assert init.func is expected.init_optimizer_state.func
  assert init.args == (thesis.RUNS[name],)
  for function in expected._fields[1:]:
    assert getattr(module, function) is getattr(expected, function)
  loaded = submission_loader.load_submission(str(path))
  assert loaded.init_optimizer_state is init


@pytest.mark.parametrize('name', thesis.RUNS)
def test_a_module_has_three_statements(name):
  docstring, *statements = ast.parse(thesis.run_path(name).read_text()).body
  assert isinstance(docstring, ast.Expr)
  assert [type(statement) for statement in statements] == [
    ast.ImportFrom,
    ast.ImportFrom,
    ast.Assign,
  ]


def test_an_unknown_figure_is_named_with_those_that_are_near():
  assert thesis.find_figure('fig3.8a') is thesis.FIGURES['fig3.8a']
  with pytest.raises(ValueError, match=r"'fig3\.8' .* fig3\.8a, fig3\.8b, fig"):
    thesis.find_figure('fig3.8')
  with pytest.raises(ValueError, match=r"'x' is not .* fig2\.1, .*, figA\.1c"):
    thesis.find_figure('x')
