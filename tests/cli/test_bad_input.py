"""Whatever is wrong with the input is said in one line, with exit status 2."""

import pathlib

import pytest

from helpers.fakes import write_submission
from helpers.log_files import EVENTS, write_run
from reset_cycles.cli import main as cli
from reset_cycles.research import workers
from reset_cycles.research.thesis import registry as thesis

IMPORTS = (
  'import sys; from dataclasses import replace\n'
  'from reset_cycles.schedule_params import Cycle, THESIS\n'
  'from reset_cycles.submission import make_submission\n'
)
FUNCTIONS = (
  '(init_optimizer_state, update_params, prepare_for_eval, data_selection,\n'
  ' get_batch_size) = '
)
# Experiments of a user's own: what comes after the imports. A line of their own
# is named where it is theirs that raises.
OWN = {
  'no_cycle': 'make_submission(replace(THESIS, cycles=("cosine",)))',
  'dict': 'make_submission({"alpha": 0.5})',
  'endless': 'make_submission(replace(THESIS, budget_factor=1e30))',
  'part': (
    'make_submission(replace(THESIS, cycles=(Cycle(decay=lambda x, w: None),)))'
  ),
  'unpacked': 'make_submission(THESIS)[:3]',
}
SUBMISSIONS = {
  **{name: f'{IMPORTS}{FUNCTIONS}{text}\n' for name, text in OWN.items()},
  'syntax': 'def (',
  'not_there': 'import not_there',
  'nul': 'x = 1\0',
}
NAMES = ('', '..', '../out', '/abs', 'a/../../b')
SIZES = ('None', '8.0', '0', '12', '104')
SEEDS = ('', 'x', '1-', '3-1', '1,3-1', '-2')
# Damaged logs: a file of a run, and what stands in it instead.
LOGS = {
  'meta_torn': ('meta_data_0.json', '{"workload'),
  'plan_torn': ('schedule_params.json', '{'),
}


def write(path, text):
  path = pathlib.Path(path)
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(text)


@pytest.fixture(scope='module')
def bad_files(tmp_path_factory):
  """A folder with all of the files that the cases name."""
  root = tmp_path_factory.mktemp('bad')
  for name, text in SUBMISSIONS.items():
    write(root / f'own/{name}.py', text)
  write(root / 'own/__init__.py', '')
  write(root / 'alone/submission.py', '')
  write_submission(root / 'part', functions=['init_optimizer_state'])
  complete = pathlib.Path(write_submission(root / 'foreign')).read_text()
  for i, text in enumerate(SIZES):
    sizes = f'def get_batch_size(name): return {text}'
    write(root / f'foreign/size_{i}.py', f'{complete}\n{sizes}\n')
  (root / 'dir.html').mkdir()
  (root / 'dir.json').mkdir()
  write(root / 'typo.json', '{"repaet": true}')
  for name, (file, content) in LOGS.items():
    (root / 'logs' / name).mkdir(parents=True)
    write_run(root / 'logs' / name, EVENTS)
    write(root / 'logs' / name / file, content)
  (root / 'loop').symlink_to('loop')
  write(root / 'file', 'text')
  write(root / 'plan.png', 'mine')
  write(root / 'page.md', 'mine')
  write(root / 'board/scoreboard.png', 'mine')
  write(root / 'zips/a.zip', 'PK')
  return root


@pytest.fixture
def in_the_folder(bad_files, fake_workload, monkeypatch):
  """The current folder has the files; nothing is trained or shipped."""
  monkeypatch.chdir(bad_files)
  monkeypatch.setattr(workers, 'train_all', lambda *unused: None)
  monkeypatch.setattr(thesis, 'LOGS', bad_files / 'shipped')


RUN = ['run', '--workload=fake']


def own(name, folder='own'):
  return [*RUN, f'--submission_path={folder}/{name}.py']


