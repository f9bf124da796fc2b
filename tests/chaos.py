"""What `test_chaos` draws: configurations, workloads, devices and accidents."""

from __future__ import annotations

import contextlib
import dataclasses
import unittest.mock

import flax
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

import shape_examples
import tiny
from reset_cycles import submission
from reset_cycles.schedule_params import PARTS
from reset_cycles.settings.hparams import HPARAMS
from reset_cycles.settings.named import REQUIRED

NAN, INF = float('nan'), float('inf')
GENERATIONS = ('jit', 'pmap')


def mixed(generation):
  """A workload with leaves of other types, without elements, and None."""
  base = tiny.WORKLOADS[generation]

  class Mixed(base):
    max_allowed_runtime_sec = 60.0

    def _init(self, rng):
      params, stats = super()._init(rng)
      params = {
        **params,
        'half': jax.random.normal(rng, (3,)).astype(jnp.bfloat16),
        'no_elements': jnp.zeros((0, 4)),
        'no_leaves': {},
        'none': None,
      }
      stats = {
        **stats,
        'count': jnp.int32(0),
        'half': jnp.zeros(2, jnp.bfloat16),
        'none': None,
        'no_leaves': (),
      }
      self.param_shapes = jax.tree_util.tree_map(
        lambda x: tiny.ShapeTuple(x.shape), params
      )
      return params, stats

    def model_fn(self, params, batch, state, mode, rng, update_batch_norm):
      logits, new = super().model_fn(
        params, batch, state, mode, rng, update_batch_norm
      )
      shift = jnp.sum(params['half'].astype(jnp.float32))
      state = {**state, **new, 'count': state['count'] + 1}
      return logits + 0.01 * shift, state

  return Mixed


@contextlib.contextmanager
def on_devices(count):
  """As if there were the first `count` devices alone."""
  some = jax.devices()[:count]
  with unittest.mock.patch.multiple(
    jax,
    devices=lambda *_: some,
    local_devices=lambda *_, **__: some,
    device_count=lambda *_: count,
    local_device_count=lambda *_: count,
  ):
    yield


def _parts(field):
  """Settings of a part that need no parameters, those of later days too."""
  registry = PARTS[field]
  return st.sampled_from(
    sorted(
      name
      for name in registry
      if all(
        p.default is not REQUIRED for p in registry[name].parameters.values()
      )
    )
  )


@st.composite
def configurations(draw):
  """Fields of ScheduleParams; they need not fit together."""
  n = draw(st.integers(1, 4))

  def each(strategy):
    return tuple(draw(strategy) for _ in range(n))

  with_weight_decay = draw(st.booleans())
  return {
    'warmups': each(st.sampled_from(shape_examples.WARMUPS)),
    'decays': each(st.sampled_from(shape_examples.DECAYS)),
    'alter_lr': each(st.sampled_from([0.0, 0.002, -0.001, 0.008])),
    'alter_warmup': each(st.sampled_from([0.0, 0.1, 0.5])),
    'lengths': each(st.sampled_from([0.3, 1.0, 1.7, 4.0])),
    'budget_factor': draw(st.sampled_from([0.5, 1.0, 1.7, 2.0])),
    'reset_mode': draw(
      st.sampled_from(['soft', 'soft', 'full', 'kept_momentum', 'cyclic'])
    ),
    'alpha': draw(st.floats(0, 1)),
    'early_switching': draw(st.booleans()),
    **{field: draw(_parts(field)) for field in PARTS},
    'hparams': dataclasses.replace(
      HPARAMS,
      one_minus_beta1=draw(st.sampled_from([0.05, 0.5])),
      weight_decay=draw(st.sampled_from([0.0, 0.1])),
      grad_clip=draw(st.sampled_from([None, 0.5])),
      label_smoothing=draw(st.sampled_from([0.0, 0.2])),
    ),
    'weight_decays': each(st.just('ratio')) if with_weight_decay else (),
  }


