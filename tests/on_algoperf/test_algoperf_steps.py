"""A list of settings and further cycles under submission_runner.py, by steps.

Evaluations come every so many steps, with results that are written here, and
the run ends after a number of steps. What it does then depends on no clock, and
the whole sequence can be computed by hand.
"""

from __future__ import annotations

import pathlib
from typing import NamedTuple

import pytest

import real_benchmark
from reset_cycles.cli import main as cli
from reset_cycles.training.events import read_events

pytestmark = [
  pytest.mark.algoperf,
  pytest.mark.filterwarnings('default'),
]

TARGET = 1.5  # out of reach
EVERY = 2  # steps between evaluations; the first of all follows step 1
NADAMW = {'optimizer': 'nadamw', 'averaging': {'name': 'ema', 'span': 0.1}}
NESTEROV = {
  'optimizer': 'nesterov',
  'learning_rate': 0.01,
  'weight_decay': 0.0,
  'averaging': {'name': 'lawa', 'k': 2, 'distance': 0.03},
}
# Learns nothing, and is left by the first evaluation after a quarter of it.
HOPELESS = {'learning_rate': 1e-9, 'start_from': 'fresh'}
FLOOR = {'name': 'floor', 'shares': (0.25,), 'least': (0.05,)}
COUNTS = (
  'eval_batch_size',
  'num_validation_examples',
  'num_test_examples',
  'num_eval_train_examples',
)


class Case(NamedTuple):
  """A run, and what it does.

  Attributes:
    metric: name of the target's metric.
    cycles: the list of settings.
    step_hint: steps that the list shares.
    stop: steps after which the runner stops.
    best: largest metric of each cycle, to which it rises evenly.
    starts: (step, setting, factor on the peak, model, note) of each cycle; a
      further one has .3 or 1 of the peak, and half or all of the steps.
    properties: of the workload.
    changes: to the job.
  """

  metric: str
  cycles: list[dict[str, object]]
  step_hint: int
  stop: int
  best: tuple[float, ...]
  starts: list[tuple[int, int, float, str, str]]
  properties: dict[str, int]
  changes: dict[str, int]


CASES = {
  # Cycles of 12 steps. The third is left at 28 of 36, after 4 of its steps.
  'mnist': Case(
    metric='accuracy',
    cycles=[NADAMW, NESTEROV, HOPELESS],
    step_hint=36,
    stop=46,
    best=(0.6, 0.9, 0.01, 0.8, 0.8, 0.8),
    starts=[
      (0, 1, 1.0, '', ''),
      (12, 2, 1.0, 'soft', 'nesterov begins'),
      (24, 3, 1.0, 'full', 'adamw begins'),
      (28, 2, 0.3, 'best', ''),
      (34, 2, 1.0, 'best', ''),
      (40, 2, 0.3, 'best', ''),
    ],
    properties={
      **dict.fromkeys(COUNTS, 1000),
      'num_train_examples': 59_000,
    },
    changes={},
  ),
  # Cycles of 4 steps. The first remains the best, and with it its optimizer.
  'ogbg': Case(
    metric='mean_average_precision',
    cycles=[NADAMW, NESTEROV],
    step_hint=8,
    stop=13,
    best=(0.6, 0.4, 0.5, 0.5, 0.5),
    starts=[
      (0, 1, 1.0, '', ''),
      (4, 2, 1.0, 'soft', 'nesterov begins'),
      (8, 1, 0.3, 'best', ''),
      (10, 1, 1.0, 'best', ''),
      (12, 1, 0.3, 'best', ''),
    ],
    properties=dict.fromkeys(COUNTS, 256),
    changes={'batch_size': 64},
  ),
}


def script(case: Case) -> dict[int, dict[str, float]]:
  """Steps -> results, which take the place of the evaluation's."""
  begins = [start[0] for start in case.starts]
  results = {}
  for begin, end, best in zip(begins, [*begins[1:], case.stop], case.best):
    for step in range(begin + 1, end + 1):
      value = best * (step - begin) / (end - begin)
      loss = 2 - value
      results[step] = {
        'validation/loss': loss,
        f'validation/{case.metric}': value,
      }
  return results


def train(folder: pathlib.Path, workload: str, case: Case) -> pathlib.Path:
  """Runs the benchmark on synthetic data; returns the folder of the trial."""
  data = folder / 'data'
  flags = [f'--workload={workload}', f'--out={data}']
  assert cli.main(['smoke-data', *flags]) == 0
  status = real_benchmark.run(
    folder,
    f"cycles={case.cycles!r}, policy='queue', switching={FLOOR!r}, "
    'wait=True, budget_factor=1.0',
    [
      f'--workload={workload}',
      '--tuning_ruleset=self',
      f'--data_dir={data}',
      f'--experiment_dir={folder}/runs',
      '--experiment_name=run',
      '--rng_seed=3',
      '--save_checkpoints=False',
      f'--max_global_steps={case.stop}',
    ],
    properties={
      'step_hint': case.step_hint,
      'max_allowed_runtime_sec': 1e6,
      'validation_target_value': TARGET,
      'test_target_value': TARGET,
      **case.properties,
    },
    eval_every=EVERY,
    scripted=script(case),
    **case.changes,
  )
  assert status == 0, real_benchmark.log(folder)
  return folder / 'runs' / 'run' / f'{workload}_jax' / 'trial_1'


@pytest.mark.parametrize('workload', CASES)
def test_a_list_of_settings_and_further_cycles(tmp_path, workload):
  """Each setting of the list, and then all kinds of further cycles in turn."""
  pytest.importorskip('tensorflow_datasets')
  real_benchmark.package_and_root()
  case = CASES[workload]
  events = read_events(train(tmp_path, workload, case))
  resets = [e for e in events if e['event'] == 'reset']
  begins = [e for e in events if e['event'] == 'cycle_start']
  found = [  # factors are stored in single precision
    (
      int(e['global_step']),
      int(e['setting']),
      pytest.approx(float(e['scale'])),
    )
    for e in begins
  ]
  assert found == [start[:3] for start in case.starts]
  assert [(e['mode'], e['note']) for e in resets] == [
    start[3:] for start in case.starts[1:]
  ]
  assert [e['metric_step'] for e in resets] == [
    e['global_step'] for e in resets
  ]
  assert float(resets[0]['tau']) == pytest.approx(1 - case.best[0] / TARGET)
  left = [e['cycle'] for e in events if e['event'] == 'switch']
  assert left == [str(i + 1) for i, b in enumerate(case.best) if b < 0.05]
  # Each evaluation once, at its step, with what is written above.
  results = script(case)
  seen = [e for e in events if e['event'] == 'evaluation']
  assert [int(e['metric_step']) for e in seen] == [
    step for step in range(1, case.stop) if step == 1 or step % EVERY == 0
  ]
  for event in seen:
    written = results[int(event['metric_step'])][f'validation/{case.metric}']
    assert float(event['metric']) == pytest.approx(written)
  assert {e['weights'] for e in seen} == {'raw', 'averaged'}
