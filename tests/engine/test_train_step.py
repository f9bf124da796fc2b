"""The loss that is trained: what goes where, by hand."""

import jax
import numpy as np
import optax
import pytest

from helpers import fake_benchmark
from reset_cycles.engine.train_step import loss_in_training, train_step


def batch_of_two():
  return {
    'targets': np.array([[2.0, 0.0], [4.0, 0.0]], np.float32),
    'weights': np.array([1.0, 0.0], np.float32),
  }


class Old(fake_benchmark.TinyWorkload):
  """Its logits are 0; as in v0.5.0, it takes no dropout rate."""

  def model_fn(self, params, batch, state, mode, rng, update_batch_norm):
    self.seen = {'mode': mode, 'bn': update_batch_norm}
    return np.zeros((2, 2), np.float32), 'new state'


class Main(Old):
  def model_fn(self, *args, update_batch_norm, dropout_rate=7):
    found = super().model_fn(*args, update_batch_norm)
    self.seen['dropout_rate'] = dropout_rate
    return found


@pytest.mark.parametrize('rate', (None, 0.0, 0.25))
def test_dropout_goes_where_the_generation_takes_it(rate):
  expected = {'mode': fake_benchmark.ForwardPassMode.TRAIN, 'bn': True}
  # The workload's own is not touched where there is none.
  for workload, taken in (
    (Old(), {}),
    (Main(), {'dropout_rate': 7 if rate is None else rate}),
  ):
    loss_in_training(workload, rate, 0.0)(None, None, batch_of_two(), None)
    assert workload.seen == {**expected, **taken}


def test_label_smoothing_and_weights_reach_the_loss():
  batch = batch_of_two()
  found = loss_in_training(Old(), None, 0.5)(None, None, batch, None)
  # (0 - 0.5 * 2)^2 of the one that counts
  assert found == (1.0, (1.0, 'new state'))
  del batch['weights']
  found = loss_in_training(Old(), None, 0.0)(None, None, batch, None)
  assert found == (20.0, (2.0, 'new state'))


@pytest.mark.parametrize(
  ('n_valid', 'expected'), ((4.0, 0.5), (0.5, 4.0), (0.0, 2.0))
)
def test_a_step_follows_the_mean_over_what_is_valid(n_valid, expected):
  """2 a parameter, of fractions of an example, too; of none it is the sum."""

  def loss_fn(params, model_state, batch, rng):
    return 2.0 * params['w'], (np.float32(n_valid), model_state)

  optimizer, params = optax.sgd(1.0), {'w': np.float32(3.0)}
  body = train_step(loss_fn, optimizer)
  given = params, None, optimizer.init(params), None, None
  found, _, _, metrics = jax.jit(lambda: body(*given, lambda tree: tree))()
  assert found['w'] == 3.0 - expected
  np.testing.assert_allclose(metrics, (3.0 * expected, expected))
