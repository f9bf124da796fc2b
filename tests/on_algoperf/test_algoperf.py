"""Against an installed copy of the real benchmark, either generation."""

import ast
import importlib.util
import inspect
import json
import math

import pytest

import real_benchmark
from helpers.documents import ROOT
from real_benchmark import import_benchmark, package_and_root
from reset_cycles import submission
from reset_cycles.core.evaluation import read_evaluation
from reset_cycles.core.workload import read_target, spec_of, takes_dropout_rate
from reset_cycles.engine.tuned import tuned
from reset_cycles.schedule_params import SCHEDULE_PARAMS

pytestmark = real_benchmark.MARKS

# Base workload -> target metric, whether it rises, key of the loss.
METRICS = {
  'cifar': ('accuracy', True, 'loss'),
  'criteo1tb': ('loss', False, 'loss'),
  'criteo1tb_test': ('loss', False, 'loss'),
  'fastmri': ('ssim', True, 'loss'),
  'finewebedu_lm': ('ppl', False, 'loss'),
  'imagenet_resnet': ('accuracy', True, 'loss'),
  'imagenet_vit': ('accuracy', True, 'loss'),
  'librispeech_conformer': ('wer', False, 'ctc_loss'),
  'librispeech_deepspeech': ('wer', False, 'ctc_loss'),
  'mnist': ('accuracy', True, 'loss'),
  'ogbg': ('mean_average_precision', True, 'loss'),
  'wmt': ('bleu', True, 'loss'),
}


def test_every_workload_has_a_batch_size():
  registry = import_benchmark('workloads.workloads')
  for name in registry.WORKLOADS:
    base = registry.get_base_workload_name(name)
    assert submission.get_batch_size(name) > 0
    assert submission.get_batch_size(base) > 0


def jax_workloads(registry):
  """(name, workload object) of all that are written for JAX."""
  for name, meta in registry.WORKLOADS.items():
    path = registry.BASE_WORKLOADS_DIR + meta['workload_path']
    folder = f'{path}_jax/workload.py'
    if path.endswith('_pytorch'):
      continue
    cls = registry.import_workload(
      folder, meta['workload_class_name'], return_class=True
    )
    yield name, cls(**meta.get('workload_init_kwargs', {}))


def test_what_is_read_of_every_workload():
  """Its metric, its loss, its spec, and whether dropout is an argument."""
  registry = import_benchmark('workloads.workloads')
  spec = import_benchmark('spec')
  seen = 0
  for name, workload in jax_workloads(registry):
    # Of the longest base name that a variant's starts with.
    base = max((b for b in METRICS if name.startswith(b)), key=len)
    metric, rising, loss = METRICS[base]
    target = read_target(workload)
    assert target.key == f'validation/{metric}', name
    assert target.rises == rising, name
    assert 0 < target.value < math.inf
    results = {f'validation/{loss}': 2.5, f'validation/{metric}': 2.5}
    found = read_evaluation(7, results, target)
    assert found[:3] == (7, 2.5, 2.5)
    with pytest.raises(ValueError, match=f'{metric}.*validation/other'):
      read_evaluation(7, {'validation/other': 1.0}, target)
    assert spec_of(workload) is spec
    is_current = spec.__name__ == 'algoperf.spec'
    assert takes_dropout_rate(workload) == is_current, name
    seen += 1
  assert seen >= 20


def checkout_file(*places):
  """A file of the benchmark's checkout; skips if the package came without."""
  _, root = package_and_root()
  found = [root / place for place in places if (root / place).exists()]
  if not found:
    pytest.skip(f'{root} is no checkout: it has none of {", ".join(places)}')
  return found[0]


@pytest.mark.parametrize(
  ('settings', 'ruleset', 'demanded'),
  (
    ('muon', 'self', 'submission.py'),
    ('thesis', 'self', 'submission.py'),
    ('muon', 'external', 'submission.py'),
    ('muon', 'external', 'tuning_search_space.json'),
  ),
)
def test_what_is_exported_passes_the_benchmarks_checker(
  tmp_path, settings, ruleset, demanded
):
  path = checkout_file(
    'algorithms/submission_checker.py', 'submissions/submission_checker.py'
  )
  spec = importlib.util.spec_from_file_location('submission_checker', path)
  checker = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(checker)
  folder = tmp_path / 'handed_in'
  own = real_benchmark.export(folder, settings, f'--ruleset={ruleset}')
  assert own.parts[0] == f'{ruleset}_tuning'
  assert checker.run_checks(folder)
  # It looks: without what the ruleset demands the folder does not pass.
  (folder / own).with_name(demanded).unlink()
  assert not checker.run_checks(folder)


def test_the_benchmarks_points_of_the_search_space_suit_the_settings():
  halton = import_benchmark('halton')
  space = json.loads((ROOT / 'tuning_search_space.json').read_text())
  points = halton.generate_search(space, 100)
  assert len(set(points)) == 100
  for name, part in space.items():
    values = {getattr(point, name) for point in points}
    if 'feasible_points' in part:
      assert values == set(part['feasible_points'])
    else:
      assert part['min'] <= min(values) < max(values) <= part['max']
  for point in points:
    found = tuned(SCHEDULE_PARAMS, point)
    assert (
      found.relative_peak.share,
      found.optimizer.one_minus_beta1,
      found.optimizer.inner.momentum,
      found.optimizer.weight_decay,
      found.dropout_rate,
      found.label_smoothing,
    ) == point


def test_the_five_points_of_a_study_are_those_of_the_page():
  halton = import_benchmark('halton')
  space = json.loads((ROOT / 'tuning_search_space.json').read_text())
  page = (ROOT / 'docs' / 'external_tuning.md').read_text()
  for point in halton.generate_search(space, 5):
    cells = [f'{value:.3g}'.removeprefix('0') or '0' for value in point]
    assert f'| {" | ".join(cells)} |\n' in page


def test_the_functions_have_the_arguments_of_the_benchmarks_template():
  """What its checker is said to check, but does not."""
  path = checkout_file(
    'algorithms/template/submission.py', 'submissions/template/submission.py'
  )
  theirs = {
    node.name: [arg.arg for arg in node.args.args]
    for node in ast.parse(path.read_text()).body
    if isinstance(node, ast.FunctionDef)
  }
  assert {'init_optimizer_state', 'update_params'} <= set(theirs)
  for name, names in theirs.items():
    parameters = inspect.signature(getattr(submission, name)).parameters
    ours = list(parameters.values())
    assert [p.name for p in ours[: len(names)]] == names
    # The current generation passes train_state, v0.5.0 does not know it.
    assert all(p.default is not p.empty for p in ours[len(names) :])
