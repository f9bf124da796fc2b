"""A workload and a submission that take no time, for tests of the runner."""

import os
import pathlib
import signal
import sys

import flax.jax_utils
import jax
import jax.numpy as jnp
import numpy as np

from reset_cycles.cli import main as cli
from reset_cycles.mini_algoperf import RunOptions, spec, trial, workloads
from reset_cycles.mini_algoperf.submission_loader import REQUIRED, as_submission

BATCH_SIZE = 8
WIDTH = 3


class Clock:
  """Seconds that pass only when a test lets them."""

  def __init__(self):
    self.now = 1000.0

  def __call__(self):
    return self.now


class FakeWorkload(spec.Workload):
  """Parameters that follow the mean of random data, by least squares.

  Args:
    generation: 'jit' or 'pmap'.
    tape: every call is noted here.
    clock: moved on by evaluation_sec at each evaluation.
    accuracy: step -> the target metric; should rise above 0.8.
  """

  name = 'fake'
  default_batch_size = eval_batch_size = BATCH_SIZE
  eval_every_steps = 5
  target_metric_name, metric_rises = 'accuracy', True
  validation_target_value = 0.8
  test_target_value = 0.9
  loss_type = spec.LossType.MEAN_SQUARED_ERROR
  num_train_examples = 100
  num_eval_train_examples = num_validation_examples = num_test_examples = 10
  max_allowed_runtime_sec = 10
  eval_period_time_sec = 4
  step_hint = 30
  evaluation_sec = 100.0

  def __init__(self, generation='jit', tape=None, clock=None, accuracy=None):
    super().__init__()
    self.generation = generation
    self._tape = [] if tape is None else tape
    self._clock = clock or Clock()
    self._accuracy = accuracy or (lambda step: step / 1000)
    self._dropout = 'not given'

  def has_reached_validation_target(self, eval_result):
    return eval_result['validation/accuracy'] > self.validation_target_value

  def has_reached_test_target(self, eval_result):
    return eval_result['test/accuracy'] > self.test_target_value

  def init_model_fn(self, rng, *args, **kwargs):
    if self.generation == 'jit':
      assert not args and not kwargs
    self._dropout = (args, kwargs)
    params = {'w': jax.random.normal(rng, (WIDTH,))}
    state = {'mean': jnp.zeros(WIDTH)}
    self._param_shapes = {'w': spec.ShapeTuple((WIDTH,))}
    self._param_types = {'w': spec.ParameterType.WEIGHT}
    if self.generation == 'pmap':
      return flax.jax_utils.replicate((params, state))
    return params, state

  def _build_input_queue(
    self, data_rng, split, data_dir, global_batch_size, **unused
  ):
    assert split == 'train'
    rng = np.random.default_rng(np.asarray(data_rng).tolist())
    lead = (global_batch_size,)
    if self.generation == 'pmap':
      num_devices = jax.local_device_count()
      lead = (num_devices, global_batch_size // num_devices)
    while True:
      inputs = rng.normal(size=(*lead, WIDTH)).astype(np.float32)
      yield {'inputs': inputs, 'targets': inputs[..., 0]}

  def model_fn(self, params, batch, model_state, mode, rng, update_batch_norm):
    inputs = batch['inputs']
    mean = 0.9 * model_state['mean'] + 0.1 * jnp.mean(inputs, 0)
    return inputs - params['w'][None], {'mean': mean}

  def loss_fn(self, label_batch, logits_batch, **unused):
    losses = jnp.sum(jnp.square(logits_batch), -1)
    count = jnp.float32(label_batch.shape[0])
    return {'summed': jnp.sum(losses), 'n_valid_examples': count}

  def eval_model(self, global_batch_size, *args):
    self._tape.append(f'eval {args[-1]}')
    self._clock.now += self.evaluation_sec
    return super().eval_model(global_batch_size, *args)

  def _eval_model_on_split(
    self, split, count, size, params, model_state, rng, data_dir, global_step=0
  ):
    w, mean = np.asarray(params['w']), np.asarray(model_state['mean'])
    noise = float(jax.random.uniform(rng))
    return {
      'accuracy': self._accuracy(global_step),
      'loss': float(np.abs(w - mean).mean()) + noise,
    }


class FakeSubmission:
  """Momentum on noisy batch means; notes its calls and makes time pass.

  Args:
    tape: every call is noted here.
    clock: moved on by a second per step and two per prepare_for_eval.
    **at: the step in which something happens: complete_at, interrupt_at (a
      KeyboardInterrupt), fail_at (a bug) and kill_at (the process); press_at has
      a list, in which Ctrl-C may be twice.
  """

  def __init__(self, tape=None, clock=None, **at):
    self.tape = [] if tape is None else tape
    self.clock, self.at, self.seen = clock or Clock(), at, []

  def get_batch_size(self, workload_name):
    raise ValueError(workload_name)

  def init_optimizer_state(self, workload, model_params, *unused):
    zeros = jax.tree_util.tree_map(jnp.zeros_like, model_params)
    return {'momentum': zeros}, 'handle'

  def data_selection(self, workload, input_queue, *others):
    *_, global_step, rng = others
    self.tape.append(f'select {global_step}')
    self.seen.append({'select': rng})
    return next(input_queue)

  def update_params(self, *, batch, global_step, rng, train_state, **given):
    self.tape.append(f'update {global_step}')
    seen = list(given['eval_results'])
    self.seen[-1].update(rng=rng, train_state=train_state, eval_results=seen)
    self.clock.now += 1.0
    self._stop(global_step)
    state, handle = given['optimizer_state']
    w = given['current_param_container']['w']
    mean = batch['inputs'].reshape(-1, WIDTH).mean(0)
    mean = jnp.broadcast_to(mean + 0.1 * jax.random.normal(rng), w.shape)
    momentum = 0.9 * state['momentum']['w'] + mean
    return (
      ({'momentum': {'w': momentum}}, handle),
      {'w': w - 0.1 * momentum},
      {'mean': 0.9 * given['model_state']['mean'] + 0.1 * mean},
    )

  def _stop(self, global_step):
    for _ in range(self.at.get('press_at', []).count(global_step)):
      signal.raise_signal(signal.SIGINT)
    for name, error in (
      ('complete_at', spec.TrainingCompleteError),
      ('interrupt_at', KeyboardInterrupt),
      ('fail_at', ValueError('a bug')),
    ):
      if self.at.get(name) == global_step:
        raise error
    if self.at.get('kill_at') == global_step:
      os.kill(os.getpid(), signal.SIGKILL)

  def prepare_for_eval(self, *, global_step, **named):
    self.tape.append(f'prepare {global_step}')
    self.clock.now += 2.0
    names = ('optimizer_state', 'current_param_container', 'model_state')
    return tuple(named[name] for name in names)


def make_trial(
  generation='jit',
  submission=None,
  accuracy=None,
  log_dir=None,
  seed=0,
  raw=None,
  **options,
):
  """A trial of fakes that share a clock and a tape, and the fake submission.

  Args:
    generation, seed: of the trial.
    submission: arguments of FakeSubmission.
    accuracy: see FakeWorkload.
    log_dir: where the trial is logged, if anywhere.
    raw: the checkpoint to go on from.
    **options: RunOptions.
  """
  clock, tape = Clock(), []
  fake = FakeSubmission(tape, clock, **(submission or {}))
  result = trial.Trial(
    FakeWorkload(generation, tape, clock, accuracy),
    as_submission(fake, 'fake'),
    RunOptions('fake', **{'eval_every': 5, **options}),
    trial.BatchSizes(BATCH_SIZE, BATCH_SIZE),
    seed,
    log_dir,
    clock,
  )
  if raw:
    result.restore(raw)
  if log_dir is not None:
    result.open_log({})
  return result, fake


def write_package(folder, text, name='submission.py'):
  """Writes a package with a file; returns its path, as a flag takes it."""
  folder.mkdir(parents=True, exist_ok=True)
  (folder / '__init__.py').touch()
  path = folder / name
  path.write_text(text)
  return str(path)


def write_submission(folder, arguments='', functions=REQUIRED):
  """Writes a package with a submission.py that is a FakeSubmission.

  Args:
    folder: the package's folder; made if it is not there.
    arguments: of FakeSubmission, as written in code.
    functions: those that the file defines.

  Returns:
    The path of the file, as a flag takes it.
  """
  made = (
    f'from helpers import fakes\n_fake = fakes.FakeSubmission({arguments})\n'
  )
  lines = [f'{name} = _fake.{name}\n' for name in functions]
  return write_package(folder, made + ''.join(lines))


OWN = """
import dataclasses

from reset_cycles.schedule_params import THESIS
from reset_cycles.soft_reset import Cyclic
from reset_cycles.submission import make_submission

(init_optimizer_state, update_params, prepare_for_eval, data_selection,
 get_batch_size) = make_submission(dataclasses.replace(THESIS, {changes}))
"""


def write_own(changes):
  """Writes own/, a package with our submission; returns the flag for it.

  Its settings are THESIS with these changes, as written in code.
  """
  path = write_package(pathlib.Path('own'), OWN.format(changes=changes))
  return f'--submission_path={path}'


def main():
  """The console script with the fake workload, for processes to be killed."""
  workloads.WORKLOADS['fake'] = FakeWorkload
  return cli.main(sys.argv[1:])
