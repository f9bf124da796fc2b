"""main's own submission_runner.py on data of a package, run after run.

  python -m reset_cycles.research.real_runner.patched JOBS

`run.py` starts it, a process for each entry. JOBS is a JSON list of jobs. Their
submission_runner.py is imported once, which takes longer than a short run, and
their data are read once; each run is a process forked from there. All that is
changed of the benchmark is changed here, and README.md lists it.
"""

from __future__ import annotations

import functools
import importlib
import json
import math
import os
import pathlib
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...mini_algoperf.workloads import translation
from . import data, speech

_CIFAR = 'algoperf.workloads.cifar.cifar_jax'
# Where each workload calls TFDS.
LOADERS = {
  'mnist': 'algoperf.workloads.mnist.workload',
  'ogbg': 'algoperf.workloads.ogbg.input_pipeline',
  'wmt': 'algoperf.workloads.wmt.input_pipeline',
  'cifar': f'{_CIFAR}.workload',
}
_SPEECH = 'algoperf.workloads.librispeech_conformer'
# The class or function of each model that has its sizes.
SIZES = {
  'cifar': (f'{_CIFAR}.models', 'ResNet18'),
  'librispeech_conformer': (
    f'{_SPEECH}.librispeech_jax.models',
    'ConformerConfig',
  ),
  'librispeech_deepspeech': (
    'algoperf.workloads.librispeech_deepspeech.librispeech_jax.models',
    'DeepspeechConfig',
  ),
}
# Tokens of WMT that are no piece: padding, one that it never has, the end.
PAD, _, END = range(SPECIAL := 3)


class Job(NamedTuple):
  """A run.

  Attributes:
    benchmark: the folder of submission_runner.py.
    entries: the folder that the submission's lies in.
    submission: the submission's folder in it.
    workload: the benchmark's name.
    data: a name in `data.DATA`, and the folder that it is read from.
    properties: of the workload, by name; they replace its own.
    model: the sizes of its model that are replaced, with WMT's the `length` in
      tokens, or nothing.
    batch_size: in place of the submission's, or None.
    seconds_per_step: of the counted clock, or None for the real one.
    data_dir: the benchmark's; WMT has its SentencePiece model there.
    flags: further ones of the runner.
    log: file for what is printed.
  """

  benchmark: str
  entries: str
  submission: str
  workload: str
  data: tuple[str, str]
  properties: dict[str, Any]
  model: dict[str, Any]
  batch_size: int | None
  seconds_per_step: float | None
  data_dir: str
  flags: list[str]
  log: str


def give_cpu_freq() -> None:
  """The benchmark's meta data want it; virtual machines may have none."""
  import psutil

  if psutil.cpu_freq() is None:
    freq = types.SimpleNamespace(current=0.0, min=0.0, max=0.0)
    psutil.cpu_freq = lambda percpu=False: freq


class CountedClock:
  """Seconds that pass with steps alone: evaluations and set-up take none."""

  def __init__(self, seconds_per_step: float):
    self.seconds_per_step = seconds_per_step
    self.steps = 0

  def __call__(self) -> float:
    """Far from 0, as a real clock is, so that step 1 is evaluated.

    The runner takes 0 for the time of the last evaluation before the run.
    """
    return 1e6 + self.steps * self.seconds_per_step


def count_steps(submission: Any, clock: CountedClock) -> None:
  """Has every step of a submission advance the clock."""
  update_params = submission.update_params

  @functools.wraps(update_params)  # the runner looks at the signature
  def counted(*args: Any, **kwargs: Any) -> Any:
    clock.steps = kwargs['global_step'] + 1
    return update_params(*args, **kwargs)

  submission.update_params = counted


def set_properties(workloads: Any, properties: dict[str, Any]) -> None:
  """Makes import_workload give a class with other properties."""
  import_workload = workloads.import_workload

  def changed(
    workload_path: str,
    workload_class_name: str,
    return_class: bool = False,
    workload_init_kwargs: dict[str, Any] | None = None,
  ) -> Any:
    cls = import_workload(workload_path, workload_class_name, return_class=True)
    for name, value in properties.items():
      if not hasattr(cls, name):
        sys.exit(f'{workload_class_name} has no property {name}.')
      # A plain attribute takes the place of a property.
      setattr(cls, name, tuple(value) if isinstance(value, list) else value)
    return cls if return_class else cls(**(workload_init_kwargs or {}))

  workloads.import_workload = changed