PLAN = ['schedule', '--step_hint=50']
EXPORT = ['export', '--out=new']
TUNED = [*RUN, '--tuning_ruleset=external']
TARGETS = ['set-targets', '--workload=digits']
STUDY = ['study', '--out=o']
CASES = [
  (['trian'], "No such command 'trian'"),
  (['run'], "Missing option '--workload'"),
  (['run', '--workload='], "'' is unknown"),
  (['run', '--workload=digit'], 'ClassName. Did you mean digits?'),
  ([*RUN, '--workload'], "Option '--workload' requires an argument"),
  ([*RUN, '--generaton=jit'], "Did you mean '--generation'?"),
  ([*RUN, '--rng_seed=4294967296'], '0<=x<=4294967295'),
  ([*RUN, '--eval_every=0'], "'--eval_every': 0 is not in the range x>=1"),
  ([*RUN, '--eval_every=5', '--eval_by=time'], '--eval_every=5 counts steps'),
  ([*RUN, '--overwrite=perhaps'], "'perhaps' is not a valid boolean"),
  ([*RUN, '--overwrite', '--resume_last_run'], 'contradict each other'),
  *(
    ([*RUN, f'--experiment_name={n}'], f'--experiment_name={n}') for n in NAMES
  ),
  ([*RUN, '--experiment_name=' + 'x' * 300], 'too long'),
  ([*RUN, '--experiment_dir=file'], 'file/fake/fake_jax: Not a directory.'),
  ([*RUN, '--experiment_dir=loop'], 'loop'),
  ([*RUN, '--experiment_dir='], "--experiment_dir='' is no path"),
  ([*RUN, '--experiment_dir=~no_such_user/x'], 'home directory'),
  *(
    ([*command, f'--data_dir={name}'], f'--data_dir={name}: must be a folder')
    for command in (RUN, TARGETS)
    for name in ('file', 'nowhere', '')
  ),
  ([*RUN, '--num_tuning_trials=2'], '=2 has no effect under the self-tuning'),
  ([*RUN, '--tuning_search_space=file'], 'file has no effect under the self'),
  ([*EXPORT, '--tuning_search_space=typo.json'], 'has no effect under the sel'),
  ([*RUN, '--tuning_ruleset=external'], '--tuning_search_space is missing'),
  ([*TUNED, '--tuning_search_space=no.json'], 'no.json: must be a JSON file'),
  ([*TUNED, '--tuning_search_space=own'], 'space=own: must be a JSON file.'),
  ([*TUNED, '--tuning_search_space=file'], 'file: no JSON (Expecting value'),
  ([*TUNED, '--tuning_search_space=typo.json'], 'json: repaet=True: must be {'),
  ([*RUN, '--submission_path='], 'there is no such file'),
  ([*RUN, '--submission_path=own'], 'own is a folder: give a file'),
  ([*RUN, '--submission_path=no.py'], 'no.py: there is no such file'),
  ([*RUN, '--submission_path=file'], 'must be a Python file'),
  ([*RUN, '--submission_path=alone/submission.py'], 'no __init__.py'),
  ([*RUN, '--submission_path=part/submission.py'], 'update_params, data_sele'),
  (own('no_cycle'), 'own/no_cycle.py, line 5: cycles='),
  (own('dict'), "own/dict.py, line 5: settings={'alpha': 0.5}"),
  (own('endless'), 'must be at most 2,147,483,647 steps'),
  (own('unpacked'), 'own/unpacked.py, line 4: not enough values'),
  (own('part'), 'function.__call__ returned None: it must return one real'),
  ([*EXPORT, '--submission_path=own/part.py'], 'function.__call__ returned'),
  (own('syntax'), 'cannot be imported'),
  (own('nul'), 'null bytes'),
  (own('not_there'), "cannot be imported: No module named 'not_there'"),
  *(
    (own(f'size_{i}', 'foreign'), f'get_batch_size={text} must')
    for i, text in enumerate(SIZES)
  ),
  (['schedule'], '--step_hint is missing'),
  (['schedule', '--settings=own'], '--settings=own is a folder: give a .json'),
  (['schedule', '--settings=muno'], 'Did you mean muon?'),
  (['schedule', '--step_hint=abc'], "'abc' is not a valid whole number"),
  ([*PLAN, '--at=0'], "'--at': 0 is not in the range x>=1"),
  (
    [*PLAN, '--at=76'],
    '--at=76: must be a whole number of at least 1 and at m',
  ),
  ([*PLAN, '--out=file'], '--out=file must end in .png'),
  ([*PLAN, '--out='], "'--out': '' is no path"),
  ([*PLAN, '--out=plan.png'], '--out=plan.png exists: give another name, or'),
  ([*PLAN, '--out=no/plan.png'], '--out=no/plan.png: there is no folder no'),
  ([*PLAN, '--settings=peaks_sotf'], 'Did you mean peaks_soft?'),
  ([*PLAN, '--settings=x'], '--settings=x: must be a .json file or one of muo'),
  ([*PLAN, '--settings=no.json'], 'no.json'),
  ([*PLAN, '--settings=dir.json'], 'dir.json is not a regular file'),
  ([*PLAN, '--settings=typo.json'], 'typo.json: repaet: '),
  ([*EXPORT, '--name=My'], '--name=My must be lower-case letters'),
  ([*EXPORT, '--name='], 'must be lower-case letters'),
  ([*EXPORT, '--name=lambda'], 'no Python keyword'),
  ([*EXPORT, '--submission_path=own'], 'own is a folder: give a file'),
  ([*EXPORT, '--submission_path=own/dict.py'], 'own/dict.py, line 5: '),
  ([*EXPORT, '--submission_path=foreign/submission.py'], 'make_submission'),
  ([*EXPORT, '--settings=x', '--submission_path=x'], 'give no --settings.'),
  (['export', '--out='], "'' is no path"),
  (['export', '--out=.'], '--out=. is the current folder'),
  (
    ['export', '--out=a/v1.2'],
    '--out=a/v1.2: a dot would split the module names',
  ),
  (['export', '--out=own'], '--out=own is not empty. Nothing is replaced'),
  *(
    ([name, f'--{flag}=file'], f"'--{flag}': file is a file: give a folder.")
    for name, flag in (
      *(('export', 'out'), ('figures', 'out'), ('figures', 'runs')),
      *(('results', 'runs'), ('scoreboard', 'pack'), ('study', 'out')),
    )
  ),
  (['export', '--out=file/x'], 'file'),
  (['plot'], "Missing argument 'DIR'"),
  (['plot', ''], "'' is no path"),
  (['plot', 'nowhere'], "Directory 'nowhere' does not exist"),
  (['plot', 'file'], "'DIR': file is a file: give a folder"),
  (['plot', 'own'], 'own has no trial: give an experiment'),
  *((['plot', f'logs/{name}'], file) for name, (file, _) in LOGS.items()),
  (['report', 'logs', '--out=x.png'], '--out=x.png must end in .html'),
  (['report', 'logs', '--out=dir.html'], '--out=dir.html is a folder'),
  (['report', 'logs/plan_torn'], 'schedule_params.json'),
  (['experiments', 'fig3.88'], 'Did you mean fig3.8'),
  (['experiments', 'fig3.5', 'fig3.7'], 'unexpected extra argument (fig3.7)'),
  (['figures', '--only=fig3.5,'], "figure='': must be one of fig2.1"),
  (['figures', '--seeds=1000000000000'], '1<=x<=10000'),
  (['figures', '--logs=file'], '--logs=file is a file: give a folder'),
  (['figures', '--logs=no'], '--logs=no: there is no such folder'),
  (['figures', '--logs='], '--logs=: there is no such folder'),
  (['figures', '--logs=zips'], 'a.zip is not a zip archive'),
  (['results', '--out=own'], '--out=own must end in .md'),
  (['results', '--out=page.md'], '--out=page.md exists'),
  (['replay', '--rule=progres'], 'Did you mean progress?'),
  (
    ['replay', '--rule={"name": "never", "name": "thesis"}'],
    '"name": "thesis"}: name=\'thesis\': must be given once.',
  ),
  (['replay', '--rule={}'], '--rule={}: "name" is missing; use one of never'),
  (['replay', '--rule={"name": "thesis", "n": 3}'], 'thesis.n: '),
  (['replay', '--logs=own'], 'give a folder of logs'),
  (['score', 'own'], 'give a folder of logs'),
  ([*STUDY, '--submissions=nobody'], "'nobody' is unknown"),
  ([*STUDY, '--submissions=muon'], 'Did you mean MUON?'),
  ([*STUDY, '--submissions='], "'' is unknown"),
  ([*STUDY, '--submissions==a.py'], 'its name must consist of letters'),
  ([*STUDY, '--submissions=bare=a.py'], 'bare is a submission of the project'),
  ([*STUDY, '--submissions=sgdr,sgdr'], 'sgdr is given twice'),
  ([*STUDY, '--submissions=a=typo.json'], 'typo.json: repaet: '),
  ([*STUDY, '--submissions=a=part/submission.py'], 'has no function update_'),
  ([*STUDY, '--submissions=sgdr,a=own/syntax.py'], 'syntax.py: cannot be imp'),
  (
    [*STUDY, '--workloads=heldout'],
    "workload 'heldout' is unknown; known are held_out, selection, digits, "
    'molecules, translation, text, residual, patches, patches_glu, clicks, '
    'clicks_embed_init, photos, photos_tanh, waves, frames, molecules_wide, '
    'translation_glu, chains, fake, and file.py:ClassName for your own. Did you '
    'mean held_out?\n',
  ),
  ([*STUDY, '--conditions=warm'], "'warm' is unknown"),
  *(([*STUDY, f'--seeds={text}'], f'--seeds={text}: ') for text in SEEDS),
  (['scoreboard', '--logs=own', '--out=page.md'], '--out=page.md exists'),
  (['scoreboard', '--logs=own', '--out=board/x.md'], 'scoreboard.png exists'),
  (['set-targets', '--workload=digit'], "'digit' is unknown"),
  ([*TARGETS], 'has targets of digits already: --overwrite replaces them'),
  ([*TARGETS, '--board'], 'has targets of digits already'),
  ([*TARGETS, '--full'], '--full has no effect without --board'),
  ([*TARGETS, '--board', '--data_dir=.'], '--data_dir has no effect with'),
]


