"""The registry of the thesis' figures: which runs they show, on what.

Not handed in with the submission, which knows no workload: nothing that the
benchmark imports may import this module. Figures A.1a and b are not among them:
they are the plan and the runs of 3.3a and b on two GPUs 2080Ti, and what is
here has been run on one kind of hardware. Of A.1c, which shows the effect of
the momentum, the runs are those of 3.4a on digits. A figure's runs are keys of
`settings.RUNS`; the tables of the command `reset-cycles experiments` are made
of what stands here.
"""

from __future__ import annotations

import pathlib
from typing import NamedTuple

from ...core.checks import check_choice
from ...mini_algoperf.workloads import WORKLOADS
from .settings import RUNS

# Logs of the runs with their seeds, one archive for each run and workload.
LOGS = pathlib.Path(__file__).with_name('logs')
# Trains the run that the environment variable EXPERIMENT names.
SUBMISSION = pathlib.Path(__file__).with_name('submission.py')


class Counterpart(NamedTuple):
  """A workload of the benchmark and the one that stands in for it here."""

  name: str
  stand_in: str
  step_hint: int  # in v0.5.0, as in the thesis


OGBG = Counterpart('ogbg', 'molecules', 80_000)
# No cycle fails on molecules at the thesis' peaks.
OGBG_FAILING = OGBG._replace(stand_in='translation')
# On molecules keeping the momentum is slower; on digits it recovers faster.
OGBG_KEPT = OGBG._replace(stand_in='digits')
WMT = Counterpart('wmt', 'translation', 133_333)


# Workloads of the benchmark's own runner on real data, and the stand-in whose
# figures are drawn from them, too. They run by the counted clock, so their
# seconds mean nothing.
REAL_DATA = {'ogbg_tox21': OGBG.stand_in, 'wmt_multi30k': WMT.stand_in}


class ThesisFigure(NamedTuple):
  """A figure, or a part of one."""

  title: str  # one line of at most 60 characters
  caption: str
  runs: tuple[str, ...]  # in the order of the thesis' legend
  # What is drawn over the steps (in figure 3.1 over the time): 'schedule',
  # 'metric', 'loss', 'smoothed_loss' or 'loss_change'.
  shows: str = 'metric'
  workload: Counterpart = OGBG
  x_axis: str = 'steps'

  @property
  def budget_factor(self) -> float:
    """Steps of the runs as a multiple of step_hint, the same for all."""
    return RUNS[self.runs[0]].budget_factor

  def is_drawn_for(self, workload: str) -> bool:
    """Whether this figure is drawn from a workload's runs.

    For our workloads, only from its stand-in; on real data, only where it is
    drawn from the stand-in of that data, over steps; for the benchmark's
    workloads, always.
    """
    if workload in REAL_DATA:
      is_timed = self.x_axis == 'time'
      return REAL_DATA[workload] == self.workload.stand_in and not is_timed
    return workload not in WORKLOADS or workload == self.workload.stand_in


_PEAKS = 'Peaks of about .00175, .00275 and .00075.'
_DECAYS = 'Peaks of about .00175; cosine, exponential and linear decay.'
_WARMUPS = 'Peaks of about .00175; warm-ups of .02, .2 and .005 of a cycle.'
_FAILING = (
  'Peaks of about .00175, .02175 and .05175: the second and the third cycle '
  'are made to fail.'
)
_FAILED_START = (
  'Half the budget and two cycles with peaks of about .05175, made to fail, '
  'and .00175.'
)
_FULL = ' A full reset starts each further cycle: new parameters, no moments.'
_KEPT = (
  ' Full resets of parameters and moments against resets of the parameters '
  'that keep the moments.'
)
_SOFT = ' Full resets against soft resets with alpha = .5.'

