"""Slow twins: the formulas in plain Python and NumPy, in float64.

Written from the formulas, for comparison with the code under test. Step counts
are worked out in exact decimals. Settings are only read.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np


def decimal(number):
  """The number as it is written, exactly."""
  return Fraction(repr(float(number)))


# Learning rates.


def horizon(step_hint, params):
  return int(decimal(params.budget_factor) * step_hint)


def cycle_ends(start, end, lengths):
  """Each cycle takes its share of what is left, rounded up to whole steps."""
  ends = []
  for i, length in enumerate(lengths):
    left, whole = end - start, sum(decimal(n) for n in lengths[i:])
    share = decimal(length) / whole * left
    start += -int(-share // 1)
    ends.append(start)
  return ends


def cycle_lengths(step_hint, params):
  lengths = [cycle.length for cycle in params.cycles]
  ends = cycle_ends(0, horizon(step_hint, params), lengths)
  return [end - start for start, end in zip([0, *ends], ends)]


def shape_at(shape, t, steps):
  """Share of the peak at step t of a phase; shapes of the core only."""
  passed = min(max(t / steps, 0.0), 1.0)
  name = type(shape).__name__
  if name == 'LinearWarmup':
    return shape.start + (1 - shape.start) * passed
  if name == 'Cooldown':
    return min((1 - passed) / shape.share, 1.0)
  assert name == 'Cosine'
  return shape.floor + (1 - shape.floor) * (1 + math.cos(math.pi * passed)) / 2


def cycle_rate(t, length, cycle):
  """Learning rate at (nominal, perhaps fractional) step t of a cycle."""
  warmup = int(decimal(cycle.warmup_factor) * length)
  if t < warmup:
    return cycle.peak * shape_at(cycle.warmup, t, warmup)
  decay = max(length - warmup, 1)
  return cycle.peak * shape_at(cycle.decay, t - warmup, decay)


def chain_rates(step_hint, params):
  """Learning rate of every step when nothing is switched."""
  return [
    cycle_rate(t, length, cycle)
    for cycle, length in zip(params.cycles, cycle_lengths(step_hint, params))
    for t in range(length)
  ]


# Early switching.


def smooth(losses, lam):
  """[(l, l')] for t = 1, 2, ..."""
  rows = []
  for loss in losses:
    if rows:
      before = rows[-1][0]
      value = lam * loss + (1 - lam) * before
      rows.append((value, value - before))
    else:
      rows.append((loss, 0.0))
  return rows


def minimum(rows):
  """(min l, t at which it was first reached); (inf, 0) if there is none."""
  values = [(value, t) for t, (value, _) in enumerate(rows, start=1)]
  finite = [pair for pair in values if math.isfinite(pair[0])]
  return min(finite, default=(math.inf, 0))


def stopping(rows, eps1, eps2, k, m):
  """(case 1, case 2, S) after the last of the rows, with the thesis' S(t)."""
  value, derivative = rows[-1]
  if not math.isfinite(value):
    return False, False, True
  if len(rows) == 1:
    return False, False, False
  lowest, argmin = minimum(rows)
  case1 = derivative >= eps1
  case2 = len(rows) - argmin >= k and m * derivative + value >= lowest + eps2
  return case1, case2, case1 or case2


# Soft reset.


def tau(metric, target, first, rising, scale='log'):
  if not math.isfinite(metric):
    return 1.0
  if rising:
    return min(max((target - metric) / target, 0.0), 1.0)
  if metric <= target:
    return 0.0
  if not math.isfinite(first) or first <= target:
    return (metric - target) / metric
  if scale == 'linear':
    return min(1 - (first - metric) / (first - target), 1.0)
  way = math.log(first) - math.log(target)
  return min((math.log(metric) - math.log(target)) / way, 1.0)


# Optimizers, as their papers and their authors' codes have them. Each takes a
# start, gradients, rates, weight decays of each step and Hparams, and returns
# what is trained after each step.


def adamw(start, grads, rates, h, decays=None, nesterov=False):
  p, m, v = np.asarray(start, np.float64), 0.0, 0.0
  b1, b2, history = 1 - h.one_minus_beta1, h.beta2, []
  decays = decays or [h.weight_decay] * len(rates)
  for t, (g, rate, decay) in enumerate(zip(grads, rates, decays), start=1):
    g = clip(np.asarray(g, np.float64), h.grad_clip)
    m = b1 * m + (1 - b1) * g
    v = b2 * v + (1 - b2) * g**2
    # The benchmark's Nesterov momentum: the same bias correction for both.
    ahead = b1 * m + (1 - b1) * g if nesterov else m
    ahead, size = ahead / (1 - b1**t), np.sqrt(v / (1 - b2**t)) + h.eps
    p = p - rate * (ahead / size + decay * p)
    history.append(p)
  return history


def clip(grad, limit):
  """Scaled to a norm of at most the limit; None: as it is."""
  norm = math.sqrt(float(np.sum(grad**2)))
  return grad if limit is None or norm <= limit else grad * (limit / norm)


class Averaged(NamedTuple):
  """Schedule-Free's iterates and the weight of its average."""

  y: np.ndarray  # trained
  x: np.ndarray  # evaluated
  weight_sum: float


def schedule_free(start, grads, rates, h):
  """The paper's algorithm 1, weighted by rates; at a rate of 0 nothing moves."""
  x = z = y = np.asarray(start, np.float64)
  b1, b2 = 1 - h.one_minus_beta1, h.beta2
  v = total = 0.0
  t, history = 0, []
  for g, rate in zip(grads, rates):
    if rate > 0:
      t += 1
      g = clip(np.asarray(g, np.float64), h.grad_clip)
      v = b2 * v + (1 - b2) * g**2
      size = np.sqrt(v / (1 - b2**t)) + h.eps
      z = z - rate * (g / size + h.weight_decay * y)
      weight = t**h.r * rate**h.weight_lr_power
      total += weight
      x = (1 - weight / total) * x + weight / total * z
      y = b1 * x + (1 - b1) * z
    history.append(Averaged(y, x, total))
  return history


# A whole run with a chain and S(t), over steps or over time.


class Twin:
  """See `run`; it works everything out anew from lists of what was seen."""

  def __init__(self, params, step_hint, evaluations, target, rising, budget):
    self.params, self.target, self.rising = params, target, rising
    self.evaluations, self.budget = evaluations, budget
    self.horizon = self.planned = horizon(step_hint, params)
    self.lengths = cycle_lengths(step_hint, params)
    self.cycle, self.number, self.scale = 0, 1, 1.0
    self.seen = []  # (step, loss, metric, seconds) of the run
    self.losses, self.events = [], []  # of this cycle; of the run
    self.begin(0, self.lengths[0])

  def write(self, step, event, **values):
    values = {'event': event, 'cycle': self.number, **values}
    self.events.append({'global_step': step, **values})

  def begin(self, step, end, local=0.0, event='cycle_start'):
    """Sets the clock: from a nominal step of the cycle to its last one."""
    pace = (self.lengths[self.cycle] - local) / (end - step)
    self.end = end
    self.clock = step, float(np.float32(local)), float(np.float32(pace))
    self.write(
      *(step, event),
      **{'setting': self.cycle + 1, 'cycle_end': end, 'scale': self.scale},
      **{'pace': self.clock[2]},
    )

  def intervals(self):
    """(steps, seconds) of the last nine between two evaluations."""
    pairs = zip(self.seen, self.seen[1:])
    found = [(b[0] - a[0], b[3] - a[3]) for a, b in pairs]
    return [(n, t) for n, t in found if not t <= 0][-9:]

  def evaluate(self, step, row):
    """Returns why the cycle should be abandoned, or ''."""
    self.seen.append(row)
    self.losses.append(row[1])
    rule = self.params.switching
    rows = smooth(self.losses, rule.lam)
    case1, case2, stop = stopping(rows, rule.eps1, rule.eps2, rule.k, rule.m)
    values = {'smoothed_loss': rows[-1][0], 'stopping': int(stop)}
    self.write(step, 'evaluation', loss=row[1], metric_step=row[0], **values)
    if self.params.horizon is not None:
      self.horizon = self.in_time() or self.horizon
    if case1:
      return 'loss rises'
    if case2:
      return 'minimum out of reach'
    return 'loss is not finite' if stop else ''

  def in_time(self):
    """The horizon in time after the last evaluation; 0 if unknown."""
    step, *_, now = self.seen[-1]
    known = [(n, t) for n, t in self.intervals() if not math.isnan(t)]
    if not known or not math.isfinite(self.budget - now):
      return 0
    settings, rates = self.params.horizon, [n / t for n, t in known]
    usual = float(np.median([t for _, t in known]))
    longest = min(max(t for _, t in known), 1.5 * usual)
    room = self.budget - now - longest - settings.slack * usual
    if room < 0:
      return 0
    steps = (room // usual) * usual * float(np.median(rates))
    steps += (1 - settings.margin) * usual * min(rates)
    return step + max(int(steps), 1)

  def before(self, step):
    """What happens before a step; returns whether the run goes on."""
    planned = self.horizon
    rows = [row for row in self.evaluations if row[0] == step]
    reason = next(filter(None, [self.evaluate(step, r) for r in rows]), '')
    if step >= self.end:
      return self.waits(step) or self.next_cycle(step, 'scheduled')
    if reason and self.params.early_switching:
      self.write(step, 'switch', reason=reason)
      return self.next_cycle(step, 'early')
    if self.params.horizon and planned != self.horizon > step:
      self.stretch(step, planned)
    return True

  def stretch(self, step, planned):
    """The rest of the cycle and what comes after it fill the run anew."""
    anchor, local, pace = self.clock
    local += (step - anchor) * pace
    to_come = self.lengths[self.cycle + 1 :]
    if to_come:
      rest = [self.lengths[self.cycle] - local, *to_come]
    else:
      rest = [self.end - step, max(planned - self.end, 0)]
    end = cycle_ends(step, self.horizon, [n for n in rest if n])[0]
    usual = float(np.median([n for n, _ in self.intervals()]))
    is_due = self.end - self.seen[-1][0] < usual / 2
    end = self.aligned(max(end, step + 1), step, 0 if is_due else 1)
    self.begin(step, end, local, 'clock')

  def waits(self, step):
    """Whether the cycle's end waits for an evaluation of its last model."""
    if self.params.horizon is None or not self.seen:
      return False
    if self.seen[-1][0] >= self.end or not np.isfinite(self.losses[-1:]).all():
      return False
    until = self.end + max((n for n, _ in self.intervals()), default=0)
    if step < until and step == self.end:
      self.write(step, 'wait', cycle_end=until)
    return step < until

  def next_cycle(self, step, reason):
    to_do = [c.length for c in self.params.cycles[self.cycle + 1 :]]
    last = len(self.lengths) - 1
    if to_do and step < self.horizon:
      self.cycle += 1
      end = cycle_ends(step, self.horizon, to_do)[0]
    elif not self.params.repeat:
      self.write(step, 'finish', reason='cycles have run out')
      return False
    else:
      self.cycle, end = last, step + self.lengths[last]
      if self.params.horizon and step < self.horizon:
        usual = self.lengths[last] * self.horizon / self.planned
        times = max(round((self.horizon - step) / usual), 1)
        end = cycle_ends(step, self.horizon, [1] * times)[0]
      self.horizon = max(self.horizon, end)
      if reason == 'early' or not np.isfinite(self.losses[-1:]).all():
        self.scale /= 2
    share, self.losses, self.number = self.tau(), [], self.number + 1
    self.write(step, 'reset', reason=reason, tau=share)
    self.begin(step, self.aligned(end, step, 1))
    return True

  def aligned(self, end, step, fewest):
    """In time, a cycle ends where an evaluation is expected."""
    intervals = [n for n, _ in self.intervals()]
    if not self.params.horizon or not intervals or end >= self.horizon:
      return end
    last, usual = self.seen[-1][0], float(np.median(intervals))
    moved = last + math.ceil(max(round((end - last) / usual), fewest) * usual)
    return moved if step < moved < self.horizon else end

  def tau(self):
    if not self.losses:  # nothing is known of this cycle
      return 0.0
    if not math.isfinite(self.losses[-1]):
      return 1.0
    if self.params.horizon and self.seen[-1][0] <= 1:
      return 0.0  # the first step says nothing of an annealed model
    first, last = self.seen[0][2], self.seen[-1][2]
    scale = self.params.reset.scale
    return tau(last, self.target, first, self.rising, scale)


def run(params, step_hint, evaluations, target, rising, budget, until):
  """Goes through a run step by step.

  Args:
    params: a ScheduleParams with SoftReset, SmoothedLossRule, no race, and no
      horizon or a TimeHorizon.
    step_hint: steps.
    evaluations: [(step, loss, metric, seconds)]; each is seen before that step.
    target, rising: the metric's target and direction.
    budget: seconds.
    until: the step not to be taken any more.

  Returns:
    Events with their global_step, in order, and how many steps were taken.
  """
  twin = Twin(params, step_hint, evaluations, target, rising, budget)
  for step in range(until):
    if not twin.before(step):
      return twin.events, step
  return twin.events, until
