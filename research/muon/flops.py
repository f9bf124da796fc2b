"""What Muon's orthogonalisation costs at the real benchmark's shapes.

In an environment of the benchmark's main branch, which this project's own
environments are not; nothing is run and no data is read. XLA counts the flops
of a training step's gradient (the unoptimised program, a device's share of the
batch) and those of the orthogonalisation: of the compiled program of one of so
many devices where it is spread, of the unoptimised one where each does it all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

# Of a graph in OGBG's batches, and the rows that pad each device's part.
_NODES, _EDGES, _LABELS = 26, 56, 128


def batches(devices: int) -> dict[str, Callable[[int], dict[str, Any]]]:
  """Workload -> (batch size -> shapes of a batch), as the runner has them."""
  import jax
  import jraph
  import numpy as np

  def of(*shape: int, dtype: Any = np.float32) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)

  def images(n: int) -> dict[str, Any]:
    targets, weights = of(n, dtype=np.int32), of(n)
    return {
      'inputs': of(n, 224, 224, 3),
      'targets': targets,
      'weights': weights,
    }

  def words(n: int) -> dict[str, Any]:
    ints = of(n, 256, dtype=np.int32)
    return {'inputs': ints, 'targets': ints, 'weights': of(n, 256)}

  def clicks(n: int) -> dict[str, Any]:
    return {'inputs': of(n, 39), 'targets': of(n), 'weights': of(n)}

  def scans(n: int) -> dict[str, Any]:
    numbers = {name: of(n) for name in ('mean', 'std', 'volume_max', 'weights')}
    return {'inputs': of(n, 320, 320), 'targets': of(n, 320, 320), **numbers}

  def speech(n: int) -> dict[str, Any]:
    sound, said = of(n, 320_000), of(n, 256, dtype=np.int32)
    return {'inputs': (sound, sound), 'targets': (said, of(n, 256))}

  def graphs(n: int) -> dict[str, Any]:
    each = n // devices
    nodes, edges = devices * (_NODES * each + 1), devices * _EDGES * each
    count, ends = devices * (each + 1), of(edges, dtype=np.int32)
    counts = of(count, dtype=np.int32)
    graph = jraph.GraphsTuple(
      nodes=of(nodes, 9),
      edges=of(edges, 3),
      senders=ends,
      receivers=ends,
      globals={},
      n_node=counts,
      n_edge=counts,
    )
    labels = of(count, _LABELS)
    return {'inputs': graph, 'targets': labels, 'weights': labels}

  return {
    'wmt': words,
    'imagenet_vit': images,
    'imagenet_resnet': images,
    'librispeech_conformer': speech,
    'fastmri': scans,
    'ogbg': graphs,
    'criteo1tb': clicks,
  }


def counted(name: str, devices_count: int) -> list[str]:
  """Cells of a workload's row."""
  import jax
  from algoperf.workloads import workloads

  from ...core import workload as workload_facts
  from ...core.devices import Devices
  from ...engine.train_step import loss_in_training
  from ...optimizers import orthogonal
  from ...submission import get_batch_size

  meta = workloads.WORKLOADS[name]
  path = f'algoperf/workloads/{meta["workload_path"]}_jax/workload.py'
  workload: Any = workloads.import_workload(
    path, meta['workload_class_name'], workload_init_kwargs={}
  )
  key = jax.ShapeDtypeStruct((2,), 'uint32')
  params, model_state = jax.eval_shape(workload.init_model_fn, key)
  batch = batches(devices_count)[name](get_batch_size(name))
  loss = loss_in_training(workload, None, 0.0)
  graded = jax.value_and_grad(loss, has_aux=True)
  lowered = jax.jit(graded).lower(params, model_state, batch, key)
  step = flops(lowered) / devices_count

  leaves = jax.tree_util.tree_leaves(params)
  answers = workload_facts.forms_of(workload, params, jax.random.PRNGKey(0))
  pairs = [
    (leaf, a.form) for leaf, a in zip(leaves, answers) if a.form.is_matrix
  ]
  matrices = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf, _ in pairs]
  forms = [form for _, form in pairs]
  devices = Devices()
  same = devices.layout(matrices)
  spread = jax.jit(
    lambda given: orthogonal.by_stacks(
      lambda stack: devices.spread(orthogonal.orthogonalised, stack),
      given,
      forms,
    ),
    in_shardings=(same,),
    out_shardings=same,
  )
  own = flops(spread.lower(matrices).compile())
  whole = flops(
    jax.jit(
      lambda given: orthogonal.by_stacks(
        orthogonal.orthogonalised, given, forms
      )
    ).lower(matrices)
  )
  stacks: dict[tuple[int, int], int] = {}
  for leaf, form in pairs:
    count, rows, columns = form.sides(leaf.shape)
    stacks[rows, columns] = stacks.get((rows, columns), 0) + count
  padded = sum(
    -(-count // devices_count) * devices_count * rows * columns * 4
    for (rows, columns), count in stacks.items()
  )
  received = padded * (devices_count - 1) / devices_count
  return [
    name,
    f'{len(matrices)} of {len(leaves)} in {len(stacks)}',
    f'{step / 1e9:.4g}',
    f'{own / 1e9:.4g}',
    f'{own / (own + step):.1%}',
    f'{whole / (whole + step):.1%}',
    f'{received / 1e6:.4g}',
  ]


def flops(program: Any) -> float:
  """XLA's own count for a lowered or compiled program."""
  found = program.cost_analysis()
  return float((found[0] if isinstance(found, list) else found)['flops'])


def rows(names: Sequence[str], devices: int) -> Iterator[str]:
  """A Markdown table, row by row: the workloads' names and `counted`."""
  columns = (
    *('', 'matrices of leaves, in stacks', 'step, GF', 'Muon, GF'),
    *('share', 'share if each does all', 'received, MB'),
  )
  yield f'| {" | ".join(columns)} |'
  yield f'|---|{"---:|" * (len(columns) - 1)}'
  for name in names:
    yield f'| {" | ".join(counted(name, devices))} |'
