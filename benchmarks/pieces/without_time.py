"""The run is planned for 1.5 times step_hint, however long a step takes."""

from __future__ import annotations

import dataclasses

from ...schedule_params import COMPETITION
from ...submission import make_submission

(
  init_optimizer_state,
  update_params,
  prepare_for_eval,
  data_selection,
  get_batch_size,
) = make_submission(dataclasses.replace(COMPETITION, horizon='steps'))
