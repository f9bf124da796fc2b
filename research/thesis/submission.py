"""A run of the thesis as a submission; the environment says which.

  EXPERIMENT=peaks_soft reset-cycles run --workload=molecules \\
    --submission_path=research/thesis/submission.py

This file is for studies of this project and is not handed in, where nothing may
be chosen by the environment.
"""

from __future__ import annotations

import os
from typing import Any

from ...core.checks import check_choice
from ...submission import (
  data_selection,
  get_batch_size,
  make_submission,
  prepare_for_eval,
  update_params,
)
from .settings import RUNS

__all__ = [
  'data_selection',
  'get_batch_size',
  'init_optimizer_state',
  'prepare_for_eval',
  'update_params',
]


def init_optimizer_state(*args: Any, **kwargs: Any) -> Any:
  """The benchmark's function for the run that EXPERIMENT names.

  Raises:
    ValueError: if EXPERIMENT is no key of `settings.RUNS`; see also
      `submission.make_submission`.
  """
  name = os.environ.get('EXPERIMENT', '')
  check_choice('EXPERIMENT', name, RUNS)
  return make_submission(RUNS[name]).init_optimizer_state(*args, **kwargs)
