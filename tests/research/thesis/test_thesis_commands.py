"""`reset-cycles experiments`, `figures` and `results`."""

import pathlib
import shlex

import pytest

from helpers.log_files import EVENTS, write_log, write_run
from reset_cycles.cli import main as cli
from reset_cycles.mini_algoperf import files, submission_loader
from reset_cycles.research import workers
from reset_cycles.research.thesis import registry as thesis
from reset_cycles.research.thesis import results
from reset_cycles.research.thesis.claims import CLAIMS
from reset_cycles.research.thesis.folders import Job
from reset_cycles.schedule_params import SOFT_RESET

FAILED_START = Job('translation', 'failed_start_soft', 1)


@pytest.fixture
def trained(tmp_path, monkeypatch):
  """The jobs that are given to training, which writes their logs at once."""
  jobs = []

  def train_all(missing, root, num_workers, train_fn):
    jobs.append((list(missing), root, num_workers))
    for job in missing:
      write_log(root / f'{job.workload}_{job.run}_{job.seed}', job)

  monkeypatch.setattr(workers, 'train_all', train_all)
  monkeypatch.setattr(thesis, 'LOGS', tmp_path / 'shipped')
  monkeypatch.chdir(tmp_path)
  return jobs


# Experiments.


def test_every_figure_is_explained(capsys):
  for name, figure in thesis.FIGURES.items():
    assert cli.main(['experiments', name]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f'{name}: {figure.title}\n')
    stand_in = figure.workload.stand_in
    assert f'Workload: {figure.workload.name}, here {stand_in}.\n' in out
    assert out.count('\nHere:\n') == len(figure.runs)
    for line in out.splitlines():
      assert len(line) <= 84 or line.lstrip().startswith('--submission_path=')
    for run in figure.runs:
      assert f'\n{run}\n{"-" * len(run)}\nResets: ' in out
      assert f' --settings={run} --step_hint={figure.workload.step_hint}' in out


def test_the_commands(capsys, monkeypatch):
  monkeypatch.chdir(pathlib.Path(thesis.__file__).parents[1])
  cli.main(['experiments', 'fig3.11'])
  lines = capsys.readouterr().out.replace('\\\n', '').splitlines()
  name = 'failed_start_soft'
  exported, benchmark, own = (
    shlex.split(next(line for line in lines if line.startswith(start)))
    for start in ('  reset-cycles export', '  python3', f'  EXPERIMENT={name}')
  )
  folder = f'submissions/{name}'
  assert exported[2:] == [f'--settings={name}', f'--out={folder}']
  path = f'{folder}/self_tuning/{name}/submission.py'
  assert f'--submission_path={path}' in benchmark
  assert own[1:3] == ['reset-cycles', 'run']
  given = cli.cli.commands['run'].make_context('run', own[3:]).params
  shown = given['workload'], given['stop_at_targets']
  assert shown == ('translation', False)
  submission_loader.load_submission(given['submission_path'])


def test_a_figure_without_its_letter_is_all_its_parts(capsys):
  parts = []
  for name in ('fig3.8a', 'fig3.8b', 'fig3.8c'):
    assert cli.main(['experiments', name]) == 0
    parts.append(capsys.readouterr().out)
  assert cli.main(['experiments', 'fig3.8']) == 0
  assert capsys.readouterr().out == '\n\n'.join(parts)


# fig3.1 is a figure of its own, and no beginning of fig3.10 and fig3.11.
@pytest.mark.parametrize(
  ('name', 'found'),
  [
    ('fig3.8', ['fig3.8a', 'fig3.8b', 'fig3.8c']),
    ('fig3.1', ['fig3.1']),
    ('fig3.10', ['fig3.10']),
    ('fig3.3f', ['fig3.3f']),
  ],
)
def test_what_a_name_means(name, found):
  assert list(thesis.find_figures(name)) == found


@pytest.mark.parametrize('name', ['fig3', 'fig', 'fig3.8d', 'fig3.2', 'figA.2'])
def test_a_figure_that_is_not_there(name, capsys):
  assert cli.main(['experiments', name]) == 2
  said = capsys.readouterr().err
  assert f"figure='{name}': must be one of fig2.1, " in said


# Figures.


def test_all_parts_of_a_figure_are_drawn(trained):
  assert cli.main(['figures', '--only=fig3.8,fig3.8b']) == 0
  assert names_of() == [f'fig3.8{part}_molecules.png' for part in 'abc']


def names_of(folder='experiment_figures'):
  return sorted(path.name for path in pathlib.Path(folder).iterdir())


def test_what_has_no_logs_is_trained_and_everything_drawn(trained, capsys):
  root = pathlib.Path('my_logs')
  write_log(root / 'a', Job('molecules', 'peaks_full', 1))
  write_log(root / 'b', Job('molecules', 'peaks_soft', 7))
  command = [
    *('figures', '--only=fig3.8a,fig3.9b', '--logs=my_logs'),
    *('--seeds=2', '--jobs=3'),
  ]
  assert cli.main(command) == 0
  runs = ('peaks_full', 'peaks_soft')
  wanted = [
    Job(workload, run, seed)
    for seed in (1, 2)
    for workload in ('molecules', 'translation')
    for run in runs
  ]
  there = pathlib.Path('experiment_runs/thesis')
  assert trained == [([], there, 3), (wanted[1:], there, 3)]
  names = ['fig3.8a_molecules.png', 'fig3.9b_translation.png']
  paths = [f'experiment_figures/{name}' for name in names]
  assert names_of() == names
  assert capsys.readouterr().out.splitlines() == paths
  assert pathlib.Path(paths[0]).read_bytes().startswith(b'\x89PNG')
  # A second time nothing is trained, nor replaced unless that is asked for.
  assert cli.main(command) == 2
  assert cli.main([*command, '--overwrite']) == 0
  assert not any(jobs for jobs, _, _ in trained[2:])


