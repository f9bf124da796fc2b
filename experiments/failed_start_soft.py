"""A first cycle made to fail, soft resets (thesis, figure 3.11)."""

from ..submission import make_submission
from .settings import RUNS

(
  init_optimizer_state,
  update_params,
  prepare_for_eval,
  data_selection,
  get_batch_size,
) = make_submission(RUNS['failed_start_soft'])
