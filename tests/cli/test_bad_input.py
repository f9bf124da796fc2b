"""Whatever is wrong with the input is said in one line, with exit status 2."""

from __future__ import annotations

import json
import pathlib

import pytest

from fakes import write_submission
from log_files import EVENTS, write_run
from reset_cycles.cli import main as cli
from reset_cycles.experiments import thesis
from reset_cycles.schedule_params import THESIS
from reset_cycles.studies.thesis import train

DEEP = '[' * 100_000
IMPORTS = (
  'import sys\n'
  'from reset_cycles.schedule_params import Hparams, ScheduleParams\n'
  'from reset_cycles.submission import make_submission\n'
)
FUNCTIONS = (
  '(init_optimizer_state, update_params, prepare_for_eval, data_selection,\n'
  ' get_batch_size) = '
)
# Experiments of a user's own: what comes after the imports. A line of their own
# is named where it is theirs that raises.
OWN = {
  'typo': 'make_submission(ScheduleParams(alhpa=0.5))',
  'inner_typo': 'make_submission(ScheduleParams(hparams=Hparams(learning_rat=1)))',
  'far_typo': 'make_submission(ScheduleParams(zzz=1))',
  'unnamed': 'make_submission(ScheduleParams("linear"))',
  'dict': 'make_submission({"alpha": 0.5})',
  'nothing': 'make_submission()',
  'class': 'make_submission(ScheduleParams)',
  'unpacked': 'make_submission(ScheduleParams())[:3]',
  'range': 'make_submission(ScheduleParams(alpha=2.0))',
  'unequal': 'make_submission(ScheduleParams(decays=("cosine",)))',
  'shape': 'make_submission(ScheduleParams(decays=("cosin",) * 3))',
  'overflow': (
    'make_submission(ScheduleParams(hparams=Hparams(learning_rate=1e39)))'
  ),
  'large': (
    'make_submission(ScheduleParams(alter_lr=(3e38, 0, 0),\n'
    '  hparams=Hparams(learning_rate=3e38)))'
  ),
  'name_error': 'make_submision(ScheduleParams())',
  'key_error': '{}["five"]',
  'zero': '[1 / 0] * 5',
  'assertion': '[0] * 5\nassert False, "not\\nyet"',
  'recursion': '[0] * 5\ndef f(): return f()\nf()',
  'memory': '[0] * 5\nraise MemoryError',
  'runtime': '[0] * 5\nraise RuntimeError("oh")',
  'leaves': '[0] * 5\nsys.exit(0)',
  'stops': '[0] * 5\nnext(iter(()))',
}
SHAPE = (
  'def f(step):\n  {}\n'
  f'{FUNCTIONS}make_submission(ScheduleParams(decays=(\n'
  '  {{"name": "lambda", "function": f}},) * 3))\n'
)
SUBMISSIONS = {
  **{name: f'{IMPORTS}{FUNCTIONS}{text}\n' for name, text in OWN.items()},
  'function_raises': IMPORTS + SHAPE.format('return {}["five"]'),
  'function_text': IMPORTS + SHAPE.format('return "five"'),
  'function_none': IMPORTS + SHAPE.format('return None'),
  'function_inf': IMPORTS + SHAPE.format('return 1e60'),
  'syntax': 'def (',
  'not_there': 'import not_there',
  'not_in_it': 'from reset_cycles.schedule_params import ScheduleParms',
  'relative': 'from ..schedule_params import ScheduleParams',
  'nul': 'x = 1\0',
}
# Submissions that aren't ours: what is changed of one that is complete.
FOREIGN = {
  'batch_size': 'def get_batch_size(name): return {}[name]',
  'no_batch_size': 'def get_batch_size(name): return None',
  'no_arguments': 'def init_optimizer_state(): pass',
  'init_raises': 'def init_optimizer_state(*unused): return {}["five"]',
  'no_pair': 'def init_optimizer_state(*unused): raise StopIteration',
}
SPACES = {
  'torn': '{"alpha": ',
  'text': '"alpha"',
  'empty': '{}',
  'deep': DEEP,
  'twice': '{"alpha": {"feasible_points": [1]}, "alpha": {}}',
  'unknown': '{"alpha": {"feasible_points": [1], "poins": [2]}}',
  'bounds': '{"alpha": {"min": 0, "max": 1e999, "scaling": "linear"}}',
  'field': '[{"alpha": 0.5}, {"alpha": 0.5, "alhpa": 1}]',
  'typo': '{"alhpa": {"feasible_points": [0.5]}}',
  'second': '[{"alpha": 0.5}, {"alpha": 2.0}]',
  'type': '[{"alpha": {"a": 1}}]',
  'list': '[{"decays": 3}]',
  'endless': '[{"budget_factor": 1e30}]',
}
PARAMS = {
  'torn': '{"alpha": ',
  'none': '',
  'null': 'null',
  'list': '[1]',
  'deep': DEEP,
  'deep_value': '{"alpha": ' + DEEP,
  'twice': '{"alpha": 1, "alpha": 0.5}',
  'typo': '{"alhpa": 0.5}',
  'inner_typo': '{"hparams": {"learning_rat": 1}}',
  'no_object': '{"hparams": 3}',
  'text': '{"alpha": "x"}',
  'unequal': '{"lengths": [1, 1]}',
  'no_list': '{"lengths": 3}',
  'negative': '{"lengths": [1, -1, 1]}',
  'nan': '{"budget_factor": NaN}',
  'infinite': '{"budget_factor": 1e999}',
  'endless': '{"budget_factor": 1e30}',
  'overflow': '{"hparams": {"learning_rate": 1e39}}',
  'large': '{"hparams": {"learning_rate": 3e38}, "alter_lr": [0, 3e38, 0]}',
  'shape': '{"decays": ["cosin", "cosine", "cosine"]}',
  'no_name': '{"decays": [{}, "cosine", "cosine"]}',
  'function': '{"decays": [{"name": "lambda", "function": "f"}, "none", 1]}',
  'null_run': '{"step_hint": 5, "schedule_params": null}',
  'no_hint': f'{{"schedule_params": {THESIS.to_json()}}}',
  'text_hint': json.dumps(
    {'step_hint': 'x', 'schedule_params': THESIS.to_dict()}
  ),
}
# Damaged logs: a file of a run, and what stands in it instead.
LOGS = {
  'meta_torn': ('meta_data_0.json', '{"workload'),
  'meta_list': ('meta_data_0.json', '[]'),
  'meta_deep': ('meta_data_0.json', DEEP),
  'meta_empty': ('meta_data_0.json', '{}'),
  'meta_type': ('meta_data_0.json', '{"workload.target_metric_name": []}'),
  'evaluation_text': ('eval_measurements.csv', ('0.9', 'x')),
  'evaluation_bytes': ('eval_measurements.csv', b'\xff\xfe'),
  'evaluation_more': ('eval_measurements.csv', ('0.9', '0.9,1,1,1,1')),
  'cycles_text': ('cycles.csv', ('0.25', 'x')),
  'cycles_cycle': ('cycles.csv', ('cycle_start,1,', 'cycle_start,9,')),
  'cycles_step': ('cycles.csv', ('20,switch', 'x,switch')),
  'cycles_bytes': ('cycles.csv', b'global_step,event\n\xff\xfe,\n'),
  'plan_torn': ('schedule_params.json', '{'),
  'plan_empty': ('schedule_params.json', '{}'),
  'plan_deep': ('schedule_params.json', DEEP),
  'plan_list': ('schedule_params.json', '[]'),
}


