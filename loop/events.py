"""The events of `Cycles`: tuples of numbers, and sentences as strings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

_SENTENCES = {
  'cycle_start': 'cycle {cycle} starts, up to step {cycle_end}, with a peak of '
  '{peak_value:g}',
  'evaluation': 'loss {loss:g} and metric {metric:g} after {metric_step} steps',
  'warning': 'warning: {reason}',
  'refused': 'the evaluation after {metric_step} steps is ignored: {reason}',
  'abandon': 'cycle {cycle} is abandoned: {reason}',
  'reset': 'cycle {cycle} starts with {tau:.3g} of the model fresh ({reason})',
  'clock': 'cycle {cycle} now ends at step {cycle_end}',
  'wait': 'cycle {cycle} ends with its evaluation, or at step {cycle_end}',
  'finish': 'the run is over: {reason}',
}


class Event(NamedTuple):
  """Something that has happened; `str` makes a sentence of it.

  Attributes:
    step: the step about to be taken.
    kind: 'cycle_start', 'evaluation', 'warning', 'refused' (an evaluation),
      'abandon', 'reset', 'clock' (a cycle's end has moved), 'wait', or
      'finish'.
    cycle: how many cycles have started.
    reason: why, in words; of a reset also its class and what is special.
    numbers: by name, as in cycles.csv of a run, for plots.
  """

  step: int
  kind: str
  cycle: int
  reason: str
  numbers: Mapping[str, float]

  def __str__(self) -> str:
    words = {**self.numbers, **self._asdict()}
    sentence = _SENTENCES[self.kind].format_map(words)
    return f'step {self.step}: {sentence}' + '.' * (sentence[-1] != '?')


def event_of(event: Mapping[str, Any], step: int) -> Event:
  """The event of a loop, from a row of `engine.events`."""
  words = [event.get(name) for name in ('reset', 'reason', 'note')]
  numbers = {k: v for k, v in event.items() if not isinstance(v, str)}
  cycle, reason = numbers.pop('cycle'), ', '.join(filter(None, words))
  return Event(step, event['event'], cycle, reason, numbers)
