"""Images for `mnist`: digits of a faulty seven-segment display.

Each segment is wrong, on or off, in 3 of 100 images, as in the LED example of
Breiman, Friedman, Olshen and Stone, Classification and Regression Trees (1984).
No classifier is then right in more than 92.0 % of the images, and the target of
97 % is out of reach: a run goes through all of its cycles.
"""

from __future__ import annotations

import numpy as np

from .data_set import DataSet, Example, Sizes, SmokeData

# The benchmark asks for slices of just these splits.
DEFAULT_SIZES = Sizes(num_train=60_000, num_eval=10_000)
FAULT_RATE = 0.03

_NAME = 'mnist:3.0.1'
_SIDE = 28  # pixels
_SHIFTS = 5  # positions of the display, per direction
_GREYS = np.array([160, 192, 224, 255], np.uint8)
# The usual letters: a on top, then clockwise to f, and g in the middle.
_SEGMENTS = {
  'a': (slice(4, 6), slice(8, 18)),
  'b': (slice(4, 14), slice(16, 18)),
  'c': (slice(12, 22), slice(16, 18)),
  'd': (slice(20, 22), slice(8, 18)),
  'e': (slice(12, 22), slice(8, 10)),
  'f': (slice(4, 14), slice(8, 10)),
  'g': (slice(12, 14), slice(8, 18)),
}
_DIGITS = (
  'abcdef',
  'bc',
  'abdeg',
  'abcdg',
  'bcfg',
  'acdfg',
  'acdefg',
  'abc',
  'abcdefg',
  'abcdfg',
)


def make_data(seed: int, sizes: Sizes) -> SmokeData:
  """Draws images, the same ones for the same seed.

  Args:
    seed: of all choices.
    sizes: images per split; there is no validation split.

  Raises:
    ValueError: for other sizes than MNIST's.
  """
  if sizes != DEFAULT_SIZES:
    raise ValueError(
      'mnist has a fixed size, since the benchmark asks for slices of '
      f'{DEFAULT_SIZES.num_train} and {DEFAULT_SIZES.num_eval} images: leave '
      '--num_train and --num_eval out.'
    )
  rng = np.random.default_rng(seed)
  splits = {
    'train': draw_images(rng, sizes.num_train),
    'test': draw_images(rng, sizes.num_eval),
  }
  return SmokeData([DataSet(_NAME, splits)], files={})


def draw_images(rng: np.random.Generator, num_images: int) -> list[Example]:
  """Digits at random places and greys; the first ten are 0 to 9.

  Args:
    rng: source of all choices.
    num_images: how many.
  """
  labels = rng.integers(10, size=num_images)
  labels[:10] = np.arange(10)[:num_images]
  faults = rng.random((num_images, len(_SEGMENTS))) < FAULT_RATE
  patterns = np.packbits(digit_segments()[labels] ^ faults, axis=1)[:, 0] >> 1
  rows, columns = rng.integers(_SHIFTS, size=(2, num_images))
  greys = _GREYS[rng.integers(len(_GREYS), size=num_images)]
  displays = _displays()
  return [
    {'image': displays[pattern, row, column] * grey, 'label': int(label)}
    for pattern, row, column, grey, label in zip(
      patterns, rows, columns, greys, labels
    )
  ]


def digit_segments() -> np.ndarray:
  """Which segments a digit has, shape (10, 7), bool."""
  return np.array([[name in d for name in _SEGMENTS] for d in _DIGITS])


def _displays() -> np.ndarray:
  """Displays of 0 and 1, shape (patterns, rows, columns, 28, 28, 1)."""
  displays = np.zeros((128, _SHIFTS, _SHIFTS, _SIDE, _SIDE, 1), np.uint8)
  for pattern in range(128):
    image = np.zeros((_SIDE, _SIDE, 1), np.uint8)
    for bit, (rows, columns) in enumerate(_SEGMENTS.values()):
      image[rows, columns] |= pattern >> (6 - bit) & 1
    for row in range(_SHIFTS):
      for column in range(_SHIFTS):
        shift = (row - _SHIFTS // 2, column - _SHIFTS // 2)
        displays[pattern, row, column] = np.roll(image, shift, axis=(0, 1))
  return displays
