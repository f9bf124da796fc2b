"""A workload of the user's: a class in a Python file, named FILE.py:CLASS.

Everything that can be checked before the first step is checked then. An error
is one line that names the class and the attribute.
"""

from __future__ import annotations

import math
import numbers
import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import jax

from .. import spec
from ..user_code import import_file, message_of
from .base import MiniWorkload

_COUNTS = (
  *('num_train_examples', 'num_eval_train_examples'),
  *('num_validation_examples', 'num_test_examples'),
  *('eval_batch_size', 'default_batch_size', 'step_hint', 'eval_every_steps'),
)
_SECONDS = ('max_allowed_runtime_sec', 'eval_period_time_sec')
_OTHERS = (
  *('name', 'target_metric_name', 'metric_rises', 'loss_type'),
  *('loss_fn', 'is_output_params'),
)
_LOSS = ('n_valid_examples', 'per_example', 'summed')


def is_file(address: str) -> bool:
  """Whether a workload is given as a file, not by its name."""
  return ':' in address or address.endswith('.py') or '/' in address


def load_class(address: str) -> type[MiniWorkload]:
  """Imports the class; the file runs once per process and folder.

  Nothing is added to sys.path: the file imports what is installed. The targets
  are read from, and set in, `<file>_targets.json` beside it.

  Raises:
    ValueError: there is no such file or class, the file cannot be imported, or
      the class is not a complete workload.
  """
  file, _, class_name = address.rpartition(':')
  if not file or not class_name.isidentifier():
    raise ValueError(
      f'workload: {address} must name a file and a class in it: '
      'file.py:ClassName.'
    )
  path = pathlib.Path(os.path.expanduser(file)).resolve()
  if path.suffix != '.py' or not path.is_file():
    raise ValueError(f'workload: {file}: there is no such Python file (.py).')
  try:
    module = import_file('reset_cycles_workload', path)
  except KeyboardInterrupt:
    raise
  except BaseException as e:
    raise ValueError(
      f'workload: {address} cannot be imported: {message_of(e)}.'
    ) from e
  here: dict[str, type[MiniWorkload]] = {
    name: value
    for name, value in vars(module).items()
    if isinstance(value, type) and issubclass(value, MiniWorkload)
  }
  if class_name not in here:
    raise ValueError(
      f'workload: {file} has no subclass {class_name} of MiniWorkload; it has '
      f'{", ".join(here) or "none"}.'
    )
  kind = here[class_name]
  attributes = (*_COUNTS, *_SECONDS, *_OTHERS)
  missing = {name for name in attributes if not hasattr(kind, name)}
  if missing := missing | kind.__abstractmethods__:
    raise ValueError(
      f'workload: {address} is not complete; it lacks '
      f'{", ".join(sorted(missing))}.'
    )
  if not isinstance(kind.name, str) or not re.fullmatch(r'\w+', kind.name):
    raise ValueError(
      f'workload: {address}: name={kind.name!r} must be letters, digits and _, '
      'since folders are called after it.'
    )
  kind.targets_file = path.with_name(f'{path.stem}_targets.json')
  kind._address = address
  return kind


def check_attributes(workload: MiniWorkload) -> None:
  """Raises ValueError for attributes with which no run can be made."""
  for name in _COUNTS:
    value = getattr(workload, name)
    is_count = isinstance(value, numbers.Integral) and _is_number(value)
    is_right = is_count and 1 <= value < 2**31
    _check(workload, name, is_right, 'a whole number from 1 to 2147483647')
  most = workload.num_train_examples
  is_filled = workload.default_batch_size <= most
  must_be = f'at most num_train_examples, {most}'
  _check(workload, 'default_batch_size', is_filled, must_be)
  for name in _SECONDS:
    value = getattr(workload, name)
    is_positive = _is_number(value) and 0 < value < math.inf
    _check(workload, name, is_positive, 'a number of seconds above 0')
  rises = workload.metric_rises
  _check(workload, 'metric_rises', isinstance(rises, bool), 'True or False')


def check_targets(workload: MiniWorkload) -> None:
  """Raises ValueError for targets with which no metric can be compared."""
  for name in ('validation_target_value', 'test_target_value'):
    value = getattr(workload, name)
    is_finite = _is_number(value) and math.isfinite(value)
    _check(workload, name, is_finite, 'a finite number')


def _check(
  workload: MiniWorkload, name: str, is_right: bool, what: str
) -> None:
  if not is_right:
    raise ValueError(
      f'workload: {workload._address}: {name}={getattr(workload, name)!r} must '
      f'be {what}.'
    )


def _is_number(value: object) -> bool:
  return isinstance(value, numbers.Real) and not isinstance(value, bool)


def rehearse(
  workload: MiniWorkload, batch_size: int, data_dir: str | None
) -> None:
  """Traces the loss of a training batch and evaluates a fresh model once.

  The batch size is that of the training, over all devices. ValueError if the
  data, the loss or a metric are not what the API asks for.
  """
  try:
    _rehearse(workload, batch_size, data_dir)
  except ValueError as e:
    raise ValueError(f'workload: {workload._address}: {e}') from e


def _rehearse(
  workload: MiniWorkload, batch_size: int, data_dir: str | None
) -> None:
  key = jax.random.PRNGKey(0)
  queue = workload._build_input_queue(key, 'train', data_dir, batch_size)
  batch: Any = next(queue, None)
  if not isinstance(batch, Mapping) or not {'inputs', 'targets'} <= {*batch}:
    raise ValueError("a batch must have 'inputs' and 'targets'.")
  model = workload.init_model_fn(key)
  loss = _trace_loss(workload, *model, batch)
  if not isinstance(loss, Mapping) or not {*loss} >= {*_LOSS}:
    raise ValueError(f'loss_fn must return {", ".join(_LOSS)} by name.')
  result = workload.eval_model(
    workload.eval_batch_size, *model, key, data_dir, None, 0
  )
  for split in workload.eval_splits:
    if f'{split}/{workload.target_metric_name}' not in result:
      names = {k.partition('/')[2] for k in result} - {'num_examples'}
      raise ValueError(
        f'target_metric_name={workload.target_metric_name!r} is not among what '
        f'_metrics returns: {", ".join(sorted(names))}.'
      )
  for name, value in result.items():
    if not _is_number(value):
      raise ValueError(
        f'_metrics must return numbers, but {name} is {value!r}.'
      )


def _trace_loss(
  workload: Any,
  params: spec.ParameterContainer,
  model_state: spec.ModelAuxiliaryState,
  batch: Mapping[str, Any],
) -> Any:
  def loss_fn(params: Any, batch: Any, model_state: Any, rng: Any) -> Any:
    logits, _ = workload.model_fn(
      params, batch, model_state, spec.ForwardPassMode.TRAIN, rng, True
    )
    return workload.loss_fn(batch['targets'], logits, batch.get('weights'))

  rng, traced = jax.random.PRNGKey(0), loss_fn
  if workload.generation == 'pmap':
    rng = jax.random.split(rng, jax.local_device_count())
    traced = jax.pmap(loss_fn, axis_name='batch')
  return jax.eval_shape(traced, params, batch, model_state, rng)
