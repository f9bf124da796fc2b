"""The convex bound of a plan beside one cosine and one WSD."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterator

import numpy as np

from ..core.schedules import Cooldown, Cosine, Cycle
from .convex_bound import bound_curve, last_iterate_bound
from .planned_runs import PlannedRun, planned_rates
from .text_table import table_lines

_COLD = 0.2  # share of WSD's steps in which its rate falls


def compared_rates(name: str, plan: PlannedRun) -> dict[str, np.ndarray]:
  """The rates of the plan, of one cosine and of one WSD over the same steps.

  The two have the plan's first peak and warm-up.
  """
  first, rates = plan.settings.cycles[0], {name: planned_rates(plan)}
  for other, decay in (('one cosine', Cosine()), ('one WSD', Cooldown(_COLD))):
    cycle = Cycle(first.peak, warmup_factor=first.warmup_factor, decay=decay)
    settings = dataclasses.replace(plan.settings, cycles=(cycle,))
    rates[other] = planned_rates(plan._replace(settings=settings))
  return rates


def bound_lines(rates: dict[str, np.ndarray]) -> Iterator[str]:
  """A row for each plan: its bound at the best factor on its rates."""
  bounds = {name: last_iterate_bound(eta) for name, eta in rates.items()}
  least = min(bound.best_value for bound in bounds.values())
  rows = [('convex bound', 'at the best rate', 'over the least', 'best peak')]
  for name, bound in bounds.items():
    ratio = bound.best_value / least
    peak = bound.best_factor * float(rates[name].max())
    numbers = (f'{bound.best_value:.4g}', f'{ratio:.3f}', f'{peak:.4g}')
    rows.append((name, *numbers))
  yield from table_lines(rows)
  yield (
    'For D = G = 1: convex, gradient descent, no Adam and no reset. See '
    'docs/bound.md.'
  )


def drawn_with_bound(rates: dict[str, np.ndarray]) -> bytes:
  """The rates, and below them the bound along the run, as a PNG.

  Each plan has the factor on its rates that makes its last bound least.
  """
  from matplotlib.backends.backend_agg import FigureCanvasAgg
  from matplotlib.figure import Figure

  figure = Figure(layout='constrained', figsize=(7, 5))
  above, below = figure.subplots(2, 1, sharex=True)
  lowest, highest = np.inf, 0.0
  for (name, eta), style in zip(rates.items(), ('-', '--', ':')):
    factor = last_iterate_bound(eta).best_factor
    above.plot(np.arange(1, eta.size + 1), factor * eta, style, label=name)
    steps, values = bound_curve(factor * eta)
    below.plot(steps, values, style, label=name)
    late = values[steps >= 0.02 * eta.size]
    lowest, highest = min(lowest, late.min()), max(highest, late.max())
  above.set_title('Rates at their best peak for D = G = 1', loc='left')
  above.set_ylabel('learning rate')
  above.legend()
  below.set_title(
    'Convex bound on the loss, if the run ended there', loc='left'
  )
  below.set(xlabel='global step', ylabel='bound', yscale='log')
  below.set_ylim(0.9 * lowest, 1.1 * highest)
  picture = io.BytesIO()
  FigureCanvasAgg(figure).print_png(picture)
  return picture.getvalue()
