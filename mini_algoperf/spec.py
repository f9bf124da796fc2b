"""The benchmark's workload API, in the names that submissions know.

Everything that a submission or a runner asks of a workload is declared here;
`mini_algoperf.workloads` fills it in. Written from the API of AlgoPerf's
`spec.py` (2024 and 2025); where the two generations differ (the signatures of
`init_model_fn` and `model_fn`), see `workloads/base.py`.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from .logger import MetricLogger

Tensor = jax.Array
RandomState = jax.Array
# Trees of arrays.
ParameterContainer = Any
ModelAuxiliaryState = Any
OptimizerState = tuple[Any, Any]  # the first of the two is saved
Batch = dict[str, Any]
Hyperparameters = Any  # a point of the search space by name; None under self
EvalResult = dict[str, float]


# Members are numbered as in the benchmark.
LossType = enum.Enum(
  'LossType',
  'SOFTMAX_CROSS_ENTROPY SIGMOID_CROSS_ENTROPY MEAN_SQUARED_ERROR CTC_LOSS '
  'MEAN_ABSOLUTE_ERROR',
  start=0,
)
# Whether a forward pass trains (dropout) or evaluates.
ForwardPassMode = enum.Enum('ForwardPassMode', 'TRAIN EVAL', start=0)
# Roles of parameters.
ParameterType = enum.Enum(
  'ParameterType',
  'WEIGHT BIAS CONV_WEIGHT BATCH_NORM_SCALE BATCH_NORM_BIAS LAYER_NORM_SCALE '
  'LAYER_NORM_BIAS EMBEDDING ATTENTION_Q ATTENTION_K ATTENTION_V ATTENTION_OUT '
  'ATTENTION_QKV ATTENTION_KV ATTENTION_BIAS',
  start=0,
)


@dataclasses.dataclass(frozen=True)
class ShapeTuple:
  """A shape that is one leaf of a tree, where a tuple would be a branch."""

  shape_tuple: tuple[int, ...]


class TrainingCompleteError(Exception):
  """Raised by a submission that has finished its training."""


class Workload:
  """One training problem: data, model, loss, metrics, targets and budgets.

  Any attribute may be a property; the functions are `MiniWorkload`'s, which
  documents them.
  """

  # Not in the benchmark: these two, eval_every_steps and generation.
  name: str
  metric_rises: bool  # whether a larger target metric is better
  generation: str  # 'jit' or 'pmap', stood in for; unknown to submissions
  target_metric_name: str  # without the split
  loss_type: LossType
  num_train_examples: int
  num_eval_train_examples: int  # training examples that are evaluated
  num_validation_examples: int
  num_test_examples: int
  eval_batch_size: int  # over all devices
  max_allowed_runtime_sec: float  # budget under the external ruleset
  eval_period_time_sec: float  # of training between evaluations
  eval_every_steps: int  # likewise, in steps
  step_hint: int  # steps that the baseline does in the budget
  validation_target_value: Any  # what the target metric is to be better than
  test_target_value: Any
  has_reached_validation_target: Callable[[EvalResult], bool]
  has_reached_test_target: Callable[[EvalResult], bool]
  is_output_params: Callable[[str], bool]  # of top-level keys of parameters
  init_model_fn: Callable[..., tuple[ParameterContainer, ModelAuxiliaryState]]
  model_fn: Callable[..., tuple[Tensor, ModelAuxiliaryState]]
  loss_fn: Callable[..., dict[str, Tensor]]
  _build_input_queue: Callable[..., Iterator[Batch]]
  _eval_model_on_split: Callable[..., EvalResult]

  def __init__(self) -> None:
    # The benchmark always evaluates all splits.
    self.eval_splits: Sequence[str] = ('train', 'validation', 'test')
    self._param_shapes: ParameterContainer | None = None
    self._param_types: ParameterContainer | None = None
    self.metrics_logger: MetricLogger | None = None

  @property
  def param_shapes(self) -> ParameterContainer:
    """Tree of `ShapeTuple`, without a device axis; after `init_model_fn`."""
    if self._param_shapes is None:
      raise ValueError('param_shapes: call init_model_fn first')
    return self._param_shapes

  @property
  def model_params_types(self) -> ParameterContainer:
    """Tree of `ParameterType` with keys in lower case; likewise."""
    if self._param_types is None:
      raise ValueError('model_params_types: call init_model_fn first')
    return self._param_types

  def eval_model(
    self,
    global_batch_size: int,
    params: ParameterContainer,
    model_state: ModelAuxiliaryState,
    rng: RandomState,
    data_dir: str | None,
    imagenet_v2_data_dir: str | None,
    global_step: int,
  ) -> EvalResult:
    """Evaluates the splits in `eval_splits`: all three, if nothing is changed.

    Args:
      global_batch_size: examples per batch, over all devices.
      params, model_state: as `init_model_fn` gave them.
      data_dir: where the data lie; None for the default.
      rng, imagenet_v2_data_dir, global_step: in the benchmark's signature.

    Returns:
      'train/...', 'validation/...', 'test/...' metrics and the number of
      examples of the last two.
    """
    result = {}
    for prefix in self.eval_splits:
      split = 'eval_train' if prefix == 'train' else prefix
      num_examples: int = getattr(self, f'num_{split}_examples')
      where = (split, num_examples, global_batch_size)
      metrics = self._eval_model_on_split(
        *where, params, model_state, rng, data_dir, global_step
      )
      result.update({f'{prefix}/{k}': v for k, v in metrics.items()})
      if prefix != 'train':
        result[f'{prefix}/num_examples'] = num_examples
    return result
