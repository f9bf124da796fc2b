"""Every rival trains in both generations, and goes on from a checkpoint."""

import pathlib

import jax
import numpy as np
import optax
import pytest

from helpers import fake_benchmark, trees
from helpers.trees import assert_close
from reset_cycles.mini_algoperf.submission_loader import load_submission
from reset_cycles.research.board.rivals import common, nadamw

FOLDER = pathlib.Path(common.__file__).parent
NO_RIVALS = ('__init__', 'common', 'thesis')
NAMES = sorted(p.stem for p in FOLDER.glob('*.py') if p.stem not in NO_RIVALS)
if not hasattr(getattr(optax, 'contrib', None), 'scale_by_ademamix'):
  NAMES = [n for n in NAMES if n not in ('ademamix', 'schedule_free')]
GENERATIONS = ('jit', 'pmap')


def driver(name, generation, step_hint=8):
  workload = fake_benchmark.WORKLOADS[generation](step_hint)
  submission = load_submission(str(FOLDER / f'{name}.py'))
  return fake_benchmark.Driver(submission, workload, {4: (1.0, 0.5)})


def host(driver):
  """What is trained, and what was averaged; one copy."""
  tree = driver.params, driver.model_state, driver.optimizer_state[0]
  if driver.workload.generation == 'pmap':
    tree = jax.tree_util.tree_map(lambda x: x[0], tree)
  return trees.host(tree)


@pytest.mark.parametrize('name', NAMES)
def test_generations_agree_and_a_resumed_run_is_the_same(name):
  ends = {}
  for generation in GENERATIONS:
    whole = driver(name, generation)
    begin = host(whole)[0]
    whole.run(until=5)
    kept = whole.params, whole.model_state, whole.optimizer_state[0]
    kept = trees.host(kept)
    whole.run(until=7)
    resumed = driver(name, generation)
    resumed.params, resumed.model_state, saved = kept
    resumed.optimizer_state = (saved, resumed.optimizer_state[1])
    resumed.global_step, resumed.eval_results = 5, list(whole.eval_results)
    resumed.run(until=7)
    ends[generation] = host(whole)
    # Devices of jax 0.4 add up in any order.
    assert_close(ends[generation], host(resumed), rtol=1e-5, atol=1e-6)
    moved = np.abs(ends[generation][0]['kernel'] - begin['kernel'])
    assert np.isfinite(moved).all() and moved.max() > 1e-4
  if name != 'nadamw_budget':  # whose rate depends on the budget, which differs
    assert_close(ends['jit'], ends['pmap'], rtol=2e-4, atol=1e-6)


def test_a_rival_takes_each_batch_once():
  run, queue = driver('nadamw', 'jit'), iter(range(9))
  rest = run.optimizer_state, *3 * (None,)
  select = run.submission.data_selection
  assert [select(None, queue, *rest, n, None) for n in range(3)] == [0, 1, 2]


def test_a_rival_brings_its_own_hyperparameters():
  workload = fake_benchmark.TinyWorkload()
  params, state = workload.init_model_fn(jax.random.PRNGKey(0))
  with pytest.raises(ValueError, match='self-tuning'):
    nadamw.init_optimizer_state(workload, params, state, {'a': 1}, None)


@pytest.mark.parametrize('name', NAMES)
def test_no_step_after_the_first_compiles_anything(name, compilations):
  run = driver(name, 'jit', step_hint=60)
  run.workload.max_allowed_runtime_sec = 60
  run.run(until=4)  # with an evaluation before the next step
  run.eval_results = [(4, {'accumulated_submission_time': 8.0})]
  run.run(until=5)
  with compilations() as compiled:
    run.run(until=8)
  assert compiled == []
