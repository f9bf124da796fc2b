"""What the project was made for, row by row: run, or the test that holds it named.

The rows are those of the five sources: 1 to 30 the UML diagram of the thesis, 31
to 87 the thesis, 88 to 100 `scheduled` (Schaipp et al. 2025), 101 to 120
pytorch-accelerated, 121 to 168 Cerebras; then what the project's card names. A
value is worked out here from the source's formula. Longer checks stay in tests of
their own; what is answered otherwise than in its source is said on a page.
"""

import dataclasses
import inspect
import itertools
import json
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.curves import TOLERANCE, read
from helpers.documents import ROOT
from reset_cycles import submission
from reset_cycles.any_optax.from_optax import FromOptax
from reset_cycles.core.evaluation import Evaluation, Target, Way
from reset_cycles.core.plan import cycle_ends, jax_lr_schedule
from reset_cycles.core.schedules import (
  Constant,
  Cooldown,
  Cosine,
  Cycle,
  LinearWarmup,
  Shape,
)
from reset_cycles.early_switching import (
  Progress,
  SmoothedLoss,
  SmoothedLossRule,
)
from reset_cycles.engine import run as core_run
from reset_cycles.engine.picture import drawn
from reset_cycles.engine.records import COLUMNS, PICTURE
from reset_cycles.engine.tuned import tuned, with_peak
from reset_cycles.optimizers.base import AdamW, Step
from reset_cycles.optimizers.momentum import NadamW, Nesterov
from reset_cycles.research.real_runner import logs as real_logs
from reset_cycles.research.real_runner import run as real_runs
from reset_cycles.research.thesis.registry import FIGURES
from reset_cycles.schedule_params import SCHEDULE_PARAMS, THESIS, ScheduleParams
from reset_cycles.shapes.chains import chain_of_lists
from reset_cycles.shapes.composed import (
  WSD,
  Chained,
  CosineWarmRestarts,
  Multiplicative,
  OneCycle,
  PiecewiseConstant,
  Sequential,
  Triangular,
)
from reset_cycles.shapes.phases import checkpoint_steps, period_at
from reset_cycles.shapes.simple import (
  CosineAnnealing,
  CosineWarmup,
  Exponential,
  ExponentialWarmup,
  HoldingExponential,
  HoldingLinear,
  InversePower,
  InverseTime,
  KDecayCosine,
  Lambda,
  Linear,
  Polynomial,
)
from reset_cycles.shapes.simple import Step as StepDecay
from reset_cycles.soft_reset import (
  Cyclic,
  FullReset,
  KeptMomentum,
  SoftReset,
  blend,
)
from reset_cycles.views.convex_bound import bound_curve, last_iterate_bound

# Number, or name on the card -> (what it is, checks of it).
ROWS: dict = {}


def add(number, name, check):
  """Adds a check to a row."""
  ROWS.setdefault(number, (name, []))[1].append(check)


def row(number, name):
  """Makes a function the check of a row."""
  return lambda function: add(number, name, function) or function


def held_by(number, name, *tests):
  """Tests that hold a row, as 'core/test_plan.py::test_how_steps_are_split'."""

  def check():
    for test in tests:
      file, _, function = test.partition('::')
      text = (ROOT / 'tests' / file).read_text()
      assert f'def {function}(' in text, test

  add(number, name, check)


def said(number, name, page, *phrases):
  """A page that says what a row is answered with."""

  def check():
    text = ' '.join((ROOT / page).read_text().split())
    for phrase in phrases:
      assert phrase in text, (page, phrase)

  add(number, name, check)


def shaped(number, name, shape, formula, steps=200):
  """A shape, and its value at each whole step t of so many, from the source."""

  def check():
    found = read(shape, steps, np.arange(steps))
    expected = [formula(t) for t in range(steps)]
    # Where a curve is steep, the rounding of the share shows as well.
    slope = np.abs(np.gradient(expected)) * steps * 2.0**-22
    wrong = np.abs(found - expected) > TOLERANCE + slope
    assert not wrong.any(), (np.flatnonzero(wrong), found[wrong])

  add(number, name, check)


def half_cosine(x):
  return (1 + math.cos(math.pi * x)) / 2


def evaluated(metric, loss=1.0):
  return Evaluation(1, loss, metric)


# 1 to 30: the UML diagram of the thesis.


@row(1, 'SCHEDULE_PARAMS')
def _():
  assert isinstance(SCHEDULE_PARAMS, ScheduleParams)
  with pytest.raises(dataclasses.FrozenInstanceError):
    SCHEDULE_PARAMS.repeat = False


def thesis_chain(step_hint=80_000):
  return jax_lr_schedule(step_hint, THESIS.cycles, THESIS.budget_factor)


@row(2, 'has_multiple')
def _():
  assert thesis_chain().has_multiple
  assert not jax_lr_schedule(80_000, THESIS.cycles[:1], 2.0).has_multiple


@row(3, 'reinit_times')
def _():
  # The ceiling of 160,000 / 3, and then of half of the rest.
  assert thesis_chain().reinit_steps == (53_334, 53_334 + 53_333)


@row(4, 'warmup_schedule_fns')
def _():
  warmups = [LinearWarmup(), CosineWarmup(), ExponentialWarmup()]
  assert [c.warmup for c in chain_of_lists(warmups=warmups)] == warmups


@row(5, 'decay_schedule_fns')
def _():
  decays = [Cosine(), HoldingExponential(), HoldingLinear()]
  assert [c.decay for c in chain_of_lists(decays=decays)] == decays


@row(6, 'alter_decays')
def _():
  cycles = chain_of_lists(alter_lr=(0.0, 0.001, -0.001))
  peaks = [round(cycle.peak, 5) for cycle in cycles]
  assert peaks == [0.00175, 0.00275, 0.00075]


