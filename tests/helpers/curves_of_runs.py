"""Tables of runs with given metrics, for measures and pictures."""

import numpy as np

from reset_cycles.research.board.runs import BoardRun
from reset_cycles.views.run_files import Losses, MetricTarget, RunTable


def run_table(*cycles, target=1.0, losses=None, taus=None, every=10):
  """A run that was evaluated every `every` steps.

  Args:
    *cycles: the metric at the evaluations of each cycle.
    target: of the metric.
    losses: validation losses of all evaluations; the metric upside down if
      None.
    taus: of the resets; none are made if None.
    every: steps between evaluations.
  """
  metric = np.concatenate([np.asarray(c, float) for c in cycles])
  steps = every * np.arange(1, len(metric) + 1)
  ends = every * np.cumsum([len(cycle) for cycle in cycles])
  starts = [0, *ends[:-1].tolist()]
  loss = 1.0 - metric if losses is None else np.asarray(losses, float)
  change = np.append(0.0, np.diff(loss))
  return RunTable(
    workload='molecules',
    name='',
    seed=1,
    target=MetricTarget('mean_average_precision', target, True),
    eval_steps=steps,
    metric=metric,
    eval_times=steps / 100,
    last_step=int(steps[-1]),
    rate_steps=np.arange(steps[-1]),
    rates=np.linspace(0.001, 0.0, steps[-1]),
    cycle_starts=starts,
    cycle_ends=ends.tolist(),
    warmups=[(start, start + 2) for start in starts],
    losses=Losses(steps, loss, loss, change),
    resets=list(zip(starts[1:], taus or [])),
    switches=[],
  )


def board_run(submission, seed, seconds, condition='tuned', workload='digits'):
  """Reaches its target after so many of 30 s; inf: never."""
  steps = np.arange(1.0, 31.0)
  values = np.where(steps >= seconds, 0.01, 0.5)
  return BoardRun(
    condition, submission, workload, seed,
    MetricTarget('error_rate', 0.02, False), 30.0, False, steps, steps, values,
  )  # fmt: skip
