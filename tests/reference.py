"""Slow twins: the formulas of the thesis in plain Python, in float64.

Written from the formulas, for comparison with the code under test. Step counts
are worked out in exact decimals. Configurations are only read.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np


def decimal(number):
  """The number as it is written, exactly."""
  return Fraction(repr(float(number)))


def float32(number):
  """A number as it comes back from a float32 array."""
  with np.errstate(over='ignore'):
    return float(np.float32(number))


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
  ends = cycle_ends(0, horizon(step_hint, params), params.lengths)
  return [end - start for start, end in zip([0, *ends], ends)]


def warmup_steps(length, params, cycle):
  if params.warmups[cycle] == 'none':
    return 0
  factor = decimal(params.hparams.warmup_factor)
  return int((factor + decimal(params.alter_warmup[cycle])) * length)


def warmup_rate(name, t, peak, warmup):
  share = min(t / warmup, 1.0)
  return {
    'linear': peak * share,
    'cosine': peak * (1 - math.cos(math.pi * share)) / 2,
    'exponential': peak * 0.01 ** (1 - share),
  }[name]


def decay_rate(name, u, peak, warmup, length):
  """u counts from the end of the warm-up."""
  hold = warmup + 0.2 * length
  falling = max(u - hold, 0.0)
  if name == 'cosine':
    share = min(u / max(length - warmup, 1), 1.0)
    return peak * (1 + math.cos(math.pi * share)) / 2
  if name == 'holding_exponential':
    return peak * 0.1 ** (falling / (0.6 * length))
  if name == 'holding_linear':
    return peak * max(1 - falling / (0.8 * length - 2 * warmup), 0.0)
  if name == 'step':
    drops = (u >= 0.5 * (length - warmup)) + (u >= 0.75 * (length - warmup))
    return peak * 0.1**drops
  return {'constant': peak}[name]


def cycle_rate(t, length, params, cycle):
  """Learning rate at (nominal, perhaps fractional) step t of a cycle."""
  peak = params.hparams.learning_rate + params.alter_lr[cycle]
  warmup = warmup_steps(length, params, cycle)
  if t < warmup:
    return warmup_rate(params.warmups[cycle], t, peak, warmup)
  return decay_rate(params.decays[cycle], t - warmup, peak, warmup, length)


def weight_decay(t, length, params, cycle):
  """Weight decay at step t of a cycle; its shape has all of the cycle.

  A polynomial has all of its parameters but `share` and `cycle`.
  """
  peak = params.hparams.weight_decay
  if params.alter_weight_decay:
    peak += params.alter_weight_decay[cycle]
  shape = params.weight_decays[cycle] if params.weight_decays else 'constant'
  if shape == 'ratio':
    peak_rate = params.hparams.learning_rate + params.alter_lr[cycle]
    return peak / peak_rate * cycle_rate(t, length, params, cycle)
  if isinstance(shape, str):
    return decay_rate(shape, t, peak, 0, length)
  p = dict(shape.parameters)
  left = (1 - min(t / length, 1.0)) ** p['power']
  return peak * (p['end'] + (p['start'] - p['end']) * left)


def chain_rates(step_hint, params):
  """Learning rate of every step when nothing is switched."""
  return [
    cycle_rate(t, length, params, cycle)
    for cycle, length in enumerate(cycle_lengths(step_hint, params))
    for t in range(length)
  ]


# Early switching.


def rule(params):
  """The parameters of the thesis' switching rule, by name."""
  given = getattr(params.switching, 'parameters', ())
  return {'lam': 0.7, 'eps1': 0.01, 'eps2': 0.01, 'k': 9, 'm': 9, **dict(given)}


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


def tau(metric, target, first, rising, distance='log'):
  if not math.isfinite(metric):
    return 1.0
  if rising:
    return min(max((target - metric) / target, 0.0), 1.0)
  if metric <= target:
    return 0.0
  if first is None or not math.isfinite(first) or first <= target:
    return (metric - target) / metric
  if distance == 'linear':
    return min(1 - (first - metric) / (first - target), 1.0)
  way = math.log(first) - math.log(target)
  return min((math.log(metric) - math.log(target)) / way, 1.0)


def blend(old, fresh, share):
  """(1 - share) old + share fresh; element by element."""
  old, fresh = np.asarray(old, np.float64), np.asarray(fresh, np.float64)
  if share <= 0:
    return old
  if share >= 1:
    return fresh
  finite = np.isfinite(old)
  kept = np.where(finite, old, 0.0)
  return np.where(finite, (1 - share) * kept + share * fresh, fresh)


def shrink(moment, keep):
  moment = np.asarray(moment, np.float64)
  return keep * np.where(np.isfinite(moment), moment, 0.0)


# Averaged weights.


def snapshots(start, step, every, first):
  """Steps of a cycle before which one was taken, once `step` steps are taken.

  A snapshot before step s has the weights after s steps.
  """
  return [
    s for s in range(start + first, step) if (s - start - first) % every == 0
  ]


def last_mean(trained, taken, k):
  """The mean of the last k of the snapshots; None if there are fewer."""
  if len(taken) < k:
    return None
  return sum(np.asarray(trained[s], np.float64) for s in taken[-k:]) / k


def exponential_mean(trained, taken, keep):
  """Every snapshot shrinks the weights of those before it by keep, at least.

  But no snapshot gets more than an equal share: the n-th gets 1 - keep, or 1/n
  where that is more.
  """
  shares = [max(1 / n, 1 - keep) for n in range(1, len(taken) + 1)]
  weights = [
    share * math.prod(1 - later for later in shares[n + 1 :])
    for n, share in enumerate(shares)
  ]
  return sum(
    weight * np.asarray(trained[s], np.float64)
    for weight, s in zip(weights, taken)
  )


# AdamW.


def adamw(params, grads, rates, hparams, decays=None):
  """Parameters after each step.

  Args:
    params: list of arrays.
    grads: for each step a list of arrays.
    rates: learning rate of each step.
    hparams: see hparams.Hparams.
    decays: weight decay of each step; None: that of hparams.
  """
  params = [np.asarray(p, np.float64) for p in params]
  mu = [np.zeros_like(p) for p in params]
  nu = [np.zeros_like(p) for p in params]
  b1, b2 = 1 - hparams.one_minus_beta1, hparams.beta2
  history = []
  decays = decays or [hparams.weight_decay] * len(rates)
  for t, (grad, rate, decay) in enumerate(zip(grads, rates, decays), start=1):
    grad = clip(grad, hparams.grad_clip)
    mu = [b1 * m + (1 - b1) * g for m, g in zip(mu, grad)]
    nu = [b2 * v + (1 - b2) * g * g for v, g in zip(nu, grad)]
    params = [
      p
      - rate
      * (
        (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + hparams.eps) + decay * p
      )
      for p, m, v in zip(params, mu, nu)
    ]
    history.append(params)
  return history


def clip(grad, limit):
  """Scaled to a global norm of at most the limit; None: as it is."""
  grad = [np.asarray(g, np.float64) for g in grad]
  norm = math.sqrt(sum(float(np.sum(g * g)) for g in grad))
  if limit is None or norm <= limit:
    return grad
  return [g * (limit / norm) for g in grad]