@row(7, 'alter_warmups')
def _():
  cycles = chain_of_lists(alter_warmup=(0.0, 0.18, -0.015))
  assert [cycle.warmup_factor for cycle in cycles] == [0.02, 0.2, 0.005]


@row(8, 'num_early_stops')
def _():
  assert 'num_early_stops' in COLUMNS


held_by(
  *(
    8,
    'num_early_stops',
    'engine/test_control.py::test_early_stops_are_counted',
  ),
  'cli/test_run.py::test_early_stops_are_counted_in_the_summary',
)
said(9, 'currently_stopping', 'docs/thesis.md', 'stops the cycle at once')


@row(10, 'stop_metric')
def _():
  # l(2) = .7 * 2 + .3 * 1, l'(2) = .7; the minimum is the first one.
  found = SmoothedLoss().after(1.0, 0.7).after(2.0, 0.7)
  assert found == pytest.approx((2, 1.7, 0.7, 1.0, 1))


@row(11, 'reset_metric')
def _():
  target = Target('m', 0.8, True)
  found = SoftReset().tau(Way(evaluated(0.6), evaluated(0.0), target, 50, 100))
  assert found == pytest.approx((0.8 - 0.6) / 0.8)


held_by(
  *(12, 'init_optimizer_state'),
  'test_submission.py::test_the_settings_in_force_train',
)


def rate_of_the_thesis(t):
  """Cycles of 53,334, 53,333 and 53,333 steps, int(.02 L) of them warm-up."""
  peak = 0.0017486387539278373
  for length in (53_334, 53_333, 53_333):
    if t < length:
      break
    t -= length
  warmup = int(0.02 * length)
  if t < warmup:
    return peak * t / warmup
  return peak * half_cosine((t - warmup) / (length - warmup))


for number, name in {
  13: 'decay_fn',
  14: 'warmup_fn',
  15: 'combine_warmup_decay_fn',
  16: 'jax_lr_schedule',
  19: 'chains cycles into a whole schedule',
}.items():

  @row(number, name)
  def _():
    steps = (0, 533, 1065, 1066, 30_000, 53_333, 53_334, 60_000, 159_999)
    found = thesis_chain()(np.array(steps))
    expected = [rate_of_the_thesis(t) for t in steps]
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-9)


@row(17, 'tests that lists match in length')
def _():
  with pytest.raises(ValueError, match='one entry per cycle'):
    chain_of_lists(alter_lr=(0.0, 0.001))


@row(18, 'cycles of equal length')
def _():
  assert [c.steps for c in thesis_chain(150).cycles] == [100, 100, 100]


held_by(
  *(20, 'initialises Adam with that schedule'),
  'optimizers/test_optimizers.py::test_adam_agrees_with_its_twin',
)


@row(21, 'graph of the schedule')
def _():
  pytest.importorskip('matplotlib')
  assert PICTURE == 'lr_schedule.png'
  assert drawn(thesis_chain(50)).startswith(b'\x89PNG')


held_by(
  *(21, 'graph of the schedule', 'engine/test_records.py::test_what_is_written')
)


@row(22, 'model_reinit_schedule')
def _():
  assert submission.model_reinit_schedule is core_run.model_reinit_schedule
  source = inspect.getsource(submission.update_params)
  assert 'params, model_state = model_reinit_schedule(' in source


held_by(
  23, 'early_stopping', 'engine/test_control.py::test_the_tape_of_a_chain'
)


@row(24, 'is_stopping_early')
def _():
  # l' = .7 * .1 is above .01: case 1.
  state = SmoothedLoss().after(1.0, 0.7).after(1.1, 0.7)
  terms = SmoothedLossRule().verdict(state).terms
  assert (terms['case1'], terms['case2'], terms['stopping']) == (1, 0, 1)


@row(25, 'the rest is divided equally')
def _():
  # Stopped at 40 of 300: two cycles share 260.
  assert cycle_ends(40, 300, (1.0, 1.0)) == (170, 300)


@row(26, 'resets parameters')
def _():
  assert FullReset().plan(0.25).tau == 1.0


@row(27, 'resets the optimizer')
def _():
  assert FullReset().plan(0.25).keep_moments == 0.0


held_by(
  *(28, 'tests that parameters changed and moments are zero'),
  'engine/test_model_reset.py::test_what_a_reset_did',
  'engine/test_model_reset.py::test_every_leaf_is_one_blend',
)


@row(29, 'refactors moments by alpha and tau')
def _():
  kept = [SoftReset(alpha=0.5).plan(tau).keep_moments for tau in (0.014, 0.868)]
  assert kept == pytest.approx([0.993, 0.566])


held_by(
  *(30, 'updates the metrics after each evaluation'),
  'engine/test_run.py::test_the_whole_tape',
)


# 31 to 87: the thesis.


def descended(optimizer, steps=50, rate=0.01):
  """x after each step on x^2, from 1."""
  made = optimizer.build(Step(rate))
  x, found = jnp.float32(1.0), []
  state, update = made.init(x), jax.jit(made.update)
  for _ in range(steps):
    updates, state = update(2 * x, state, x)
    x += updates
    found.append(float(x))
  return found


def adam(steps=50, rate=0.01, b1=0.9, b2=0.99, decay=0.0, ahead=False):
  """The same by the formula; Choi et al. 2019, table 1."""
  x, m, v, found = 1.0, 0.0, 0.0, []
  for t in range(1, steps + 1):
    g = 2 * x
    m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
    u = b1 * m + (1 - b1) * g if ahead else m
    direction = (u / (1 - b1**t)) / (math.sqrt(v / (1 - b2**t)) + 1e-8)
    x -= rate * (direction + decay * x)
    found.append(x)
  return found


