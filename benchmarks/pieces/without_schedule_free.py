"""NadamW with a cosine instead of Schedule-Free AdamW."""

from __future__ import annotations

import dataclasses

from ...schedule_params import COMPETITION
from ...submission import make_submission

_NADAMW = {
  0: {'optimizer': 'nadamw'},
  2: {'optimizer': 'nadamw', 'learning_rate': 0.00025},
  3: {'optimizer': 'nadamw', 'learning_rate': 0.025},
}

(
  init_optimizer_state,
  update_params,
  prepare_for_eval,
  data_selection,
  get_batch_size,
) = make_submission(
  dataclasses.replace(
    COMPETITION,
    cycles=tuple(
      _NADAMW.get(i, cycle) for i, cycle in enumerate(COMPETITION.cycles)
    ),
  )
)
