"""This project's thesis, unchanged."""

from __future__ import annotations

from ....schedule_params import THESIS
from ....submission import make_submission

(
  init_optimizer_state,
  update_params,
  prepare_for_eval,
  data_selection,
  get_batch_size,
) = make_submission(THESIS)