NUMBERS = {'one_minus_beta1': 0.1, 'beta2': 0.99}
OPTAX = 'loop/test_optax.py::test_it_trains_through_a_full_a_soft_and_a_cyclic'
for number, name in {31: 'SGD', 34: 'RMSprop'}.items():
  held_by(number, name, f'{OPTAX}_reset')
said(31, 'SGD', 'docs/own_loop.md', '`sgd`')
said(34, 'RMSprop', 'docs/own_loop.md', '`rmsprop`')
said(32, 'heavy ball', 'docs/extending.md', 'class HeavyBall(AdamW)')
held_by(
  *(32, 'heavy ball'),
  'test_documents.py::test_the_parts_of_the_page_on_extending_run',
)


@row(31, 'SGD')
def _():
  found = descended(FromOptax('sgd'))
  np.testing.assert_allclose(found, 0.98 ** np.arange(1, 51), rtol=1e-5)


@row(34, 'RMSprop')
def _():
  x, v, expected = 1.0, 0.0, []
  for _ in range(50):
    v = 0.9 * v + 0.1 * (2 * x) ** 2
    x -= 0.01 * 2 * x / math.sqrt(v + 1e-8)
    expected.append(x)
  found = descended(FromOptax('rmsprop', {'decay': 0.9}))
  np.testing.assert_allclose(found, expected, rtol=1e-4)


@row(38, 'L2 Adam')
def _():
  """Its decay goes through Adam's division; that of AdamW does not."""
  x, m, v, expected = 1.0, 0.0, 0.0, []
  for t in range(1, 51):
    g = 2 * x + 0.5 * x
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    x -= 0.01 * (m / (1 - 0.9**t)) / (math.sqrt(v / (1 - 0.99**t)) + 1e-8)
    expected.append(x)
  found = descended(FromOptax('adam', {'b1': 0.9, 'b2': 0.99}, l2=0.5))
  np.testing.assert_allclose(found, expected, rtol=1e-5)
  assert max(np.abs(np.subtract(expected, adam(decay=0.5)))) > 0.01


@row(33, 'Nesterov')
def _():
  # As published, m <- b1 m + g and b1 m + g; the thesis prints v + g.
  x, m, expected = 1.0, 0.0, []
  for _ in range(50):
    m = 0.9 * m + 2 * x
    x -= 0.001 * (0.9 * m + 2 * x)
    expected.append(x)
  optimizer = Nesterov(one_minus_beta1=0.1, weight_decay=0.0)
  found = descended(optimizer, rate=0.001)
  np.testing.assert_allclose(found, expected, rtol=1e-5)


@row(35, 'Adam')
def _():
  found = descended(AdamW(weight_decay=0.0, **NUMBERS))
  np.testing.assert_allclose(found, adam(), rtol=1e-5)


@row(36, 'AdamW')
def _():
  found = descended(AdamW(weight_decay=0.5, **NUMBERS))
  np.testing.assert_allclose(found, adam(decay=0.5), rtol=1e-5)
  own = AdamW()
  assert own.one_minus_beta1 == 0.06733926164
  assert own.beta2 == 0.9955159689799007
  assert own.weight_decay == 0.08121616522670176
  assert Cycle().peak == 0.0017486387539278373
  assert THESIS.optimizer == own


@row(37, 'NadamW')
def _():
  found = descended(NadamW(weight_decay=0.5, **NUMBERS))
  np.testing.assert_allclose(found, adam(decay=0.5, ahead=True), rtol=1e-5)


shaped(39, 'linear warm-up', LinearWarmup(), lambda t: t / 200)
shaped(
  *(40, 'cosine warm-up', CosineWarmup()),
  lambda t: 1 - half_cosine(t / 200),
)
shaped(
  *(40, 'exponential warm-up', ExponentialWarmup(0.01)),
  lambda t: 0.01 ** (1 - t / 200),
)
shaped(41, 'linear decay', Linear(), lambda t: 1 - t / 200)
shaped(41, 'exponential decay', Exponential(0.1), lambda t: 0.1 ** (t / 200))
shaped(
  *(41, 'step decay', StepDecay(0.1, at=(0.5, 0.75))),
  lambda t: 0.1 ** ((t >= 100) + (t >= 150)),
)
# Without a warm-up: W = 0 and L = 200.
shaped(
  *(42, 'exponential that holds first', HoldingExponential()),
  lambda t: 0.1 ** (max(t - 40, 0) / 120),
)
shaped(
  *(42, 'linear that holds first', HoldingLinear()),
  lambda t: min((200 - t) / 160, 1),
)


@row(43, 'sequential: full reset')
def _():
  assert FullReset().plan(0.25) == (1.0, 0.0, False)


@row(44, 'kept momentum')
def _():
  assert KeptMomentum().plan(0.25)[:2] == (1.0, 1.0)


@row(45, 'cyclic')
def _():
  assert Cyclic().plan(0.25).touches_nothing


for number, name, test in (
  (46, 'l(t)', 'smoothing_by_hand'),
  (47, 'S(t), case 1', 'both_cases_by_hand'),
  (48, 'S(t), case 2', 'both_cases_by_hand'),
  (47, 'S(t), case 1', 'all_series_agree_with_reference_values'),
):
  held_by(number, name, f'test_early_switching.py::test_{test}')


