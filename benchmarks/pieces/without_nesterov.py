"""Schedule-Free AdamW at three peaks, without Nesterov momentum."""

from __future__ import annotations

from ...schedule_params import COMPETITION
from ...submission import make_submission

_FIRST, _, *_REST = COMPETITION.cycles

(
  init_optimizer_state,
  update_params,
  prepare_for_eval,
  data_selection,
  get_batch_size,
) = make_submission(
  COMPETITION.override({'cycles': (_FIRST, *_REST), 'policy_probes': 3})
)
