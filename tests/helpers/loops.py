"""A small loop of one's own, and what the tests of it share."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from reset_cycles.core.schedules import Cycle
from reset_cycles.loop import Cycles, State
from reset_cycles.optimizers.adamw import AdamW
from reset_cycles.schedule_params import THESIS

WIDTH = 8
# Three cycles of four steps, with a rate at which few steps change much.
CHAIN = dataclasses.replace(
  THESIS,
  cycles=(Cycle(peak=0.01),) * 3,
  optimizer=AdamW(weight_decay=0.001),
  repeat=True,
  early_switching=False,
)
# Evaluations after these steps, (loss, metric): a cycle is abandoned at step 6.
SWITCHING = dataclasses.replace(CHAIN, early_switching=True)
EVALUATIONS = {2: (1.0, 0.4), 4: (0.9, 0.6), 6: (9.0, 0.5), 9: (0.8, 0.7)}


def init(key):
  """Fresh parameters: two layers."""
  one, two = jax.random.split(key)
  return {
    'hidden': {
      'bias': jnp.zeros(WIDTH),
      'kernel': 0.3 * jax.random.normal(one, (WIDTH, WIDTH)),
    },
    'output': {'kernel': 0.3 * jax.random.normal(two, (WIDTH, 2))},
  }


def sharded(count):
  """`init`, with parameters spread over so many devices."""
  mesh = Mesh(np.array(jax.devices()[:count]), ('model',))
  rows = NamedSharding(mesh, PartitionSpec('model'))
  columns = NamedSharding(mesh, PartitionSpec(None, 'model'))
  layout = {
    'hidden': {'bias': rows, 'kernel': columns},
    'output': {'kernel': rows},
  }
  return jax.jit(init, out_shardings=layout)


def orbax_checkpoint():
  """The module, where orbax can save arrays that are spread over devices."""
  if jax.__version_info__ < (0, 8):
    pytest.skip('the orbax that is pinned beside older versions of jax cannot')
  return pytest.importorskip('orbax.checkpoint')


def make(settings=CHAIN, **changes):
  usual = {'num_steps': 12, 'make_params': init, 'target': 0.8}
  return Cycles(settings, **{**usual, **changes})


def loss_of(params, inputs):
  hidden = inputs @ params['hidden']['kernel'] + params['hidden']['bias'][None]
  outputs = jax.nn.relu(hidden) @ params['output']['kernel']
  return jnp.mean(jnp.square(outputs - inputs[:, :2]))


def make_step(cycles, **more):
  """The compiled step of a loop, which donates the state.

  Args:
    cycles: of the loop.
    more: further arguments of the optimizer's update.
  """

  @functools.partial(jax.jit, donate_argnums=0)
  def step(state, inputs):
    def value_fn(params):
      return loss_of(params, inputs)

    point = cycles.gradient_point(state)
    fast = getattr(point, 'fast', point)  # of LookaheadParams
    value, grads = jax.value_and_grad(value_fn)(fast)
    values = {'value': value, 'grad': grads, 'value_fn': value_fn, **more}
    if not hasattr(optax, 'GradientTransformationExtraArgs'):
      values = {}
    updates, opt_state = cycles.optimizer.update(
      grads, state.opt_state, state.params, **values
    )
    params = optax.apply_updates(state.params, updates)
    return state._replace(params=params, opt_state=opt_state)

  return step


def inputs_of(step):
  rng = np.random.default_rng(step)
  return rng.standard_normal((4, WIDTH)).astype(np.float32)


def start(cycles, make_params=init, seed=7):
  params = make_params(jax.random.PRNGKey(seed))
  return State(params, cycles.optimizer.init(params))


def train(cycles, state, evaluations, first, last, step=None):
  """Steps first to last - 1; returns the state and what has been said.

  Args:
    cycles, state: of the loop.
    evaluations: step -> (loss, metric), after that many steps.
    first, last: steps.
    step: the compiled step; None makes one.
  """
  step, tape = step or make_step(cycles), []
  for i in range(first, last):
    state, events = cycles.before_step(i, state)
    tape += events
    if tape and tape[-1].kind == 'finish':
      break
    state = step(state, inputs_of(i))
    if i + 1 in evaluations:
      state, events = cycles.after_evaluation(i + 1, *evaluations[i + 1], state)
      tape += events
  return state, tape
