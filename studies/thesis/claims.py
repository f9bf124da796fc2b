"""The claims of the thesis and the questions that put them to the test."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from . import findings, switching_findings
from .findings import MARGIN, Finding, Study


class Claim(NamedTuple):
  """A sentence of the thesis and how it is put to the test."""

  sentence: str
  question: str  # what a seed is asked; yes counts for the claim
  runs: tuple[str, ...]  # keys of RUNS
  ask: Callable[[Study], Finding]


CLAIMS = (
  Claim(
    'Full resets forget and recover slowly.',
    'Does the full reset take more evaluations to recover than the learning '
    'rate alone costs (cyclic)?',
    ('peaks_full', 'peaks_cyclic'),
    findings.full_recovers_slowly,
  ),
  Claim(
    'Keeping the momentum speeds up recovery in some cases.',
    'Does a reset of the parameters alone recover in fewer evaluations than a '
    'full one?',
    ('peaks_full', 'peaks_kept', 'peaks_cyclic'),
    findings.kept_momentum_is_faster,
  ),
  Claim(
    'After a good cycle soft resets recover faster than full ones.',
    'Does the soft reset recover in fewer evaluations?',
    ('peaks_full', 'peaks_soft', 'peaks_cyclic'),
    findings.soft_is_faster,
  ),
  Claim(
    'The best metric of later cycles is unchanged or better with soft resets.',
    f'Is it no worse than with full resets, by {100 * MARGIN:g} % of the way?',
    ('peaks_full', 'peaks_soft'),
    findings.later_cycles_are_no_worse,
  ),
  Claim(
    'Cyclic training does not recover from a failed first cycle; soft resets '
    'do.',
    'After a failed first cycle: does the second get half of the way with a '
    'soft reset, and not without?',
    ('failed_start_cyclic', 'failed_start_soft'),
    findings.only_soft_leaves_a_failure,
  ),
  Claim(
    'After good cycles soft resets are no worse than cyclic training.',
    'Is the best metric of later cycles no worse, by '
    f'{100 * MARGIN:g} % of the way?',
    ('peaks_soft', 'peaks_cyclic'),
    findings.soft_is_no_worse_than_cyclic,
  ),
  Claim(
    'What a full reset costs, it costs through the parameters.',
    "Is the parameters' part in the evaluations to recover larger than the "
    "moments'?",
    ('peaks_full', 'peaks_kept', 'peaks_cyclic'),
    findings.parameters_matter_more,
  ),
  Claim(
    'What a soft reset brings after a failure, it brings through the '
    'parameters.',
    "After a failed first cycle: is the parameters' part in the best metric "
    "of the second larger than the moments'?",
    ('failed_start_cyclic', 'failed_start_params', 'failed_start_soft'),
    findings.parameters_matter_more_after_a_failure,
  ),
  Claim(
    'Early switching leaves cycles that fail.',
    "Does S(t), with figure 3.7's constants, fire in all of its failed cycles?",
    switching_findings.RUNS_REPLAYED,
    switching_findings.failed_cycles_are_left,
  ),
  Claim(
    'Early switching lets healthy cycles be.',
    "Does S(t), with figure 3.7's constants, fire in none of its good cycles?",
    switching_findings.RUNS_REPLAYED,
    switching_findings.healthy_cycles_are_let_be,
  ),
)
