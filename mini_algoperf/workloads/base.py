"""What the small workloads have in common, in both generations.

`jit` is the benchmark's current generation: `jax.jit` over a mesh, batches
`(B, ...)`, dropout an argument of `model_fn`. `pmap` is the generation of 2024:
a leading device axis on everything, batches `(devices, B/devices, ...)`,
dropout fixed by `init_model_fn`.
"""

from __future__ import annotations

import abc
import functools
import importlib
import math
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import flax.jax_utils
import flax.linen as nn
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .. import files, spec
from . import parts

TARGETS_FILE = pathlib.Path(__file__).with_name('targets.json')
DROPOUT_RATE = 0.1
# Under pmap every baseline of the benchmark calls its axis this.
BATCH_AXIS = 'batch'
BatchShape = tuple[int, int]  # of a batch: shards, examples of each
ModelTrees = tuple[spec.ParameterContainer, spec.ModelAuxiliaryState]


def read_targets(
  path: pathlib.Path = TARGETS_FILE,
) -> dict[str, dict[str, Any]]:
  """What `set-targets` wrote, by workload; ValueError for a damaged file."""
  if not path.exists():
    return {}
  entries = files.read_json(path).get('workloads')
  if not isinstance(entries, dict):
    raise ValueError(f'{path}: is not a file of targets.')
  return entries


