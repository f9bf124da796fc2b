"""Random configurations, accidents and damages, and what must hold in spite.

`make chaos` draws more of each, and others every time.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import tempfile
import unittest.mock

import hypothesis
import jax
import numpy as np
import pytest
from hypothesis import strategies as st

import chaos
import reference
from reset_cycles.schedule_params import THESIS, ScheduleParams, check_plan
from reset_cycles.schedules.lr_schedule import lay_out
from reset_cycles.settings.hparams import Hparams
from reset_cycles.studies.runs import rates
from reset_cycles.studies.runs.log import read_log
from reset_cycles.training import records
from reset_cycles.training.events import read_events
from runs import assert_equal_trees

STEP_HINT = 12
# Times as many examples as in the suite, and others every time.
TIMES = int(os.environ.get('CHAOS', '1'))


def examples(few):
  """So many examples, always the same ones but in `make chaos`."""
  checks = hypothesis.HealthCheck
  return hypothesis.settings(
    max_examples=few * TIMES,
    derandomize=TIMES == 1,
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
    database=None,
    deadline=None,
    suppress_health_check=[checks.too_slow, checks.function_scoped_fixture],
  )


# What a user, a file or a bug may hand over.
_LEAVES = st.one_of(
  st.none(),
  st.booleans(),
  st.integers(-3, 10**30),
  st.floats(),
  st.text(max_size=3),
  st.binary(max_size=2),
  st.sampled_from(['cosine', 'thesis', 'linear', object()]),
)
_ANYTHING = st.recursive(
  _LEAVES,
  lambda inner: st.one_of(
    st.lists(inner, max_size=4),
    st.dictionaries(st.sampled_from(['name', 'lam', 'x', 'floor']), inner),
  ),
  max_leaves=5,
)
_OWN = [f.name for f in dataclasses.fields(ScheduleParams)]
_INNER = [f.name for f in dataclasses.fields(Hparams)]


@examples(300)
@hypothesis.given(field=st.sampled_from(_OWN + _INNER), value=_ANYTHING)
def test_what_is_no_setting_is_refused_by_name(field, value):
  """In one line, before any training."""
  try:
    if field in _OWN:
      params = dataclasses.replace(THESIS, **{field: value})
    else:
      hparams = dataclasses.replace(THESIS.hparams, **{field: value})
      params = dataclasses.replace(THESIS, hparams=hparams)
    check_plan(STEP_HINT, params)
  except ValueError as e:
    words = [field, 'lists of a chain', 'step_hint', 'decays[', 'alter_']
    assert any(word in str(e) for word in words), e
    assert '\n' not in str(e)


def made(fields):
  """The configuration; None where the fields do not fit, which names one."""
  try:
    params = ScheduleParams(**fields)
    check_plan(STEP_HINT, params)
  except ValueError as e:
    assert any(name in str(e) for name in [*fields, 'step_hint']), e
    return None
  return params


def run_it(fields, generation, fate, folder, save_at):
  """Trains to the end or beyond the plan, and saves at a step before."""
  params, saved = made(fields), None
  limit = reference.horizon(STEP_HINT, params) + 6
  with unittest.mock.patch.object(records, 'find_folder', lambda _: folder):
    try:
      driver = chaos.ChaosDriver(params, generation, STEP_HINT, fate)
    except ValueError as e:  # refused for what only the set-up knows
      assert any(f'{name}=' in str(e) for name in fields), e
      hypothesis.reject()
  completes = driver.run(until=save_at)
  if not completes:
    saved = (*driver.save(), bool(driver.optimizer_state[1].kept))
    completes = driver.run(until=limit)
  return driver, completes, saved


@pytest.fixture
def warnings(caplog):
  """What is survived here is no fault: a logger may raise."""
  return caplog


@pytest.mark.usefixtures('warnings')
@examples(4)
@hypothesis.given(data=st.data())
def test_runs(data):
  """A configuration that is accepted trains on through all accidents."""
  fields = data.draw(chaos.configurations().filter(made))
  params = made(fields)
  horizon = reference.horizon(STEP_HINT, params)
  fate = data.draw(chaos.accidents(horizon + 6))
  generation = data.draw(st.sampled_from(chaos.GENERATIONS))
  save_at = data.draw(st.integers(1, horizon - 1))
  with (
    chaos.on_devices(data.draw(st.sampled_from([1, 2, 8]))),
    tempfile.TemporaryDirectory() as name,
  ):
    folder = pathlib.Path(name)
    driver, completes, saved = run_it(fields, generation, fate, folder, save_at)
    hypothesis.note(str(read_events(folder)))
    check_plan_was_kept(folder, params, driver, completes)
    check_rates(folder, params, driver.global_step)
    check_arrays(driver)
    check_evaluations(folder, driver, completes, fate)
    check_recovery(folder, params, driver, fate)
    if saved:
      check_resumed(folder, driver, completes, saved, fields, fate)


def check_plan_was_kept(folder, params, driver, completes):
  """Cycles fill the budget to its last step, however often they were left."""
  horizon = reference.horizon(STEP_HINT, params)
  events = read_events(folder)
  assert completes == ('finish' in [event['event'] for event in events])
  if not completes:
    assert driver.global_step == horizon + 6
  starts = [e for e in events if e['event'] == 'cycle_start']
  ends = [int(e['global_step']) for e in starts[1:]]
  lengths = np.diff([0, *ends, int(starts[-1]['cycle_end'])])
  assert np.all(lengths > 0)
  if params.horizon != 'steps' or len(starts) > params.num_cycles:
    return
  last = [e for e in events if e['event'] in ('cycle_start', 'clock')][-1]
  if len(starts) == params.num_cycles:
    assert int(last['cycle_end']) == sum(lengths) == horizon
  left_early = events[-2]['event'] == 'switch'
  assert not completes or left_early or driver.global_step == horizon


def check_rates(folder, params, steps):
  """Finite, at least 0, and at most their cycle's peak; at all steps."""
  cycles = lay_out(STEP_HINT, params)
  log = read_log(folder / 'cycles.csv')
  anchors = rates.read_anchors(log, len(cycles))
  at, values = rates.at_all_steps(STEP_HINT, params, anchors, steps)
  assert at.tolist() == list(range(steps))
  assert np.all(np.isfinite(values) & (values >= 0))
  peaks = np.float32([cycles[a.setting].peak * a.scale for a in anchors])
  which = np.searchsorted([a.step for a in anchors], at, side='right') - 1
  assert np.all(values <= peaks[which] * (1 + 1e-6))


