"""NadamW with warm-up and a cosine over step_hint, then 0: the baseline.

Source: the benchmark's own jax_nadamw_full_budget.py, in both generations.

Checked once against the published files over 200 steps of `digits` (step_hint
150, batch 64, no dropout): on v0.5.0's stack the parameters are bit-identical;
on main's (the board's nadamw_baselinev05) they differ by at most 1e-8, of 0.1
(root mean squares).
"""

from __future__ import annotations

import optax

from . import common


def optimizer(step_hint: int, budget: float) -> optax.GradientTransformation:
  """NadamW under the baseline's schedule."""
  rate = common.warmup_cosine(common.BASELINE, step_hint)
  return common.nadamw(common.BASELINE, rate)


(
  init_optimizer_state,
  update_params,
  prepare_for_eval,
  data_selection,
  get_batch_size,
) = common.submission_of(common.Rival(optimizer))