class MiniWorkload(spec.Workload, abc.ABC):
  """A workload that is fast on two cores.

  The generation, 'jit' or 'pmap', decides how devices are handled, and with it
  the signatures of `init_model_fn` and `model_fn`. A subclass gives the model,
  the batches, `loss_fn` (a loss as from `parts.masked`) and whatever else the
  metric needs.
  """

  # Not in the benchmark: what the runner falls back to.
  name: str
  metric_rises: bool
  default_batch_size: int
  # Training batches stay NumPy in the jit generation, as OGBG's do.
  host_batches = False
  # Packages that this workload imports; other workloads do without them.
  packages: tuple[str, ...] = ()
  output_layer = 'output'  # a key of the parameters
  # A workload from a user's file has another file, and the address of its
  # class.
  targets_file = TARGETS_FILE
  _address = ''

  def __init__(self, generation: str = 'jit') -> None:
    """Raises ModuleNotFoundError if one of `packages` is not installed."""
    if generation not in ('jit', 'pmap'):
      raise ValueError(
        f'generation: {generation!r} is unknown; use one of jit, pmap'
      )
    for package in self.packages:  # now, not at the first evaluation
      importlib.import_module(package)
    super().__init__()
    self.generation = generation
    self._model: Any = None
    self._dropout_rate = DROPOUT_RATE  # pmap: that of the last initialisation
    # All functions are compiled once for this object, at their first call.
    self._init_fn = jax.jit(self._init_variables)
    if generation == 'pmap':
      self._axis_name: str | None = BATCH_AXIS
      self.init_model_fn, self.model_fn = self._init_pmap, self._model_pmap
      self._eval_fn = jax.pmap(self._eval_batch, axis_name=BATCH_AXIS)
    else:
      self._axis_name = None
      self.init_model_fn, self.model_fn = self._init_jit, self._model_jit
      self._eval_fn = jax.jit(self._eval_batch)
    self._eval_batches = functools.cache(self._make_eval_batches)

  @abc.abstractmethod
  def _make_model(self) -> nn.Module:
    """The flax module, called with inputs and a `parts.Pass`."""

  @abc.abstractmethod
  def _fake_inputs(self) -> Any:
    """Inputs of the smallest shape, for the initialisation."""

  @abc.abstractmethod
  def _train_batches(
    self, rng: np.random.Generator, data_dir: str | None, shape: BatchShape
  ) -> Iterator[spec.Batch]:
    """Endless shuffled batches with leading axes (shard, example)."""

  @abc.abstractmethod
  def _split_batches(
    self, split: str, num_examples: int, data_dir: str | None, shape: BatchShape
  ) -> Iterator[spec.Batch]:
    """A split in its fixed order, once, padded; weights are 0 for padding."""

  def _eval_outputs(
    self, logits: jax.Array, batch: spec.Batch
  ) -> dict[str, jax.Array]:
    """The arrays of a batch for `_metrics`; leading axis: examples. Traced.

    Here these are 'loss' and 'weights'; a subclass may add others.
    """
    weights = batch['weights']
    losses = self.loss_fn(batch['targets'], logits, weights)['per_example']
    return {'loss': losses, 'weights': weights}

  def _metrics(self, outputs: dict[str, np.ndarray]) -> spec.EvalResult:
    """Metrics of a whole split from its joined `_eval_outputs`.

    Here these are the means of the loss and of the target metric's outputs.
    """
    names = dict.fromkeys(('loss', self.target_metric_name))
    return {n: parts.mean(outputs, n) for n in names if n in outputs}

  def is_output_params(self, param_key: str) -> bool:
    """Whether this is the key of the last layer's parameters."""
    return param_key == self.output_layer

  @property
  def validation_target_value(self) -> float:
    """The median that `set-targets` found on the validation split."""
    return self._target('validation_target')

  @property
  def test_target_value(self) -> float:
    """The median that `set-targets` found on the test split."""
    return self._target('test_target')

  def has_reached_validation_target(self, eval_result: spec.EvalResult) -> bool:
    """Whether the validation metric is better than its target."""
    return self._is_better(eval_result, 'validation')

  def has_reached_test_target(self, eval_result: spec.EvalResult) -> bool:
    """Whether the test metric is better than its target."""
    return self._is_better(eval_result, 'test')

  def _is_better(self, eval_result: spec.EvalResult, split: str) -> bool:
    value = eval_result[f'{split}/{self.target_metric_name}']
    target: float = getattr(self, f'{split}_target_value')
    return value > target if self.metric_rises else value < target

  @functools.cached_property
  def _targets(self) -> dict[str, Any]:
    entry = read_targets(self.targets_file).get(self.name)
    if entry is None:
      raise ValueError(
        f'{self.targets_file.name}: no targets for {self.name!r}; run '
        f'`reset-cycles set-targets --workload={self._address or self.name}`'
      )
    return entry

  def _target(self, key: str) -> float:
    entry: Any = self._targets
    target: Any = entry.get(key) if isinstance(entry, dict) else None
    if type(target) not in (int, float) or not math.isfinite(target):
      raise ValueError(
        f'{self.targets_file}: {key} of {self.name!r} is {target!r}, not a '
        'number.'
      )
    return float(target)

  def _model_inputs(self, batch: spec.Batch) -> Any:
    """The model's inputs; a subclass may also need the targets."""
    return batch['inputs']

  def _init_variables(self, rng: spec.RandomState) -> Mapping[str, Any]:
    inputs = self._fake_inputs()
    return self._make_model().init(rng, inputs, parts.EVALUATION)

  def _init_model(self, rng: spec.RandomState) -> ModelTrees:
    self._model = self._make_model()
    variables = self._init_fn(rng)
    params = variables['params']
    self._param_shapes = jax.tree_util.tree_map(
      lambda x: spec.ShapeTuple(x.shape), params
    )
    self._param_types = parts.param_types(params)
    if 'batch_stats' not in variables:
      return params, None
    # The container type of flax's own updates: old versions freeze it.
    return params, type(variables)({'batch_stats': variables['batch_stats']})

  def _init_jit(self, rng: spec.RandomState) -> ModelTrees:
    """Fresh parameters and model state, replicated over all devices."""
    params, model_state = jax.device_put(self._init_model(rng), _sharding())
    return params, model_state

  def _init_pmap(
    self,
    rng: spec.RandomState,
    dropout_rate: float | None = None,
    aux_dropout_rate: float | None = None,
  ) -> ModelTrees:
    """Likewise with a leading device axis; the rate is kept for `model_fn`."""
    self._dropout_rate = DROPOUT_RATE if dropout_rate is None else dropout_rate
    # From the host: arrays of a device are stacked by programs, a shape each.
    on_host = jax.device_get(self._init_model(rng))
    params, model_state = flax.jax_utils.replicate(on_host)
    return params, model_state

  def _model_jit(
    self,
    params: spec.ParameterContainer,
    augmented_and_preprocessed_input_batch: spec.Batch,
    model_state: spec.ModelAuxiliaryState,
    mode: spec.ForwardPassMode,
    rng: spec.RandomState | None,
    update_batch_norm: bool,
    dropout_rate: float = DROPOUT_RATE,
  ) -> tuple[jax.Array, spec.ModelAuxiliaryState]:
    """The logits of a batch and the new model state.

    Dropout acts in TRAIN only. With `update_batch_norm`, activations are
    normalised by the batch's statistics, which move the running ones.
    """
    # By name: a submission may import the benchmark's own spec.
    train = mode.name == spec.ForwardPassMode.TRAIN.name
    apply_fn = functools.partial(
      self._model.apply,
      {'params': params, **(model_state or {})},
      self._model_inputs(augmented_and_preprocessed_input_batch),
      parts.Pass(train, update_batch_norm, dropout_rate),
      rngs={'dropout': rng} if train else None,
    )
    if model_state is None or not update_batch_norm:
      return apply_fn(), model_state
    logits, model_state = apply_fn(mutable=['batch_stats'])
    return logits, model_state

  def _model_pmap(
    self,
    params: spec.ParameterContainer,
    augmented_and_preprocessed_input_batch: spec.Batch,
    model_state: spec.ModelAuxiliaryState,
    mode: spec.ForwardPassMode,
    rng: spec.RandomState | None,
    update_batch_norm: bool,
  ) -> tuple[jax.Array, spec.ModelAuxiliaryState]:
    """As in the jit generation; dropout is that of the last initialisation."""
    batch = augmented_and_preprocessed_input_batch
    arguments = (model_state, mode, rng, update_batch_norm)
    return self._model_jit(params, batch, *arguments, self._dropout_rate)

  def _merge_shards(self, batch: spec.Batch) -> Any:
    """(shard, example, ...) to (shard * example, ...)."""
    return jax.tree_util.tree_map(_merge_leading, batch)

  def _layout(self, batch: spec.Batch, on_host: bool = False) -> Any:
    if self.generation == 'pmap':
      return batch
    merged = self._merge_shards(batch)
    return merged if on_host else jax.device_put(merged, _sharding(BATCH_AXIS))

  def _shape(self, global_batch_size: int) -> BatchShape:
    num_devices = jax.local_device_count()
    if global_batch_size < 1 or global_batch_size % num_devices:
      raise ValueError(
        f'global_batch_size: {global_batch_size} is not a positive multiple '
        f'of the {num_devices} devices'
      )
    return num_devices, global_batch_size // num_devices

  def _build_input_queue(
    self,
    data_rng: spec.RandomState,
    split: str,
    data_dir: str | None,
    global_batch_size: int,
    **unused: Any,
  ) -> Iterator[spec.Batch]:
    """Endless batches of training data, in the order that `data_rng` gives.

    Args:
      data_rng: key of the order and the augmentation.
      split: 'train'; others are evaluated by `eval_model` alone.
      data_dir: where the data lie; None for the default.
      global_batch_size: examples per batch, over all devices, which divide it.
      **unused: other arguments of the benchmark's signature.
    """
    if split != 'train':
      raise ValueError(f"split: {split!r} has no queue; use 'train'")
    # NumPy's generator for a JAX key, so that queues run on the host.
    rng = np.random.default_rng(np.ravel(np.asarray(data_rng)).tolist())
    batches = self._train_batches(rng, data_dir, self._shape(global_batch_size))
    return (self._layout(batch, self.host_batches) for batch in batches)

  def _make_eval_batches(
    self, split: str, num_examples: int, data_dir: str | None, batch_size: int
  ) -> list[spec.Batch]:
    shape = self._shape(batch_size)
    batches = self._split_batches(split, num_examples, data_dir, shape)
    return [self._layout(batch) for batch in batches]

  def _eval_batch(
    self,
    params: spec.ParameterContainer,
    batch: spec.Batch,
    model_state: spec.ModelAuxiliaryState,
  ) -> dict[str, jax.Array]:
    how = (spec.ForwardPassMode.EVAL, None, False, 0.0)
    logits, _ = self._model_jit(params, batch, model_state, *how)
    return self._eval_outputs(logits, batch)

  def _eval_model_on_split(
    self,
    split: str,
    num_examples: int,
    global_batch_size: int,
    params: spec.ParameterContainer,
    model_state: spec.ModelAuxiliaryState,
    rng: spec.RandomState,
    data_dir: str | None,
    global_step: int = 0,
  ) -> spec.EvalResult:
    """Metrics of one split; deterministic, so `rng` is unused."""
    of = (split, num_examples, data_dir, global_batch_size)
    batches = self._eval_batches(*of)
    # All batches are dispatched before the first result is waited for.
    outputs = [self._eval_fn(params, batch, model_state) for batch in batches]
    host = jax.device_get(outputs)
    if self.generation == 'pmap':
      host = jax.tree_util.tree_map(_merge_leading, host)
    joined = {k: np.concatenate([o[k] for o in host]) for k in host[0]}
    return self._metrics(joined)


def _sharding(*axes: str) -> NamedSharding:
  return NamedSharding(
    Mesh(np.array(jax.devices()), (BATCH_AXIS,)), PartitionSpec(*axes)
  )


def _merge_leading(x: np.ndarray) -> np.ndarray:
  return x.reshape(-1, *x.shape[2:])
