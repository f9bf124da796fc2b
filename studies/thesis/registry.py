"""The runs of the thesis' registry, as logs and claims name them."""

from __future__ import annotations

import pathlib

import numpy as np

from ... import early_switching
from ...early_switching import SmoothedLossRule
from ...experiments.settings import RUNS
from ...soft_reset import Cyclic, FullReset, KeptMomentum, SoftReset
from ..plans import read_plan

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
