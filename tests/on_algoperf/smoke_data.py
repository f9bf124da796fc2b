"""Small synthetic data in the files that the real benchmark reads.

  python tests/on_algoperf/smoke_data.py mnist data/mnist

writes a folder for the benchmark's --data_dir, the same for both generations;
`ogbg` is the other one. Needs TensorFlow and TensorFlow Datasets (TFDS), which
the extra `smoke` installs.
"""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from reset_cycles.benchmarks.real_runner.data import molecules

# Split -> examples, by TFDS' name of the data set.
DataSets = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]


def mnist() -> DataSets:
  """Noisy images of ten patterns; one label in ten is drawn at random.

  No classifier is then right in more than 91 % of the images: the benchmark's
  target is out of reach.
  """
  rng = np.random.default_rng(0)
  patterns = rng.integers(0, 200, size=(10, 28, 28, 1))

  def draw(size: int) -> list[dict[str, Any]]:
    kinds = rng.integers(10, size=size)
    labels = np.where(
      rng.random(size) < 0.1, rng.integers(10, size=size), kinds
    )
    labels[:10] = np.arange(10)
    return [
      {
        'image': (patterns[kind] + rng.integers(56, size=(28, 28, 1))).astype(
          np.uint8
        ),
        'label': int(label),
      }
      for kind, label in zip(kinds, labels)
    ]

  # The benchmark asks for slices of just these splits.
  return {'mnist:3.0.1': {'train': draw(60_000), 'test': draw(10_000)}}


def ogbg() -> DataSets:
  """Some of the molecules of `mini_algoperf`."""
  splits = {}
  for name, fields in molecules().items():
    size = 2048 if name == 'train' else 512
    columns = {field: values[:size] for field, values in fields.items()}
    columns['labels'] = _covered(np.stack(columns['labels']))
    splits[name] = [dict(zip(columns, row)) for row in zip(*columns.values())]
  return {'ogbg_molpcba:0.1.3': splits}


def _covered(labels: np.ndarray) -> np.ndarray:
  """Labels that each have both classes: else there is no average precision."""
  lacks = ~((labels == 0).any(axis=0) & (labels == 1).any(axis=0))
  forced = labels.copy()
  forced[0, lacks], forced[1, lacks] = 1, 0
  return forced


def write(workload: str, folder: pathlib.Path) -> pathlib.Path:
  """Has TFDS prepare its data sets from our examples in place of a download.

  Features, file names and metadata are thus TFDS' own.

  Args:
    workload: 'mnist' or 'ogbg'.
    folder: must not exist.

  Returns:
    The folder.
  """
  os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
  import tensorflow as tf
  import tensorflow_datasets as tfds
  from tensorflow_datasets.core.utils import gcs_utils

  # TFDS 4.9.2 looks its data sets up in Google's cloud by default.
  gcs_utils._is_gcs_disabled = True
  tf.config.set_visible_devices([], 'GPU')
  tfds.disable_progress_bar()
  data_sets = {'mnist': mnist, 'ogbg': ogbg}[workload]()
  folder.mkdir(parents=True)
  for name, splits in data_sets.items():
    builder = tfds.builder(name, data_dir=str(folder))
    builder._split_generators = lambda _, splits=splits: {
      split: enumerate(examples) for split, examples in splits.items()
    }
    with contextlib.redirect_stdout(io.StringIO()):  # it announces a download
      builder.download_and_prepare(
        download_dir=str(folder / 'downloads'),
        download_config=tfds.download.DownloadConfig(try_download_gcs=False),
      )
  return folder


if __name__ == '__main__':
  write(sys.argv[1], pathlib.Path(sys.argv[2]))
