"""Sequential cycles: a full reset between them (thesis, section 3.2.1)."""

import dataclasses

from ..schedule_params import THESIS
from ..submission import make_submission

(
  init_optimizer_state,
  update_params,
  prepare_for_eval,
  data_selection,
  get_batch_size,
) = make_submission(dataclasses.replace(THESIS, reset_mode='full'))
