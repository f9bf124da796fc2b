"""There is always a race, however good the first probe is."""

from __future__ import annotations

from ...schedule_params import COMPETITION
from ...submission import make_submission

(
  init_optimizer_state,
  update_params,
  prepare_for_eval,
  data_selection,
  get_batch_size,
) = make_submission(COMPETITION.override({'policy_enough': None}))
