"""`soft-reset figures` and `soft-reset plot`: from logs to pictures."""

from __future__ import annotations

import pathlib

import pytest

from helpers.log_files import EVENTS, write_run
from helpers.registry_logs import write_log
from reset_cycles.cli import main as cli
from reset_cycles.mini_algoperf import files
from reset_cycles.studies import workers
from reset_cycles.studies.errors import RunFailed
from reset_cycles.studies.thesis import figures, registry
from reset_cycles.studies.thesis.logs import Job

PNG = b'\x89PNG'


@pytest.fixture
def trained(tmp_path, monkeypatch):
  """The jobs that are given to training, which writes their logs at once."""
  jobs = []

  def train_all(missing, root, num_workers, train_fn, title):
    jobs.append((list(missing), root, num_workers))
    for job in missing:
      write_log(root / f'{job.workload}_{job.run}_{job.seed}', job)

  monkeypatch.setattr(workers, 'train_all', train_all)
  monkeypatch.setattr(registry, 'LOGS', tmp_path / 'shipped')
  monkeypatch.chdir(tmp_path)
  return jobs


def names_of(folder='experiment_figures'):
  return sorted(path.name for path in pathlib.Path(folder).iterdir())


def test_what_has_no_logs_is_trained_and_everything_drawn(trained, capsys):
  root = pathlib.Path('my_logs')
  write_log(root / 'a', Job('molecules', 'peaks_full', 1))
  write_log(root / 'b', Job('molecules', 'peaks_soft', 7))
  flags = ('--only=fig3.8a,fig3.9b', '--logs=my_logs', '--seeds=2')
  assert cli.main(['figures', *flags, '--workers=3']) == 0
  [(jobs, new, num_workers)] = trained
  assert jobs == [
    Job('molecules', 'peaks_soft', 1),
    Job('translation', 'peaks_full', 1),
    Job('translation', 'peaks_soft', 1),
    Job('molecules', 'peaks_full', 2),
    Job('molecules', 'peaks_soft', 2),
    Job('translation', 'peaks_full', 2),
    Job('translation', 'peaks_soft', 2),
  ]
  assert new == pathlib.Path('experiment_runs/thesis')
  assert num_workers == 3
  names = ['fig3.8a_molecules.png', 'fig3.9b_translation.png']
  assert names_of() == names
  assert capsys.readouterr().out.splitlines() == [
    f'experiment_figures/{name}' for name in names
  ]
  for name in names:
    content = pathlib.Path('experiment_figures', name).read_bytes()
    assert content.startswith(PNG)


def test_a_second_call_trains_nothing(trained):
  flags = ['figures', '--only=fig3.5', '--logs=.']
  assert cli.main(flags) == 0
  assert cli.main(flags) == 2  # the picture is there
  assert cli.main([*flags, '--overwrite']) == 0
  assert [len(jobs) for jobs, _, _ in trained] == [1, 0, 0]


def test_logs_of_the_benchmark_have_pictures_of_their_own(trained):
  root = pathlib.Path('real')
  for run in ('peaks_full', 'peaks_soft'):
    log = write_log(root / run, Job('ogbg', run, 0), finished=False)
    path = log.log_dir / 'meta_data_0.json'
    meta = files.read_json(path)
    del meta['workload.name'], meta['rng_seed']
    files.write_json(path, meta)
  assert cli.main(['figures', '--only=fig3.8a', '--logs=real']) == 0
  assert names_of() == ['fig3.8a_molecules.png', 'fig3.8a_ogbg.png']


def test_other_small_workloads_are_not_shown(trained):
  write_log(pathlib.Path('logs') / 'x', Job('digits', 'failing_full', 1))
  flags = ('--only=fig3.5,fig3.6a', '--logs=logs', '--out=pictures')
  assert cli.main(['figures', *flags]) == 0
  assert names_of('pictures') == [
    'fig3.5_molecules.png',
    'fig3.6a_molecules.png',
  ]


@pytest.mark.parametrize(
  ('flag', 'axes'), [([], ['time', 'steps']), (['--x=time'], ['time', 'time'])]
)
def test_the_horizontal_axis(flag, axes, trained, monkeypatch):
  seen = []

  def draw(name, figure, runs, x_axis):
    seen.append(x_axis)
    return None

  monkeypatch.setattr(figures, 'draw_figure', draw)
  monkeypatch.setattr(figures, 'save_picture', lambda picture, path: None)
  flags = ['--only=fig3.1,fig3.8a', '--logs=.', *flag]
  assert cli.main(['figures', *flags]) == 0
  assert seen == axes


@pytest.mark.parametrize(
  ('flag', 'message'),
  [
    ('--only=fig3.8x', "'fig3.8x' is not a figure of the thesis: near are"),
    ('--logs=nowhere', '--logs=nowhere: there is no such folder'),
    ('--seeds=0', 'seeds'),
    ('--x=epochs', 'x'),
  ],
)
def test_bad_input(flag, message, trained, capsys):
  assert cli.main(['figures', flag]) == 2
  error = capsys.readouterr().err
  assert message in error and error.count('\n') == 1
  assert not trained


@pytest.mark.parametrize('flag', ['--shipped', '--noshipped'])
def test_the_projects_own_logs_are_used_unless_asked_otherwise(flag, trained):
  job = Job('molecules', 'failing_full', 1)
  write_log(registry.LOGS / 'x', job)
  assert cli.main(['figures', '--only=fig3.5', flag]) == 0
  assert trained[0][0] == ([] if flag == '--shipped' else [job])


def test_logs_that_cannot_be_drawn_are_told_in_a_line(trained, capsys):
  job = Job('molecules', 'failing_full', 1)
  log = write_log(pathlib.Path('logs') / 'x', job)
  path = log.log_dir / 'eval_measurements.csv'
  path.write_text(path.read_text().replace('0.9', 'x'))
  assert cli.main(['figures', '--only=fig3.5', '--logs=logs']) == 2
  error = capsys.readouterr().err
  assert 'eval_measurements.csv' in error and error.count('\n') == 1


def test_plot_draws_every_trial_below_a_folder(tmp_path, capsys):
  trials = [tmp_path / 'run' / f'trial_{n}' for n in (1, 2)]
  for trial in trials:
    trial.mkdir(parents=True)
    write_run(trial, EVENTS)
  assert cli.main(['plot', str(tmp_path)]) == 0
  for trial in trials:
    assert (trial / 'metric.png').read_bytes().startswith(PNG)
  (trials[0] / 'metric.png').unlink()
  assert cli.main(['plot', str(trials[0])]) == 0
  paths = [str(trials[n] / 'metric.png') for n in (0, 1, 0)]
  assert capsys.readouterr().out.splitlines() == paths


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    ([], "Missing argument 'DIR'"),
    (['a', 'b'], 'unexpected extra argument (b)'),
    (['nowhere'], 'nowhere: there is no such folder'),
    ([''], "'': there is no such folder"),
  ],
)
def test_plot_says_what_is_wrong(arguments, message, capsys):
  assert cli.main(['plot', *arguments]) == 2
  assert message in capsys.readouterr().err


def test_a_run_that_fails_is_told_in_a_line(trained, monkeypatch, capsys):
  def fail(missing, root, num_workers, train_fn, title):
    raise RunFailed('molecules one_cycle 1 ended with status 1')

  monkeypatch.setattr(workers, 'train_all', fail)
  assert cli.main(['figures', '--only=fig2.1', '--logs=.']) == 2
  assert capsys.readouterr().err == (
    'soft-reset: error: molecules one_cycle 1 ended with status 1\n'
  )
