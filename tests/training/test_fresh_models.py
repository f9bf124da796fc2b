"""Fresh models: when they are made, that few are held, and whether they fit."""

from __future__ import annotations

import dataclasses
import gc
import inspect
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tiny
from reset_cycles import submission
from reset_cycles.control.history import UNBEGUN
from reset_cycles.training.devices import JitDevices, PmapDevices
from reset_cycles.training.events import read_events
from reset_cycles.training.fresh_models import FreshModels
from runs import GENERATIONS, PARAMS, SWITCHING

DEVICES = {'jit': JitDevices, 'pmap': PmapDevices}


def counting(generation):
  """A workload that counts its initialisations where nothing is put back."""

  class Counting(tiny.WORKLOADS[generation]):
    inits = []

    def _init(self, rng):
      self.inits.append(rng)
      return super()._init(rng)

  return Counting()


def make(planned=2, generation='jit', workload=None, seed=1):
  workload = workload or counting(generation)
  devices = DEVICES[generation]()
  fresh = FreshModels(workload, jax.random.PRNGKey(seed), planned, devices)
  return fresh, workload


def kernel(model):
  return model[0]['kernel']


@pytest.mark.parametrize('generation', GENERATIONS)
def test_host_arrays_without_device_axis(generation):
  params, model_state = make(generation=generation)[0].take(0)
  assert params['kernel'].shape == (6, 2)
  assert params['bias'].shape == (2,)
  assert model_state['mean'].shape == (6,)
  leaves = jax.tree_util.tree_leaves((params, model_state))
  assert all(isinstance(leaf, np.ndarray) for leaf in leaves)


@pytest.mark.parametrize(
  ('planned', 'made'), [(0, 0), (1, 1), (2, 2), (3, 2), (40, 2)]
)
def test_how_many_are_made_before_the_first_step(planned, made):
  assert len(make(planned)[1].inits) == made


def test_the_thesis_resets_make_and_compile_nothing(compilations):
  fresh, workload = make(planned=2)
  with compilations() as compiled:
    fresh.take(0)
    fresh.take(1)
  assert len(workload.inits) == 2
  assert compiled == []


def test_later_ones_are_made_when_they_are_taken():
  fresh, workload = make(planned=3)
  tape = []
  for i in range(5):  # two more than planned
    fresh.take(i)
    tape.append(len(workload.inits))
  assert tape == [2, 2, 3, 4, 5]


@pytest.mark.parametrize('planned', [0, 1, 2, 3])
def test_the_same_index_gives_the_same_model_and_each_its_own(planned):
  straight, _ = make(planned)
  models = [kernel(straight.take(i)) for i in range(5)]
  resumed, _ = make(planned)
  for i in (3, 4, 1, 0, 2):
    np.testing.assert_array_equal(kernel(resumed.take(i)), models[i])
  assert len({model.tobytes() for model in models}) == 5
  other, _ = make(planned, seed=2)
  assert kernel(other.take(0)).tobytes() != models[0].tobytes()


def test_a_model_of_the_plan_is_that_of_its_key():
  """That of the runs whose logs are kept: split once for the planned resets."""
  fresh, workload = make(planned=3)
  keys = jax.random.split(jax.random.PRNGKey(1), 3)
  for i, key in enumerate(keys):
    expected, _ = workload.init_model_fn(key)
    np.testing.assert_array_equal(kernel(fresh.take(i)), expected['kernel'])


def test_what_was_taken_is_freed():
  fresh, _ = make(planned=4)
  for i in range(4):
    model = fresh.take(i)
    leaf = weakref.ref(kernel(model))
    assert leaf() is not None
    del model
    gc.collect()
    assert leaf() is None


def test_a_resumed_run_does_not_keep_what_it_is_past():
  fresh, workload = make(planned=2)
  fresh.take(1)
  assert len(workload.inits) == 2
  fresh.take(0)  # was let go, and is made anew
  assert len(workload.inits) == 3


@pytest.mark.parametrize('generation', GENERATIONS)
def test_the_workload_is_left_as_it_was(generation):
  workload = tiny.WORKLOADS[generation]()
  workload.init_model_fn(jax.random.PRNGKey(0))
  workload.dropout_of_model = 0.3  # the runner's, with which it built the model
  before = dict(vars(workload))
  fresh, _ = make(2, generation, workload)
  assert vars(workload) == before
  fresh.take(7)
  assert vars(workload) == before


def test_the_workload_is_left_as_it_was_by_a_failure():
  class Failing(tiny.TinyWorkload):
    def init_model_fn(self, rng):
      self.dropout_of_model = 0.7
      raise MemoryError

  workload = Failing()
  with pytest.raises(MemoryError):
    make(1, workload=workload)
  assert workload.dropout_of_model is None


# Whether a fresh model fits the one that is trained.


def live(generation, params, model_state):
  return DEVICES[generation]().put((params, model_state))


def zeros(**shapes):
  return {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}


LIVE = zeros(kernel=(6, 2), bias=(2,))


@pytest.fixture
def warnings(caplog):
  caplog.set_level('WARNING', logger='absl')
  return lambda: [r.getMessage() for r in caplog.records]


@pytest.mark.parametrize('generation', GENERATIONS)
@pytest.mark.parametrize(
  'model_state',
  [
    zeros(mean=(6,)),
    # As in the benchmark's speech workloads, after the first step.
    {'stats': zeros(mean=(1, 1, 6))},
  ],
)
def test_statistics_of_equal_size_fit(generation, model_state, warnings):
  fresh, _ = make(3, generation)
  fresh.check_shapes(*live(generation, LIVE, model_state))
  for i in range(3):
    assert fresh.take(i)[1]['mean'].shape == (6,)
  assert warnings() == []