def write(path, content):
  path = pathlib.Path(path)
  path.parent.mkdir(parents=True, exist_ok=True)
  data = content if isinstance(content, bytes) else content.encode()
  path.write_bytes(data)


def damage(folder, name, content):
  """A run's folder with one file that isn't as it was written."""
  folder.mkdir(parents=True)
  write_run(folder, EVENTS)
  path = folder / name
  if isinstance(content, tuple):
    text = path.read_text()
    assert content[0] in text
    content = text.replace(*content)
  write(path, content)


@pytest.fixture(scope='module')
def bad_files(tmp_path_factory):
  """A folder with all of the files that the cases name."""
  root = tmp_path_factory.mktemp('bad')
  for name, text in SUBMISSIONS.items():
    write(root / f'own/{name}.py', text)
  write(root / 'own/__init__.py', '')
  complete = pathlib.Path(write_submission(root / 'foreign')).read_text()
  for name, text in FOREIGN.items():
    write(root / f'foreign/{name}.py', f'{complete}\n{text}\n')
  write(root / 'alone/exp.py', '')
  for folder, table in (('space', SPACES), ('params', PARAMS)):
    for name, text in table.items():
      write(root / folder / f'{name}.json', text)
    write(root / folder / 'bytes.json', b'\xff\xfe{')
  for name, (file, content) in LOGS.items():
    damage(root / 'logs' / name, file, content)
  (root / 'loop').symlink_to('loop')
  write(root / 'file', 'text')
  write(root / 'plan.png', 'mine')
  write(root / 'zips/a.zip', 'PK')
  return root


