"""The last evaluation of a run, which no submission is shown."""

from __future__ import annotations

from ..mini_algoperf.runner import Observer
from ..mini_algoperf.trial import Trial, goes_on
from ..training.run import record_last_evaluations
from ..training.run_state import Run


class LastEvaluation(Observer):
  """Adds it to cycles.csv, which the submission cannot do.

  No runner calls a submission after it. A run that has ended itself has seen
  it.
  """

  def on_evaluation(self, trial: Trial) -> None:
    """Records the evaluation if no step follows."""
    state = trial.train_state
    has_ended_itself = state['training_complete']
    if has_ended_itself or goes_on(state, trial.global_step, trial.settings):
      return
    run = _run_of(trial)
    if run is not None:
      record_last_evaluations(run, trial.eval_results, trial.global_step)


def _run_of(trial: Trial) -> Run | None:
  """This project's part of the optimizer state; None if it is another's."""
  state = trial.optimizer_state
  run = state[1] if isinstance(state, tuple) and len(state) == 2 else None
  return run if isinstance(run, Run) else None
