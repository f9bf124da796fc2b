"""`soft-reset schedule`: its texts, its picture, bad input."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys

import pytest

from fakes import write_submission
from reset_cycles import mini_algoperf
from reset_cycles.cli import main as cli
from reset_cycles.cli import schedule as schedule_command
from reset_cycles.experiments import thesis
from reset_cycles.mini_algoperf import files
from reset_cycles.schedule_params import (
  SCHEDULE_PARAMS,
  Hparams,
  ScheduleParams,
)
from reset_cycles.training.configuration import (
  CONFIGURATION,
  write_configuration,
)

# One cosine cycle without a warm-up, as long as step_hint.
COSINE = ScheduleParams(
  warmups=('none',),
  decays=('cosine',),
  alter_lr=(0.0,),
  alter_warmup=(0.0,),
  lengths=(1.0,),
  budget_factor=1.0,
)
PICTURE = b'\x89PNG'
_AGG = 'matplotlib.backends.backend_agg'


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)


def schedule(*arguments):
  return cli.main(['schedule', *arguments])


def output(capsys, *arguments):
  assert schedule(*arguments) == 0
  captured = capsys.readouterr()
  assert captured.err == ''
  assert max(map(len, captured.out.splitlines())) <= 80
  return captured.out


# What is shown.

MEANING = """\
With its highest rate at gamma*, the best there is, SGD on a convex function
ends at most Omega* above the minimum, in expectation; D is the distance at the
start and G the largest norm of a gradient. That compares shapes of equal
length. It knows neither Adam nor networks nor resets: a chain counts as one
descent. WSD is constant and then falls linearly over 20% of the steps; neither
it nor the cosine cycle has a warm-up.
"""
# gamma* and Omega* of 100 steps are those of the published reference values.
ONE_COSINE = (
  """\
cosine.json: 100 steps, 1 times a step_hint of 100.
  cycle  first  last  warm-up  steps  peak      decay   share
  1      1      100   none     0      0.001749  cosine  100.0%
First and last step are counted from 1. No cycle of a plan is left early.

Bound on SGD's last iterate for D = G = 1:
  schedule          gamma*   Omega*
  this plan         0.09469  0.2091
  one cosine cycle  0.09469  0.2091
  WSD               0.04954  0.2230
"""
  + MEANING
)
# gamma* and Omega* of the plan: the slow twins in tests/reference.py.
THREE_PEAKS = (
  """\
peaks_soft: 3,200 steps, 2 times a step_hint of 1,600.
  cycle  first  last   warm-up  steps  peak       decay   share
  1      1      1,067  linear   21     0.001749   cosine  33.3%
  2      1,068  2,134  linear   21     0.002749   cosine  33.3%
  3      2,135  3,200  linear   21     0.0007486  cosine  33.3%
First and last step are counted from 1. No cycle of a plan is left early.

Step 1,590 (counted from 0, like the clock), about to be taken:
  cycle          2 of 3; 523 of its 1,067 steps are done (49.0%)
  phase          decay; 502 of its 1,046 steps are done (47.9%)
  learning rate  0.00146094
  boundary       in 544 steps: at step 2,134 cycle 3 starts

Bound on SGD's last iterate for D = G = 1:
  schedule          gamma*    Omega*
  this plan         0.02368   0.04148
  one cosine cycle  0.01715   0.03644
  WSD               0.009073  0.03826
"""
  + MEANING
)


# A warm-up as long as its cycle ends a step below the peak, at 99 / 100.
NEVER_AT_ITS_PEAK = """\
rising.json: 100 steps, 1 times a step_hint of 100.
  cycle  first  last  warm-up  steps  peak  highest  decay  weight decay  share
  1      1      100   linear   100    0.5   0.495    step   ratio 0.25    100.0%
First and last step are counted from 1. No cycle of a plan is left early.

Step 99 (counted from 0, like the clock), about to be taken:
  cycle          1 of 1; 99 of its 100 steps are done (99.0%)
  phase          warm-up; 99 of its 100 steps are done (99.0%)
  learning rate  0.495
  weight decay   0.2475
  boundary       in 1 step: at step 100 the plan ends
