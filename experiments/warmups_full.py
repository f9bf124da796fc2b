"""Three warm-ups, full resets (thesis, figures 3.3e-f, 3.4c, 3.8c)."""

from ..submission import make_submission
from .settings import RUNS

(
  init_optimizer_state,
  update_params,
  prepare_for_eval,
  data_selection,
  get_batch_size,
) = make_submission(RUNS['warmups_full'])