def check_arrays(driver):
  """The second moment is at least 0, and replicas are identical."""
  state = driver.optimizer_state[0]
  for path, leaf in jax.tree_util.tree_flatten_with_path(state)[0]:
    if '.nu' in jax.tree_util.keystr(path):
      values = np.asarray(leaf, np.float32)
      assert np.all((values >= 0) | np.isnan(values))
  trees = (state, driver.params, driver.model_state)
  for leaf in jax.tree_util.tree_leaves(trees):
    first, *others = [np.asarray(s.data) for s in leaf.addressable_shards]
    assert all(first.tobytes() == other.tobytes() for other in others)


def check_evaluations(folder, driver, completes, fate):
  """None that update_params was shown is lost, none is there twice."""
  rows = [e for e in read_events(folder) if e['event'] == 'evaluation']
  found = [int(row['metric_step']) for row in rows]
  expected = []
  # The step that found that all is over was shown its evaluations, too.
  for step in range(driver.global_step + completes):
    entries = [(s, {}) for s in fate.evaluations if s <= step]
    if chaos.show(entries, fate.shown.get(step)):
      expected += [s for s, _ in entries if s > max(expected, default=-1)]
  if 'twice' in fate.shown.values():  # a new entry may then hide for a while
    assert found == sorted(set(found)) and set(found) <= set(expected)
  else:
    assert found == expected


def check_recovery(folder, params, driver, fate):
  """After a reset nothing is left of a batch that was not finite."""
  if params.reset_mode == 'cyclic':
    return
  resets = [
    int(e['global_step'])
    for e in read_events(folder)
    if e['event'] == 'reset' and e['tau'] == '1.0'
  ]
  if resets and resets[-1] > max(fate.poisoned, default=-1):
    for leaf in jax.tree_util.tree_leaves((driver.params, driver.model_state)):
      assert np.all(np.isfinite(np.asarray(leaf, np.float32)))


def check_resumed(folder, driver, completes, saved, fields, fate):
  """Killed and resumed: the same events and the same arrays.

  Models that were kept on the host are lost with the process, which may change
  what the next cycle is and starts from (`control.policies.further`, `race`).
  """
  *saved, has_kept = saved
  events, text = read_events(folder), (folder / 'cycles.csv').read_text()
  generation = driver.workload.generation
  with unittest.mock.patch.object(records, 'find_folder', lambda _: folder):
    resumed = chaos.ChaosDriver(made(fields), generation, STEP_HINT, fate)
  resumed.restore(saved)
  starts = [
    int(event['global_step'])
    for event in events
    if event['event'] in ('reset', 'finish')
    and int(event['global_step']) >= resumed.global_step
  ]
  if has_kept and starts:
    resumed.run(until=starts[0])
    assert before(starts[0], read_events(folder)) == before(starts[0], events)
    return
  assert resumed.run(until=driver.global_step + completes) == completes
  assert (folder / 'cycles.csv').read_text() == text
  trees = [
    (one.params, one.model_state, one.optimizer_state[0])
    for one in (resumed, driver)
  ]
  if has_kept:  # the control knows what is lost
    trees = [(*rest, state._replace(control=())) for *rest, state in trees]
  assert_equal_trees(*trees)


def before(step, events):
  return [event for event in events if int(event['global_step']) < step]
