"""Three peaks, nothing is reset (for comparison with figure 3.8a)."""

from ..submission import make_submission
from .settings import RUNS

(
  init_optimizer_state,
  update_params,
  prepare_for_eval,
  data_selection,
  get_batch_size,
) = make_submission(RUNS['peaks_cyclic'])
