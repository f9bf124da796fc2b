"""The wheel, outside of the checkout: the command, and what is imported."""

import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

import pytest

import reset_cycles
from helpers.run_files import python
from reset_cycles import submission

ROOT = pathlib.Path(submission.__file__).parent
_NOT_BUILT_FROM = shutil.ignore_patterns(
  '.*', '__pycache__', 'build', '*.egg-info', 'tests', 'experiment_runs'
)

_IMPORTED = """
import sys, reset_cycles
assert 'jax' not in sys.modules
import optax  # older ones import parts of scipy themselves
before = set(sys.modules)
reset_cycles.Cycles, reset_cycles.ScheduleParams
reset_cycles.make_submission
slow = {'matplotlib', 'scipy.stats', 'sklearn', 'tqdm'}
print(reset_cycles.__file__, *sorted(slow & (set(sys.modules) - before)))
"""


@pytest.fixture(scope='module')
def installed(tmp_path_factory):
  """The wheel's content, built from a copy: a build writes beside its source."""
  folder = tmp_path_factory.mktemp('wheel')
  shutil.copytree(ROOT, folder / 'source', ignore=_NOT_BUILT_FROM)
  pip = [sys.executable, '-m', 'pip', '--disable-pip-version-check']
  built = subprocess.run(
    [*pip, 'wheel', '--no-deps', '--wheel-dir', folder, folder / 'source'],
    capture_output=True,
    text=True,
    check=False,
  )
  if 'No matching distribution found for setuptools' in built.stderr:
    pytest.skip('no setuptools to build with can be had here')
  assert built.returncode == 0, built.stderr
  (wheel,) = folder.glob('*.whl')
  site = folder / 'site'
  shutil.unpack_archive(wheel, site, format='zip')
  return site


def test_the_command(installed, tmp_path):
  code = 'import sys; from reset_cycles.cli.main import main; sys.exit(main())'
  where = {'path': installed, 'cwd': tmp_path}
  assert '45 steps' in python(code, 'schedule', '--step_hint=30', **where)
  code = 'from reset_cycles.mini_algoperf.workloads import text as t; print'
  assert int(python(f'{code}(t.vocab_size())', **where)) > 50


def test_the_wheel_has_the_packages_and_their_data(installed):
  source, own = installed.parent / 'source', installed / 'reset_cycles'
  packages = {path.parent for path in source.rglob('__init__.py')}
  code = {
    path.relative_to(source)
    for path in source.rglob('*.py')
    if packages.issuperset(p for p in path.parents if p.is_relative_to(source))
  }
  files = {path.relative_to(own) for path in own.rglob('*') if path.is_file()}
  data = {path for path in files if path.suffix != '.py'}
  assert files - data == code
  # What is exported is at the root, beside the mark of a typed package.
  page = pathlib.Path('docs/algorithm.md')
  assert page in data
  exported = {'LICENSE', 'submission_info.yml', 'tuning_search_space.json'}
  at_root = {path.name for path in data if path.parent == pathlib.Path()}
  assert at_root == {*exported, 'py.typed'}
  kinds = {'.csv', '.html', '.json', '.npz', '.txt', '.zip'}
  others = data - {page}
  assert {path.suffix for path in others if path.name not in at_root} == kinds


def test_importing_is_lazy_and_needs_no_pictures(installed, tmp_path):
  place = installed / 'reset_cycles' / '__init__.py'
  said = python(_IMPORTED, path=installed, cwd=tmp_path)
  assert said.split() == [str(place)]


def test_what_is_installed_with_it():
  """What the submission imports, and the commands' click; pictures are extra."""
  project = tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']
  needed, mini = (
    {re.match(r'[\w-]+', requirement)[0] for requirement in requirements}
    for requirements in (
      project['dependencies'],
      project['optional-dependencies']['mini'],
    )
  )
  assert needed == {
    *('jax', 'jaxlib', 'optax', 'flax', 'numpy', 'absl-py', 'click')
  }
  assert 'matplotlib' in mini


def test_the_exports_are_there():
  for name in reset_cycles.__all__:
    assert getattr(reset_cycles, name) is not None
  with pytest.raises(AttributeError, match="no attribute 'Cycle'"):
    _ = reset_cycles.Cycle
