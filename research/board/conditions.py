"""The conditions under which submissions are compared, as seen in real logs.

A condition changes the stand-in, never a submission, and a submission is not
told of it. Time is counted in steps, so that it is exactly reproducible: a step
takes a fixed number of seconds of a simulated clock, and
max_allowed_runtime_sec is the time of step_hint steps of one second each.

  tuned   unchanged: the target is what one tuned cosine over three quarters of
          step_hint reaches, the benchmark's method
  near    the target is 2 % beyond what one tuned cosine over step_hint reaches
  slow    a step takes 3.75 seconds, so that 40 % of step_hint are affordable;
          the target is what one tuned cosine over 30 % of step_hint reaches
  hot     learning rates act as if scaled so that REFERENCE_PEAK becomes ten
          times this workload's best peak of one cosine
  cold    likewise, so that it becomes a tenth of that peak
  failed  the run begins with the model of a failed start: each parameter is
          displaced at random, as far as a tenth of the run at 30 times the best
          peak would move it. A submission that asks for a fresh model gets one
  large   the weights of every fresh model, its parameters of two or more axes,
          are ten times as large. The model is then another one
  small   likewise, a tenth
  inputs  numbers that the model reads, not its tokens, are ten times as large

With _full behind a name the workload keeps its own length.

To make a rate act as if it were c times as high, the workload computes with
parameters p but trains q = p / c. Adam-like updates move every entry of q by
about the rate, whatever the gradient's size, and therefore p by c times that;
weight decay shrinks q, and p, as before. Whoever takes a rate from the weights'
size, as MUON and SOFT_RESET do, is told of c by q: hot and cold show nothing of
such a rule. Under large and small the model computes with what is trained.
"""

from __future__ import annotations

from typing import NamedTuple

from ...core.checks import did_you_mean

AFFORDABLE_WHEN_SLOW = 0.4  # share of step_hint that fits into the budget
BUDGET = 1.5  # times max_allowed_runtime_sec, in the current ruleset
# About the geometric mean of the best peaks that `measure_targets` found on
# digits, molecules, translation and text; over all sixteen workloads it is
# .018. One factor per submission, chosen under `tuned`, brings its published
# rate near it.
REFERENCE_PEAK = 0.014


class Condition(NamedTuple):
  """A condition."""

  target: str = 'tuned'  # key of the target among those that were measured
  rate_factor: float = 1.0  # on every learning rate
  # REFERENCE_PEAK acts as this multiple of the workload's best peak of one
  # cosine; None leaves the workload as it is.
  of_best_peak: float | None = None
  seconds_per_step: float = 1.0  # on the simulated clock
  # The multiple of the best peak at which the model has failed; 0 for none.
  failed_at: float = 0.0
  weights: float = 1.0  # factor on the weights of every fresh model
  inputs: float = 1.0  # factor on the model's inputs of real numbers
  full: bool = False  # whether the workload keeps its own length


CONDITIONS = {
  'tuned': Condition(),
  'near': Condition(target='near'),
  'slow': Condition(
    target='slow', seconds_per_step=BUDGET / AFFORDABLE_WHEN_SLOW
  ),
  'hot': Condition(of_best_peak=10.0),
  'cold': Condition(of_best_peak=0.1),
  'failed': Condition(failed_at=30.0),
  'large': Condition(weights=10.0),
  'small': Condition(weights=0.1),
  'inputs': Condition(inputs=10.0),
}
# The conditions that count in a score. `RelativePeak` and `SpectralPeak` undo
# hot and cold by construction, but for the weight decay. Under large, small and
# inputs the model is another one, for which no target was measured.
SCORED = ('tuned', 'near', 'slow')


def get_condition(given: str) -> Condition:
  """A condition by name; 'tuned@2' is 'tuned' with rates that act doubled.

  Raises:
    ValueError: for an unknown name, or a factor that is not positive.
  """
  name, _, factor = given.partition('@')
  base = name.removesuffix('_full')
  if base not in CONDITIONS:
    raise ValueError(
      f'condition {given!r} is unknown; known are {", ".join(CONDITIONS)}.'
      + did_you_mean(base, CONDITIONS)
    )
  condition = CONDITIONS[base]._replace(full=name != base)
  if not factor:
    return condition
  try:
    value = float(factor)
  except ValueError:
    value = 0.0
  if not 0.0 < value < float('inf'):
    raise ValueError(
      f'condition {given!r}: after the @ there must be a positive number, the '
      'factor by which learning rates act multiplied.'
    )
  return condition._replace(rate_factor=value * condition.rate_factor)
