"""Data sets as files of TensorFlow Datasets (TFDS), written by TFDS itself."""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
from types import ModuleType

from .data_set import DataSet, SmokeData


def import_tfds() -> ModuleType:
  """TFDS, made quiet and kept from the network and from GPUs.

  Raises:
    ValueError: if it or what it needs is not installed.
  """
  # TensorFlow logs what it finds on the machine while it is imported.
  os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
  try:
    # TFDS needs it when it writes, but doesn't ask for it when installed.
    import importlib_resources  # noqa: F401
    import tensorflow as tf
    import tensorflow_datasets as tfds
    from tensorflow_datasets.core.utils import gcs_utils
  except ModuleNotFoundError as e:
    raise ValueError(
      f'{e}: smoke-data needs TensorFlow, install it with pip install -e '
      "'.[smoke]'."
    ) from e
  # TFDS 4.9.2 looks its data sets up in Google's cloud by default.
  gcs_utils._is_gcs_disabled = True
  tf.config.set_visible_devices([], 'GPU')
  tfds.disable_progress_bar()
  return tfds


def write(tfds: ModuleType, folder: pathlib.Path, data: SmokeData) -> None:
  """Writes data sets and the files beside them.

  Args:
    tfds: the module, as `import_tfds` gives it.
    folder: an existing folder, the benchmark's `--data_dir`.
    data: what to write.
  """
  for data_set in data.data_sets:
    _write_data_set(tfds, folder, data_set)
  for name, content in data.files.items():
    (folder / name).write_bytes(content)


def _write_data_set(
  tfds: ModuleType, folder: pathlib.Path, data_set: DataSet
) -> None:
  """Has TFDS prepare a data set from our examples in place of a download.

  Features, file names and metadata are thus TFDS' own.
  """
  builder = tfds.builder(data_set.name, data_dir=str(folder))
  builder._split_generators = lambda unused_downloads: {
    split: enumerate(examples) for split, examples in data_set.splits.items()
  }
  downloads = folder / 'downloads'
  with contextlib.redirect_stdout(io.StringIO()):  # it announces a download
    builder.download_and_prepare(
      download_dir=str(downloads),
      download_config=tfds.download.DownloadConfig(try_download_gcs=False),
    )
  for left in (downloads / 'extracted', downloads):
    with contextlib.suppress(FileNotFoundError):
      left.rmdir()