@pytest.fixture
def in_the_folder(bad_files, fake_workload, monkeypatch):
  """The current folder has the files; nothing is trained or shipped."""
  monkeypatch.chdir(bad_files)
  monkeypatch.setattr(train, 'train_all', lambda *unused: None)
  monkeypatch.setattr(thesis, 'LOGS', bad_files / 'shipped')


def space(name):
  return [
    'run',
    '--workload=fake',
    '--tuning_ruleset=external',
    '--num_tuning_trials=2',
    f'--tuning_search_space=space/{name}.json',
  ]


def own(name):
  return ['run', '--workload=fake', f'--submission_path=own/{name}.py']


def foreign(name):
  return ['run', '--workload=fake', f'--submission_path=foreign/{name}.py']


def params(name):
  return ['schedule', '--step_hint=50', f'--params=params/{name}.json']


RUN = ['run', '--workload=fake']
PLAN = ['schedule', '--step_hint=50']
TARGETS = ['set-targets', '--workload=digits']
SMOKE = ['smoke-data', '--workload=wmt']
CASES = [
  (['trian'], "invalid choice: 'trian'"),
  (['--workload=fake'], 'required: COMMAND'),
  (['run'], '--workload is missing'),
  (['run', '--workload='], "'' is unknown"),
  (['run', '--workload=digit'], "'digit' is unknown"),
  ([*RUN, '--workload'], 'expected one argument'),
  ([*RUN, '--generaton=jit'], 'Did you mean --generation?'),
  ([*RUN, '--rng_seed=4294967296'], 'from 0 to 4294967295'),
  ([*RUN, '--overwrite=perhaps'], '--overwrite=true'),
  ([*RUN, '--experiment_name='], '--experiment_name='),
  ([*RUN, '--experiment_name=.'], '--experiment_name=.'),
  ([*RUN, '--experiment_name=..'], '--experiment_name=..'),
  ([*RUN, '--experiment_name=' + 'x' * 300], 'too long'),
  ([*RUN, '--experiment_dir=file'], 'file/fake/fake_jax: Not a directory.'),
  ([*RUN, '--experiment_dir=file/below'], 'file'),
  ([*RUN, '--experiment_dir=loop'], 'loop'),
  ([*RUN, '--experiment_dir=~no_such_user/x'], 'home directory'),
  ([*RUN, '--data_dir=file'], '--data_dir=file: must be a folder'),
  ([*RUN, '--submission_path='], 'there is no such file'),
  ([*RUN, '--submission_path=own'], 'own: there is no such file'),
  ([*RUN, '--submission_path=loop'], 'loop'),
  ([*RUN, '--submission_path=~no_such_user/x.py'], 'home directory'),
  ([*RUN, '--submission_path=file'], 'must be a Python file'),
  ([*RUN, '--submission_path=alone/exp.py'], 'no __init__.py'),
  (own('missing'), 'own/missing.py: there is no such file'),
  (own('typo'), 'own/typo.py, line 5: TypeError: '),
  (own('typo'), "argument 'alhpa'. Did you mean alpha?"),
  (own('inner_typo'), "'learning_rat'. Did you mean learning_rate?"),
  (own('far_typo'), "unexpected keyword argument 'zzz'"),
  (own('unnamed'), "own/unnamed.py, line 5: warmups='linear'"),
  (own('dict'), "own/dict.py, line 5: schedule_params={'alpha': 0.5}"),
  (own('nothing'), 'own/nothing.py, line 5: TypeError'),
  (own('class'), 'own/class.py, line 5: schedule_params=<class'),
  (own('unpacked'), 'own/unpacked.py, line 4: not enough values'),
  (own('range'), 'own/range.py, line 5: alpha=2.0: alpha must be'),
  (own('unequal'), 'own/unequal.py, line 5: The lists of a chain'),
  (own('shape'), "own/shape.py, line 5: decays[0]='cosin'"),
  (own('overflow'), 'own/overflow.py, line 5: learning_rate=1e+39'),
  (own('large'), 'finite'),
  (own('name_error'), "line 5: NameError: name 'make_submision' is not"),
  (own('key_error'), "own/key_error.py, line 5: KeyError: 'five'"),
  (own('zero'), 'own/zero.py, line 5: ZeroDivisionError'),
  (own('assertion'), 'line 6: AssertionError: not yet'),
  (own('recursion'), 'own/recursion.py, line 6: RecursionError: maximum'),
  (own('memory'), 'own/memory.py, line 6: MemoryError'),
  (own('runtime'), 'own/runtime.py, line 6: RuntimeError: oh'),
  (own('leaves'), 'own/leaves.py, line 6: SystemExit'),
  (own('stops'), 'own/stops.py, line 6: StopIteration'),
  (
    own('function_raises'),
    'own/function_raises.py, line 5: lambda: function=f',
  ),
  (own('function_text'), "TypeError: Value 'five'"),
  (own('function_none'), 'None is'),
  (own('function_inf'), 'finite'),
  (own('syntax'), 'cannot be imported'),
  (own('nul'), 'null bytes'),
  (own('not_there'), "cannot be imported: No module named 'not_there'"),
  (own('not_in_it'), "cannot import name 'ScheduleParms'"),
  (own('relative'), 'from reset_cycles.submission import make_submission'),
  (foreign('batch_size'), "batch_size.py, line 8: KeyError: 'fake'"),
  (foreign('no_batch_size'), 'get_batch_size=None must be'),
  (
    foreign('no_arguments'),
    'foreign/no_arguments.py: TypeError: init_optimizer_state() takes 0',
  ),
  (foreign('init_raises'), "init_raises.py, line 8: KeyError: 'five'"),
  (foreign('no_pair'), 'no_pair.py, line 8: StopIteration'),
  ([*space('missing')], 'there is no such file'),
  ([*space('torn')], 'not valid JSON'),
  ([*space('bytes')], 'not valid JSON'),
  ([*space('text')], 'must be an object of ranges'),
  ([*space('empty')], 'must be an object of ranges'),
  ([*space('deep')], 'nested too deeply'),
  ([*space('twice')], "'alpha' is there twice"),
  ([*space('unknown')], "alpha has 'poins'"),
  ([*space('bounds')], 'max=inf must be a number'),
  ([*space('field')], 'must have the names of point 0'),
  ([*space('typo')], 'trial 1: Unknown field alhpa'),
  ([*space('second')], 'trial 2: alpha=2.0: alpha must be'),
  ([*space('type')], "trial 1: alpha={'a': 1}: alpha must be"),
  ([*space('list')], 'trial 1: decays=3: decays must be a list'),
  ([*space('endless')], 'a run has at most 2,147,483,647 steps'),
  ([*RUN, '--tuning_search_space=space/second.json'], 'external'),
  ([*RUN, '--tuning_ruleset=external'], 'needs a JSON file'),
  (
    [*RUN, '--tuning_ruleset=external', '--tuning_search_space=space'],
    'space: there is no such file',
  ),
  (['schedule'], '--step_hint is missing'),
  ([*PLAN, '--at=100'], '--at=100: the plan has 75 steps'),
  ([*PLAN, '--out=file'], '--out=file must end in .png'),
  ([*PLAN, '--out=plan.png'], '--out=plan.png exists'),
  ([*PLAN, '--out=no/plan.png'], 'there is no folder no'),
  ([*PLAN, '--out=loop/plan.png'], 'loop'),
  ([*PLAN, '--experiment=peaks_sotf'], "--experiment='peaks_sotf'"),
  (
    [*PLAN, '--experiment=peaks_soft', '--submission_path=own/typo.py'],
    '--experiment and --submission_path contradict each other',
  ),
  ([*PLAN, '--submission_path=foreign/submission.py'], 'make_submission'),
  ([*PLAN, '--submission_path=own/typo.py'], 'own/typo.py, line 5: TypeError'),
  ([*PLAN, '--submission_path=own/large.py'], 'finite'),
  (
    [*PLAN, '--submission_path=own/function_raises.py'],
    "it raised KeyError: 'five'",
  ),
  ([*PLAN, '--params=params'], 'params: there is no such file'),
  ([*PLAN, '--params=loop'], 'loop: there is no such file'),
  (['schedule', '--gallery'], '--gallery needs a PNG file'),
  (['schedule', '--gallery', '--out=file'], 'end in .png'),
  (params('endless'), 'make 5e+31 steps: give a plan of at most'),
  (params('large'), 'must be finite'),
  *(
    (params(name), f'params/{name}.json: ')
    for name in [*PARAMS, 'bytes']
    if name not in ('endless', 'large')
  ),
  (['plot'], 'required: DIR'),
  (['plot', 'nowhere'], 'nowhere has no trial'),
  (['plot', 'file'], 'file has no trial'),
  (['plot', 'loop'], 'loop has no trial'),
  (['plot', 'own'], 'own has no trial'),
  *((['plot', f'logs/{name}'], file) for name, (file, _) in LOGS.items()),
  (['experiments', 'fig3.8'], "'fig3.8' is not a figure"),
  (['experiments', 'fig3.5', 'fig3.7'], "unexpected argument 'fig3.7'"),
  (['figures', '--only=fig9'], "'fig9' is not a figure"),
  (['figures', '--only=fig3.5,'], "'' is not a figure"),
  (['figures', '--seeds=1000000000000'], '--seeds: 1000000000000 must be'),
  (['figures', '--logs=file'], '--logs=file: there is no such folder'),
  (['figures', '--logs=loop'], '--logs=loop: there is no such folder'),
  (['figures', '--logs=zips'], 'a.zip is not a zip archive'),
  (['figures', '--out=file'], 'error: file: File exists.'),
  (['figures', '--runs=file'], 'file'),
  (['figures', '--runs=loop/x'], 'loop'),
  (['results', '--out=own'], '--out=own is a folder'),
  (['results', '--out=no/x.md'], 'there is no folder no'),
  (['results', '--pack=file'], 'file'),
  (['results', '--seeds=9'], '--seeds: 9 must be'),
  (['set-targets'], '--workload is missing'),
  (['set-targets', '--workload=digit'], "'digit' is unknown"),
  ([*TARGETS, '--num_trials=1'], '--output is missing'),
  ([*TARGETS, '--num_steps=1'], '--num_steps: 1 must be'),
  ([*TARGETS, '--output=no/x.json'], 'there is no folder no'),
  ([*TARGETS, '--output=own'], 'own'),
  ([*TARGETS, '--output=params/list.json'], 'is not a file of targets'),
  ([*TARGETS, '--output=params/deep.json'], 'nested too deeply'),
  ([*TARGETS, '--data_dir=file'], '--data_dir=file: must be a folder'),
  (['smoke-data'], '--workload is missing'),
  (['smoke-data', '--workload=../run', '--out=x'], 'give one of mnist'),
  ([*SMOKE], '--out is missing'),
  ([*SMOKE, '--out=own'], 'has no smoke_data.json'),
  ([*SMOKE, '--out=file'], 'has no smoke_data.json'),
  ([*SMOKE, '--out=loop/x'], 'loop'),
  ([*SMOKE, '--out=x', '--num_eval=1'], '--num_eval: 1 must be'),
]


def names(case):
  return ' '.join(case)[:80] if isinstance(case, list) else ''


@pytest.mark.usefixtures('in_the_folder')
@pytest.mark.parametrize(('words', 'message'), CASES, ids=names)
def test_one_line(words, message, capfd):
  assert cli.main(words) == 2
  captured = capfd.readouterr()
  assert captured.out == ''
  assert captured.err.startswith('soft-reset: error: ')
  assert captured.err.count('\n') == 1
  assert message in captured.err
  assert not pathlib.Path('experiment_runs', 'fake').exists()