"""


def test_a_file_with_one_cycle(capsys):
  pathlib.Path('cosine.json').write_text(COSINE.to_json())
  out = output(capsys, '--params=cosine.json', '--step_hint=100')
  assert out == ONE_COSINE


def test_an_experiment_and_one_of_its_steps(capsys):
  out = output(
    capsys, '--experiment=peaks_soft', '--step_hint=1600', '--at=1590'
  )
  assert out == THREE_PEAKS


def test_a_highest_rate_and_a_weight_decay(capsys):
  params = dataclasses.replace(
    COSINE,
    warmups=('linear',),
    decays=('step',),
    hparams=Hparams(learning_rate=0.5, warmup_factor=1.0, weight_decay=0.25),
    weight_decays=('ratio',),
  )
  pathlib.Path('rising.json').write_text(params.to_json())
  out = output(capsys, '--params=rising.json', '--step_hint=100', '--at=99')
  before, _, _ = out.partition('\nBound')
  assert before == NEVER_AT_ITS_PEAK


IN_FORCE = """\
The default chain: 6,000 steps, 1.5 times a step_hint of 4,000.
  cycle  first  last   warm-up  steps  peak     decay     weight decay  share
  1      1      1,500  linear   22     0.0025   constant  0.08122       25.0%
  2      1,501  3,000  linear   150    1.949    cosine    0.0002402     25.0%
  3      3,001  4,500  linear   22     0.00025  constant  0.08122       25.0%
  4      4,501  6,000  linear   22     0.025    constant  0.08122       25.0%

  cycle  setting             optimizer
  1      own                 schedule_free_adamw(r=0.75, weight_lr_power=2.0)
  2      generalized_adam/1  nesterov
  3      own                 schedule_free_adamw(r=0.75, weight_lr_power=2.0)
  4      own                 schedule_free_adamw(r=0.75, weight_lr_power=2.0)