@pytest.mark.parametrize('name', ['fig3.8a_ogbg', 'fig3.9b_translation'])
def test_pictures_are_checked_before_training(name, trained, capsys):
  for run in ('peaks_full', 'peaks_soft'):
    write_log(pathlib.Path('real') / run, Job('ogbg', run, 0), finished=False)
  path = pathlib.Path(f'experiment_figures/{name}.png')
  path.parent.mkdir()
  path.touch()
  assert cli.main(['figures', '--only=fig3.8a,fig3.9b', '--logs=real']) == 2
  assert f'{path} exists' in capsys.readouterr().err
  assert not any(jobs for jobs, _, _ in trained)
  assert names_of() == [path.name]


def test_logs_of_the_benchmark_have_pictures_of_their_own(trained):
  root = pathlib.Path('real')
  for run in ('peaks_full', 'peaks_soft'):
    log = write_log(root / run, Job('ogbg', run, 0), finished=False)
    path = log.log_dir / 'meta_data_0.json'
    meta = files.read_json(path)
    del meta['workload.name'], meta['rng_seed']
    files.write_json(path, meta)
  # Those of another small workload are not shown.
  write_log(root / 'x', Job('digits', 'peaks_full', 1))
  command = ['figures', '--only=fig3.8a', '--logs=real', '--out=pictures']
  assert cli.main(command) == 0
  assert names_of('pictures') == ['fig3.8a_molecules.png', 'fig3.8a_ogbg.png']


@pytest.mark.parametrize(
  ('flag', 'missing'), [('--shipped', []), ('--noshipped', [FAILED_START])]
)
def test_the_projects_own_logs_are_used_unless_asked_otherwise(
  flag, missing, trained
):
  write_log(thesis.LOGS / 'x', FAILED_START)
  assert cli.main(['figures', '--only=fig3.11', flag]) == 0
  assert trained[1][0] == missing


@pytest.mark.parametrize('command', ['figures', 'results'])
def test_a_folder_of_logs_without_a_run_that_counts_is_refused(
  command, trained, capsys
):
  """Beside one that has such a run, which an earlier one has as well."""
  for name in ('a', 'b'):
    write_log(pathlib.Path(name, 'x'), FAILED_START)
  pathlib.Path('mine').mkdir()
  write_run(pathlib.Path('mine'), EVENTS, params=SOFT_RESET)
  assert cli.main([command, '--logs=a,b,mine']) == 2
  said = "--logs=mine: no finished run of the thesis' registry is in it"
  assert said in capsys.readouterr().err
  assert trained == []


@pytest.mark.skipif(
  not pathlib.Path('/proc').exists(), reason='there is no /proc'
)
@pytest.mark.parametrize(
  'words', [('figures', '--out=/proc'), ('results', '--out=/proc/x.md')]
)
def test_a_folder_that_cannot_be_written_to_is_refused_before_training(
  words, trained, capsys
):
  assert cli.main(words) == 2
  assert ' cannot be written: ' in capsys.readouterr().err
  assert not any(jobs for jobs, _, _ in trained)


# Results.


def test_the_results_of_the_project_are_those_of_its_logs(
  tmp_path, monkeypatch, capsys
):
  """`make results` would change nothing."""
  monkeypatch.chdir(tmp_path)
  page = tmp_path / 'research' / 'thesis' / 'RESULTS.md'
  page.parent.mkdir(parents=True)
  assert cli.main(['results', '--out=research/thesis/RESULTS.md']) == 0
  assert capsys.readouterr().out == 'research/thesis/RESULTS.md\n'
  kept = pathlib.Path(thesis.__file__).with_name('RESULTS.md')
  assert page.read_text() == kept.read_text()
  flags = [f'--logs={thesis.LOGS}', '--runs=my runs', '--noshipped']
  assert cli.main(['results', '--out=x.md', *flags]) == 0
  said = pathlib.Path('x.md').read_text()
  assert f' --seeds=10 --out=x.md {shlex.join(flags)}\n' in said
  assert 'with the project' not in said


def test_the_command_trains_and_measures(trained, monkeypatch):
  measured, shown = [], []

  def measure(command, own, used, of_figures):
    measured.extend(used)
    shown.extend(log.job for log in of_figures)
    return ''

  monkeypatch.setattr(results, 'measure', measure)
  logs = pathlib.Path('logs')
  # On real data all seeds are shown, of ours those that were asked for.
  real = Job('ogbg_tox21', 'peaks_soft', 14)
  for job in (real, Job('molecules', 'peaks_soft', 14)):
    write_log(logs / job.workload, job)
  write_log(logs / 'x', Job('molecules', 'peaks_soft', 4))
  write_log(logs / 'y', Job('molecules', 'decays_soft', 1))  # of no claim
  assert cli.main(['results', '--logs=logs']) == 0
  runs = {run for claim in CLAIMS for run in claim.runs}
  [(jobs, _, _)] = trained
  assert len(jobs) == len(set(jobs)) == 10 * len(runs) * 3 - 1
  # All runs of a seed before those of the next.
  assert [job.seed for job in jobs] == sorted(job.seed for job in jobs)
  assert {job.seed for job in jobs} == set(range(1, 11))
  assert len(measured) == len(jobs) + 1
  assert [job for job in shown if job.seed > 10] == [real]
