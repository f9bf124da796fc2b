"""What there is to write: examples by split, and files beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Example = Mapping[str, Any]


class Sizes(NamedTuple):
  """Numbers of examples."""

  num_train: int
  num_eval: int  # of the validation and of the test split, each


class DataSet(NamedTuple):
  """A data set of TensorFlow Datasets (TFDS).

  Attributes:
    name: its name there, with configuration and version.
    splits: a split's examples, as the data set's features want them.
  """

  name: str
  splits: Mapping[str, Sequence[Example]]


class SmokeData(NamedTuple):
  """All that a workload reads.

  Attributes:
    data_sets: data sets of TFDS.
    files: contents of further files by name; they lie beside the data sets.
  """

  data_sets: Sequence[DataSet]
  files: Mapping[str, bytes]
