"""Reads and checks what the benchmark hands to a submission.

Both generations of AlgoPerf (package algorithmic_efficiency, v0.5.0, and
package algoperf, main) are recognised by the workload that is passed: no
benchmark package is imported, and no workload's name is read.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import jax
from absl import flags

from .checks import as_float, check, is_number
from .evaluation import Target
from .forms import Answer, Form, forms
from .uses.traced import forms_of_init

_SELF_TUNING_FACTOR = {False: 3.0, True: 1.5}  # v0.5.0 and main


class WorkloadApi(Protocol):
  """What a submission needs of a workload of the benchmark's, old and new."""

  step_hint: int
  max_allowed_runtime_sec: float  # may be missing; see `budget_seconds`
  target_metric_name: str
  validation_target_value: float
  param_shapes: Any  # tree of the parameters' shapes, without device axis
  model_params_types: Any  # tree of their types; may be missing, see `types_of`
  num_train_examples: int  # may be missing; see `steps_per_epoch`
  metrics_logger: Any  # append_scalar_metrics(numbers by name, step); or None
  model_fn: Callable[..., Any]
  loss_fn: Callable[..., Any]
  init_model_fn: Callable[..., Any]
  has_reached_validation_target: Callable[[dict[str, float]], bool]


def read_target(workload: WorkloadApi) -> Target:
  """A workload's target metric and its direction.

  A workload does not state the direction; it is found by asking whether an
  infinitely large or an infinitely small metric would reach the target.

  Raises:
    ValueError: if neither or both would, or the target is not finite.
  """
  name, reached = 'target_metric_name', workload.has_reached_validation_target
  key = f'validation/{workload.target_metric_name}'
  rises, falls = (bool(reached({key: x})) for x in (math.inf, -math.inf))
  must_be = 'a metric of which exactly one of inf and -inf reaches the target'
  check(rises != falls, name, workload.target_metric_name, must_be)
  value = as_float('validation_target_value', workload.validation_target_value)
  check(math.isfinite(value), 'validation_target_value', value, 'finite')
  return Target(key, value, rises)


def spec_of(workload: WorkloadApi) -> types.ModuleType:
  """The benchmark's spec module, where the workload's base class is defined."""
  for cls in type(workload).__mro__:
    module = sys.modules.get(cls.__module__)
    is_base = cls.__name__ == 'Workload'
    if module and is_base and hasattr(module, 'TrainingCompleteError'):
      return module
  raise ValueError(
    f'workload={type(workload).__name__}: its class must be derived from the '
    "Workload of the benchmark's spec module."
  )


def has_device_axis(workload: WorkloadApi, params: Any) -> bool:
  """Whether the parameters have a leading device axis (jax.pmap)."""
  shapes = jax.tree_util.tree_leaves(workload.param_shapes)
  extra = {
    leaf.ndim - len(_shape(shape))
    for leaf, shape in zip(jax.tree_util.tree_leaves(params), shapes)
  }
  if extra not in ({0}, {1}):
    raise ValueError(
      'The parameters have neither the shapes of workload.param_shapes nor '
      'those with a leading device axis.'
    )
  return extra == {1}


def types_of(workload: WorkloadApi, params: Any) -> tuple[str, ...] | None:
  """The name of the benchmark's type of each parameter, in the leaves' order.

  The keys of the benchmark's tree are in lower case, and may be in another
  order.

  Returns:
    None if the workload has no types, or they are not those of these
    parameters.
  """
  try:
    types = workload.model_params_types
  except (AttributeError, ValueError):
    return None
  flat = jax.tree_util.tree_flatten_with_path
  named = {
    _lower(path): getattr(kind, 'name', str(kind))
    for path, kind in flat(types)[0]
  }
  paths = [_lower(path) for path, _ in flat(params)[0]]
  if not all(path in named for path in paths):
    return None
  return tuple(named[path] for path in paths)


