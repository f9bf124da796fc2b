"""Slow twins: the formulas in plain Python and NumPy, in float64.

Written from the formulas, for comparison with the code under test. Step counts
are worked out in exact decimals. Settings are only read.
"""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np


def decimal(number):
  """The number as it is written, exactly."""
  return Fraction(repr(float(number)))


# Learning rates.


def horizon(step_hint, params):
  return int(decimal(params.budget_factor) * step_hint)


def cycle_ends(start, end, lengths):
  """Each cycle takes its share of what remains, rounded up to whole steps."""
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
    falling = min((1 - passed) / shape.share, 1.0)
    return shape.floor + (1 - shape.floor) * falling
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


def chain_stopping(rows, f, share):
  """The same over a chain, of which a share f is over, with a share for k = m.

  In each share of the rest there are as many rows as before.
  """
  whole = len(rows) / f
  return stopping(rows, math.inf, 0.0, share * whole, share * whole)


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


def numbers_in(part):
  """The numbers of a part and of all parts in it, by name; the outer one's win."""
  own, numbers = {}, {}
  for field in dataclasses.fields(part):
    value = getattr(part, field.name)
    if dataclasses.is_dataclass(value):
      numbers |= vars(numbers_in(value))
    else:
      own[field.name] = value
  return SimpleNamespace(**{**numbers, **own})


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


def orthogonalised(matrix):
  """Five Newton-Schulz iterations on one matrix; zeros for zeros."""
  a, b, c = 3.4445, -4.7750, 2.0315
  x = np.asarray(matrix, np.float64)
  if not x.any():
    return x
  x = x / math.sqrt(float(np.sum(x**2)))
  for _ in range(5):
    x = a * x + b * x @ x.T @ x + c * x @ x.T @ x @ x.T @ x
  return x


def muon(starts, grads, rates, h, sides, size=1.0, tables=(), epochs=1.0):
  """Schedule-Free with Muon's steps; at a rate of 0 nothing moves.

  Args:
    starts: arrays.
    grads: of each step, an array for each of them.
    rates: of each step.
    h: Hparams.
    sides: of each array, (rows, columns) where it is a matrix, else None.
    size: of the matrices, that the rates are shares of.
    tables: numbers of the arrays that are tables.
    epochs: the factor of the epochs on the weight decay, at least 1.

  Returns:
    (y, x) after each step, each a list of arrays.
  """
  x = [np.asarray(start, np.float64) for start in starts]
  z, y, b1, b2 = x, x, 1 - h.one_minus_beta1, h.beta2
  m, n, v = [0.0] * len(x), [0.0] * len(x), [0.0] * len(x)
  t, total, history = 0, 0.0, []
  for number, (gs, rate) in enumerate(zip(grads, rates), start=1):
    mu = h.momentum
    if h.growth_start and number > h.growth_start:
      mu = 1 - (1 - mu) * math.sqrt(h.growth_start / number)
    if rate > 0:
      t += 1
      total += t**h.r * rate**h.weight_lr_power
      c = t**h.r * rate**h.weight_lr_power / total
      z = list(z)
      decay = h.weight_decay * (rate / size) ** h.decay_lr_power
      once, decay = min(1 / rate, decay), min(1 / rate, epochs * decay)
      for i, g in enumerate(np.float64(g) for g in gs):
        if sides[i]:
          rows, columns = sides[i]
          widening = max(1.0, math.sqrt(columns / rows))
          m[i] = mu * m[i] + (1 - mu) * g
          n[i] = mu * n[i] + (1 - mu) * math.sqrt(np.sum(g**2))
          coherence = math.sqrt(np.sum(m[i] ** 2)) / n[i]
          d = mu * m[i] + (1 - mu) * g
          turned = orthogonalised(d.reshape(sides[i])).reshape(g.shape)
          turned = widening * turned + decay * y[i]
          step = coherence**h.coherence * turned
        else:
          v[i] = b2 * v[i] + (1 - b2) * g**2
          scale = np.sqrt(v[i] / (1 - b2**t)) + h.eps
          if i in tables:
            step = h.rest_share * (g / scale + once * y[i])
            if h.fall_start and number > h.fall_start:
              step = step * (h.fall_start / number) ** 0.25
            more = rate * (decay - once) / h.rest_share
            step = step + min(1, more) / rate * y[i]
          else:
            step = h.rest_share * (g / scale + decay * y[i])
        z[i] = z[i] - rate * step
      x = [(1 - c) * a + c * b for a, b in zip(x, z)]
      y = [b1 * a + (1 - b1) * b for a, b in zip(x, z)]
    history.append((y, x))
  return history


# A whole run with a chain and S(t), over steps or over time.


