"""A small loop of one's own, and what the tests of it share."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax

from reset_cycles.loop import State

WIDTH = 8


def init(key):
  """Fresh parameters: a kernel and a bias."""
  kernel = jax.random.normal(key, (WIDTH, 2))
  return {'bias': jnp.zeros(2), 'kernel': kernel}


def loss_of(params, inputs):
  outputs = inputs @ params['kernel'] + params['bias'][None]
  return jnp.mean(jnp.square(outputs - inputs[:, :2]))


def make_step(cycles):
  """The compiled step of a loop; its counts of traces are in `traces`."""
  traces = []

  @jax.jit
  def step(state, inputs):
    traces.append(1)
    gradient = jax.grad(loss_of)(state.params, inputs)
    updates, opt_state = cycles.optimizer.update(
      gradient, state.opt_state, state.params
    )
    params = optax.apply_updates(state.params, updates)
    return state._replace(params=params, opt_state=opt_state)

  step.traces = traces
  return step


def inputs_of(step):
  rng = np.random.default_rng(step)
  return rng.standard_normal((4, WIDTH)).astype(np.float32)


def start(cycles, seed=0):
  params = init(jax.random.PRNGKey(seed))
  return State(params, cycles.optimizer.init(params))


def train(cycles, state, evaluations, first, last, step=None, batch=inputs_of):
  """Steps first to last - 1; returns the state and the events with their step.

  Args:
    cycles, state: of the loop.
    evaluations: step -> (loss, metric), after that many steps.
    first, last: steps.
    step: the compiled step; None makes one.
    batch: step -> inputs.
  """
  step, tape = step or make_step(cycles), []
  for i in range(first, last):
    state, events = cycles.before_step(i, state)
    tape += [(i, event) for event in events]
    if any(event['event'] == 'finish' for event in events):
      break
    state = step(state, batch(i))
    if i + 1 in evaluations:
      state, events = cycles.after_evaluation(i + 1, *evaluations[i + 1], state)
      tape += [(i + 1, event) for event in events]
      if any(event['event'] == 'finish' for event in events):
        break
  return state, tape