def names(case):
  return ' '.join(case)[:80] if isinstance(case, list) else ''


@pytest.mark.usefixtures('in_the_folder')
@pytest.mark.parametrize(('words', 'message'), CASES, ids=names)
def test_one_line(words, message, capfd):
  assert cli.main(words) == 2
  captured = capfd.readouterr()
  assert captured.out == ''
  assert captured.err.startswith('reset-cycles: error: ')
  assert captured.err.count('\n') == 1
  assert message in captured.err
  for written in ('experiment_runs/fake', 'o'):
    assert not pathlib.Path(written).exists()
  assert pathlib.Path('plan.png').read_text() == 'mine'


@pytest.mark.usefixtures('in_the_folder')
@pytest.mark.parametrize(
  'words',
  (
    ['run', '--workload=digits', '--submission_path=own/typo.py'],
    [*STUDY, '--submissions=mine=own/typo.py'],
  ),
  ids=('run', 'study'),
)
def test_an_error_of_ones_own_code_shows_its_lines(words, capfd):
  write(
    'own/typo.py', f'{IMPORTS}make_submission(replace(THESIS, wiat=True))\n'
  )
  assert cli.main(words) == 1
  err = capfd.readouterr().err
  assert err.startswith('reset-cycles: error: an error in your code:\n')
  assert 'own/typo.py", line 4' in err
  assert "unexpected keyword argument 'wiat'" in err
  assert 'cli/run.py' not in err
