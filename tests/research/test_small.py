"""The parts of small networks, by hand."""

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_digits

from reset_cycles.research import small


def test_layers_by_hand():
  """relu(x W + b) between layers, and none after the last."""
  first = {'kernel': jnp.array([[1.0, -1.0], [2.0, 0.0]]), 'bias': jnp.ones(2)}
  last = {'kernel': jnp.array([[-1.0], [5.0]]), 'bias': jnp.zeros(1)}
  x = jnp.array([3.0, 1.0])
  np.testing.assert_array_equal(small.apply_dense(first, x), [6, -2])
  np.testing.assert_array_equal(small.apply_layers([first, last], x), [-6])


def test_fresh_layers(key):
  """Kernels of He's size: a variance of 2 / inputs, here 2 / 200."""
  made = small.layers(key, 200, 100, 3)
  shapes = [(layer['kernel'].shape, layer['bias'].shape) for layer in made]
  assert shapes == [((200, 100), (100,)), ((100, 3), (3,))]
  assert float(made[0]['kernel'].var()) == pytest.approx(0.01, rel=0.05)
  assert not made[0]['bias'].any()


def test_loss_and_accuracy_by_hand():
  logits, labels = (
    jnp.log(jnp.array([[0.5, 0.5], [0.2, 0.8]])),
    jnp.array([1, 0]),
  )
  mean = -(np.log(0.5) + np.log(0.2)) / 2
  assert float(small.cross_entropy(logits, labels)) == pytest.approx(mean)
  assert float(small.accuracy(logits, jnp.array([0, 0]))) == 0.5


def test_digits_are_in_an_order_of_the_seed():
  pixels, labels = small.digits(3)
  images, names = load_digits(return_X_y=True)
  order = np.random.default_rng(3).permutation(1797)
  np.testing.assert_array_equal(pixels[5], images[order[5]])
  np.testing.assert_array_equal(labels, names[order])
