"""The flags of the sub-commands.

Those of `soft-reset run` are the benchmark runner's, and a few more.
"""

from __future__ import annotations

from .flag_parsing import Flag, Groups

RUN_DESCRIPTION = """\
usage: soft-reset run --workload=NAME [flags]

Trains a workload with a submission by the benchmark's rules. The benchmark's
log files, the submission's own and metric.png go to
<experiment_dir>/<experiment_name>/<workload>_jax/trial_<n>/.
Flags of the benchmark's submission_runner.py mean the same here.
"""

RUN_FLAGS: Groups = {
  'What is trained': (
    Flag(
      'workload',
      'string',
      None,
      'Name of the workload: digits, molecules or translation. Required.',
    ),
    Flag(
      'submission_path',
      'string',
      None,
      "Python file with the submission's functions; its folder must have an "
      "__init__.py. Default: this project's own submission.",
    ),
    Flag(
      'framework',
      'enum',
      'jax',
      'Framework of the submission; there is only this one.',
      choices=('jax',),
    ),
    Flag(
      'generation',
      'enum',
      'jit',
      'Which benchmark to stand in for: jit is the current one (sharded '
      'arrays), pmap that of 2024 (a leading device axis).',
      choices=('jit', 'pmap'),
    ),
    Flag(
      'data_dir',
      'string',
      None,
      "Where data are kept. Default: the workload's own cache folder.",
    ),
    Flag(
      'rng_seed',
      'integer',
      None,
      'Seed of the run. Default: drawn at random and recorded in '
      'meta_data_0.json; a resumed run takes it from there.',
      bounds=(0, 2**32 - 1),
    ),
  ),
  'Hyperparameters': (
    Flag(
      'tuning_ruleset',
      'enum',
      'self',
      'self: one run without outside tuning, with a larger time budget, as '
      'this submission is meant to be run. external: one trial for each point '
      'of --tuning_search_space. The benchmark itself defaults to external.',
      choices=('self', 'external'),
    ),
    Flag(
      'tuning_search_space',
      'string',
      None,
      'JSON file with ranges or points; for --tuning_ruleset=external only.',
    ),
    Flag(
      'num_tuning_trials',
      'integer',
      1,
      'Number of trials under the external ruleset.',
      bounds=(1, None),
    ),
  ),
  'Length and evaluations': (
    Flag(
      'max_global_steps',
      'integer',
      None,
      'Ends the run after so many steps. Default: no such limit.',
      bounds=(1, None),
    ),
    Flag(
      'eval_by',
      'enum',
      'steps',
      'steps: evaluate after step 1, then every --eval_every steps, which '
      "repeats exactly. time: every eval_period_time_sec of the workload's, as "
      'the benchmark does.',
      choices=('steps', 'time'),
    ),
    Flag(
      'eval_every',
      'integer',
      None,
      "Steps between evaluations. Default: the workload's own number. As in "
      'the benchmark, --generation=jit looks at the time budget only then.',
      bounds=(1, None),
    ),
    Flag(
      'eval_splits',
      'enum',
      'all',
      'all: evaluate on the training, validation and test splits, as the '
      'benchmark does. validation: on that alone, which is faster; the test '
      'target is then never reached.',
      choices=('all', 'validation'),
    ),
    Flag(
      'stop_at_targets',
      'boolean',
      True,
      'End the run once the validation and the test target are reached, as the '
      'benchmark does. --nostop_at_targets goes on to the end of the budget.',
    ),
  ),
  'Files': (
    Flag(
      'experiment_dir',
      'string',
      'experiment_runs',
      'Folder of all experiments.',
    ),
    Flag(
      'experiment_name',
      'string',
      None,
      "Name of this experiment's folder. Default: the workload's name.",
    ),
    Flag(
      'append_timestamp',
      'boolean',
      False,
      'Append date and time to --experiment_name.',
    ),
    Flag(
      'overwrite',
      'boolean',
      False,
      'Replace an experiment of the same name.',
    ),
    Flag(
      'resume_last_run',
      'boolean',
      False,
      'Go on with an experiment of the same name from its last checkpoint.',
    ),
    Flag(
      'save_checkpoints',
      'boolean',
      True,
      'Save a checkpoint after every evaluation and at the end.',
    ),
    Flag(
      'save_intermediate_checkpoints',
      'boolean',
      False,
      'Keep all checkpoints, not just the last. The benchmark does by default.',
    ),
  ),
}

SET_TARGETS_DESCRIPTION = """\
usage: soft-reset set-targets --workload=NAME [flags]

Sets a workload's targets by the benchmark's method: tunes AdamW, trains the
best point with fresh seeds and takes the median of the final metrics.
"""

SET_TARGETS_FLAGS: Groups = {
  'Flags': (
    Flag(
      'workload',
      'string',
      None,
      'Name of the workload: digits, molecules or translation. Required.',
    ),
    Flag(
      'num_trials',
      'integer',
      20,
      'Points of the search.',
      bounds=(1, None),
    ),
    Flag(
      'num_seeds',
      'integer',
      20,
      'Repetitions of the best point.',
      bounds=(1, None),
    ),
    Flag(
      'num_steps',
      'integer',
      None,
      "Steps of each run. Default: 0.75 of the workload's step_hint.",
      bounds=(2, None),
    ),
    Flag(
      'data_dir',
      'string',
      None,
      "Where data are kept. Default: the workload's own cache folder.",
    ),
    Flag(
      'output',
      'string',
      None,
      'JSON file in which the entry of the workload is replaced. Default: the '
      'file that the workloads read.',
    ),
  ),
}

SMOKE_DATA_DESCRIPTION = """\
usage: soft-reset smoke-data --workload=NAME --out=DIR [flags]

Writes a small synthetic data set in the files that the real benchmark reads, so
that a submission can be tried with its submission_runner.py, --data_dir=DIR,
before the data are downloaded. Both generations of the benchmark read it.
Needs TensorFlow: pip install -e '.[smoke]'.
"""

SMOKE_DATA_FLAGS: Groups = {
  'Flags': (
    Flag(
      'workload',
      'string',
      None,
      'Name of the workload: mnist, ogbg or wmt. Required.',
    ),
    Flag(
      'out',
      'string',
      None,
      'Folder to write; each workload needs one of its own. Required.',
    ),
    Flag(
      'overwrite',
      'boolean',
      False,
      'Replace smoke data that are there. Other files are never replaced.',
    ),
    Flag(
      'seed',
      'integer',
      0,
      'The same seed gives the same data.',
      bounds=(0, 2**32 - 1),
    ),
    Flag(
      'num_train',
      'integer',
      None,
      'Training examples of ogbg and wmt. Default: 2048 graphs, 4096 pairs.',
      bounds=(2, None),
    ),
    Flag(
      'num_eval',
      'integer',
      None,
      'Validation and test examples of ogbg and wmt, each. Default: 512 graphs, '
      '256 pairs.',
      bounds=(2, None),
    ),
  ),
}

EXPERIMENTS_DESCRIPTION = """\
usage: soft-reset experiments [FIGURE]

Lists the figures of the thesis, or explains one, such as fig3.8a: its runs'
settings and cycles, and the commands that train them here and on the benchmark.
"""
