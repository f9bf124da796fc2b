"""Three peaks, full resets (thesis, figures 3.1 to 3.4, 3.8, 3.9, A.1)."""

from ..submission import make_submission
from .settings import RUNS

(
  init_optimizer_state,
  update_params,
  prepare_for_eval,
  data_selection,
  get_batch_size,
) = make_submission(RUNS['peaks_full'])
