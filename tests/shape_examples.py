"""Shapes with parameters, every one of the registry at least once."""

from __future__ import annotations

import jax.numpy as jnp


def bend(share):
  """A function of the share of the phase, for JAX to trace."""
  return jnp.cos(share)


def shrink(step):
  """A factor per step, for Python to call."""
  return 1 - 1 / (step + 9)


# Those that `reference` computes, too.
PLAIN_WARMUPS = ('linear', 'cosine', 'exponential', 'none')
PLAIN_DECAYS = (
  'cosine',
  'holding_exponential',
  'holding_linear',
  'step',
  'constant',
)

WARMUPS = (
  {'name': 'linear', 'start': 0.13},
  {'name': 'cosine', 'start': 0.13},
  {'name': 'exponential', 'start': 0.05},
  {'name': 'polynomial'},
  {'name': 'polynomial', 'power': 2, 'start': 0.07},
  {'name': 'none'},
)

DECAYS = (
  {'name': 'cosine', 'floor': 0.13},
  {'name': 'holding_exponential'},
  {'name': 'holding_linear'},
  {'name': 'linear'},
  {'name': 'linear', 'floor': 0.13},
  {'name': 'step', 'factor': 0.3, 'at': [0.3, 0.5, 0.9]},
  {'name': 'constant'},
  {'name': 'polynomial', 'end': 0.1},
  {'name': 'polynomial', 'power': 2, 'start': 0.9, 'end': 0.07},
  {'name': 'polynomial', 'power': 0.5, 'start': 0.1, 'end': 1},
  {'name': 'polynomial', 'share': 0.3, 'cycle': True, 'end': 0.13},
  {'name': 'exponential', 'factor': 0.5, 'share': 0.4},
  {'name': 'exponential', 'factor': 0.7, 'share': 0.1, 'staircase': True},
  {'name': 'inverse_time'},
  {'name': 'inverse_time', 'exponent': 2, 'share': 0.2, 'rate': 0.7},
  {'name': 'inverse_time', 'exponent': 1.5, 'share': 0.1, 'staircase': True},
  {'name': 'inverse_power'},
  {'name': 'inverse_power', 'cooldown': 0.3, 'floor': 0.05, 'fall': 'sqrt'},
  {'name': 'inverse_power', 'cooldown': 0.3, 'floor': 0.05, 'exponent': 1},
  {'name': 'k_decay_cosine', 'k': 1.5, 'floor': 0.13, 'cooldown': 0.2},
  {'name': 'k_decay_cosine', 'k': 0.5},
  {'name': 'cosine_annealing', 'share': 0.3, 'floor': 0.13},
  {'name': 'cosine_warm_restarts', 'periods': 2},
  {'name': 'cosine_warm_restarts', 'multiplier': 2, 'floor': 0.13},
  {'name': 'piecewise_constant', 'values': [1, 0, 0.5], 'at': [0.2, 0.7]},
  {'name': 'cyclic', 'floor': 0.13},
  {'name': 'cyclic', 'floor': 0.13, 'mode': 'triangular2', 'rise': 0.3},
  {'name': 'cyclic', 'floor': 0.13, 'mode': 'exp_range', 'gamma': 0.3},
  {'name': 'one_cycle'},
  {'name': 'one_cycle', 'three_phase': True, 'start': 0.1},
  {'name': 'one_cycle', 'three_phase': True, 'anneal': 'linear'},
  {'name': 'wsd'},
  {'name': 'wsd', 'checkpoints': 3, 'fall': 'sqrt', 'floor': 0.13},
  {'name': 'wsd', 'fall': 'inverse', 'floor': 0.13},
  {
    'name': 'sequential',
    'shapes': [
      'cosine',
      {'name': 'polynomial', 'power': 2},
      {'name': 'wsd', 'decay': 0.25},
    ],
    'at': [0.3, 0.6],
    'peaks': [1, 0.7, 0.4],
  },
  {
    'name': 'sequential',
    'shapes': ['holding_linear', 'holding_exponential', 'linear'],
    'at': [0.25, 0.75],
  },
  {
    'name': 'chained',
    'shapes': [
      {'name': 'polynomial', 'start': 0.3, 'end': 0.9},
      {'name': 'exponential', 'factor': 0.5},
      'cosine',
    ],
  },
)

# These cannot be written as JSON.
WITH_FUNCTIONS = (
  {'name': 'lambda', 'function': bend},
  {'name': 'multiplicative', 'function': shrink},
  {
    'name': 'chained',
    'shapes': ['cosine', {'name': 'lambda', 'function': bend}],
  },
)