First and last step are counted from 1. No cycle of a plan is left early.
The policy race chooses which setting comes next and for how long,
by the evaluations of the run: the table lists them in order, no more.
"""


def test_the_default_is_the_default_chain(capsys):
  before, _, _ = output(capsys, '--step_hint=4000').partition('\nBound')
  assert before == IN_FORCE


def test_rates_of_0_at_the_end_are_explained(capsys):
  # 1 + cos(pi (1 - 1 / 48,000)) is a fraction of an ulp of 1 in float32.
  out = output(capsys, '--experiment=one_cycle', '--step_hint=30000')
  before, _, after = out.partition(MEANING)
  assert '  this plan         0.003814  0.008741\n' in before
  assert after.startswith("The plan's last ")
  assert after.endswith('a step that changes nothing is left out instead.\n')


def test_the_file_of_a_run_says_its_step_hint(capsys):
  write_configuration(pathlib.Path(), 100, COSINE, ['dropout_rate'])
  flag = f'--params={CONFIGURATION}'
  out = output(capsys, flag)
  assert out == ONE_COSINE.replace('cosine.json', CONFIGURATION)
  assert output(capsys, flag, '--step_hint=7').startswith(
    'schedule_params.json: 7 steps, 1 times a step_hint of 7.\n'
  )


def test_both_ends_of_the_plan_are_steps(capsys):
  pathlib.Path('cosine.json').write_text(COSINE.to_json())
  flags = ('--params=cosine.json', '--step_hint=100')
  first = output(capsys, *flags, '--at=0').splitlines()
  assert first[5:10] == [
    'Step 0 (counted from 0, like the clock), about to be taken:',
    '  cycle          1 of 1; 0 of its 100 steps are done (0.0%)',
    '  phase          decay; 0 of its 100 steps are done (0.0%)',
    '  learning rate  0.00174864',
    '  boundary       in 100 steps: at step 100 the plan ends',
  ]
  last = output(capsys, *flags, '--at=99').splitlines()
  assert last[9] == '  boundary       in 1 step: at step 100 the plan ends'


# The picture.


def names():
  return sorted(path.name for path in pathlib.Path().iterdir())


@pytest.mark.parametrize('name', ['plan.png', 'Plan.PNG'])
def test_a_picture_is_written(name, capsys):
  text = output(capsys, '--step_hint=50')
  assert output(capsys, '--step_hint=50', f'--out={name}') == text
  assert names() == [name]
  assert pathlib.Path(name).read_bytes().startswith(PICTURE)


def test_an_existing_file_is_not_replaced(capsys):
  path = pathlib.Path('plan.png')
  path.write_text('mine')
  flags = ('--step_hint=50', '--out=plan.png')
  assert schedule(*flags) == 2
  assert one_error(capsys) == (
    'soft-reset: error: --out=plan.png exists: give another name, or '
    '--overwrite to replace a picture.'
  )
  assert path.read_text() == 'mine'
  output(capsys, *flags, '--overwrite')
  assert path.read_bytes().startswith(PICTURE)
  assert names() == ['plan.png']


def test_a_folder_is_not_replaced(capsys):
  pathlib.Path('plan.png').mkdir()
  assert schedule('--step_hint=50', '--out=plan.png', '--overwrite') == 2
  assert '--out=plan.png exists' in one_error(capsys)


def test_a_picture_that_cannot_be_written(capsys, monkeypatch):
  def fail(path, data):
    raise OSError(28, 'No space left on device')

  monkeypatch.setattr(files, 'write_whole', fail)
  assert schedule('--step_hint=50', '--out=plan.png') == 2
  assert 'No space left on device' in one_error(capsys)
  assert names() == []


def test_without_matplotlib_there_is_text(capsys, monkeypatch):
  monkeypatch.delattr(mini_algoperf, 'schedule_picture', raising=False)
  for name in ('reset_cycles.studies.preview.picture', _AGG):
    monkeypatch.delitem(sys.modules, name, raising=False)
  monkeypatch.setitem(sys.modules, 'matplotlib', None)
  assert output(capsys, '--step_hint=50').startswith('The default chain')
  assert schedule('--step_hint=50', '--out=plan.png') == 2
  assert "install it with pip install 'reset-cycles[mini]'." in one_error(
    capsys
  )


# Bad input: one line, exit 2.


def one_error(capsys):
  """The one line on stderr."""
  captured = capsys.readouterr()
  (line,) = captured.err.splitlines()
  assert captured.out == ''
  return line


def changed(**changes):
  return json.dumps({**json.loads(COSINE.to_json()), **changes})


FILES = {
  'good.json': COSINE.to_json(),
  'torn.json': '{"alpha": ',
  'list.json': '[1]',
  'more.json': changed(alhpa=0.5),
  'wrong.json': changed(alpha=2.0),
  'endless.json': changed(budget_factor=1e30),
  'no_hint.json': json.dumps({'schedule_params': COSINE.to_dict()}),
  'no_count.json': json.dumps(
    {'schedule_params': COSINE.to_dict(), 'step_hint': 0.5}
  ),
  'hint.json': json.dumps({'schedule_params': [], 'step_hint': 5}),
}
HINT = '--step_hint=50'


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    ([], '--step_hint is missing: give the steps of a workload.'),
    (['--params=good.json'], '--step_hint is missing'),
    (['--step_hint=0'], '--step_hint: 0 must be'),
    (['--step_hint=10000001'], '--step_hint: 10000001 must be'),
    (['--step_hint=many'], '--step_hint: many must be'),
    (['--step_hint=1'], '4 cycles do not fit into 1 steps'),
    ([HINT, 'peaks_soft'], "unexpected argument 'peaks_soft'"),
    (
      [HINT, '--experiment=peaks'],
      "--experiment='peaks': --experiment must be one of",
    ),
    ([HINT, '--experiment=one_cycle', '--params=good.json'], 'contradict each'),
    ([HINT, '--at=-1'], '--at: -1 must be'),
    (
      [HINT, '--at=100'],
      '--at=100: the plan has 75 steps, counted from 0: give one from 0 to 74',
    ),
    ([HINT, '--out=plan.pdf'], '--out=plan.pdf must end in .png'),
    ([HINT, '--out=no/plan.png'], '--out=no/plan.png: there is no folder no.'),
    ([HINT, '--params=no.json'], '--params=no.json: there is no such file.'),
    (
      [HINT, '--params=torn.json'],
      '--params=torn.json: torn.json is not valid',
    ),
    ([HINT, '--params=list.json'], 'schedule_params must be an object'),
    ([HINT, '--params=more.json'], 'Unknown field alhpa; known are alpha'),
    ([HINT, '--params=wrong.json'], 'alpha=2.0: alpha must be a number from 0'),
    ([HINT, '--params=endless.json'], 'give a plan of at most 20,000,000.'),
    (['--params=no_hint.json'], 'the field step_hint is missing'),
    (['--params=no_count.json'], 'step_hint=0.5: step_hint must be a whole'),
    (['--params=hint.json'], 'schedule_params=[]: schedule_params must be'),
  ],
)
def test_bad_input_is_one_line(arguments, message, capsys):
  for name, text in FILES.items():
    pathlib.Path(name).write_text(text)
  assert schedule(*arguments) == 2
  line = one_error(capsys)
  assert line.startswith('soft-reset: error: ')
  assert message in line
  assert names() == sorted(FILES)


def test_the_gallery_of_all_shapes(tmp_path, capsys):
  path = tmp_path / 'shapes.png'
  assert cli.main(['schedule', '--gallery', f'--out={path}']) == 0
  assert capsys.readouterr().out == f'{path}\n'
  content = path.read_bytes()
  assert content.startswith(b'\x89PNG')
  assert cli.main(['schedule', '--gallery', f'--out={path}']) == 2
  assert '--overwrite' in capsys.readouterr().err
  assert path.read_bytes() == content


@pytest.mark.parametrize(
  'flag', ['experiment=one_cycle', 'params=good.json', 'step_hint=50', 'at=0']
)
def test_the_gallery_has_no_plan(flag, capsys):
  arguments = ['schedule', '--gallery', f'--{flag}', '--out=shapes.png']
  assert cli.main(arguments) == 2
  assert one_error(capsys) == (
    f'soft-reset: error: --{flag} concerns a plan, but --gallery draws none: '
    'leave one of them out.'
  )
  assert names() == []


def test_the_gallery_needs_a_file(capsys):
  assert cli.main(['schedule', '--gallery']) == 2
  assert '--gallery needs a PNG file as --out' in capsys.readouterr().err


# A chain of one's own.

OWN = """\
from reset_cycles.schedule_params import ScheduleParams
from reset_cycles.submission import make_submission

