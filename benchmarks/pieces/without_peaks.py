"""Schedule-Free AdamW and Nesterov momentum, each only at its own peak."""

from __future__ import annotations

from ...schedule_params import COMPETITION
from ...submission import make_submission

(
  init_optimizer_state,
  update_params,
  prepare_for_eval,
  data_selection,
  get_batch_size,
) = make_submission(
  COMPETITION.override({'cycles': COMPETITION.cycles[:2], 'policy_probes': 2})
)
