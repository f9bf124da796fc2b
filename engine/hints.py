"""What an evaluation says about the way a run is measured, said to the user."""

from __future__ import annotations

import math

from .state import Control, RunConfig

# Of the share that the loss has fallen: by more than this no metric falls by
# noise.
_CLEAR_SHARE = 0.2


def hints(control: Control, config: RunConfig) -> list[str]:
  """What the last evaluation says about the way it is measured; each once."""
  first, last, settings = control.first, control.last, config.settings
  is_measured = settings.reset.needs_target or settings.switching.needs_target
  is_measured &= config.target.needs_first and math.isfinite(first.metric)
  sentences, steps = list[str](), control.planned_end
  is_late = math.isnan(first.untrained_metric(steps))
  if first.step == last.step and is_measured and is_late:
    sentences += [
      f'the first evaluation came after {first.step} of {steps} steps: '
      'evaluate after the first step too, where the way to the target begins'
    ]
  is_third = control.cycle == 1 and control.num_evaluations == 3
  is_worst = control.best.step == first.step and last.metric != first.metric
  # By noise the metric gets worse too, but not by a fifth of the loss's share.
  worse = abs(last.metric - first.metric) * abs(first.loss)
  is_clear = worse >= _CLEAR_SHARE * (first.loss - last.loss) * abs(
    first.metric
  )
  if is_third and is_worst and is_clear and last.loss < first.loss:
    rises = config.target.rises
    sentences += [
      'the loss has fallen and the metric has got worse in three evaluations: '
      f'is rises={rises} right?'
    ]
  return sentences
