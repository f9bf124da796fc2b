"""A plan before anything is trained: its cycles, one step of it, its bound."""

from __future__ import annotations

import itertools
import pathlib
import textwrap
from collections.abc import Iterator, Sequence

import numpy as np

from ...core.race import Race
from ...core.schedules import PlannedCycle
from .. import paths, plans
from ..plans import RunPlan, shown
from ..text_table import table_lines
from .convergence_bound import best_base_rate

_WIDTH = 80
_POINTS = 2000  # of a picture, about three per pixel of its width
# Half a unit of a number's fourth digit is at least this fraction of it. The
# rates are float32, and one that is the peak but for that prints as the peak.
_UNSEEN = 5e-5
_COOLDOWN = 0.2  # WSD's last part, as a fraction of the steps
_MEANING = (
  'With its highest rate at gamma*, the best there is, SGD on a convex '
  'function ends at most Omega* above the minimum, in expectation; D is the '
  'distance at the start and G the largest norm of a gradient. That '
  'compares shapes of equal length. It knows neither Adam nor networks nor '
  'resets: a chain counts as one descent. WSD is constant and then falls '
  f'linearly over {_COOLDOWN:.0%} of the steps; neither it nor the cosine '
  'cycle has a warm-up.'
)


def plan_lines(name: str, plan: RunPlan, at: int | None) -> Iterator[str]:
  """All that a terminal shows of a plan.

  Raises:
    ValueError: if the chain doesn't fit into its steps, has an impossible rate,
      or has no such step.
  """
  plans.check(plan)
  cycles, rates = plan.chain.cycles, plans.planned_rates(plan)
  yield (
    f'{name}: {rates.size:,} steps, {plan.params.budget_factor:g} times a '
    f'step_hint of {plan.step_hint:,}.'
  )
  yield from table_lines(cycle_rows(cycles, rates))
  decided = plans.what_evaluations_decide(plan.params)
  yield 'First and last step are counted from 1. ' + (
    'In a run, evaluations decide:' if decided else 'This is what will happen.'
  )
  for sentence in decided:
    yield from textwrap.wrap(
      sentence, _WIDTH, initial_indent='- ', subsequent_indent='  '
    )
  if at is not None:
    decays = plans.planned_weight_decays(plan)
    yield from ('', *position_lines(at, cycles, rates, decays))
  yield from ('', *bound_lines(rates))


def save_picture(path: pathlib.Path, name: str, plan: RunPlan) -> None:
  """Draws the learning rate over steps, with a line at each new cycle.

  Where the weight decay is scheduled, it has a second panel below. Where a race
  tries factors on the peaks, each has a curve.
  """
  from matplotlib.figure import Figure  # a terminal needs none

  from ..run_plot import FAR_APART, scale_rates

  rates, decays = plans.planned_rates(plan), plans.planned_weight_decays(plan)
  starts, policy = plan.chain.reinit_steps, plan.params.policy
  factors = policy.peaks if isinstance(policy, Race) else (1.0,)
  grey = [f'{0.3 + 0.2 * i:.1f}' for i in range(1, len(factors))]
  curves = [
    (0, 'learning rate', factor * rates, color, f'x {factor:g}')
    for factor, color in zip(factors, ['tab:blue', *grey])
  ]
  if decays is not None:
    curves.append((1, 'weight decay', decays, 'tab:orange', ''))
  panels = 1 if decays is None else 2
  figure = Figure((7, 3 * panels), dpi=120, layout='constrained')
  axes = figure.subplots(panels, sharex=True, squeeze=False)[:, 0]
  title = f'{name}, step_hint {plan.step_hint:,}; dashed: a new cycle starts'
  axes[0].set_title(title, loc='left', fontsize='medium')
  points = np.linspace(0, rates.size - 1, _POINTS).astype(np.int64)
  steps = np.unique(np.append(points, starts).astype(np.int64))
  for panel, what, values, color, label in curves:
    axes[panel].plot(steps, values[steps], color=color, label=label)
    for start in starts:
      axes[panel].axvline(start, color='0.5', linestyle='--', linewidth=1)
    axes[panel].set_xlim(0, rates.size)
    axes[panel].set_ylabel(what)
    scale_rates(axes[panel], steps, values[steps], starts)
  if len(factors) > 1:
    axes[0].set_yscale('log')
    axes[0].set_ylim(bottom=float(min(factors) * rates.max()) / FAR_APART)
    axes[0].legend(fontsize='small', title='tried in a race')
  axes[-1].set_xlabel('global step')
  paths.save_picture(figure, path)


