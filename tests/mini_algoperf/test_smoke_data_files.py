"""Synthetic data as TensorFlow Datasets and the real benchmark read them."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

from run_files import python_path

PACKAGES = ('algoperf', 'algorithmic_efficiency')

needs_tensorflow = pytest.mark.skipif(
  importlib.util.find_spec('tensorflow_datasets') is None
  or importlib.util.find_spec('tensorflow') is None,
  reason="TensorFlow is not installed: pip install -e '.[smoke]'",
)
pytestmark = needs_tensorflow


def run_python(*arguments):
  """Runs Python in a process of its own: TensorFlow warns, and it is large.

  Returns:
    What the process printed.
  """
  done = subprocess.run(
    [sys.executable, *map(str, arguments)],
    # Not in the root, where the module soft_reset.py hides the package.
    cwd=pathlib.Path(__file__).parent,
    env={
      **os.environ,
      'PYTHONPATH': python_path(),
      'XLA_FLAGS': '',  # one device
      'TF_CPP_MIN_LOG_LEVEL': '3',
    },
    capture_output=True,
    text=True,
    check=False,
  )
  assert done.returncode == 0, done.stderr
  return done.stdout


# One process for all, since TensorFlow takes seconds to be imported.
_WRITE = """
import sys
from reset_cycles.cli import main as cli
for line in sys.argv[1:]:
  assert cli.main(['smoke-data', *line.split()]) == 0
"""


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  """Folder with the data of each workload, and `again` with those of wmt."""
  folder = tmp_path_factory.mktemp('data')
  sizes = '--num_train=300 --num_eval=40'
  run_python(
    *('-c', _WRITE),
    f'--workload=mnist --out={folder}/mnist',
    f'--workload=ogbg --out={folder}/ogbg {sizes}',
    f'--workload=wmt --out={folder}/wmt {sizes} --seed=1',
    f'--workload=wmt --out={folder}/wmt {sizes} --overwrite',
    f'--workload=wmt --out={folder}/again {sizes}',
  )
  return folder


# Reads each data set as it was written, in whichever order, and compares.
_READ = """
import sys
import numpy as np
import tensorflow_datasets as tfds
from reset_cycles.mini_algoperf.smoke_data import mnist, ogbg, wmt
from reset_cycles.mini_algoperf.smoke_data.data_set import Sizes

def key(example):
  plain = {}
  for name, value in sorted(example.items()):
    value = value.encode() if isinstance(value, str) else value
    plain[name] = (np.shape(value), np.asarray(value).tobytes())
  return repr(plain)

for module in (mnist, ogbg, wmt):
  name = module.__name__.split('.')[-1]
  sizes = mnist.DEFAULT_SIZES if module is mnist else Sizes(300, 40)
  for data_set in module.make_data(0, sizes).data_sets:
    for split, examples in data_set.splits.items():
      read = tfds.load(
        data_set.name, split=split, data_dir=f'{sys.argv[1]}/{name}',
        download=False)
      read = sorted(map(key, read.as_numpy_iterator()))
      assert read == sorted(map(key, examples)), (data_set.name, split)
      print(data_set.name, split, len(read))
"""


def test_tfds_reads_what_was_written(folder):
  assert run_python('-c', _READ, folder).splitlines() == [
    'mnist:3.0.1 train 60000',
    'mnist:3.0.1 test 10000',
    'ogbg_molpcba:0.1.3 train 300',
    'ogbg_molpcba:0.1.3 validation 40',
    'ogbg_molpcba:0.1.3 test 40',
    'wmt17_translate/de-en:1.0.0 train 300',
    'wmt14_translate/de-en:1.0.0 validation 40',
    'wmt14_translate/de-en:1.0.0 test 40',
  ]


# Protocol buffers keep no order of the features, so that bytes may differ.
_DIGEST = """
import hashlib, sys
import tensorflow_datasets as tfds
for folder in sys.argv[1:]:
  with open(f'{folder}/wmt_sentencepiece_model', 'rb') as file:
    digest = hashlib.sha256(file.read())
  for name, split in (('wmt17', 'train'), ('wmt14', 'test')):
    read = tfds.load(
      f'{name}_translate/de-en:1.0.0', split=split, data_dir=folder)
    for pair in read.as_numpy_iterator():
      digest.update(pair['de'] + pair['en'])
  print(digest.hexdigest())