@row(48, 'S(t), case 2')
def _():
  # l = 1, .5, .75: k = 1 evaluation after the minimum, 2 * .25 + .75 >= .5 + .7.
  rule = SmoothedLossRule(lam=1.0, eps1=9.0, eps2=0.7, k=1, m=2)
  state = SmoothedLoss()
  for loss in (1.0, 0.5, 0.75):
    state = state.after(loss, rule.lam)
  assert rule.verdict(state).terms['case2'] == 1
  higher = dataclasses.replace(rule, eps2=0.76)
  assert higher.verdict(state).terms['case2'] == 0


@row(49, 'S(t) of a loss that is not finite')
def _():
  state = SmoothedLoss().after(math.nan, 0.7)
  assert SmoothedLossRule().verdict(state).terms['stopping'] == 1


said(49, 'S(t) of a loss that is not finite', 'docs/thesis.md', 'is not finite')


def tau_of(metric, target, rises=True, first=0.0, scale='log'):
  goal = Target('m', target, rises)
  given = evaluated(metric), evaluated(first), goal, 50, 100
  return SoftReset(scale=scale).tau(Way(*given))


@row(50, 'tau')
def _():
  found = [tau_of(y, 0.28098) for y in (0.277, 0.0371, 0.3, 0.0)]
  assert found == pytest.approx([0.014165, 0.867962, 0.0, 1.0], abs=1e-6)


@row(51, 'parameters by tau')
def _():
  old, fresh = jnp.float32([0.4, -1.0]), jnp.float32([-0.2, 3.0])
  found = blend(old, fresh, jnp.float32(0.75), jnp.float32(0.25))
  np.testing.assert_allclose(found, [0.25, 0.0], atol=1e-7)


@row(52, 'moments by tau and alpha')
def _():
  keep = SoftReset(alpha=0.5).plan(0.25).keep_moments
  zero, given = jnp.zeros(2), jnp.float32([2.0, -4.0])
  found = blend(given, zero, jnp.float32(keep), jnp.float32(1 - keep))
  np.testing.assert_allclose(found, [1.75, -3.5])


@row(53, 'alpha = .5')
def _():
  assert THESIS.reset.alpha == SCHEDULE_PARAMS.reset.alpha == 0.5


held_by(
  *(54, 'fresh parameters of another seed'),
  'engine/test_run.py::test_each_reset_takes_a_model_of_its_own',
)
held_by(
  *(55, 'tau without an evaluation'),
  'engine/test_control.py::test_the_plan_of_a_reset',
)
said(
  *(55, 'tau without an evaluation', 'docs/soft_reset.md'),
  'Without an evaluation in the cycle, τ is 0.',
)


@row(56, 'metrics that fall')
def _():
  found = tau_of(0.99, 0.22569, rises=False, first=0.999)
  expected = math.log(0.99 / 0.22569) / math.log(0.999 / 0.22569)
  assert found == pytest.approx(expected) == pytest.approx(0.9939, abs=1e-4)


@row(57, 'no reset at the last step')
def _():
  chain = thesis_chain()
  assert chain.steps == 160_000 not in chain.reinit_steps


said(
  *(57, 'no reset at the last step', 'docs/thesis.md'),
  'without the end of the run',
)
held_by(
  *(58, 'the run ends with its cycles'),
  'engine/test_control.py::test_the_tape_of_a_chain',
)
held_by(
  *(59, 'further cycles'),
  'engine/test_control.py::test_further_cycles_fill_the_rest',
)
said(
  *(59, 'further cycles', 'docs/settings.md'),
  'whether the last cycle follows again and again after the chain',
)


@row(60, 'twice the step_hint')
def _():
  assert thesis_chain().steps == 2 * 80_000


@row(61, 'three cycles')
def _():
  assert THESIS.cycles == (Cycle(),) * 3


@row(62, 'advice on tuning')
def _():
  assert 'the thesis advises m = k > 5' in inspect.getsource(SmoothedLossRule)
  own = SmoothedLossRule()
  assert own.m == own.k > 5 and own.lam == 0.7
  assert own == THESIS.switching


for number, names in {
  63: 'fig2.1',
  64: 'fig3.1',
  66: 'fig3.3a fig3.3b fig3.3c fig3.3d fig3.3e fig3.3f',
  67: 'fig3.4a fig3.4b fig3.4c',
  68: 'fig3.5 fig3.6a fig3.6b fig3.6c',
  69: 'fig3.7',
  70: 'fig3.8a fig3.8b fig3.8c',
  71: 'fig3.9a fig3.9b',
  72: 'fig3.10 fig3.11',
}.items():

  @row(number, names)
  def _(names=names):
    assert set(names.split()) <= set(FIGURES)


PREMISES = 'research/thesis/test_thesis_premises.py'
held_by(68, 'cycles that fail', f'{PREMISES}::test_every_figure_has_a_premise')
held_by(
  *(69, 'early switches'),
  f'{PREMISES}::test_the_shipped_logs_show_what_the_figure_shows',
)
held_by(
  *(72, 'a first cycle that fails'),
  f'{PREMISES}::test_the_figures_of_failed_cycles_have_ten_seeds',
)
said(
  65, 'figure 3.2', 'docs/architecture.md', 'engine/run.model_reinit_schedule'
)
said(
  *(73, 'figure A.1', 'research/thesis/registry.py'),
  'Figure A.1 is not among them',
)


@row(75, 'table of workloads')
def _():
  lines = (ROOT / 'research/replay/workloads.csv').read_text().splitlines()
  [ogbg] = [line.split(',') for line in lines if line.startswith('ogbg,')]
  assert (ogbg[3], ogbg[5]) == ('0.28098', '18477')


said(76, 'test targets', 'RULES.md', 'nothing of the test set')
held_by(
  *(77, 'time of the functions'),
  'research/costs/test_costs.py::test_every_figure_of_every_run',
)