class Twin:
  """See `run`; it works everything out anew from lists of what was seen."""

  def __init__(
    self, params, step_hint, evaluations, target, rising, budget, first_peak
  ):
    self.params, self.target, self.rising = params, target, rising
    self.evaluations, self.budget = evaluations, budget
    self.horizon = self.planned = horizon(step_hint, params)
    self.lengths = cycle_lengths(step_hint, params)
    self.cycle, self.number, self.scale = 0, 1, 1.0
    if first_peak:
      self.scale = first_peak / params.cycles[0].peak
    self.start = self.chain_start = 0
    self.seen = []  # (step, loss, metric, seconds) of the run
    self.losses, self.events = [], []  # of this cycle; of the run
    self.begin(0, self.laid_out(0))

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
      **{
        'setting': self.cycle + 1,
        'cycle_end': end,
        'rate_factor': self.scale,
      },
      **{'pace': self.clock[2]},
    )

  def intervals(self):
    """(steps, seconds) of the last nine between two evaluations."""
    pairs = zip(self.seen, self.seen[1:])
    found = [(b[0] - a[0], b[3] - a[3]) for a, b in pairs]
    return [(n, t) for n, t in found if not t <= 0][-9:]

  def usual(self):
    """Steps of an interval, 0 while unknown; without a horizon none counts."""
    steps = [n for n, _ in self.intervals() if self.params.horizon]
    return float(np.median(steps)) if steps else 0.0

  def evaluate(self, step, row):
    """Returns why the cycle should be abandoned, or ''."""
    self.seen.append(row)
    self.losses.append(row[1])
    if self.params.horizon is not None:
      self.horizon = self.in_time() or self.horizon
    rule = self.params.switching
    rows = smooth(self.losses, rule.lam)
    case1, case2, stop = stopping(rows, rule.eps1, rule.eps2, rule.k, rule.m)
    values = {'smoothed_loss': rows[-1][0], 'stopping': int(stop)}
    self.write(step, 'evaluation', loss=row[1], metric_step=row[0], **values)
    self.warn(step)
    if case1:
      return 'loss rises'
    if case2:
      return 'minimum out of reach'
    return 'loss is not finite' if stop else ''

  def first(self):
    """The first evaluation with a finite metric; without any the last one."""
    known = [row for row in self.seen if math.isfinite(row[2])]
    return [*known, self.seen[-1]][0]

  def warn(self, step):
    first, loss, metric, _ = self.first()
    is_late = first > 1 and first > self.horizon / 100
    is_new = self.seen[-1] == self.first() and math.isfinite(metric)
    sign = 1 if self.rising else -1
    is_there = sign * (metric - self.target) >= 0
    for is_wrong in (is_late and not self.rising, is_there):
      if is_new and is_wrong:
        self.write(step, 'warning')
    if len(self.seen) == 3 and self.number == 1 and math.isfinite(metric):
      last = self.seen[-1]
      is_better = any(sign * (row[2] - metric) > 0 for row in self.seen)
      if not is_better and last[2] != metric and last[1] < loss:
        shares = abs(last[2] - metric) / abs(metric), (loss - last[1]) / loss
        if shares[1] >= 0.1 and shares[0] >= 0.2 * shares[1]:
          self.write(step, 'warning')

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
    planned, paced = self.horizon, self.usual()
    rows = [row for row in self.evaluations if row[0] == step]
    reason = next(filter(None, [self.evaluate(step, r) for r in rows]), '')
    if step >= self.end:
      return self.waits(step) or self.next_cycle(step, self.is_broken())
    if reason and self.may_abandon(step):
      self.write(step, 'abandon', reason=reason)
      return self.next_cycle(step, has_failed=True)
    has_moved = planned != self.horizon or self.usual() > 0 == paced
    if self.params.horizon and self.horizon > step and has_moved:
      early = 3 * self.usual() or math.inf
      if self.start == 0 and step < early:
        # A run that has just begun is laid out anew, with the same share of
        # its first cycle over.
        share, self.cycle = self.local(step) / self.lengths[self.cycle], 0
        end = self.laid_out(step)
        self.begin(step, end, share * self.lengths[self.cycle], 'clock')
      else:
        self.stretch(step, planned)
    elif rows and self.usual() and not self.is_expected():
      end = self.aligned(self.end, step)
      if end != self.end:
        self.begin(step, end, self.local(step), 'clock')
    return True

  def is_expected(self):
    """Whether regular evaluations lead to the cycle's end.

    At the newest interval, or at the usual one from the evaluation before.
    """
    newest, usual = self.intervals()[-1][0], self.usual()
    last = self.seen[-1][0]
    for step, every in ((last, newest), (last - newest, usual)):
      while step + every <= self.end:
        step += every
      if self.end - step <= 0.05 * usual:
        return True
    return False

  def may_abandon(self, step):
    if not self.params.early_switching or not self.params.horizon:
      return self.params.early_switching
    return self.is_broken() or self.horizon - step >= step

  def is_broken(self):
    return not np.isfinite(self.losses[-1:]).all()

  def local(self, step):
    anchor, local, pace = self.clock
    return local + (step - anchor) * pace

  def laid_out(self, step):
    """The end of the first cycle from the one at hand that is long enough."""
    usual, lengths = self.usual(), [c.length for c in self.params.cycles]
    if self.params.horizon and not usual:
      return max(self.horizon, step + 1)
    while True:
      rest = lengths[self.cycle :]
      end = cycle_ends(self.start, self.horizon, rest)[0]
      is_long = not self.params.horizon or end - self.start >= 3 * usual
      if len(rest) == 1 or (is_long and end > step):
        return self.aligned(max(end, step + 1), step)
      self.cycle += 1

  def stretch(self, step, planned):
    """The rest of the cycle and what comes after it fill the run anew."""
    local, to_come = self.local(step), self.lengths[self.cycle + 1 :]
    if to_come:
      rest = [self.lengths[self.cycle] - local, *to_come]
    else:
      rest = [self.end - step, max(planned - self.end, 0)]
    end = cycle_ends(step, self.horizon, [n for n in rest if n])[0]
    self.begin(step, self.aligned(max(end, step + 1), step), local, 'clock')

  def waits(self, step):
    """Whether the cycle's end waits for an evaluation of its last model."""
    if self.params.horizon is None or not self.seen or self.is_broken():
      return False
    if self.seen[-1][0] >= self.end - 0.05 * self.usual():
      return False
    until = self.end + max((n for n, _ in self.intervals()), default=0)
    if step < until and step == self.end:
      self.write(step, 'wait', cycle_end=until)
    return step < until

  def next_cycle(self, step, has_failed):
    is_timed, fewest = bool(self.params.horizon), 3 * self.usual()
    reason = 'early' if step < self.end else 'scheduled'
    last = len(self.lengths) - 1
    self.start, self.over = step, min(step / self.horizon, 1)
    rest = self.horizon - step
    if is_timed and has_failed:
      self.cycle, self.scale, self.chain_start = 0, self.scale / 2, step
      self.horizon = max(self.horizon, step + max(math.ceil(fewest), 1))
      end = self.laid_out(step)
      self.reset(step, reason, 1.0, end)
      return True
    has_room = rest > 0 and rest >= fewest
    if self.cycle < last and has_room:
      self.cycle += 1
      end = self.laid_out(step)
    elif not self.params.repeat:
      self.write(step, 'finish', reason='cycles have run out')
      return False
    else:
      self.cycle, end = last, step + max(self.lengths[last], math.ceil(fewest))
      if is_timed and has_room:
        length = self.lengths[last] * self.horizon / self.planned
        times = max(round(rest / max(length, fewest)), 1)
        end = cycle_ends(step, self.horizon, [1] * times)[0]
      self.horizon = max(self.horizon, end)
      end = self.aligned(end, step)
      self.scale /= 2 if has_failed else 1
    self.reset(step, reason, self.tau(step), end)
    return True

  def reset(self, step, reason, share, end):
    if share == 1.0 and self.is_broken():
      self.chain_start = step
    self.losses, self.number = [], self.number + 1
    self.write(step, 'reset', reason=reason, tau=share)
    self.begin(step, end)

  def aligned(self, end, step):
    """In time, a cycle ends where an evaluation is expected."""
    usual = self.usual()
    if not usual or end >= self.horizon:
      return end
    last, least = self.seen[-1][0], self.start + 3 * usual
    if end < least or end > last + 0.05 * usual:
      times = max(round((end - last) / usual), 1)
      while times < (least - last) / usual:
        times += 1
      end = max(last + math.ceil(times * usual), step + 1)
    return self.horizon if self.horizon - end < 3 * usual else end

  def tau(self, step):
    if not self.losses:  # nothing is known of this cycle
      return 0.0
    if self.is_broken() or not math.isfinite(self.seen[-1][2]):
      return 1.0
    if self.params.horizon and self.seen[-1][0] <= 1:
      return 0.0  # the first step says nothing of an annealed model
    first, last = self.first()[2], self.seen[-1][2]
    if self.first()[0] > max(1, self.horizon / 100):
      first = math.nan  # no untrained model
    mode = self.params.reset
    whole = tau(last, self.target, first, self.rising, mode.scale)
    return whole * max(1 - mode.fade * self.over, 0)


def run(
  params, step_hint, evaluations, target, rising, budget, until, first_peak=None
):
  """Goes through a run step by step.

  Args:
    params: a ScheduleParams with SoftReset, SmoothedLossRule, and no horizon or
      a TimeHorizon.
    step_hint: steps.
    evaluations: [(step, loss, metric, seconds)]; each is seen before that step.
    target, rising: the metric's target and direction.
    budget: seconds.
    until: the step not to be taken any more.
    first_peak: of the first cycle; None: as it is written.

  Returns:
    Events with their global_step, in order, and how many steps were taken.
  """
  given = params, step_hint, evaluations, target, rising, budget
  twin = Twin(*given, first_peak)
  for step in range(until):
    if not twin.before(step):
      return twin.events, step
  return twin.events, until
