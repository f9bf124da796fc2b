"""What a loop's parameters are told to be, and that a guess is said."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from helpers import loops
from reset_cycles import Cycles, State
from reset_cycles.core.forms import VECTOR, matrix
from reset_cycles.optimizers.schedule_free import ScheduleFreeMuon

SETTINGS = dataclasses.replace(loops.CHAIN, optimizer=ScheduleFreeMuon())


def init(key):
  return {'w': jax.random.normal(key, (3, 2)), 'shift': jnp.ones((2, 2))}


def loss_of(params):
  """The shift has two axes, and is only added."""
  return jnp.sum(jnp.ones((2, 3)) @ params['w'] + params['shift'])


@pytest.mark.parametrize(
  ('told', 'guesses'),
  (
    ({}, "['shift'], ['w']"),
    ({'loss_fn': loss_of}, ''),
    ({'matrices': lambda path: path == "['w']"}, "['w']"),
    ({'matrices': {"['w']": matrix((0,), (1,)), "['shift']": VECTOR}.get}, ''),
  ),
  ids=('nothing', 'loss', 'one', 'both'),
)
def test_what_is_only_guessed_is_a_warning(told, guesses):
  cycles = Cycles(SETTINGS, num_steps=9, make_params=init, target=0.9, **told)
  params = init(jax.random.PRNGKey(0))
  state = State(params, cycles.optimizer.init(params))
  _, events = cycles.before_step(0, state)
  reasons = [e.reason for e in events if e.kind == 'warning']
  sentence = f'guessed by name or shape: the form of {guesses}'
  assert reasons == ([sentence] if guesses else [])