@row(78, 'randomized workloads')
def _():
  sizes = {'ogbg_gelu': 512, 'wmt_post_ln': 128, 'criteo1tb_layernorm': 262_144}
  for name, size in sizes.items():
    assert submission.get_batch_size(name) == size


held_by(
  *(79, 'external ruleset'),
  'engine/test_tuned.py::test_a_name_means_a_field',
  'mini_algoperf/test_tuning.py::test_every_trial_has_its_point_in_force',
  'test_submission.py::test_the_external_ruleset_replaces_settings_and_has_its'
  '_own_budget',
)
held_by(
  *(80, 'self-tuning ruleset', 'core/test_workload.py::test_the_budget'),
  'research/test_scores.py::test_the_best_trial_and_the_median_study_count',
)


@row(81, 'expected progress')
def _():
  # Half of the run: half of .8 is due, and .3 of it is there.
  reset = SoftReset(expected=LinearWarmup())
  given = evaluated(0.3), evaluated(0.0), Target('m', 0.8, True), 50, 100
  assert reset.tau(Way(*given)) == pytest.approx(1 - 0.3 / 0.4)
  assert SCHEDULE_PARAMS.reset.expected is THESIS.reset.expected is None


held_by(
  *(82, 'no target known'),
  'loop/test_cycles.py::test_a_loop_without_a_target',
)
# (h / t)^(1/2), and over the last 40 steps a straight line to 0.
shaped(
  *(83, 'infinite schedule with a cool-down'),
  InversePower(hold=0.05, cooldown=0.2),
  lambda t: math.sqrt(10 / min(max(t, 10), 160)) * min((200 - t) / 40, 1),
)


@row(83, 'infinite schedule with a cool-down')
def _():
  assert SCHEDULE_PARAMS.repeat


said(
  *(84, 'more runs', 'research/thesis/RESULTS.md'),
  'The logs of its 240 runs, seeds 1 to 10, come with the project.',
)
said(
  *(85, 'role of the momentum', 'research/thesis/RESULTS.md'),
  *('Claim 2: Keeping the momentum speeds up', 'Claim 7: ', 'Claim 8: '),
)
held_by(
  *(86, 'compiled, parallel reset'),
  'engine/test_model_reset.py::test_a_reset_compiles_nothing_after_set_up',
  'core/test_devices.py::test_one_device_and_eight_jit_and_pmap',
)
said(
  *(87, 'numbers of the optimizer by cycle', 'docs/shapes.md'),
  'The other numbers of an optimizer are the same in every cycle',
)


# 88 to 100: `scheduled`.

shaped(88, 'ConstantSchedule', Constant(), lambda t: 1.0)
shaped(
  *(89, 'CosineSchedule', Cosine(floor=0.1)),
  lambda t: 0.1 + 0.9 * half_cosine(t / 200),
)
shaped(
  *(90, 'SqrtSchedule', InversePower(0.5, hold=1 / 200)),
  lambda t: 1 / math.sqrt(max(t, 1)),
)
shaped(91, 'WSDSchedule', Cooldown(0.2), lambda t: min((200 - t) / 40, 1))
shaped(
  *(92, 'final_lr', Cooldown(0.2, floor=0.1)),
  lambda t: 0.1 + 0.9 * min((200 - t) / 40, 1),
)


@row(93, 'steps, base_lr')
def _():
  cycle = Cycle(peak=2.0, warmup_factor=0.0, decay=Cooldown(0.2))
  chain = jax_lr_schedule(100, (cycle,), 1.0)
  assert chain.steps == 100 and float(chain(90)) == pytest.approx(1.0)


@row(94, 'set_base_lr')
def _():
  peaks = [c.peak for c in with_peak(SCHEDULE_PARAMS, 0.1).cycles]
  assert peaks == pytest.approx([0.1] * 4)


@row(95, 'S.schedule')
def _():
  chain = thesis_chain(50)
  assert chain(np.arange(chain.steps)).shape == (100,)


@row(96, 'S.plot()')
def _():
  pytest.importorskip('matplotlib')
  assert drawn(thesis_chain(50)).startswith(b'\x89PNG')


# WSD over 100 steps: 80 at 1, and then down by a twentieth at each step.
WSD_RATES = [1.0] * 80 + [1 - i / 20 for i in range(20)]


def theorem_1(eta, distance=1.0, norm=1.0):
  """The double sum as it is printed, of Schaipp et al. 2025."""
  left = [sum(eta[k:]) for k in range(len(eta))]
  squares = [sum(e * e for e in eta[k:]) * norm**2 for k in range(len(eta))]
  bound = (distance**2 + squares[0]) / (2 * left[0])
  for k in range(len(eta) - 1):
    bound += 0.5 * eta[k] / left[k + 1] / left[k] * squares[k]
  return bound


@row(97, 'compute_rate')
def _():
  for steps in (1, 50, 90, 100):
    expected = theorem_1(WSD_RATES[:steps])
    found = last_iterate_bound(WSD_RATES[:steps]).value
    assert found == pytest.approx(expected, rel=1e-12)
  # 1 / 100 + 1 / 2 + H(49) / 2 at a constant rate.
  harmonic = sum(1 / i for i in range(1, 50))
  found = last_iterate_bound(WSD_RATES[:50]).value
  assert found == pytest.approx(0.01 + 0.5 + harmonic / 2)


@row(98, 'best base rate, and the curve')
def _():
  eta = np.array(WSD_RATES)
  bound = last_iterate_bound(eta)
  best = theorem_1(list(bound.best_factor * eta))
  assert best == pytest.approx(bound.best_value)
  for factor in (0.9, 1.1):
    assert theorem_1(list(factor * bound.best_factor * eta)) > best
  steps, values = bound_curve(eta)
  expected = [theorem_1(WSD_RATES[:step]) for step in steps]
  np.testing.assert_allclose(values, expected)