def part_of(split: str) -> tuple[str, slice]:
  """Name and part of a split as TFDS writes it, such as 'train[:50000]'."""
  name, _, part = split.partition('[')
  start, _, stop = part.rstrip(']').partition(':')
  return name, slice(int(start or 0), int(stop) if stop else None)


class _Value:
  """An array with the one method of a tensor that the benchmark calls."""

  def __init__(self, value: np.ndarray) -> None:
    self._value = value

  def _numpy(self) -> np.ndarray:
    return self._value


class Examples:
  """In place of a `tf.data.Dataset` whose fields differ in shape.

  TensorFlow only supplies the order. To slice ragged rows would take it 36 ms
  for each step on Tox21.

  Args:
    examples: each has its fields by name.
    order: a data set of their indices.
  """

  def __init__(
    self, examples: Sequence[Mapping[str, np.ndarray]], order: Any
  ) -> None:
    self._examples = examples
    self._order = order

  def shuffle(self, **kwargs: Any) -> Examples:
    """As that of a `tf.data.Dataset`."""
    return Examples(self._examples, self._order.shuffle(**kwargs))

  def repeat(self) -> Examples:
    """As that of a `tf.data.Dataset`."""
    return Examples(self._examples, self._order.repeat())

  def __iter__(self) -> Iterator[dict[str, _Value]]:
    """The examples in their order, once or for ever."""
    for index in self._order.as_numpy_iterator():
      fields = self._examples[index]
      yield {name: _Value(value) for name, value in fields.items()}


def give_data(loader: Any, splits: data.Splits) -> None:
  """Has a module of the benchmark get our examples where it asks TFDS."""
  import tensorflow as tf

  def load(name: str, *, split: str, **_: Any) -> Any:
    key, part = part_of(split)
    fields = {name: values[part] for name, values in splits[key].items()}
    if all(hasattr(values, 'shape') for values in fields.values()):
      return tf.data.Dataset.from_tensor_slices(fields)
    examples = [dict(zip(fields, row)) for row in zip(*fields.values())]
    return Examples(examples, tf.data.Dataset.range(len(examples)))

  def builder(name: str, **_: Any) -> Any:
    info = types.SimpleNamespace(supervised_keys=tuple(splits['train']))
    return types.SimpleNamespace(
      info=info,
      as_dataset=functools.partial(load, name),
      download_and_prepare=lambda: None,
    )

  loader.tfds = types.SimpleNamespace(
    load=load, builder=builder, ReadConfig=types.SimpleNamespace
  )


class Pieces:
  """In place of WMT's SentencePiece model: texts have spaces between pieces.

  Args:
    pieces: of both languages; '_' starts a word. The first one's token is 3.
  """

  def __init__(self, pieces: Sequence[str]):
    import tensorflow as tf

    self._tf = tf
    self._texts = [*[''] * SPECIAL, *pieces]
    tokens = tf.range(SPECIAL, len(self._texts))
    content = tf.lookup.KeyValueTensorInitializer(tf.constant(pieces), tokens)
    self._tokens = tf.lookup.StaticHashTable(content, default_value=PAD)

  def tokenize(self, text: Any) -> Any:
    """Tokens of a text, with the end; an unknown piece would be padding."""
    tokens = self._tokens.lookup(self._tf.strings.split(text))
    return self._tf.concat([tokens, [END]], axis=0)

  def detokenize(self, tokens: Any) -> Any:
    """The words of tokens; those that are no piece are nothing."""
    text = ''.join(self._texts[token] for token in tokens.tolist())
    return self._tf.constant(text.replace('_', ' ').strip())