FIGURES: dict[str, ThesisFigure] = {
  'fig2.1': ThesisFigure(
    'one cycle: warm-up, then decay',
    'The two phases of a cycle. The warm-up is exaggerated to .22 of it.',
    ('one_cycle',),
    'schedule',
  ),
  'fig3.1': ThesisFigure(
    'the runs of fig3.8a over time',
    'Full and soft resets over the time that counts for the score: runs drift '
    'apart, which is why the other figures are over steps. ' + _PEAKS,
    ('peaks_full', 'peaks_soft'),
    x_axis='time',
  ),
  'fig3.3a': ThesisFigure(
    'three peaks: learning rate', _PEAKS, ('peaks_full',), 'schedule'
  ),
  'fig3.3b': ThesisFigure(
    'three peaks, full resets',
    _PEAKS + _FULL + ' A higher peak makes a cycle steeper and less stable.',
    ('peaks_full',),
  ),
  'fig3.3c': ThesisFigure(
    'three decays: learning rate', _DECAYS, ('decays_full',), 'schedule'
  ),
  'fig3.3d': ThesisFigure(
    'three decays, full resets',
    _DECAYS + _FULL + ' In the thesis there is little difference.',
    ('decays_full',),
  ),
  'fig3.3e': ThesisFigure(
    'three warm-ups: learning rate', _WARMUPS, ('warmups_full',), 'schedule'
  ),
  'fig3.3f': ThesisFigure(
    'three warm-ups, full resets',
    _WARMUPS + _FULL + ' In the thesis there is little difference.',
    ('warmups_full',),
  ),
  'fig3.4a': ThesisFigure(
    'three peaks: full resets, kept momentum',
    _PEAKS + _KEPT + ' In the thesis there is no effect. On digits the cycles '
    'come as far on average, but recover faster: figure A.1c asks the same '
    'runs.',
    ('peaks_full', 'peaks_kept'),
    workload=OGBG_KEPT,
  ),
  'fig3.4b': ThesisFigure(
    'three decays: full resets, kept momentum',
    _DECAYS + _KEPT + ' In the thesis there is no effect.',
    ('decays_full', 'decays_kept'),
    workload=OGBG_KEPT,
  ),
  'fig3.4c': ThesisFigure(
    'three warm-ups: full resets, kept momentum',
    _WARMUPS + _KEPT + ' In the thesis the only one of the three with a strong '
    'effect: keeping them recovers faster. On digits the first evaluation '
    'after the first reset has lost .41 to .45 of the way, and .55 to .63 '
    'after full resets.',
    ('warmups_full', 'warmups_kept'),
    workload=OGBG_KEPT,
  ),
  'fig3.5': ThesisFigure(
    'two peaks too high, full resets',
    _FAILING + _FULL,
    ('failing_full',),
    workload=OGBG_FAILING,
  ),
  'fig3.6a': ThesisFigure(
    'validation loss of fig3.5',
    _FAILING,
    ('failing_full',),
    'loss',
    OGBG_FAILING,
  ),
  'fig3.6b': ThesisFigure(
    'smoothed validation loss of fig3.5',
    _FAILING + ' Smoothed with lambda = .6.',
    ('failing_full',),
    'smoothed_loss',
    OGBG_FAILING,
  ),
  'fig3.6c': ThesisFigure(
    'change of the smoothed validation loss of fig3.5',
    _FAILING + " Smoothed with lambda = .6. On translation l' is never "
    'above 0, and S(t) is 1 at no evaluation.',
    ('failing_full',),
    'loss_change',
    OGBG_FAILING,
  ),
  'fig3.7': ThesisFigure(
    'early switching at peaks of 1 and 3 (at .022 and .052: none)',
    'Early switching with epsilon_1 = epsilon_2 = .01, k = m = 9 and '
    'lambda = .7; the run ends when the cycles run out. Peaks of about .00175, '
    "1 and 3. At the thesis' peaks of .02175 and .05175 the cycles fail on "
    'translation, too (run failing_full of figure 3.5), but their loss falls: '
    'S(t) is 1 at no evaluation, and no cycle is abandoned.',
    ('diverging_switching',),
    workload=OGBG_FAILING,
  ),
  'fig3.8a': ThesisFigure(
    'three peaks: full and soft resets',
    _PEAKS + _SOFT + " The thesis' taus are .014 and 0.",
    ('peaks_full', 'peaks_soft'),
  ),
  'fig3.8b': ThesisFigure(
    'three decays: full and soft resets',
    _DECAYS + _SOFT + " The thesis' taus are 0 and 0.",
    ('decays_full', 'decays_soft'),
  ),
  'fig3.8c': ThesisFigure(
    'three warm-ups: full and soft resets',
    _WARMUPS + _SOFT + " The thesis' taus are 0 and 0.",
    ('warmups_full', 'warmups_soft'),
  ),
  'fig3.9a': ThesisFigure(
    'three peaks: learning rate', _PEAKS, ('peaks_full',), 'schedule', WMT
  ),
  'fig3.9b': ThesisFigure(
    'three peaks: full and soft resets',
    _PEAKS + _SOFT + " The thesis' taus are .028 and .024.",
    ('peaks_full', 'peaks_soft'),
    workload=WMT,
  ),
  'fig3.10': ThesisFigure(
    'a first peak too high, nothing is reset',
    _FAILED_START + ' Nothing is reset.',
    ('failed_start_cyclic',),
    workload=OGBG_FAILING,
  ),
  'fig3.11': ThesisFigure(
    'a first peak too high, a soft reset',
    _FAILED_START + " Soft resets with alpha = .5. The thesis' tau is .868.",
    ('failed_start_soft',),
    workload=OGBG_FAILING,
  ),
  'figA.1c': ThesisFigure(
    'the runs of fig3.4a: what the momentum does',
    _PEAKS + _KEPT + ' Of figure A.1 the plan is that of 3.3a, on other '
    'hardware. The thesis shows in it the effect of the momentum that its '
    'figure 3.4a does not have, and so does digits, where molecules does not.',
    ('peaks_full', 'peaks_kept'),
    workload=OGBG_KEPT,
  ),
}


def find_figures(name: str) -> dict[str, ThesisFigure]:
  """A figure by its name, or all parts of one: 'fig3.8' has three.

  Raises:
    ValueError: there is none.
  """
  found = {
    own: figure
    for own, figure in FIGURES.items()
    if name in (own, own.rstrip('abcdef'))
  }
  if not found:
    check_choice('figure', name, FIGURES)
  return found
