"""The flags of the sub-commands that draw and measure from logs."""

from __future__ import annotations

from .flag_parsing import Flag, Groups

PLOT_DESCRIPTION = """\
usage: soft-reset plot DIR

Draws metric.png of every trial in a folder, of this runner or the benchmark's:
validation metric and target, resets with tau, early switches, learning rate.
"""

FIGURES_DESCRIPTION = """\
usage: soft-reset figures [flags]

Draws the thesis' figures from logs, <figure>_<workload>.png each. Runs without
any are trained first, on the stand-ins; the benchmark's logs, brought with
--logs, get pictures of their own. Several seeds of a run are shown by their
median and quartiles.
"""

_STUDY_FLAGS = (
  Flag(
    'logs',
    'string',
    None,
    "Folders of logs, separated by commas, the benchmark runner's among them. "
    "What they have comes before the project's own logs. Runs of ours that have "
    'not finished, or were evaluated at other steps, are passed over.',
  ),
  Flag(
    'shipped',
    'boolean',
    True,
    'Use the logs that come with the project. --noshipped trains all anew.',
  ),
  Flag(
    'runs',
    'string',
    'experiment_runs/thesis',
    'Folder of the runs that are trained; those in it count as logs, too.',
  ),
  Flag(
    'workers',
    'integer',
    2,
    'Runs that are trained at a time, each in one thread.',
    bounds=(1, None),
  ),
)

FIGURES_FLAGS: Groups = {
  'Flags': (
    Flag(
      'only',
      'string',
      None,
      'Figures, separated by commas, such as fig3.8a,fig3.11. Default: all.',
    ),
    Flag(
      'seeds',
      'integer',
      1,
      'Trains what is missing of the seeds 1 to N. All that have logs are shown.',
      bounds=(1, None),
    ),
    Flag(
      'out',
      'string',
      'experiment_figures',
      'Folder of the pictures; those of the same name are replaced.',
    ),
    Flag(
      'x',
      'enum',
      None,
      "Horizontal axis. Default: the figure's own, steps but for fig3.1.",
      choices=('steps', 'time'),
    ),
    *_STUDY_FLAGS,
  ),
}

RESULTS_DESCRIPTION = """\
usage: soft-reset results [flags]

Measures the claims of the thesis over seeds on the three small workloads and
writes what was found, after training those of the runs that have no logs.
"""

RESULTS_FLAGS: Groups = {
  'Flags': (
    Flag(
      'seeds',
      'integer',
      10,
      'Seeds 1 to N are measured.',
      bounds=(10, None),
    ),
    Flag(
      'out',
      'string',
      'RESULTS.md',
      'Markdown file to write; one that is there is replaced.',
    ),
    Flag(
      'pack',
      'string',
      None,
      'Folder for archives of all logs that were found. Default: none.',
    ),
    *_STUDY_FLAGS,
  ),
}