def traced_forms(
  workload: WorkloadApi, rng: Any
) -> tuple[Form | None, ...] | None:
  """The form of each parameter, read off the trace of `init_model_fn`.

  It runs the model on a made-up batch, and so says what each parameter is used
  for before any batch is known. Nothing is computed. The workload's attributes
  are what they were: those that `init_model_fn` sets hold traced values.

  Args:
    workload: of either generation.
    rng: a key, of any value.

  Returns:
    In the order of the leaves, of the parameters without a device axis. None
    where a parameter is not used in a way that tells; None for all if the model
    cannot be traced.
  """
  attributes = dict(vars(workload))
  shapes: list[tuple[int, ...]] = []

  def init(rng: Any) -> Any:
    params = workload.init_model_fn(rng)[0]
    shapes.extend(leaf.shape for leaf in jax.tree_util.tree_leaves(params))
    return params

  try:
    with without_replication():
      of_trace = forms_of_init(init, rng)
      own_shapes = map(_shape, jax.tree_util.tree_leaves(workload.param_shapes))
  except Exception:  # noqa: BLE001  # a model may look at its values
    return None
  finally:
    for name in vars(workload).keys() - attributes.keys():
      delattr(workload, name)
    vars(workload).update(attributes)
  return tuple(
    form and (form if shape == own else form.without_first_axis())
    for form, shape, own in zip(of_trace, shapes, own_shapes)
  )


def _shape(of: Any) -> tuple[int, ...]:
  """Of a leaf of the benchmark's tree of shapes."""
  return tuple(getattr(of, 'shape_tuple', of))


@contextlib.contextmanager
def without_replication() -> Iterator[None]:
  """Parameters are not put on devices, which flax cannot do to traced arrays.

  The benchmark of 2024 ends its `init_model_fn` with flax.jax_utils.replicate,
  and that calls jax.device_put_replicated, whose C++ takes no tracer.
  """
  name = 'device_put_replicated'
  original = vars(jax).get(name)
  if original is None:  # newer versions of flax do without
    yield
    return
  setattr(jax, name, lambda tree, devices: tree)
  try:
    yield
  finally:
    setattr(jax, name, original)


def forms_of(
  workload: WorkloadApi, params: Any, rng: Any
) -> tuple[Answer, ...]:
  """What each parameter is: by the trace, the benchmark's types or its shape.

  Args:
    workload: of either generation.
    params: tree of anything with a shape, without an axis of devices.
    rng: a key, of any value; with it `init_model_fn` is traced.

  Returns:
    In the order of the leaves.
  """
  trace, types = traced_forms(workload, rng), types_of(workload, params)
  return forms(params, trace=trace, types=types)


def _lower(path: Any) -> str:
  return jax.tree_util.keystr(path).lower()


def takes_dropout_rate(workload: WorkloadApi) -> bool:
  """Whether the submission decides the dropout rate: in main."""
  return 'dropout_rate' in inspect.signature(workload.model_fn).parameters


def budget_seconds(workload: WorkloadApi, is_tuned: bool = False) -> float:
  """Submission time that the benchmark gives a run, in seconds; NaN if unknown.

  Args:
    workload: of either generation.
    is_tuned: whether the ruleset is the external one, which gives each trial
      max_allowed_runtime_sec; the self-tuning one gives a multiple.

  Raises:
    ValueError: if max_allowed_runtime_sec is neither a number nor None.

  Source: the benchmark's rules, "External tuning ruleset" and "Self-tuning
  ruleset"; submission_runner.py of both generations.
  """
  try:
    limit = workload.max_allowed_runtime_sec
  except AttributeError:
    return math.nan
  if limit is None:
    return math.nan
  must_be = 'a number of seconds, or None'
  seconds = as_float('max_allowed_runtime_sec', limit, must_be)
  if not is_tuned:
    seconds *= _SELF_TUNING_FACTOR[takes_dropout_rate(workload)]
  return seconds if 0 < seconds < math.inf else math.nan


def steps_per_epoch(workload: WorkloadApi, batch_size: int) -> float | None:
  """Steps in which a run sees each training example once, at least 1.

  A row that packs several examples, as WMT's do, counts as one: the epochs are
  then too few.

  Args:
    workload: of either generation.
    batch_size: the rows of a step, over all devices.

  Returns:
    None where num_train_examples is missing or no number above 0, or a batch
    has no examples.
  """
  try:
    examples = workload.num_train_examples
  except AttributeError:
    return None
  if not is_number(examples) or examples <= 0 or not batch_size:
    return None
  return max(1.0, examples / batch_size)


def most_steps() -> float:
  """Steps after which the runner ends the run: its flag max_global_steps.

  Infinity if no runner has parsed such a flag, or it is not set.
  """
  values = flags.FLAGS
  is_known = values.is_parsed() and 'max_global_steps' in values
  return float(is_known and values['max_global_steps'].value or math.inf)