def read_once(workload: Any) -> None:
  """Has WMT keep the text of tokens that it has read.

  The references are the same in every evaluation. To read them and the
  translations anew took an eighth of a run on Multi30k.
  """
  decode_tokens = workload._decode_tokens
  texts: dict[bytes, str] = {}

  def decoded(self: Any, tokens: Any) -> str:
    tokens = np.asarray(tokens)
    key = tokens.tobytes()
    if key not in texts:
      texts[key] = decode_tokens(self, tokens)
    return texts[key]

  workload._decode_tokens = decoded


def make_translation_smaller(
  model: dict[str, int], package: str = 'algoperf'
) -> None:
  """Gives WMT other sizes and a shorter length.

  The validation split is translated, and the test split where the validation
  target is reached; every other BLEU is not a number. The test target counts as
  reached, unless it is infinite.

  Args:
    model: fields of main's `TransformerConfig`, and `length`, the tokens that a
      row of a batch and a translation have at most, in place of 256.
    package: the benchmark's; 'algorithmic_efficiency' is v0.5.0.
  """
  wmt = f'{package}.workloads.wmt'
  sizes = {name: size for name, size in model.items() if name != 'length'}
  length = model['length']
  models: Any = importlib.import_module(f'{wmt}.wmt_jax.models')
  models.TransformerConfig = functools.partial(
    models.TransformerConfig, **sizes
  )
  pipeline: Any = importlib.import_module(f'{wmt}.input_pipeline')
  batches = pipeline.preprocess_wmt_data
  pipeline.preprocess_wmt_data = lambda *args, **kwargs: batches(
    *args, **{**kwargs, 'max_length': length}
  )
  workload = importlib.import_module(f'{wmt}.wmt_jax.workload').WmtWorkload
  make_cache = workload.initialize_cache
  if package == 'algorithmic_efficiency':
    # It maps it over devices, and no length is a number in there.
    import jax

    make_cache = jax.pmap(
      make_cache.__wrapped__,
      axis_name='batch',
      static_broadcasted_argnums=(0, 2),
    )
  bleu = workload.translate_and_calculate_bleu
  workload.initialize_cache = lambda self, inputs: make_cache(
    self, inputs, length
  )
  read_once(workload)

  def shorter(self: Any, **kwargs: Any) -> Any:
    batches = kwargs['ds_iter']
    is_validation = batches is self._eval_iters.get('validation')
    is_test = batches is self._eval_iters.get('test')
    if not (is_validation or is_test and vars(self)['is_past_target']):
      return math.nan
    # One function, not one a call: it is traced once for all evaluations. In
    # v0.5.0 it is no method yet.
    predict = functools.partial(type(self).predict_step, self)
    vars(self).setdefault('predict_step', predict)
    score = bleu(self, **{**kwargs, 'max_predict_length': length})
    if is_validation:  # which comes before the test split
      self.is_past_target = score > self.validation_target_value
    return score

  workload.translate_and_calculate_bleu = shorter
  workload.has_reached_test_target = lambda self, _: math.isfinite(
    self.test_target_value
  )


def train_pieces(
  tokenizer: Any, pairs: Mapping[str, Any], folder: pathlib.Path, size: int
) -> None:
  """Trains WMT's SentencePiece model by its own code, unless there is a model.

  Args:
    tokenizer: the benchmark's module.
    pairs: texts of both languages, all of which are read.
    folder: where the benchmark reads the model from.
    size: how many pieces it has.
  """
  import tensorflow as tf

  file = folder / 'wmt_sentencepiece_model'
  if file.exists():
    return
  folder.mkdir(parents=True, exist_ok=True)
  sizes = (len(text.encode()) + 1 for side in pairs.values() for text in side)
  tokenizer.train_tokenizer(
    tf.data.Dataset.from_tensor_slices(dict(pairs)),
    vocab_path=str(file),
    vocab_size=size,
    # Bytes. It reads until it has so many, and fails if the data end before.
    max_corpus_chars=sum(sizes),
    data_keys=tuple(pairs),
  )


def make_smaller(workload: str, sizes: dict[str, Any]) -> None:
  """Gives a model of `SIZES` other sizes."""
  path, name = SIZES[workload]
  models: Any = importlib.import_module(path)
  setattr(models, name, functools.partial(getattr(models, name), **sizes))


