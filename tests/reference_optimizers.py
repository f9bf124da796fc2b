"""The inner optimizers in plain NumPy, in float64, as their papers have them.

Each takes what `reference.adamw` takes, for one array: start, gradients, rates
and Hparams, and returns what is trained after each step.
"""

from __future__ import annotations

import numpy as np


def nadamw(start, grads, rates, h, power=2.0):
  p, m, v = start.astype(np.float64), 0.0, 0.0
  b1, b2, history = 1 - h.one_minus_beta1, h.beta2, []
  for t, (g, rate) in enumerate(zip(grads, rates), start=1):
    m = b1 * m + (1 - b1) * g
    v = b2 * v + (1 - b2) * g**2
    ahead = (b1 * m + (1 - b1) * g) / (1 - b1**t)
    size = (v / (1 - b2**t)) ** (1 / power) + h.eps
    p = p - rate * (ahead / size + h.weight_decay * p)
    history.append(p)
  return history


def nesterov(start, grads, rates, h):
  p, m, history = start.astype(np.float64), 0.0, []
  b1 = 1 - h.one_minus_beta1
  for g, rate in zip(grads, rates):
    m = g + b1 * m
    p = p - rate * (g + b1 * m + h.weight_decay * p)
    history.append(p)
  return history


def ademamix(start, grads, rates, h, beta3=0.9999, alpha=5.0, warmup=0):
  p, fast, slow, v = start.astype(np.float64), 0.0, 0.0, 0.0
  b1, b2, history = 1 - h.one_minus_beta1, h.beta2, []
  for t, (g, rate) in enumerate(zip(grads, rates), start=1):
    share = min((t - 1) / warmup, 1.0) if warmup else 1.0
    lives = [np.log(0.5) / np.log(b) - 1 for b in (b1, beta3)]
    life = (1 - share) * lives[0] + share * lives[1]
    b3 = 0.5 ** (1 / (life + 1))
    fast = b1 * fast + (1 - b1) * g
    slow = b3 * slow + (1 - b3) * g
    v = b2 * v + (1 - b2) * g**2
    size = np.sqrt(v / (1 - b2**t)) + h.eps
    mixed = fast / (1 - b1**t) + alpha * share * slow
    p = p - rate * (mixed / size + h.weight_decay * p)
    history.append(p)
  return history


def schedule_free(start, grads, rates, h, r=0.0, weight_lr_power=2.0):
  """Pairs of y, which is trained, and x, which is evaluated."""
  x = z = y = start.astype(np.float64)
  b1, b2 = 1 - h.one_minus_beta1, h.beta2
  v = total = largest = 0.0
  history = []
  for t, (g, rate) in enumerate(zip(grads, rates), start=1):
    v = b2 * v + (1 - b2) * g**2
    size = np.sqrt(v / (1 - b2**t)) + h.eps
    z = z - rate * (g / size + h.weight_decay * y)
    largest = max(largest, rate)
    weight = t**r * largest**weight_lr_power
    total += weight
    c = weight / total if total else 0.0
    x = (1 - c) * x + c * z
    y = b1 * x + (1 - b1) * z
    history.append((y, x))
  return history