@row(99, 'new schedules')
def _():
  assert inspect.isfunction(Shape.__call__)
  # Any callable is one, without a base class.
  cycle = Cycle(1.0, warmup_factor=0.0, decay=lambda x, warmup=0.0: 1 - x * x)
  assert float(jax_lr_schedule(10, (cycle,), 1.0)(5)) == pytest.approx(0.75)


said(100, 'optimal extension', 'docs/bound.md', '## The best way to go on')
held_by(
  *(100, 'optimal extension'),
  'views/test_plan_bound.py::test_the_numbers_of_the_pages_code',
)


# 101 to 120: pytorch-accelerated.


def k_decay(t, k=1.5, floor=0.1, steps=160):
  """lr_min + (lr - lr_min) (1 + cos(pi t^k / T^k)) / 2, then lr_min."""
  return floor + (1 - floor) * half_cosine(min(t / steps, 1) ** k)


for number, name in {
  101: 'CosineLrScheduler',
  102: 'k_decay',
  104: 'min_lr_ratio',
  107: 'num_cooldown_epochs',
}.items():
  shaped(number, name, KDecayCosine(1.5, floor=0.1, cooldown=0.2), k_decay)
said(103, 'lr_min', 'docs/thesis.md', 'shares of the cycle and of its peak')
said(
  105, 'num_warmup_epochs', 'docs/thesis.md', '`num_warmup_epochs`, `lr_min`'
)
shaped(
  *(106, 'warmup_starting_lr', LinearWarmup(start=0.25)),
  lambda t: 0.25 + 0.75 * t / 200,
)


@row(108, 'the cosine is counted from after the warm-up')
def _():
  cycle = Cycle(1.0, warmup_factor=0.2, decay=KDecayCosine())
  found = jax_lr_schedule(100, (cycle,), 1.0)(np.array([20, 60, 99]))
  expected = [1.0, 0.5, half_cosine(79 / 80)]
  np.testing.assert_allclose(found, expected, atol=1e-6)
  assert 'ends too early by the steps of the warm-up' in ' '.join(
    inspect.getdoc(KDecayCosine).split()
  )


said(109, 'create_scheduler_fn', 'docs/thesis.md', '`create_scheduler_fn`')
said(
  110, 'get_updated_values', 'docs/wsd.md', '`get_updated_values(num_updates)`'
)


def wsd(t, fall):
  """1, and over the last 20 of 200 steps as the page of WSDLrScheduler says."""
  x, floor = max(t - 180, 0) / 20, 0.01
  if fall == 'sqrt':
    return floor + (1 - floor) * (1 - math.sqrt(x))
  return 1 / (x * (1 / floor - 1) + 1)


for fall in ('sqrt', 'inverse'):
  shaped(
    *(111, f'WSDLrScheduler, {fall}', WSD(1, 0.1, fall, floor=0.01)),
    lambda t, fall=fall: wsd(t, fall),
  )
said(
  *(
    112,
    'defaults',
    'docs/wsd.md',
    '`lr_min=1e-06`',
    '`decay_phase_ratio=0.1`',
  ),
  *('`use_inverse_sqrt_decay=True`', 'None is 10 % of the steps'),
)


def wsd_chain(checkpoints, steps):
  cycle = Cycle(warmup_factor=0.0, decay=WSD(checkpoints, decay=0.1))
  return jax_lr_schedule(steps, (cycle,), 1.0)


for number, name in {
  113: 'num_checkpoints',
  115: 'get_checkpoint_steps',
}.items():

  @row(number, name)
  def _():
    found = [checkpoint_steps(wsd_chain(n, 200_000)) for n in (3, 4)]
    assert found == [
      (50_000, 100_000, 200_000),
      (25_000, 50_000, 100_000, 200_000),
    ]


held_by(
  *(114, 'is_continuation_from_checkpoint'),
  'loop/test_wsd_page.py::test_the_code_of_the_page_goes_on_without_a_warm_up',
)


@row(116, 'get_phase_info, get_decay_info')
def _():
  # From 500 to 1,000, a tenth of it the decay.
  period = period_at(wsd_chain(2, 1000), 960)
  found = period.start, period.end, period.decay_steps, period.pre_decay_step
  assert found == (500, 1000, 50, 950)
  assert period.phase(949) == 'stable' != period.phase(950) == 'decay'


