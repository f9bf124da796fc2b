"""The images of `digits`."""

from __future__ import annotations

import numpy as np

from reset_cycles.mini_algoperf.workloads import digit_data


def test_digits_splits_are_disjoint_and_evaluated_images_are_fixed():
  sizes = digit_data.SPLIT_SIZES
  images = [digit_data.load_images(split) for split in sizes]
  assert [len(i.targets) for i in images] == list(sizes.values())
  seen = {i.tobytes() for images_ in images for i in images_.inputs}
  assert len(seen) == sum(sizes.values())
  first = digit_data.eval_images('validation', 1536)
  again = digit_data.eval_images('validation', 1536)
  np.testing.assert_array_equal(first.inputs, again.inputs)
  np.testing.assert_array_equal(first.targets, again.targets)
  assert first.inputs.shape == (1536, 8, 8, 1)
  # Copies of one image differ in noise and keep its class.
  assert len(set(first.targets[:4].tolist())) == 1
  assert not np.array_equal(first.inputs[0], first.inputs[1])


def test_digits_are_normalised_by_the_training_split():
  raw = digit_data.load_images('train').inputs
  assert abs(raw.mean()) < 0.01
  assert abs(raw.std() - 1) < 0.01


def test_augmentation_shifts_by_at_most_a_pixel(monkeypatch):
  monkeypatch.setattr(digit_data, 'NOISE_STDDEV', 0.0)
  images = np.zeros((200, 8, 8), np.float32)
  images[:, 4, 4] = 1
  shifted = digit_data.augment(np.random.default_rng(0), images)[..., 0]
  rows, columns = np.argwhere(shifted == 1)[:, 1:].T
  assert len(rows) == 200
  assert set(rows) == set(columns) == {3, 4, 5}


def test_the_noise_of_every_split_is_its_own(monkeypatch):
  # As bright as the borders that shifts let in: what is left is noise.
  background = -digit_data.TRAIN_MEAN / digit_data.TRAIN_STDDEV
  blank = digit_data.Images(
    np.full((384, 8, 8), background, np.float32), np.zeros(384, np.int32)
  )
  monkeypatch.setattr(digit_data, 'load_images', lambda split: blank)
  noise = [
    digit_data.eval_images(split, 64).inputs.ravel()
    for split in ('eval_train', 'validation', 'test')
  ]
  # 4,096 independent pixels: 1 / 64 is a standard deviation.
  correlations = np.corrcoef(noise)[np.triu_indices(3, 1)]
  assert np.abs(correlations).max() < 4 / 64