def mend_cifar(pipeline: Any, workload: Any) -> None:
  """Makes main's cifar run, which it does not as it is.

  Its batches are not split by devices, as `prefetch_to_device` would have them.
  Its model_state is the parameters themselves, so that an entry that donates
  both donates a buffer twice; here it is empty, and the first step adds the
  statistics. And it calls `jax.tree_map`, which jax 0.7 does not have.

  Args:
    pipeline: the module of its input pipeline.
    workload: its class.
  """
  init_model_fn = workload.init_model_fn
  pipeline.jax_utils = types.SimpleNamespace(
    prefetch_to_device=lambda batches, size: batches
  )
  workload.init_model_fn = lambda self, rng: (init_model_fn(self, rng)[0], {})
  workload._normalize_eval_metrics = lambda self, num_examples, totals: {
    name: total / num_examples for name, total in totals.items()
  }


@functools.cache
def splits_of(name: str, folder: str) -> data.Splits:
  """A case's data, read once: each run is a fork of the process that did."""
  return data.DATA[name](pathlib.Path(folder))


def run(job: Job) -> None:
  """Runs a job to the end of the benchmark's runner, and exits."""
  runner: Any = importlib.import_module('submission_runner')
  set_properties(runner.workloads, job.properties)
  name, splits = job.data[0], splits_of(*job.data)
  if name.startswith('spoken_'):
    make_smaller(job.workload, job.model)
    metrics: Any = importlib.import_module(f'{_SPEECH}.metrics')
    file = pathlib.Path(job.data_dir, 'pieces')
    speech.train_pieces(file, job.model['vocab_size'])
    workload = importlib.import_module(f'{_SPEECH}.librispeech_jax.workload')
    speech.give_speech(workload, splits, metrics.load_tokenizer(str(file)))
    job.flags.append(f'--librispeech_tokenizer_vocab_path={file}')
  else:
    loader: Any = importlib.import_module(LOADERS[job.workload])
    give_data(loader, splits)
  if job.workload == 'cifar':
    make_smaller(job.workload, job.model)
    pipeline = importlib.import_module(f'{_CIFAR}.input_pipeline')
    mend_cifar(pipeline, loader.CifarWorkload)
  elif job.workload == 'wmt':
    make_translation_smaller(job.model)
    if name == 'sentences':
      pieces = Pieces(translation.language())
      loader.tokenizer.load_tokenizer = lambda vocab_path: pieces
    else:
      train_pieces(
        loader.tokenizer,
        splits['train'],
        pathlib.Path(job.data_dir),
        job.model['vocab_size'],
      )
  submission: Any = importlib.import_module(f'{job.submission}.submission')
  if job.batch_size:
    submission.get_batch_size = lambda name: job.batch_size
  if job.seconds_per_step:
    clock = CountedClock(job.seconds_per_step)
    count_steps(submission, clock)
    runner.get_time = clock
  from absl import app

  app.run(
    runner.main,
    argv=[
      'submission_runner.py',
      '--framework=jax',
      '--tuning_ruleset=self',
      f'--workload={job.workload}',
      f'--submission_path={job.submission}/submission.py',
      '--save_checkpoints=False',
      f'--data_dir={job.data_dir}',
      *job.flags,
    ],
  )


def in_fork(job: Job) -> None:
  """Runs a job in a process of its own.

  Raises:
    SystemExit: if it fails.
  """
  child = os.fork()
  if not child:
    with open(job.log, 'w') as log:
      os.dup2(log.fileno(), sys.stdout.fileno())
      os.dup2(log.fileno(), sys.stderr.fileno())
    run(job)
  if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
    sys.exit(f'failed: see {job.log}')


def main(jobs: list[Job]) -> None:
  """Runs one job after the other; prints a line after each."""
  sys.path[:0] = [jobs[0].benchmark, jobs[0].entries]
  give_cpu_freq()
  importlib.import_module('submission_runner')
  for index, job in enumerate(jobs):
    splits_of(*job.data)
    in_fork(job)
    print(index, flush=True)


if __name__ == '__main__':
  main([Job(**job) for job in json.loads(sys.argv[1])])
