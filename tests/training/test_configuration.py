"""The configuration in a run's folder."""

from __future__ import annotations

import dataclasses
import json

import pytest

from reset_cycles.schedule_params import THESIS, ScheduleParams
from reset_cycles.training import configuration

CONFIGURATION = configuration.CONFIGURATION


def test_round_trip(tmp_path):
  params = ScheduleParams(reset_mode='full', lengths=(1, 2, 3))
  configuration.write_configuration(tmp_path, 800, params, ['dropout_rate'])
  assert configuration.read_configuration(tmp_path) == (800, params)
  written = json.loads((tmp_path / CONFIGURATION).read_text())
  assert written['schedule_params']['hparams']['warmup_factor'] == 0.02
  assert written['not_in_force'] == ['dropout_rate']


@pytest.mark.parametrize(
  'text', ['{"step_hint": 3', '[]', '{}', '{"schedule_params": 3}', '\x00']
)
def test_what_is_no_configuration_is_named(tmp_path, text):
  (tmp_path / CONFIGURATION).write_text(text)
  with pytest.raises(
    ValueError, match=f'{CONFIGURATION} is not the configuration'
  ):
    configuration.read_configuration(tmp_path)


@pytest.mark.parametrize(
  ('name', 'expected'),
  [
    ('checkpoint_5', True),
    ('checkpoint_10.orbax-checkpoint-tmp-3', False),
    ('.checkpoint_5.77.tmp', False),
    ('cycles.csv', False),
    (CONFIGURATION, False),
  ],
)
def test_a_run_that_a_runner_would_resume_has_begun(tmp_path, name, expected):
  (tmp_path / name).touch()
  assert configuration.has_begun(tmp_path) == expected


def test_a_checkpoint_may_be_a_folder(tmp_path):
  """As those of the current benchmark are."""
  (tmp_path / 'checkpoint_5').mkdir()
  assert configuration.has_begun(tmp_path)


def test_a_folder_that_is_not_there_has_no_run(tmp_path):
  assert not configuration.has_begun(tmp_path / 'gone')


def changed(**changes):
  return dataclasses.replace(THESIS, **changes)


@pytest.mark.parametrize(
  ('old', 'new', 'expected'),
  [
    (changed(), changed(), []),
    (changed(lengths=(1, 1, 1)), changed(lengths=(1.0, 1.0, 1.0)), []),
    (
      changed(alpha=0.5),
      changed(alpha=0.3),
      ['alpha: 0.5 in the run, 0.3 now'],
    ),
    (
      changed(reset_mode='soft', early_switching=True),
      changed(reset_mode='full', early_switching=False),
      [
        'reset_mode: "soft" in the run, "full" now',
        'early_switching: true in the run, false now',
      ],
    ),
    (
      changed(alter_lr=(0.0, 0.1, 0.2)),
      changed(alter_lr=(0.0, 0.3, 0.2)),
      ['alter_lr[1]: 0.1 in the run, 0.3 now'],
    ),
    (
      changed(),
      changed(hparams=dataclasses.replace(THESIS.hparams, beta2=0.5)),
      [
        f'hparams.beta2: {THESIS.hparams.beta2} in the run, 0.5 now',
      ],
    ),
    (
      changed(weight_decays=()),
      changed(weight_decays=('cosine', 'cosine', 'ratio')),
      ['weight_decays: [] in the run, ["cosine", "cosine", "ratio"] now'],
    ),
    (
      changed(decays=('cosine', 'cosine', {'name': 'wsd', 'decay': 0.1})),
      changed(decays=('cosine', 'cosine', {'name': 'wsd', 'decay': 0.2})),
      ['decays[2].decay: 0.1 in the run, 0.2 now'],
    ),
  ],
)
def test_differences(old, new, expected):
  assert configuration.differences(old, new) == expected


def test_a_parameter_that_only_one_has():
  plain = changed(decays=('cosine', 'cosine', 'wsd'))
  given = changed(decays=('cosine', 'cosine', {'name': 'wsd', 'decay': 0.2}))
  assert configuration.differences(plain, given) == [
    'decays[2]: "wsd" in the run, {"name": "wsd", "decay": 0.2} now'
  ]


def test_a_python_function_can_be_shown():
  shape = {'name': 'lambda', 'function': lambda share: 1.0 - share}
  new = changed(decays=('cosine', 'cosine', shape))
  (line,) = configuration.differences(changed(), new)
  assert line.startswith('decays[2]: "cosine" in the run, {"name": "lambda"')