def cycle_rows(
  cycles: Sequence[PlannedCycle], rates: np.ndarray | None = None
) -> list[tuple[str, ...]]:
  """A header and a row for each cycle when none is left early.

  Args:
    cycles: the chain.
    rates: shape=(steps,); what the chain plans, or None for a chain whose
      cycles are known to reach their peaks.

  Returns:
    Number of the cycle; its first and last step, counted from 1 as evaluations
    count them; shape and steps of the warm-up; peak, and the highest of the
    rates if that is another in any cycle; decay; shape and peak of the weight
    decay if it is scheduled or differs; share of all steps.
  """
  ends = list(itertools.accumulate(cycle.steps for cycle in cycles))
  settings = [cycle.setting for cycle in cycles]
  peaks = [setting.hparams.learning_rate for setting in settings]
  columns = {
    'cycle': [f'{i + 1}' for i in range(len(cycles))],
    'first': [f'{e - c.steps + 1:,}' for e, c in zip(ends, cycles)],
    'last': [f'{end:,}' for end in ends],
    'warm-up': [shown(setting.warmup) for setting in settings],
    'steps': [f'{cycle.warmup_steps:,}' for cycle in cycles],
    'peak': [f'{peak:.4g}' for peak in peaks],
  }
  if rates is not None:
    highest = [values.max() for values in np.split(rates, ends[:-1])]
    if not np.allclose(highest, peaks, rtol=_UNSEEN, atol=0.0):
      columns['highest'] = [f'{rate:.4g}' for rate in highest]
  columns['decay'] = [shown(setting.decay) for setting in settings]
  decays = [
    f'{shown(s.weight_decay_shape or "")} {s.hparams.weight_decay:.4g}'.strip()
    for s in settings
  ]
  if len(set(decays)) > 1 or settings[0].weight_decay_shape:
    columns['weight decay'] = decays
  columns['share'] = [f'{cycle.steps / ends[-1]:.1%}' for cycle in cycles]
  return [tuple(columns), *zip(*columns.values())]


def position_lines(
  step: int,
  cycles: Sequence[PlannedCycle],
  rates: np.ndarray,
  weight_decays: np.ndarray | None = None,
) -> list[str]:
  """Where in a plan a step is that comes after so many, in words.

  Raises:
    ValueError: if it is not a step of the plan.
  """
  if not 0 <= step < rates.size:
    raise ValueError(
      f'--at={step}: the plan has {rates.size:,} steps, counted from 0: give '
      f'one from 0 to {rates.size - 1}.'
    )
  ends = list(itertools.accumulate(cycle.steps for cycle in cycles))
  number = int(np.searchsorted(ends, step, side='right'))
  end = ends[number]
  start = end - cycles[number].steps
  warm = start + cycles[number].warmup_steps
  is_warm = step < warm
  begin, over = (start, warm) if is_warm else (warm, end)

  def done(done: int, steps: int) -> str:
    tenths = 1000 * done // steps  # down: what is not over is not at 100%
    return f'{done:,} of its {steps:,} steps are done ({tenths / 10:.1f}%)'

  lines = [
    f'Step {step:,} (counted from 0, like the clock), about to be taken:',
    f'  cycle          {number + 1} of {len(cycles)}; '
    + done(step - start, end - start),
    f'  phase          {"warm-up" if is_warm else "decay"}; '
    + done(step - begin, over - begin),
    f'  learning rate  {rates[step]:.6g}',
  ]
  if weight_decays is not None:
    lines.append(f'  weight decay   {weight_decays[step]:.6g}')
  plural = 's' * (end - step > 1)
  last = number + 1 == len(cycles)
  what = 'the plan ends' if last else f'cycle {number + 2} starts'
  lines.append(
    f'  boundary       in {end - step:,} step{plural}: at step {end:,} {what}'
  )
  return lines


def bound_lines(rates: np.ndarray) -> list[str]:
  """The bound of a plan beside those of one cosine cycle and of WSD.

  All have D = G = 1, as many steps, and a highest rate of 1. Steps with a rate
  of 0 at the end are left out: they change nothing, and the bound, which
  divides by the last rate, is infinite with them. The plan's rates, shape=(T,),
  are those at which the steps are taken.
  """
  count = rates.size
  t = np.arange(count)
  shapes = {
    'this plan': rates,
    'one cosine cycle': (1 + np.cos(np.pi * t / count)) / 2,
    'WSD': np.minimum(1.0, (count - t) / (_COOLDOWN * count)),
  }
  rows = [('schedule', 'gamma*', 'Omega*')]
  for name, values in shapes.items():
    moving = np.trim_zeros(np.asarray(values, np.float64), 'b')
    gamma, bound = 0.0, np.inf
    if moving.size:
      gamma, bound = best_base_rate(moving / moving.max())
    rows.append((name, f'{gamma:#.4g}', f'{bound:#.4g}'))
  zeros, about_zeros = count - np.trim_zeros(rates, 'b').size, ''
  if zeros == count:
    about_zeros = 'All rates of the plan are 0: nothing moves.'
  elif zeros:
    which = 'step has' if zeros == 1 else f'{zeros:,} steps have'
    about_zeros = (
      f"The plan's last {which} a rate of 0. The bound divides by the last "
      'rate and would be infinite; a step that changes nothing is left out '
      'instead.'
    )
  return [
    "Bound on SGD's last iterate for D = G = 1:",
    *table_lines(rows),
    *textwrap.wrap(_MEANING, _WIDTH),
    *textwrap.wrap(about_zeros, _WIDTH),
  ]
