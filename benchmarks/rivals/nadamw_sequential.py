"""Sequential hard restarts: three settings of NadamW, one after the other.

Each starts from the run's first parameters with a fresh optimizer; batch
statistics are kept. Settings and their horizons are those of the official entry
nadamw_sequential of 2024, made for a budget of three times step_hint, of which
they take 1, 1 and 0.75; with a smaller budget they take the same shares of it.
The entry's label smoothing never took effect, and is left out.

Checked once against the published file, on v0.5.0's stack, `digits`, step_hint
50, without dropout: bit-identical through all three phases, and both are
complete after 138 steps.
"""

from __future__ import annotations

import math

from . import common

POINTS = (
  common.Hparams(
    0.0014271957958295392, 0.03380478752, 0.9957304053273589,
    0.09153141484048229, 0.01,
  ),
  common.Hparams(
    0.001768509931943289, 0.05850208614, 0.9768053375036079,
    0.0279513959224539, 0.02,
  ),
  common.Hparams(
    0.0023792566965593815, 0.01990335215, 0.9632738717172477,
    0.3417568278549717, 0.01,
  ),
)  # fmt: skip
HORIZONS = (1.0, 1.0, 0.75)  # over step_hint, for a budget of 3


def phases(step_hint: int, budget: float) -> list[common.Phase]:
  """Three phases, after which the run is complete."""
  found = []
  for point, horizon in zip(POINTS, HORIZONS):
    share = horizon * budget / common.BUDGET_2024
    steps = math.ceil(share * step_hint)
    rate = common.warmup_cosine(point, steps)
    found.append(common.Phase(steps, common.nadamw(point, rate)))
  return found


(
  init_optimizer_state,
  update_params,
  prepare_for_eval,
  data_selection,
  get_batch_size,
) = common.submission_of(common.Rival(phases))
