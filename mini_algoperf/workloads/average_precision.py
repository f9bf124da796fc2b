"""Mean average precision over tasks, as OGB defines it."""

from __future__ import annotations

import numpy as np


def mean_average_precision(
  labels: np.ndarray, logits: np.ndarray, weights: np.ndarray
) -> float:
  """scikit-learn's average precision of each task, then the mean.

  A task counts if its labelled examples have both classes. NaN if none does,
  and for a model that has diverged (a labelled logit is NaN).

  Args:
    labels: 0 or 1, shape (examples, tasks).
    logits: shape (examples, tasks).
    weights: 0 where a label is missing or padding, shape (examples, tasks).
  """
  import sklearn
  from scipy.special import expit
  from sklearn.metrics import average_precision_score

  if np.isnan(logits[weights > 0]).any():
    return float('nan')
  scores = expit(logits)
  precisions = []
  # The checks of arguments are a good part of the time for 128 tasks.
  with sklearn.config_context(
    assume_finite=True, skip_parameter_validation=True
  ):
    for task in range(labels.shape[1]):
      is_labelled = weights[:, task] > 0
      truth = labels[is_labelled, task]
      if truth.size and truth.min() != truth.max():
        precisions.append(
          average_precision_score(truth, scores[is_labelled, task])
        )
  return float(np.mean(precisions)) if precisions else float('nan')
