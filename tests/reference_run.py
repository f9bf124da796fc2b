"""A slow twin of a run: its decisions, learning rates and weight decays.

It keeps the losses of the current cycle in a list and works everything out from
them anew.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

import reference


class Tape(NamedTuple):
  """What happened."""

  events: list  # dicts, in order, each with its global_step
  rates: list  # learning rate of each step that was taken
  decays: list  # weight decay likewise

  def of(self, kind, *names):
    """The named values of all events of a kind."""
    chosen = [e for e in self.events if e['event'] == kind]
    return [tuple(e[name] for name in names) for e in chosen]


class Twin:
  """See `run`."""

  def __init__(self, params, step_hint, evaluations, target, rising):
    self.params, self.target, self.rising = params, target, rising
    self.evaluations = evaluations
    self.horizon = reference.horizon(step_hint, params)
    self.lengths = reference.cycle_lengths(step_hint, params)
    self.cycle, self.start, self.end = 0, 0, self.lengths[0]
    self.number = 1
    self.losses, self.metrics = [], []  # of this cycle, of the whole run
    self.last_loss = 0.0
    self.events = []
    self.over = False  # no further cycle
    self.eval_steps = []
    self.give_up = None  # the step at which waiting ends
    self.write(0, 'cycle_start', **self.cycle_start())

  def write(self, step, event, **values):
    values = {'event': event, 'cycle': self.number, **values}
    self.events.append({'global_step': step, **values})

  def cycle_start(self):
    peak = self.params.hparams.learning_rate + self.params.alter_lr[self.cycle]
    pace = self.lengths[self.cycle] / (self.end - self.start)
    return {
      'setting': self.cycle + 1,
      'cycle_end': self.end,
      'anchor_local': 0.0,
      'pace': reference.float32(pace),
      'scale': 1.0,
      'peak_value': peak,
    }

  def evaluate(self, step, eval_step, loss, metric):
    """Returns why the cycle should be left, or ''."""
    self.eval_steps.append(eval_step)
    self.losses.append(loss)
    self.metrics.append(metric)
    self.last_loss = loss
    rule = reference.rule(self.params)
    rows = reference.smooth(self.losses, rule.pop('lam'))
    case1, case2, stop = reference.stopping(rows, **rule)
    self.write(
      step,
      'evaluation',
      evaluation=len(self.losses),
      loss=loss,
      smoothed_loss=rows[-1][0],
      derivative=rows[-1][1],
      case1=int(case1),
      case2=int(case2),
      stopping=int(stop),
      metric=metric,
      metric_step=eval_step,
    )
    if case1:
      return 'loss rises'
    if case2:
      return 'minimum out of reach'
    return 'loss is not finite' if stop else ''

  def before(self, step):
    """What happens before a step; returns whether the run goes on."""
    seen = [e for e in self.evaluations if e[0] == step]
    reasons = [self.evaluate(step, *e) for e in seen]
    reason = next(filter(None, reasons), '')
    if step >= self.end:
      if self.waits(step):
        return True
      return self.next_cycle(step, 'scheduled')
    last = self.cycle == len(self.lengths) - 1
    holding = self.params.policy == 'hold'
    stuck = self.over or (last and holding)
    if reason and self.params.early_switching and not stuck:
      self.write(step, 'switch', reason=reason)
      return self.next_cycle(step, 'early')
    return True

  def waits(self, step):
    """Whether the cycle's end waits for an evaluation of its last model."""
    if not self.params.wait or self.over:
      return False
    if any(seen >= self.end for seen in self.eval_steps):
      return False
    if self.give_up is None:
      # The runners' evaluation after the first step comes early.
      ways = np.diff([0, *self.eval_steps])[np.array(self.eval_steps) > 1]
      period = int(max(ways, default=0))
      if self.end < self.horizon:
        period = min(period, self.horizon - self.end)
      if not period:
        return False
      self.give_up = step + period
      reason = 'the annealed model has not been evaluated'
      self.write(step, 'wait', reason=reason, cycle_end=self.give_up)
    return step < self.give_up

  def next_cycle(self, step, reason):
    self.give_up = None
    to_do = self.params.lengths[self.cycle + 1 :]
    if not to_do or step >= self.horizon:
      return self.run_out(step, reason)
    end = reference.cycle_ends(step, self.horizon, to_do)[0]
    return self.start_cycle(step, reason, self.cycle + 1, end)

  def start_cycle(self, step, reason, cycle, end):
    tau = self.tau()
    self.number += 1
    self.cycle, self.start, self.end, self.losses = cycle, step, end, []
    self.write(step, 'reset', reason=reason, tau=tau)
    self.write(step, 'cycle_start', **self.cycle_start())
    return True

  def run_out(self, step, reason):
    if self.params.policy == 'repeat':
      last = len(self.lengths) - 1
      self.horizon = step + self.lengths[last]
      return self.start_cycle(step, reason, last, self.horizon)
    if self.params.policy == 'finish':
      self.write(step, 'finish', reason='cycles have run out')
      return False
    self.write(step, 'hold')
    self.end, self.over = math.inf, True
    return True

  def tau(self):
    mode = self.params.reset_mode
    if mode != 'soft':
      return {'full': 1.0, 'kept_momentum': 1.0, 'cyclic': 0.0}[mode]
    if not self.losses:  # nothing is known of this cycle
      return 0.0
    if not math.isfinite(self.last_loss):
      return 1.0
    first, last = self.metrics[0], self.metrics[-1]
    return reference.tau(last, self.target, first, self.rising)

  def read(self, schedule, step):
    """reference.cycle_rate or reference.weight_decay at a step."""
    nominal = self.lengths[self.cycle]
    t = nominal  # after the last cycle, and while it waits: its final value
    if not self.over and step < self.end:
      t = (step - self.start) * nominal / (self.end - self.start)
    return schedule(t, nominal, self.params, self.cycle)


def run(params, step_hint, evaluations, target=1.0, rising=True, until=None):
  """Goes through a run step by step.

  Args:
    params: a ScheduleParams.
    step_hint: steps.
    evaluations: [(step, loss, metric)]; each is seen before that step is taken.
    target, rising: the metric's target and direction.
    until: the step not to be taken any more; that after the horizon if None.

  Returns:
    The Tape.
  """
  twin = Twin(params, step_hint, evaluations, target, rising)
  rates, decays = [], []
  for step in range(twin.horizon + 1 if until is None else until):
    if not twin.before(step):
      break
    rates.append(twin.read(reference.cycle_rate, step))
    decays.append(twin.read(reference.weight_decay, step))
  return Tape(twin.events, rates, decays)
