"""Runs the real benchmark in this process, with a few of its numbers changed.

  python algoperf_process.py JOB

A test starts it in a process of its own, since the benchmark decides on devices
when it is imported, defines flags, and may be killed. JOB is JSON:

  package            'algorithmic_efficiency' (2024) or 'algoperf'
  roots              folders to import from: the benchmark's, the submission's
  submission         path of the submission, relative to its root
  num_devices        of the CPU
  properties         of the workload, by name; they replace its own
  eval_every         steps between evaluations, instead of seconds
  batch_size         instead of the submission's
  scripted           step -> results that take the place of an evaluation's
  feed_evaluations   whether the fake-batch test hands its evaluations on
  kill_at            the step before which the process is killed
  mend_restore       whether the current benchmark's restore is mended
  script             file to be run as the main program, relative to its root
  data               workload whose data set is given, if any
  real               a case of `real_runner` and its folder, whose data are given
                     in the place of made-up ones, and whose model is made
                     smaller
  flags              of the script
"""

import functools
import importlib
import json
import os
import pathlib
import runpy
import signal
import sys
import types

import numpy as np

from reset_cycles.research.real_runner import cases, data, patched


def give_tree_map():
  """The current benchmark's cifar evaluates with it; jax has no longer got it."""
  import jax

  if not hasattr(jax, 'tree_map'):
    jax.tree_map = jax.tree_util.tree_map


def made_up(workload):
  """Noise in the form of MNIST, or the molecules of `mini_algoperf`."""
  if workload == 'ogbg':
    return data.molecules()
  rng = np.random.default_rng(0)
  return {
    split: {
      'image': rng.integers(256, size=(size, 28, 28, 1), dtype=np.uint8),
      'label': rng.integers(10, size=size),
    }
    for split, size in (('train', 60_000), ('test', 10_000))
  }


def give_real(job, loader):
  """Real data of a case of `real_runner`, and a model as small as there."""
  name, folder = job['real']
  case = cases.CASES[name]
  splits = data.DATA[name](pathlib.Path(folder))
  patched.give_data(loader, splits)
  if name == 'multi30k':
    patched.make_translation_smaller(case.model, job['package'])
    [place] = [flag for flag in job['flags'] if flag.startswith('--data_dir=')]
    place = pathlib.Path(place.partition('=')[2])
    tokenizer = loader.tokenizer
    size = case.model['vocab_size']
    patched.train_pieces(tokenizer, splits['train'], place, size)


def mend_restore(checkpoint_utils, sharding_utils):
  """Makes the current benchmark's restore work; it fails for every submission.

  It hands flax None as the target for the evaluations, gets None back, and asks
  that for items. And it copies every leaf to a leading axis of devices, which
  jit's arrays do not have.
  """
  import jax

  checkpoints = checkpoint_utils.flax_checkpoints

  def restore(folder, target):
    found = checkpoints.restore_checkpoint(folder, target)
    if found is not target:
      untyped = checkpoints.restore_checkpoint(folder, None)
      found['eval_results'] = untyped['eval_results']
    return found

  def replicate(tree):
    return jax.device_put(tree, sharding_utils.get_replicate_sharding())

  checkpoint_utils.flax_checkpoints = types.SimpleNamespace(
    restore_checkpoint=restore, save_checkpoint=checkpoints.save_checkpoint
  )
  checkpoint_utils.jax_utils = types.SimpleNamespace(replicate=replicate)


def import_runner(package, num_devices):
  """The benchmark's runner, on so many devices; it overwrites XLA_FLAGS.

  The current one needs JAX_NUM_CPU_DEVICES from the start.
  """
  runner = importlib.import_module('submission_runner')
  if package != 'algoperf':
    flag = f' --xla_force_host_platform_device_count={num_devices}'
    os.environ['XLA_FLAGS'] = os.environ.get('XLA_FLAGS', '') + flag
  import jax

  assert jax.local_device_count() == num_devices
  return runner


class Progress:
  """Where the run is: steps taken, and evaluations with their steps."""

  def __init__(self):
    self.step = 0
    self.evaluations = []


def change_workload(workloads, job, progress):
  """Makes import_workload give classes with other properties."""
  import_workload = workloads.import_workload

  def changed(
    workload_path,
    workload_class_name,
    return_class=False,
    workload_init_kwargs=None,
  ):
    name = workload_class_name
    cls = import_workload(workload_path, name, return_class=True)
    for key, value in job['properties'].items():
      if not hasattr(cls, key):
        sys.exit(f'{name} has no property {key}.')
      set_property(cls, key, lambda self, v=value: v)
    if job['eval_every']:
      set_property(
        cls,
        'eval_period_time_sec',
        lambda self: 0 if is_due(progress.step, job['eval_every']) else 1e9,
      )
    if job['feed_evaluations'] and hasattr(cls, 'translate_and_calculate_bleu'):
      # Beam search on fake batches takes minutes, and none of it is ours.
      cls.translate_and_calculate_bleu = lambda *_, **__: 0.0
    note_evaluations(cls, job['scripted'], progress)
    return cls if return_class else cls(**(workload_init_kwargs or {}))

  workloads.import_workload = changed


def set_property(cls, name, getter):
  """The fake-batch test assigns to some; that is ignored."""
  setattr(cls, name, property(getter, lambda self, value: None))


def is_due(step, every):
  """After the first step, as the benchmark, and then regularly."""
  return step == 1 or step % every == 0


def note_evaluations(cls, scripted, progress):
  """Has every evaluation written down, some with other results."""
  evaluate = cls.eval_model

  @functools.wraps(evaluate)
  def noted(self, *args, **kwargs):
    result = evaluate(self, *args, **kwargs)
    result.update(scripted.get(str(progress.step), {}))
    progress.evaluations.append((progress.step, dict(result)))
    return result

  cls.eval_model = noted


def change_submission(module, job, progress):
  """Hands evaluations on, counts steps, kills the process when it is time."""
  update_params = module.update_params

  @functools.wraps(update_params)  # the benchmark looks at the signature
  def changed(*args, **kwargs):
    if kwargs['global_step'] == job['kill_at']:
      os.kill(os.getpid(), signal.SIGKILL)
    if job['feed_evaluations']:
      kwargs['eval_results'] = list(progress.evaluations)
    progress.step = kwargs['global_step'] + 1
    return update_params(*args, **kwargs)

  module.update_params = changed
  if job['batch_size']:
    module.get_batch_size = lambda name: job['batch_size']


def main(job):
  sys.path[:0] = job['roots']
  patched.give_cpu_freq()
  runner = import_runner(job['package'], job['num_devices'])
  give_tree_map()
  if job['data']:
    loader = patched.LOADERS[job['data']].replace('algoperf', job['package'])
    loader = importlib.import_module(loader)
    if job['real']:
      give_real(job, loader)
    else:
      patched.give_data(loader, made_up(job['data']))
  if job['mend_restore']:
    package = job['package']
    mend_restore(
      importlib.import_module(f'{package}.checkpoint_utils'),
      importlib.import_module(f'{package}.jax_sharding_utils'),
    )
  progress = Progress()
  change_workload(runner.workloads, job, progress)
  name = runner.workloads.convert_filepath_to_module(job['submission'])
  change_submission(importlib.import_module(name), job, progress)
  script = os.path.join(job['roots'][0], job['script'])
  sys.argv = [script, *job['flags']]
  if job['script'] == 'submission_runner.py':
    from absl import app

    app.run(runner.main)  # that of the changed module
  else:
    runpy.run_path(script, run_name='__main__')


if __name__ == '__main__':
  main(json.loads(sys.argv[1]))
