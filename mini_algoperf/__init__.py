"""A stand-in for the AlgoPerf benchmark: small workloads and a runner."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class RunOptions:
  """The flags of a run by name; `reset-cycles run --help` explains them.

  The flags are those of the benchmark's runner, and a few more. An experiment
  without a name has the name of its workload.
  """

  workload: str
  submission_path: str | None = None
  framework: str = 'jax'
  generation: str = 'jit'
  data_dir: str | None = None
  rng_seed: int | None = None
  tuning_ruleset: str = 'self'
  tuning_search_space: str | None = None
  num_tuning_trials: int = 1
  max_global_steps: int | None = None
  eval_by: str = 'steps'
  eval_every: int | None = None
  eval_splits: str = 'all'
  stop_at_targets: bool = True
  experiment_dir: str = 'experiment_runs'
  experiment_name: str | None = None
  overwrite: bool = False
  resume_last_run: bool = False
  save_checkpoints: bool = True

  def __post_init__(self) -> None:
    if self.experiment_name is None:
      name = self.workload.rpartition(':')[2]
      object.__setattr__(self, 'experiment_name', name)

  def is_limit(self, global_step: int) -> bool:
    """Whether a run has taken as many steps as its options allow."""
    limit = self.max_global_steps
    return limit is not None and global_step >= limit
