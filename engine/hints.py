"""What an evaluation says about the way a run is measured, said to the user."""

from __future__ import annotations

import math

from .state import Control, RunConfig

# Noise makes a metric worse, too. Where the loss has fallen by a tenth or more,
# noise is taken to be less than a fifth of that fall.
_CLEAR_FALL = 0.1
_CLEAR_SHARE = 0.2


def hints(before: Control, control: Control, config: RunConfig) -> list[str]:
  """What the last evaluation says about the way it is measured; each once.

  Args:
    before, control: before and after that evaluation.
    config: what decides.
  """
  first, last = control.first, control.last
  sentences = _beginning(before, control, config)
  is_third = control.cycle == 1 and control.num_evaluations == 3
  is_worst = control.best.step == first.step and last.metric != first.metric
  fall = first.loss - last.loss
  worse = abs(last.metric - first.metric) * abs(first.loss)
  is_clear = fall > 0 and fall >= _CLEAR_FALL * abs(first.loss)
  is_clear &= worse >= _CLEAR_SHARE * fall * abs(first.metric)
  if is_third and is_worst and is_clear:
    rises = config.target.rises
    sentences += [
      'the loss has fallen and the metric has got worse in three evaluations: '
      f'is rises={rises} right?'
    ]
  return sentences


def _beginning(
  before: Control, control: Control, config: RunConfig
) -> list[str]:
  """Why the way to the target cannot be measured; [] if it can.

  It begins at the first evaluation with a finite metric.
  """
  first, target, steps = control.first, config.target, control.planned_end
  reset, rule = config.settings.reset, config.settings.switching
  is_measured = reset.needs_target or rule.needs_target
  is_new = not math.isfinite(before.first.metric)
  if not (is_measured and is_new and math.isfinite(first.metric)):
    return []
  sentences = []
  if target.needs_first and not first.is_untrained(steps):
    sentences.append(
      f'no metric was finite before that after {first.step} of {steps} '
      'steps: take one that is finite for an untrained model, where the way '
      'to the target begins'
      if before.last.step >= 0
      else f'the first evaluation came after {first.step} of {steps} steps: '
      'evaluate after the first step too, where the way to the target begins'
    )
  if target.is_reached(first.metric):
    sentences.append(
      f'the first metric, {first.metric:g}, is no worse than the target, '
      f'{target.value:g}: are both of one kind and in one unit?'
    )
  return sentences
