"""One cycle with an exaggerated warm-up (thesis, figure 2.1)."""

from ..submission import make_submission
from .settings import RUNS

(
  init_optimizer_state,
  update_params,
  prepare_for_eval,
  data_selection,
  get_batch_size,
) = make_submission(RUNS['one_cycle'])