(
  init_optimizer_state,
  update_params,
  prepare_for_eval,
  data_selection,
  get_batch_size,
) = make_submission(
  ScheduleParams(
    warmups=('none',),
    decays=('cosine',),
    alter_lr=(0.0,),
    alter_warmup=(0.0,),
    lengths=(1.0,),
    budget_factor=1.0,
  )
)
"""


def test_an_experiment_of_ones_own(capsys):
  folder = pathlib.Path('mine')
  folder.mkdir()
  (folder / '__init__.py').touch()
  (folder / 'cosine.py').write_text(OWN)
  flags = ('--submission_path=mine/cosine.py', '--step_hint=100')
  out = output(capsys, *flags, '--out=plan.png')
  assert out == ONE_COSINE.replace('cosine.json', 'mine/cosine.py')
  assert pathlib.Path('plan.png').read_bytes().startswith(PICTURE)


def test_the_projects_own_experiments(capsys, monkeypatch):
  monkeypatch.chdir(thesis.run_path('peaks_soft').parent)
  out = output(capsys, '--submission_path=peaks_soft.py', '--step_hint=1600')
  by_name = output(capsys, '--experiment=peaks_soft', '--step_hint=1600')
  assert out.partition(': ')[2] == by_name.partition(': ')[2]


def test_a_submission_that_is_not_ours(capsys):
  path = write_submission(pathlib.Path('foreign'))
  assert schedule(f'--submission_path={path}', HINT) == 2
  assert one_error(capsys) == (
    'soft-reset: error: --submission_path=foreign/submission.py was not made '
    "by this project's make_submission, so its chain is unknown."
  )


@pytest.mark.parametrize(
  'values',
  [
    {'lengths': [1, 1, 2], 'hparams': {'learning_rate': 0.5}},
    {'lengths': [1, 1, 2], 'learning_rate': 0.5},
  ],
)
def test_what_a_file_lacks_is_as_in_the_default(values, capsys):
  pathlib.Path('some.json').write_text(json.dumps(values))
  out = output(capsys, '--params=some.json', HINT)
  assert out.splitlines()[:5] == [
    'some.json: 75 steps, 1.5 times a step_hint of 50.',
    '  cycle  first  last  warm-up  steps  peak  decay   share',
    '  1      1      19    linear   0      0.5   cosine  25.3%',
    '  2      20     38    linear   0      0.5   cosine  25.3%',
    '  3      39     75    linear   0      0.5   cosine  49.3%',
  ]


def test_an_empty_object_is_the_default(capsys):
  pathlib.Path('some.json').write_text('{}')
  out = output(capsys, '--params=some.json', HINT)
  default = output(capsys, HINT)
  assert out == default.replace('The default chain', 'some.json')


def test_a_parameter_of_a_part(capsys):
  pathlib.Path('some.json').write_text('{"switching_fair": 0.6}')
  _, params = schedule_command.read_params('some.json')
  assert params == SCHEDULE_PARAMS.override({'switching_fair': 0.6})


def test_a_file_of_an_older_version():
  """It had no parts; what it lacks is as in the thesis."""
  older = {
    'decays': ['cosine', 'exponential', 'linear'],
    'when_cycles_run_out': 'finish',
    'switch_lam': 0.6,
  }
  pathlib.Path('old.json').write_text(json.dumps(older))
  _, params = schedule_command.read_params('old.json')
  assert params.decays == ('cosine', 'holding_exponential', 'holding_linear')
  assert params.policy == 'finish'
  assert dict(params.switching.parameters)['lam'] == 0.6
