"""Scikit-learn's 8x8 digits, split once and for all, shifted and noisy.

Clean, the digits are learned almost perfectly within a few hundred steps, and
a few hundred validation images give a coarse error rate. Each image is
therefore seen shifted by up to a pixel and under noise: drawn anew for every
training example, drawn once for the copies that are evaluated.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .shuffling import shuffled_indices

SPLIT_SIZES = {'train': 1024, 'validation': 384, 'test': 384}
# Each evaluated image appears this often, with other shifts and noise.
EVAL_COPIES = 4
NOISE_STDDEV = 0.35
TRAIN_MEAN = 4.88
TRAIN_STDDEV = 6.01
_SPLIT_SEED = 1797
# Added to it for a split's shifts and noise. The targets were set with these.
_NOISE_SEED = {'validation': 10, 'test': 4, 'eval_train': 0}
_SIDE = 8


class Images(NamedTuple):
  """Normalised images and their classes."""

  inputs: np.ndarray  # shape=(examples, 8, 8), dtype=float32
  targets: np.ndarray  # shape=(examples,), dtype=int32


def load_images(split: str) -> Images:
  """The clean images of a split; 'eval_train' is the start of 'train'."""
  from sklearn.datasets import load_digits

  images, classes = load_digits(return_X_y=True)
  order = np.random.default_rng(_SPLIT_SEED).permutation(len(images))
  starts = np.cumsum([0, *SPLIT_SIZES.values()])
  start = starts[list(SPLIT_SIZES).index(split)]
  chosen = order[start : start + SPLIT_SIZES[split]]
  pixels = images[chosen].reshape(-1, _SIDE, _SIDE) - TRAIN_MEAN
  return Images(
    (pixels / TRAIN_STDDEV).astype(np.float32),
    classes[chosen].astype(np.int32),
  )


def augment(rng: np.random.Generator, images: np.ndarray) -> np.ndarray:
  """Shifts each image by -1, 0 or 1 pixel in each direction, adds noise.

  Args:
    rng: source of shifts and noise.
    images: shape (examples, 8, 8).

  Returns:
    Shape (examples, 8, 8, 1), float32.
  """
  background = np.float32(-TRAIN_MEAN / TRAIN_STDDEV)
  padded = np.pad(images, ((0, 0), (1, 1), (1, 1)), constant_values=background)
  corner = rng.integers(0, 3, size=(2, len(images), 1, 1))
  rows = corner[0] + np.arange(_SIDE)[:, None]
  columns = corner[1] + np.arange(_SIDE)
  shifted = padded[np.arange(len(images))[:, None, None], rows, columns]
  noise = rng.standard_normal(shifted.shape, dtype=np.float32)
  return (shifted + np.float32(NOISE_STDDEV) * noise)[..., None]


def eval_images(split: str, num_examples: int) -> Images:
  """The fixed noisy copies of a split's images, shape (num_examples, 8, 8, 1)."""
  source = 'train' if split == 'eval_train' else split
  clean = load_images(source)
  index = np.arange(num_examples) // EVAL_COPIES
  rng = np.random.default_rng([_SPLIT_SEED, _NOISE_SEED[split]])
  return Images(augment(rng, clean.inputs[index]), clean.targets[index])


def train_images(rng: np.random.Generator, batch_size: int) -> Iterator[Images]:
  """Endless batches of freshly shifted and noisy training images."""
  clean = load_images('train')
  order = shuffled_indices(rng, len(clean.targets))
  while True:
    chosen = list(itertools.islice(order, batch_size))
    yield Images(augment(rng, clean.inputs[chosen]), clean.targets[chosen])
