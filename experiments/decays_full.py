"""Three decays, full resets (thesis, figures 3.3c-d, 3.4b, 3.8b)."""

from ..submission import make_submission
from .settings import RUNS

(
  init_optimizer_state,
  update_params,
  prepare_for_eval,
  data_selection,
  get_batch_size,
) = make_submission(RUNS['decays_full'])