_VALUES = st.one_of(
  st.floats(0, 2),
  st.sampled_from([NAN, INF, -INF, 0.0, -1.0, 1e30, 1e39, 5e-324]),
)
# How the runner shows its evaluations before a step.
_SHOWN = st.sampled_from(
  [
    'as they are',
    'as they are',
    'backwards',
    'twice',
    'none',
    'empty',
    'mangled',
  ]
)


@dataclasses.dataclass(frozen=True)
class Accidents:
  """What befalls a run of so many steps.

  Attributes:
    evaluations: after how many steps -> (loss, metric, seconds or None).
    shown: step -> how the list of evaluations looks before it.
    poisoned: steps whose batch is not finite.
    logger_raises: whether the benchmark's logger does.
  """

  evaluations: dict
  shown: dict
  poisoned: frozenset
  logger_raises: bool


@st.composite
def accidents(draw, steps):
  """Evaluations, clocks and batches that may all be wrong."""
  seen = draw(st.lists(st.integers(1, steps), unique=True, max_size=12))
  # A clock may stand still, go backwards or be no number.
  seconds = st.one_of(
    st.none(), st.floats(-10, 70), st.sampled_from([NAN, INF])
  )
  return Accidents(
    {s: (draw(_VALUES), draw(_VALUES), draw(seconds)) for s in sorted(seen)},
    {s: draw(_SHOWN) for s in draw(st.sets(st.integers(1, steps), max_size=6))},
    draw(st.frozensets(st.integers(0, steps - 1), max_size=1)),
    draw(st.booleans()),
  )


class _Raises:
  """A metrics logger that fails at every call, and whatever is asked of it."""

  def append_scalar_metrics(self, metrics, global_step):
    raise RuntimeError('no room in the log')


class ChaosDriver(tiny.Driver):
  """The benchmark's loop, with accidents."""

  def __init__(self, params, generation, step_hint, fate):
    workload = mixed(generation)(step_hint)
    if fate.logger_raises:
      workload.metrics_logger = _Raises()
    self.fate, self.entries = fate, []
    super().__init__(submission.make_submission(params), workload, {})

  def step(self):
    step = self.global_step
    self.eval_results = show(self.entries, self.fate.shown.get(step))
    with contextlib.ExitStack() as stack:
      if step in self.fate.poisoned:
        batch = tiny.batch_of_step(step, self.workload.generation)
        batch = {key: np.full_like(x, NAN) for key, x in batch.items()}
        batch['weights'] = np.ones_like(batch['weights'])
        stack.enter_context(
          unittest.mock.patch.object(tiny, 'batch_of_step', lambda *_: batch)
        )
      super().step()

  def evaluate(self):
    if self.global_step in self.fate.evaluations:
      loss, metric, seconds = self.fate.evaluations[self.global_step]
      results = {'validation/loss': loss, 'validation/accuracy': metric}
      if seconds is not None:
        results['accumulated_submission_time'] = seconds
      self.entries = [*self.entries, (self.global_step, results)]

  def save(self):
    """What a checkpoint has: everything but what init_optimizer_state makes."""
    trees = (self.optimizer_state[0], self.params, self.model_state)
    host = jax.tree_util.tree_map(self._one_copy, trees)
    state, *rest = host
    state = flax.serialization.to_state_dict(state)
    return state, *rest, self.global_step, list(self.entries)

  def restore(self, saved):
    """Goes on from what another driver saved."""
    state, params, model_state, self.global_step, self.entries = saved
    like = jax.tree_util.tree_map(self._one_copy, self.optimizer_state[0])
    state = flax.serialization.from_state_dict(like, state)
    if self.workload.generation == 'pmap':
      trees = (state, params, model_state)
      state, params, model_state = flax.jax_utils.replicate(trees)
    self.optimizer_state = (state, self.optimizer_state[1])
    self.params, self.model_state = params, model_state

  def _one_copy(self, x):
    return np.asarray(x[0] if self.workload.generation == 'pmap' else x)


def show(entries, how):
  """The list of evaluations as a runner may hand it over."""
  if how == 'none':
    return None
  shown = {
    'backwards': entries[::-1],
    'twice': [*entries, *entries],
    'empty': [],
    'mangled': [({'0': s, '1': r}, '3') for s, r in entries],
  }
  return list(shown.get(how, entries))