held_by(
  *(116, 'get_phase_info, get_decay_info'),
  'views/test_plans.py::test_phases_and_checkpoints_of_a_plan',
)
said(117, 'WSDCheckpointCallback', 'docs/wsd.md', '`WSDCheckpointCallback`')
said(118, 'StatefulSchedulerBase', 'docs/thesis.md', '`StatefulSchedulerBase`')
# gamma at epochs 2, 4 and 5 of 10, of 20 steps each.
shaped(
  *(119, 'MilestoneLrScheduler', StepDecay(0.5, at=(0.2, 0.4, 0.5))),
  lambda t: 0.5 ** sum(t // 20 >= epoch for epoch in (2, 4, 5)),
)
# gamma after every 40 steps.
shaped(
  *(120, 'StepWdScheduler', Multiplicative((1.1,) * 5)),
  lambda t: 1.1 ** (t // 40),
)


# 121 to 168: Cerebras.

said(121, 'Optimizer', 'docs/thesis.md', '`preinitialize`, `step`')
said(122, 'hooks', 'docs/thesis.md', '`zero_grad`, `state_dict`')
for number, name, of in ((123, 'Adam, AdamW', 35), (124, 'NAdam', 37)):
  for check in ROWS[of][1]:
    add(number, name, check)
said(
  *(125, 'other optimizers', 'docs/own_loop.md', '`adadelta`', '`adafactor`'),
  *('`adagrad`', '`adamax`', '`lamb`', '`lion`', '`radam`', '`rmsprop`'),
)
held_by(125, 'other optimizers', f'{OPTAX}_reset')
said(126, 'Rprop', 'docs/own_loop.md', '`rprop`, `scale_by_rprop`: refused')
held_by(126, 'Rprop', 'loop/test_optax.py::test_it_is_refused_with_a_way_out')
said(127, 'ASGD', 'docs/thesis.md', '| `ASGD` | an average of the weights')
said(128, 'configure_optimizer', 'docs/thesis.md', '`configure_optimizer`')
held_by(
  *(128, 'configure_optimizer'),
  'views/test_settings_json.py::test_what_a_run_writes_is_read_back',
)
for number, name in {129: 'adjust_learning_rate', 130: 'Scheduler'}.items():
  said(number, name, 'docs/own_loop.md', f'`{name}`')
  held_by(number, name, 'loop/test_schedules.py::test_the_groups_of_the_page')
shaped(131, 'ConstantLR', Constant(), lambda t: 1.0)
for power in (0.5, 1.0, 2.0):
  shaped(
    *(132, 'PolynomialLR', Polynomial(end=0.1, power=power, share=0.5)),
    lambda t, p=power: 0.1 + 0.9 * (1 - min(t / 100, 1)) ** p,
  )
# Over 50 n steps, n the smallest whole number that has not passed.
shaped(
  *(133, 'PolynomialLR, cycle', Polynomial(share=0.25, power=2, cycle=True)),
  lambda t: (1 - t / (50 * max(math.ceil(t / 50), 1))) ** 2,
)
shaped(134, 'LinearLR', Linear(floor=0.1), lambda t: 0.1 + 0.9 * (1 - t / 200))
shaped(
  *(135, 'ExponentialLR', Exponential(0.5, share=0.15)),
  lambda t: 0.5 ** (t / 30),
)
shaped(
  *(135, 'ExponentialLR', Exponential(0.5, share=0.15, staircase=True)),
  lambda t: 0.5 ** (t // 30),
)
for exponent in (1, 2):
  for stairs, whole in ((False, float), (True, math.floor)):
    shaped(
      *(136, 'InverseExponentialTimeDecayLR'),
      InverseTime(0.5, exponent, share=0.25, staircase=stairs),
      lambda t, e=exponent, w=whole: 1 / (1 + 0.5 * w((t / 50) ** e)),
    )
# As a share of its value in the first 10 steps, scale / sqrt(10).
shaped(
  *(137, 'InverseSquareRootDecayLR', InversePower(hold=0.05)),
  lambda t: math.sqrt(10) / math.sqrt(max(t, 10)),
)
shaped(
  *(138, 'CosineDecayLR', Cosine(floor=0.2)),
  lambda t: 0.2 + 0.8 * half_cosine(t / 200),
)
shaped(
  *(139, 'SequentialLR'),
  Sequential((LinearWarmup(), Constant(), Linear()), at=(0.2, 0.6)),
  lambda t: t / 40 if t < 40 else 1.0 if t < 120 else (200 - t) / 80,
)
shaped(
  *(140, 'PiecewiseConstantLR'),
  PiecewiseConstant((1, 0.5, 0.2), at=(0.1, 0.25)),
  lambda t: 1 if t < 20 else 0.5 if t < 50 else 0.2,
)
shaped(
  *(141, 'MultiStepLR', StepDecay(0.3, at=(0.05, 0.15))),
  lambda t: 0.3 ** ((t >= 10) + (t >= 30)),
)
shaped(
  *(142, 'StepLR', Exponential(0.5, share=0.1, staircase=True)),
  lambda t: 0.5 ** (t // 20),
)
shaped(
  *(143, 'CosineAnnealingLR', CosineAnnealing(floor=0.1, share=0.25)),
  lambda t: 0.1 + 0.9 * half_cosine(t / 50),
)
shaped(
  *(144, 'CosineAnnealingWarmRestarts', CosineWarmRestarts(4, floor=0.1)),
  lambda t: 0.1 + 0.9 * half_cosine(t % 50 / 50),
)
shaped(
  *(145, 'LambdaLR', Lambda(lambda x: 0.98 ** (200 * x))),
  lambda t: 0.98**t,
)
shaped(
  *(146, 'MultiplicativeLR', Exponential(0.98, share=1 / 200)),
  lambda t: 0.98**t,
)
shaped(
  *(146, 'MultiplicativeLR, any factor'),
  Multiplicative(tuple(1 - 1 / (i + 9) for i in range(1, 201))),
  # The product telescopes: 9/10 * 10/11 * ...
  lambda t: 9 / (t + 9),
)
shaped(
  *(147, 'ChainedScheduler', Chained((Linear(), Exponential(0.5)))),
  lambda t: (1 - t / 200) * 0.5 ** (t / 200),
)


def triangle(t, scale):
  """Cycles of 20 steps up and 30 down, from .1; scale of t and the n-th one."""
  height = min(t % 50 / 20, (50 - t % 50) / 30)
  return 0.1 + 0.9 * height * scale(t, t // 50 + 1)


for number, mode, more, scale in (
  (148, 'triangular', {}, lambda t, n: 1),
  (148, 'triangular2', {}, lambda t, n: 0.5 ** (n - 1)),
  (148, 'exp_range', {'gamma': 0.99**200}, lambda t, n: 0.99**t),
  (
    *(149, 'exp_range', {'gamma': 0.9, 'scale_mode': 'cycle'}),
    lambda t, n: 0.9**n,
  ),
):
  shaped(
    *(number, f'CyclicLR, {mode}'),
    Triangular(4, rise=0.4, floor=0.1, mode=mode, **more),
    lambda t, scale=scale: triangle(t, scale),
  )


def one_cycle(t, levels, turns, way):
  """From level to level between turns."""
  for (a, b), (begin, end) in zip(
    itertools.pairwise(levels), itertools.pairwise([0, *turns, 200])
  ):
    if t < end:
      return b + (a - b) * way((t - begin) / (end - begin))
  raise AssertionError(t)


for anneal, way in (('cosine', half_cosine), ('linear', lambda x: 1 - x)):
  shaped(
    *(150, 'OneCycleLR, two phases', OneCycle(rise=0.3, anneal=anneal)),
    lambda t, way=way: one_cycle(t, (0.04, 1, 4e-6), (60,), way),
  )
  shaped(
    *(150, 'OneCycleLR, three phases'),
    OneCycle(rise=0.3, anneal=anneal, three_phase=True),
    lambda t, way=way: one_cycle(t, (0.04, 1, 0.04, 4e-6), (60, 120), way),
  )
WEIGHT_DECAYS = (
  *('Constant', 'Polynomial', 'Linear', 'Exponential'),
  *('InverseExponentialTimeDecay', 'InverseSquareRootDecay', 'CosineDecay'),
  *('Sequential', 'PiecewiseConstant', 'MultiStep', 'Step'),
  *('CosineAnnealing', 'Lambda', 'CosineAnnealingWarmRestarts'),
  *('Multiplicative', 'Chained', 'Cyclic', 'OneCycle'),
)
for number, name in enumerate(WEIGHT_DECAYS, 151):
  said(
    number, f'{name}WD', 'tests/shapes/test_weight_decay.py', f"'{name}WD': ("
  )
  held_by(
    *(number, f'{name}WD'),
    'shapes/test_weight_decay.py::test_every_scheduler_of_the_weight_decay',
  )


# The card.


@row('top level', 'the files that the card names')
def _():
  names = 'submission.py schedule_params.py soft_reset.py early_switching.py'
  for name in [*names.split(), 'README.md', 'pyproject.toml', 'tests']:
    assert (ROOT / name).exists(), name


@row('tuning_search_space.json', 'a point of it, in force')
def _():
  space = json.loads((ROOT / 'tuning_search_space.json').read_text())
  lowest = {
    name: min(given.get('feasible_points', [given.get('min')]))
    for name, given in space.items()
  }
  found = tuned(SCHEDULE_PARAMS, lowest)
  assert found.relative_peak.share == space['relative_peak__share']['min']
  assert found.optimizer.weight_decay == space['weight_decay']['min']
  assert found != SCHEDULE_PARAMS


held_by(
  *('tuning_search_space.json', 'a point of it, in force'),
  'mini_algoperf/test_tuning.py::'
  'test_the_settings_in_force_take_the_search_space_of_the_root',
)


@row('packages', 'the packages that the card names')
def _():
  text = (ROOT / 'pyproject.toml').read_text()
  for name in 'jax jaxlib optax flax numpy matplotlib absl-py'.split():
    assert re.search(rf'"{name}[>=]', text), name


@row('submission_runner.py', 'on OGBG and WMT, reduced')
def _():
  logs = real_logs.read()
  for data, workload in ('molecules', 'ogbg'), ('sentences', 'wmt'):
    assert real_runs.CASES[data].workload == workload
    for entry in 'soft_reset', 'soft_reset_muon':  # the latter is in force
      found = [
        points
        for run, points in logs.items()
        if (run.data, run.clock, run.entry) == (data, 'counted', entry)
      ]
      assert found, (data, entry)
      for points in found:  # it has learnt
        assert points[-1].loss < points[0].loss
        assert points[-1].metric > points[0].metric


@row(74, 'THESIS on OGBG and WMT, reduced, in the real runner')
def _():
  best = {}
  for run, points in real_logs.read().items():
    if (run.clock, run.entry, run.seed) == ('counted', 'thesis', 1):
      best[run.data] = max(point.metric for point in points)
  assert best['molecules'] >= 0.355  # which THESIS reaches
  assert 0 < best['sentences'] < 12  # and this it does not


said(
  *('submission_runner.py', 'reduced', 'research/real_runner/README.md'),
  'No number here is a result of AlgoPerf.',
)
held_by(
  *('submission_runner.py', 'on WMT, reduced'),
  'on_algoperf/test_smaller_wmt.py::test_a_step_and_its_evaluation',
)
for check in ROWS[22][1]:
  add('update_params', 'calls model_reinit_schedule', check)


@row('S(t)', 'triggers early switching')
def _():
  assert (
    isinstance(THESIS.switching, SmoothedLossRule) and THESIS.early_switching
  )
  assert isinstance(SCHEDULE_PARAMS.switching, Progress)


said(
  *('S(t)', 'triggers early switching', 'README.md'),
  'S(t) would abandon 23 % of the [recorded runs]',
)
CARD = {
  *('top level', 'packages', 'update_params', 'S(t)'),
  *('tuning_search_space.json', 'submission_runner.py'),
}


@pytest.mark.parametrize(
  'check',
  [
    pytest.param(check, id=f'{number} {name}')
    for number, (name, checks) in ROWS.items()
    for check in checks
  ],
)
def test_a_row(check):
  check()


def test_no_row_is_missing():
  assert set(ROWS) == {*range(1, 169), *CARD}