"""


def test_files_follow_from_the_seed(folder):
  first, second = run_python(
    '-c', _DIGEST, folder / 'wmt', folder / 'again'
  ).splitlines()
  assert first == second
  sizes = [
    {
      path.relative_to(folder / name): path.stat().st_size
      for path in (folder / name).rglob('*')
    }
    for name in ('wmt', 'again')
  ]
  assert sizes[0] == sizes[1]


def test_no_more_files_than_the_benchmark_reads(folder):
  assert sorted(path.name for path in folder.glob('*/*')) == sorted(
    [*['wmt14_translate', 'wmt17_translate', 'wmt_sentencepiece_model'] * 2]
    + ['mnist', 'ogbg_molpcba', *['smoke_data.json'] * 4]
  )
  paths = [path for path in folder.rglob('*') if path.is_file()]
  assert sum(path.stat().st_size for path in paths) < 20e6


# Through the input queue of the benchmark's own workload.
_QUEUE = """
import importlib, json, sys
import jax
import numpy as np
name, class_name, data_dir, packages = sys.argv[1:]
for package in packages.split(','):
  try:
    module = importlib.import_module(
      f'{package}.workloads.{name}.{name}_jax.workload')
    break
  except ModuleNotFoundError as e:
    if e.name != package:
      raise
workload = getattr(module, class_name)()
report = {}
for split in ('train', 'eval_train', 'validation', 'test'):
  queue = workload._build_input_queue(
    jax.random.PRNGKey(0), split, data_dir=data_dir, global_batch_size=16)
  batch = next(iter(queue))
  flat = {k: batch[k] for k in ('targets', 'weights') if k in batch}
  if name != 'ogbg':
    flat['inputs'] = batch['inputs']
  else:
    flat['nodes'] = batch['inputs'].nodes
  report[split] = {
    k: list(np.reshape(v, (-1, *np.shape(v)[1:]) if package == 'algoperf'
                       else (-1, *np.shape(v)[2:])).shape)
    for k, v in flat.items()}
if name == 'wmt':
  ids = [5, 500, 15_000, 31_999, 2]
  report['text'] = workload._decode_tokens(np.array(ids))
  report['sentence'] = workload._decode_tokens(
    np.asarray(batch['targets']).reshape(-1, 256)[0])
print('REPORT', json.dumps(report))
"""


def read_queue(folder, workload, class_name):
  found = [n for n in PACKAGES if importlib.util.find_spec(n) is not None]
  if not found:
    pytest.skip(f'none of {", ".join(PACKAGES)} is installed')
  printed = run_python(
    '-c', _QUEUE, workload, class_name, folder / workload, ','.join(found)
  )
  return json.loads(printed.split('REPORT')[1])


@pytest.mark.algoperf
def test_the_benchmark_reads_mnist(folder):
  report = read_queue(folder, 'mnist', 'MnistWorkload')
  assert len(report) == 4
  for shapes in report.values():
    assert shapes['inputs'] == [16, 28, 28, 1]
    assert shapes['targets'] == [16]


@pytest.mark.algoperf
def test_the_benchmark_reads_ogbg(folder):
  report = read_queue(folder, 'ogbg', 'OgbgWorkload')
  assert len(report) == 4
  for shapes in report.values():  # one graph more than asked for is padding
    assert shapes == {
      'nodes': [16 * 26 + 1, 9],
      'targets': [17, 128],
      'weights': [17, 128],
    }


@pytest.mark.algoperf
def test_the_benchmark_reads_wmt(folder):
  report = read_queue(folder, 'wmt', 'WmtWorkload')
  assert 'unused' in report.pop('text')
  sentence = report.pop('sentence')
  path = pathlib.Path(folder, 'wmt')
  records = path.glob('wmt14_translate/de-en/1.0.0/*-test.tfrecord-*')
  assert sentence.encode() in next(records).read_bytes()
  assert len(report) == 4
  for shapes in report.values():
    assert shapes['inputs'] == shapes['targets'] == [16, 256]
