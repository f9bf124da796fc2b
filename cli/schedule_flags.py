"""The flags of `soft-reset schedule`."""

from __future__ import annotations

from .flag_parsing import Flag, Groups

SCHEDULE_DESCRIPTION = """\
usage: soft-reset schedule --step_hint=N [flags]

Shows the learning rate that a chain of cycles plans: its cycles, a picture, a
single step, and what a bound for SGD on convex functions says about its shape.
The chain is the default one unless --experiment or --params gives another.
"""

SCHEDULE_FLAGS: Groups = {
  'The chain': (
    Flag(
      'experiment',
      'string',
      None,
      'Name of an experiment, as in `soft-reset experiments fig3.8a`.',
    ),
    Flag(
      'params',
      'string',
      None,
      'JSON file as ScheduleParams.to_json writes it, or the '
      'schedule_params.json of a run.',
    ),
    Flag(
      'step_hint',
      'integer',
      None,
      "The workload's step_hint; the plan has budget_factor times as many "
      "steps. Required, unless --params is a run's file, which says it.",
      bounds=(1, 10_000_000),
    ),
  ),
  'What is shown': (
    Flag(
      'at',
      'integer',
      None,
      'Shows cycle, phase, learning rate and a scheduled weight decay of one '
      'step: the one that is about to be taken when so many have been. The '
      'first is 0.',
      bounds=(0, None),
    ),
    Flag(
      'out',
      'string',
      None,
      'PNG file in which the learning rate is drawn, with a scheduled weight '
      'decay below.',
    ),
    Flag(
      'gallery',
      'boolean',
      False,
      'Draw all shapes that a cycle can have into --out, and nothing else.',
    ),
    Flag(
      'overwrite',
      'boolean',
      False,
      'Replace the picture of that name.',
    ),
  ),
}
