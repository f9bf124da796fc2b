"""The small workloads of `mini_algoperf`, shortened, under a condition.

What is shortened: step_hint to between a quarter and an eighth, the batch of
digits and molecules to a half, the validation split to one batch; variants as
their bases. Translation is judged by the accuracy of its tokens, since decoding
takes longer than training. Models, data and losses are the workloads' own. A
whole budget then takes seconds.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...mini_algoperf.workloads import WORKLOADS, workload_class
from ...mini_algoperf.workloads.base import MiniWorkload
from ...mini_algoperf.workloads.translation import TranslationWorkload
from ...views.paths import read_object
from .conditions import REFERENCE_PEAK, Condition

_TARGETS = 'targets.json'


class Length(NamedTuple):
  """How a workload is shortened; None keeps the workload's own value."""

  step_hint: int
  eval_every: int
  batch_size: int | None = None
  validation: int | None = None  # examples, one evaluation batch


SHORT = {
  'digits': Length(300, 15, 64, 768),
  'molecules': Length(200, 10, 32, 512),
  'translation': Length(200, 10, 32, 128),
  'text': Length(200, 10, 16, 80),
  **dict.fromkeys(
    ('clicks', 'photos', 'waves', 'frames', 'chains'), Length(200, 10)
  ),
}


class _Tokens:
  """Translation judged by token accuracy under teacher forcing."""

  target_metric_name = 'accuracy'
  _eval_batch = MiniWorkload._eval_batch
  _metrics = MiniWorkload._metrics


def length_of(name: str) -> Length | None:
  """How a workload of this project is shortened: a variant as its base."""
  bases = workload_class(name).__mro__ if name in WORKLOADS else ()
  names = [getattr(base, 'name', '') for base in bases]
  return next((SHORT[known] for known in names if known in SHORT), None)


# In all of these, `name` is that of a small workload, or file.py:ClassName.


def targets_file(name: str) -> pathlib.Path:
  """The file of a workload's targets: this project's, or beside one's own."""
  file, is_own, _ = name.rpartition(':')
  if not is_own:
    return pathlib.Path(__file__).with_name(_TARGETS)
  path = pathlib.Path(file).expanduser()
  return path.with_name(f'{path.stem}.board_{_TARGETS}')


def read_targets(name: str) -> dict[str, dict[str, Any]]:
  """What `measure_targets` found, by workload; empty without a file."""
  path = targets_file(name)
  return dict(read_object(path)) if path.exists() else {}


def target_key(name: str, full: bool) -> str:
  """The key of a workload's targets; other ones if it keeps its own length."""
  return f'{short_name(name)}_full' if full else short_name(name)


@functools.cache
def short_name(name: str) -> str:
  """A workload's own name, as used for folders, also for one in a file."""
  return workload_class(name).name


def make_workload(
  name: str, condition: Condition, targets: Mapping[str, Any] | None = None
) -> MiniWorkload:
  """A fresh workload under a condition; only its validation split is evaluated.

  Targets are as `measure_targets` finds them; None takes those in the file.

  Raises:
    ValueError: if there is no such workload, or no target was measured for it.
  """
  key = target_key(name, condition.full)
  found = read_targets(name).get(key, {}) if targets is None else targets
  if condition.target not in found:
    raise ValueError(
      f'{targets_file(name)} has no target {condition.target!r} of {key}; '
      '`reset-cycles set-targets --board` measures it.'
    )
  factor = rate_factor(condition, found)
  own: Any = workload_class(name)
  if issubclass(own, TranslationWorkload):
    own = type(own.__name__, (_Tokens, own), {})

  def eval_batch(self: Any, params: Any, *args: Any) -> Any:
    return own._eval_batch(self, scaled(params, factor), *args)

  def model_inputs(self: Any, batch: Any) -> Any:
    columns = getattr(own, 'num_real_inputs', None)
    inputs = own._model_inputs(self, batch)
    return with_inputs(inputs, condition.inputs, columns)

  length = None if condition.full else length_of(name)
  length = length or Length(own.step_hint, own.eval_every_steps)
  members = {
    '_eval_batch': eval_batch,
    '_model_inputs': model_inputs,
    'validation_target_value': found[condition.target],
    'test_target_value': found[condition.target],
    'step_hint': length.step_hint,
    'eval_every_steps': length.eval_every,
    'max_allowed_runtime_sec': length.step_hint,
    'eval_period_time_sec': length.eval_every,
    'default_batch_size': length.batch_size or own.default_batch_size,
  }
  if length.validation is not None:
    members['num_validation_examples'] = length.validation
    members['eval_batch_size'] = length.validation
  workload: Any = type(own.__name__, (own,), members)()
  workload.eval_splits = ('validation',)
  workload.is_started = False  # set by whoever starts another run with it
  model_fn, init_model_fn = workload.model_fn, workload.init_model_fn

  # Submissions recognise the generation by its signature.
  @functools.wraps(model_fn)
  def scaled_model_fn(params: Any, *args: Any, **kwargs: Any) -> Any:
    return model_fn(scaled(params, factor), *args, **kwargs)

  @functools.wraps(init_model_fn)
  def scaled_init_model_fn(*args: Any, **kwargs: Any) -> Any:
    params, state = init_model_fn(*args, **kwargs)
    params = with_weights(params, condition.weights)
    if condition.failed_at and not workload.is_started:
      peak = condition.failed_at * found['runs']['tuned']['peak']
      params = displaced(params, peak * (length.step_hint / 10) ** 0.5)
    workload.is_started = True
    return scaled(params, 1.0 / factor), state

  workload.model_fn = scaled_model_fn
  workload.init_model_fn = scaled_init_model_fn
  return workload


def rate_factor(condition: Condition, found: Mapping[str, Any]) -> float:
  """The factor on every learning rate; `found` as for targets."""
  if condition.of_best_peak is None:
    return condition.rate_factor
  peak = found['runs']['tuned']['peak']
  return condition.rate_factor * condition.of_best_peak * peak / REFERENCE_PEAK


def displaced(params: Any, stddev: float) -> Any:
  """The tree, without a device axis, plus noise that is always the same.

  An update of Adam moves an entry by about the rate. If n of them agree in
  nothing, they move it by about sqrt(n) times that.
  """
  random = np.random.default_rng(0)
  return jax.tree_util.tree_map(
    lambda p: p + stddev * random.standard_normal(p.shape, np.float32), params
  )


def with_weights(params: Any, factor: float) -> Any:
  """The tree without a device axis; leaves of several axes times a factor."""
  if factor == 1.0:
    return params
  return jax.tree_util.tree_map(
    lambda p: p * factor if np.ndim(p) >= 2 else p, params
  )


def with_inputs(inputs: Any, factor: float, columns: int | None = None) -> Any:
  """The tree; its arrays of real numbers times a factor.

  Args:
    columns: how many of the first columns are real numbers, in an array that
      has the numbers of categories behind them; None: all.
  """
  if factor == 1.0:
    return inputs

  def enlarged(x: jax.Array) -> jax.Array:
    if not jnp.issubdtype(x.dtype, jnp.floating):
      return x
    return jnp.asarray(x).at[..., :columns].multiply(factor)

  return jax.tree_util.tree_map(enlarged, inputs)


def scaled(params: Any, factor: float) -> Any:
  """The tree times a factor; the tree itself if the factor is 1."""
  if factor == 1.0:
    return params
  return jax.tree_util.tree_map(lambda p: p * factor, params)
