"""The thesis' runs and figures, as the studies need them.

This is the only module of the studies that knows the registry of experiments,
and the rule of figure 3.7.
"""

from __future__ import annotations

import pathlib

import numpy as np

from ... import early_switching
from ...early_switching import SmoothedLossRule
from ...experiments.settings import RUNS
from ...experiments.thesis import (
  FIGURES,
  LOGS,
  SUBMISSION,
  Counterpart,
  ThesisFigure,
  find_figure,
)
from ...soft_reset import Cyclic, FullReset, KeptMomentum, SoftReset
from ..plans import read_plan, shown

__all__ = [
  'FIGURES',
  'LOGS',
  'RUNS',
  'SUBMISSION',
  'Counterpart',
  'ThesisFigure',
  'find_figure',
]
_NAMES = {params: name for name, params in RUNS.items()}
_MODES: dict[type, str] = {
  FullReset: 'full',
  KeptMomentum: 'kept_momentum',
  SoftReset: 'soft',
  Cyclic: 'cyclic',
}


def recognise(log_dir: pathlib.Path) -> tuple[str, int] | None:
  """The name of a run and its step_hint; None if the registry lacks it.

  Raises:
    ValueError: if its settings cannot be read.
  """
  plan = read_plan(log_dir)
  if plan is None or plan.params not in _NAMES:
    return None
  return _NAMES[plan.params], plan.step_hint


def reset_mode(run: str) -> str:
  """'full', 'kept_momentum', 'soft' or 'cyclic'."""
  return _MODES[type(RUNS[run].reset)]


def reset_label(run: str) -> str:
  """The mode in words; says where a soft reset leaves the moments alone."""
  reset = RUNS[run].reset
  if isinstance(reset, SoftReset) and reset.alpha == 0.0:
    return 'soft, parameters alone'
  return reset_mode(run).replace('_', ' ')


def settings_lines(run: str) -> list[str]:
  """Resets, switching and optimizer of a run, a line each."""
  params = RUNS[run]
  state = 'on' if params.early_switching else 'off, S(t) is logged'
  hparams = params.cycles[0].hparams
  return [
    f'Resets: {shown(params.reset)}.',
    f'Early switching: {state}; {shown(params.switching)}.',
    f'AdamW: beta {1 - hparams.one_minus_beta1:.4g} and {hparams.beta2:.4g}, '
    f'weight decay {hparams.weight_decay:.4g}, '
    f'dropout {hparams.dropout_rate:g}.',
  ]


def first_switch(losses: np.ndarray) -> int | None:
  """The evaluation, from 1, with the first S(t) = 1; None if there is none.

  Of a cycle's validation losses, shape=(n,), with the constants of figure 3.7.
  """
  rule = RUNS['failing_switching'].switching
  assert isinstance(rule, SmoothedLossRule)
  smoothed = early_switching.NO_LOSS_YET
  for t, loss in enumerate(losses, start=1):
    smoothed = early_switching.smooth_loss(smoothed, loss, rule.lam)
    if early_switching.is_stopping_early(
      smoothed, rule.eps1, rule.eps2, rule.k, rule.m
    ).stopping:
      return t
  return None
