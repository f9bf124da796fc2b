"""NadamW with warm-up and a cosine over step_hint, then 0: the baseline.

Source: the benchmark's own jax_nadamw_full_budget.py, in both generations.
"""

from __future__ import annotations

from . import common, nadam


def phases(step_hint: int, budget: float) -> list[common.Phase]:
  """One, without an end."""
  del budget
  rate = nadam.warmup_cosine(nadam.BASELINE, step_hint)
  return [common.Phase(None, nadam.nadamw(nadam.BASELINE, rate))]


RIVAL = common.Rival(phases)
(
  init_optimizer_state,
  update_params,
  prepare_for_eval,
  data_selection,
  get_batch_size,
) = common.submission_of(RIVAL)