@pytest.mark.parametrize('generation', GENERATIONS)
@pytest.mark.parametrize(
  ('model_state', 'said'),
  [
    (zeros(mean=(3,)), "['mean'] has shape (3,), but (6,) in a fresh model"),
    (
      zeros(mean=(6,), var=(6,)),
      "no fresh model has ['var']",
    ),
    ({}, "only a fresh model has ['mean']"),
  ],
)
def test_without_statistics_where_only_they_are_wrong(
  generation, model_state, said, warnings
):
  fresh, _ = make(3, generation)
  fresh.check_shapes(*live(generation, LIVE, model_state))
  fresh.check_shapes(*live(generation, LIVE, model_state))
  for i in range(4):
    params, fresh_state = fresh.take(i)
    assert params['kernel'].shape == (6, 2)
    assert fresh_state is None
  assert warnings() == [
    "init_model_fn's batch statistics do not match those that are trained: "
    f'{said}. Resets leave the statistics as they are.'
  ]


def test_statistics_that_only_the_first_step_adds_are_no_fault(warnings):
  class Adding(tiny.TinyWorkload):
    def _init(self, rng):
      return super()._init(rng)[0], {}

  fresh, _ = make(workload=Adding())
  fresh.check_shapes(*live('jit', LIVE, zeros(mean=(6,))))
  assert fresh.take(0)[1] == {}
  assert warnings() == []


@pytest.mark.parametrize('generation', GENERATIONS)
def test_parameters_that_do_not_fit_are_named(generation):
  fresh, _ = make(2, generation)
  params = zeros(kernel=(5, 2), bias=(2,))
  with pytest.raises(
    ValueError,
    match=r"init_model_fn's parameters do not match those that are trained: "
    r"\['kernel'\] has shape \(5, 2\), but \(6, 2\) in a fresh model\.",
  ):
    fresh.check_shapes(*live(generation, params, zeros(mean=(6,))))


def test_a_model_that_is_made_later_is_checked_when_it_is_taken(warnings):
  fresh, _ = make(planned=0)
  fresh.check_shapes(*live('jit', LIVE, zeros(mean=(3,))))
  assert warnings() == []  # there was nothing to compare with
  assert fresh.take(0)[1] is None
  assert len(warnings()) == 1


def confused(generation):
  """A workload whose init_model_fn hands the parameters back as statistics.

  As the current benchmark's cifar; its model_fn returns the right ones.
  """

  class Confused(tiny.WORKLOADS[generation]):
    def _init(self, rng):
      params, _ = super()._init(rng)
      # Copies, since both will be donated.
      return params, jax.tree_util.tree_map(jnp.copy, params)

    def model_fn(self, params, batch, model_state, *args, **kwargs):
      state = {'mean': model_state.get('mean', np.zeros(6, np.float32))}
      return super().model_fn(params, batch, state, *args, **kwargs)

    if generation == 'jit':
      # The signature tells the generation.
      model_fn.__signature__ = inspect.signature(tiny.TinyWorkload.model_fn)

  return Confused()


# The statistics of the first step cannot take the place of the donated ones.
@pytest.mark.filterwarnings('ignore:Some donated buffers were not usable')
@pytest.mark.parametrize('generation', GENERATIONS)
def test_a_run_with_wrong_statistics_says_so_and_goes_on(
  folder, generation, warnings
):
  functions = submission.make_submission(PARAMS)
  driver = tiny.Driver(functions, confused(generation), SWITCHING)
  driver.step()
  (text,) = [t for t in warnings() if 'init_model_fn' in t]
  assert "trained: ['mean'] has shape (6,), but (2,) in a fresh model." in text
  assert driver.run()
  resets = [e for e in read_events(folder) if e['event'] == 'reset']
  assert [reset['global_step'] for reset in resets] == ['3', '8']
  assert all(float(reset['tau']) > 0 for reset in resets)
  assert len([t for t in warnings() if 'init_model_fn' in t]) == 1


@pytest.mark.parametrize('generation', GENERATIONS)
def test_set_up_makes_them_while_the_parameters_are_alone(generation):
  """An initialisation may need several times the room of its model."""
  lying = []

  class Watching(tiny.WORKLOADS[generation]):
    def init_model_fn(self, *rates):
      shapes = [x.shape[-2:] for x in jax.live_arrays() if not x.is_deleted()]
      lying.append(shapes.count((tiny.NUM_INPUTS, tiny.NUM_OUTPUTS)))
      return super().init_model_fn(*rates)

  params = dataclasses.replace(PARAMS, optimizer='schedule_free_adamw')
  tiny.Driver(submission.make_submission(params), Watching(), {})
  # The runner's parameters, and the same as the run lays them out. (On a CPU
  # the host's copy of the first fresh model lies there for the second one, too.)
  before_run, before_fresh, _ = lying
  assert before_fresh - before_run <= 2


@pytest.mark.parametrize(('enough', 'metric'), [(None, 0.0), (0.3, 0.4)])
def test_a_race_has_made_all_that_it_takes(enough, metric):
  """Also where the first one goes on alone, and diverges only then."""
  policy = {'name': 'race', 'probes': 3, 'rounds': [0.1], 'enough': enough}
  params = dataclasses.replace(PARAMS, policy=policy)
  seen = {step: (1.0, metric) for step in range(1, 12)}
  seen[12] = (float('nan'), 0.0)
  workload = counting('jit')
  driver = tiny.Driver(submission.make_submission(params), workload, seen)
  made = len(workload.inits)
  assert made == 1 + 2 + (enough is not None)  # the runner's own
  driver.run(until=20)
  modes = [one.state for one in driver.optimizer_state[1].control.history[:3]]
  assert UNBEGUN not in modes
  assert len(workload.inits) == made
