"""Checkpoints: what comes back, what is not picked up, resumed runs."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import flax.core
import flax.jax_utils
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.training import checkpoints as flax_checkpoints

from helpers.fakes import make_trial
from reset_cycles.mini_algoperf import checkpoints, runner

GENERATIONS = ['jit', 'pmap']


class Moments(NamedTuple):
  count: Any
  mu: Any


def make_state(generation, step=7, fill=1.0):
  trees = {
    'model_params': flax.core.freeze({'a': {'b': jnp.full((2, 3), fill)}}),
    'optimizer_state': (
      Moments(jnp.int32(5), {'x': jnp.full(4, fill, jnp.bfloat16)}),
      (),
      jax.random.PRNGKey(3),
    ),
    'model_state': None,
  }
  if generation == 'pmap':
    trees = flax.jax_utils.replicate(trees)
  return {
    **trees,
    'train_state': {'training_complete': False, 'last_eval_time': 1.5},
    'eval_results': [(s, {'validation/loss': 0.1 * s}) for s in range(1, 13)],
    'global_step': step,
    'preemption_count': 0,
    'batches_drawn': 9,
  }


def assert_trees_equal(first, second):
  same = functools.partial(np.testing.assert_array_equal, strict=True)
  jax.tree_util.tree_map(same, first, second)


@pytest.mark.parametrize(
  ('generation', 'is_sharded'), [('jit', False), ('jit', True), ('pmap', False)]
)
def test_what_was_saved_comes_back(generation, is_sharded, tmp_path):
  """Also to where it lay."""
  state, other = (make_state(generation, fill=fill) for fill in (1.0, 0.0))
  if is_sharded:
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ('batch',))
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    for trees in (state, other):
      trees['model_params'] = jax.device_put(trees['model_params'], whole)
  checkpoints.save(tmp_path, state, generation)
  raw = checkpoints.read_latest(tmp_path)
  restored = checkpoints.restore(raw, other, generation)
  assert set(restored) == set(state)
  for name in checkpoints.DEVICE_TREES:
    assert_trees_equal(restored[name], state[name])
    placed, expected = (
      [leaf.devices() for leaf in jax.tree_util.tree_leaves(trees[name])]
      for trees in (restored, state)
    )
    assert placed == expected
  for name in set(state) - set(checkpoints.DEVICE_TREES):
    assert restored[name] == state[name]


def test_the_file_is_flaxs_own_checkpoint(tmp_path):
  state = make_state('jit')
  checkpoints.save(tmp_path, state, 'jit')
  restored = flax_checkpoints.restore_checkpoint(
    str(tmp_path), dict(make_state('jit', fill=0.0), eval_results=None)
  )
  assert_trees_equal(restored['optimizer_state'], state['optimizer_state'])
  assert restored['global_step'] == 7


def test_what_a_killed_process_has_left_of_a_checkpoint_is_removed(tmp_path):
  (tmp_path / '.checkpoint_3.1.tmp').write_bytes(b'a part')
  path = checkpoints.save(tmp_path, make_state('jit'), 'jit')
  assert list(tmp_path.iterdir()) == [path]


def cut(content):
  return content[:-20]


def flip(content):
  """One bit of a parameter: msgpack reads it as another number."""
  where = content.index(np.float32(1.0).tobytes()) + 1
  return content[:where] + bytes([content[where] ^ 1]) + content[where + 1 :]


@pytest.mark.parametrize(
  'damage', [cut, flip, lambda content: b''], ids=['cut', 'flipped', 'empty']
)
def test_a_damaged_checkpoint_is_refused(damage, tmp_path):
  path = checkpoints.save(tmp_path, make_state('jit', 10), 'jit')
  path.write_bytes(damage(path.read_bytes()))
  with pytest.raises(ValueError, match='checkpoint_10 is damaged'):
    checkpoints.read_latest(tmp_path)


def test_other_shapes_and_other_trees_are_refused(tmp_path):
  checkpoints.save(tmp_path, make_state('jit'), 'jit')
  raw = checkpoints.read_latest(tmp_path)
  larger = dict(make_state('jit'), model_params={'a': {'b': jnp.zeros((2, 4))}})
  with pytest.raises(ValueError, match=r'model_params .*\(2, 3\).*\(2, 4\)'):
    checkpoints.restore(raw, larger, 'jit')
  for params in ({'other': {'b': jnp.zeros((2, 3))}}, {'a': {}}, {}):
    other = dict(make_state('jit'), model_params=params)
    with pytest.raises(ValueError, match='model_params has other entries'):
      checkpoints.restore(raw, other, 'jit')


# Resumed runs: the same as if nothing had happened.


def run_trial(generation, log_dir, resume=False, **stop):
  """One process' worth of a run; interrupted ones raise KeyboardInterrupt."""
  log_dir.mkdir(exist_ok=True)
  run, _ = make_trial(
    generation,
    stop,
    log_dir=log_dir,
    raw=checkpoints.read_latest(log_dir) if resume else None,
    max_global_steps=8,
  )
  runner.train(run)
  return run


def losses(run):
  keys = [f'{split}/loss' for split in ('train', 'validation', 'test')]
  return [(step, [found[k] for k in keys]) for step, found in run.eval_results]


@pytest.mark.parametrize('generation', GENERATIONS)
@pytest.mark.parametrize('interrupt_at', [0, 1, 5, 7])
def test_resumed_equals_uninterrupted(generation, interrupt_at, tmp_path):
  whole = run_trial(generation, tmp_path / 'whole')
  with pytest.raises(KeyboardInterrupt):
    run_trial(generation, tmp_path / 'parts', interrupt_at=interrupt_at)
  parts = run_trial(generation, tmp_path / 'parts', resume=True)
  assert_trees_equal(parts._device_trees(), whole._device_trees())
  assert losses(parts) == losses(whole)
  assert parts.global_step == whole.global_step == 8
  assert parts.input_queue.drawn == whole.input_queue.drawn
  # Preempted after the first evaluation, it resumed from a checkpoint.
  assert parts.preemption_count == (interrupt_at > 0)
