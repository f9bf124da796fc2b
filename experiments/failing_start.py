"""A submission whose first learning rate is far too high: what SOFT_RESET does.

  reset-cycles run --workload=digits --submission_path=experiments/failing_start.py

The range test finds a peak that suits before the first cycle begins.
"""

from __future__ import annotations

import dataclasses

from ..schedule_params import SOFT_RESET
from ..submission import make_submission

cycles = tuple(
  dataclasses.replace(cycle, peak=1.0) for cycle in SOFT_RESET.cycles
)
(
  init_optimizer_state,
  update_params,
  prepare_for_eval,
  data_selection,
  get_batch_size,
) = make_submission(dataclasses.replace(SOFT_RESET, cycles=cycles))
