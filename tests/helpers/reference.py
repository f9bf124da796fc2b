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


# Convergence bound.


def last_iterate_bound(rates, norms, distance):
  """Theorem 1 of Schaipp et al. 2025 with its double sum, infinite at rate 0.

  Exact where the arguments are Fractions.
  """
  if rates[-1] == 0:
    return math.inf
  tail = energy = doubled = 0
  for rate, norm in zip(reversed(rates), reversed(norms)):
    later, tail = tail, tail + rate
    energy += rate * rate * norm * norm
    if later:
      doubled += rate / later * (energy / tail)
  return (distance * distance + energy) / (2 * tail) + doubled / 2


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


# A whole run with a chain, S(t), and Finish or Repeat over steps.


class Twin:
  """See `run`; it works everything out anew from a list of losses."""

  def __init__(self, params, step_hint, evaluations, target, rising):
    self.params, self.target, self.rising = params, target, rising
    self.evaluations = evaluations
    self.horizon = horizon(step_hint, params)
    self.lengths = cycle_lengths(step_hint, params)
    self.cycle, self.start, self.end = 0, 0, self.lengths[0]
    self.number = 1
    self.losses, self.metrics = [], []  # of this cycle, of the whole run
    self.eval_steps, self.events = [], []
    self.give_up = None  # the step at which waiting ends
    self.write(0, 'cycle_start', **self.cycle_start())

  def write(self, step, event, **values):
    values = {'event': event, 'cycle': self.number, **values}
    self.events.append({'global_step': step, **values})

  def cycle_start(self):
    return {
      'setting': self.cycle + 1,
      'cycle_end': self.end,
      'pace': float(
        np.float32(self.lengths[self.cycle] / (self.end - self.start))
      ),
    }

  def evaluate(self, step, eval_step, loss, metric):
    """Returns why the cycle should be left, or ''."""
    self.eval_steps.append(eval_step)
    self.losses.append(loss)
    self.metrics.append(metric)
    rule = self.params.switching
    rows = smooth(self.losses, rule.lam)
    case1, case2, stop = stopping(rows, rule.eps1, rule.eps2, rule.k, rule.m)
    self.write(
      step,
      'evaluation',
      loss=loss,
      smoothed_loss=rows[-1][0],
      stopping=int(stop),
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
      return self.waits(step) or self.next_cycle(step, 'scheduled')
    if reason and self.params.early_switching:
      self.write(step, 'switch', reason=reason)
      return self.next_cycle(step, 'early')
    return True

  def waits(self, step):
    """Whether the cycle's end waits for an evaluation of its last model."""
    if not self.params.wait:
      return False
    if any(seen >= self.end for seen in self.eval_steps):
      return False
    if not self.eval_steps or not np.isfinite(self.losses[-1:]).all():
      return False
    if self.give_up is None:
      # The last nine intervals are remembered; without one, it does not wait.
      period = int(max(np.diff(self.eval_steps)[-9:], default=0))
      if self.end < self.horizon:
        period = min(period, self.horizon - self.end)
      if not period:
        return False
      self.give_up = step + period
      self.write(step, 'wait', cycle_end=self.give_up)
    return step < self.give_up

  def next_cycle(self, step, reason):
    self.give_up = None
    to_do = [c.length for c in self.params.cycles[self.cycle + 1 :]]
    if to_do and step < self.horizon:
      cycle = self.cycle + 1
      end = cycle_ends(step, self.horizon, to_do)[0]
    elif type(self.params.policy).__name__ == 'Repeat':
      cycle = len(self.lengths) - 1
      end = step + self.lengths[cycle]
      self.horizon = max(self.horizon, end)
    else:
      self.write(step, 'finish', reason='cycles have run out')
      return False
    end = self.aligned(end, step)
    share = self.tau()
    self.number += 1
    self.cycle, self.start, self.end, self.losses = cycle, step, end, []
    self.write(step, 'reset', reason=reason, tau=share)
    self.write(step, 'cycle_start', **self.cycle_start())
    return True

  def aligned(self, end, step):
    """Where it waits, a cycle ends where an evaluation is expected."""
    intervals = np.diff(self.eval_steps)[-9:]
    if not self.params.wait or not len(intervals) or end >= self.horizon:
      return end
    last, usual = self.eval_steps[-1], float(np.median(intervals))
    moved = last + math.ceil(max(round((end - last) / usual), 1) * usual)
    return moved if step < moved < self.horizon else end

  def tau(self):
    if not self.losses:  # nothing is known of this cycle
      return 0.0
    if not math.isfinite(self.losses[-1]):
      return 1.0
    if self.params.wait and self.eval_steps[-1] <= 1:
      return 0.0  # the first step says nothing of an annealed model
    first, last = self.metrics[0], self.metrics[-1]
    scale = self.params.reset.scale
    return tau(last, self.target, first, self.rising, scale)


def run(params, step_hint, evaluations, target, rising, until):
  """Goes through a run step by step.

  Args:
    params: a ScheduleParams with SoftReset, SmoothedLossRule, StepHorizon and
      Finish or Repeat.
    step_hint: steps.
    evaluations: [(step, loss, metric)]; each is seen before that step is taken.
    target, rising: the metric's target and direction.
    until: the step not to be taken any more.

  Returns:
    Events with their global_step, in order, and how many steps were taken.
  """
  twin = Twin(params, step_hint, evaluations, target, rising)
  for step in range(until):
    if not twin.before(step):
      return twin.events, step
  return twin.events, until
