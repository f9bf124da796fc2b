"""`reset-cycles export`: the folder that is handed in."""

import ast
import dataclasses
import json
import pathlib
import re
import shutil

import pytest

from helpers.documents import files_of, write_files
from helpers.run_files import python
from reset_cycles import __version__, submission
from reset_cycles.cli import algorithm, handed_in
from reset_cycles.cli import main as cli
from reset_cycles.cli.handed_in import ROOT
from reset_cycles.engine.records import as_plain
from reset_cycles.optimizers.schedule_free import ScheduleFreeMuon
from reset_cycles.research.thesis.settings import RUNS
from reset_cycles.schedule_params import (
  MUON,
  SCHEDULE_PARAMS,
  SOFT_RESET,
  THESIS,
)
from reset_cycles.submission import make_submission

# As the runner does it, leaving what Python leaves. In packages whose names are
# not this one's.
IMPORT = """
import importlib, os, sys
names = sys.argv[1:]
sys.path[:0] = [os.path.abspath(name) for name in names]
sys.dont_write_bytecode = False
for name in names:
  made = importlib.import_module(f'self_tuning.{name}.submission')
  functions = ['update_params', 'data_selection', 'prepare_for_eval']
  assert all(callable(getattr(made, name)) for name in functions)
  assert made.get_batch_size('ogbg') == 512
  print(repr(made.init_optimizer_state.settings))
files = [getattr(m, '__file__', None) or '' for m in sys.modules.values()]
print(*[os.path.relpath(f) for f in files if f.startswith(os.getcwd())])
known = {m.split('.')[0] for m in sys.modules} & {'reset_cycles', 'sklearn'}
assert not known, known
"""
SETTINGS = {
  'muon': MUON,
  'soft_reset': SOFT_RESET,
  'thesis': THESIS,
  'decays_full': RUNS['decays_full'],
}
PARTS = {'decays_full': ('shapes.simple', 'HoldingLinear')}
PLACE = ROOT / 'schedule_params.py'


def export(*flags):
  return cli.main(['export', *flags])


def entries(folder):
  return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def imported_once(monkeypatch):
  """The command imports what it exports; here the test does, or another one."""
  monkeypatch.setattr(handed_in, 'check_imports', lambda *unused: None)


@pytest.mark.usefixtures('imported_once')
def test_exactly_what_the_benchmark_imports(tmp_path, monkeypatch, capsys):
  monkeypatch.chdir(tmp_path)
  code = set()
  for name in SETTINGS:
    assert export(f'--out={name}', f'--settings={name}') == 0
    assert entries(pathlib.Path(name)) == ['self_tuning']
    own = pathlib.Path(name, 'self_tuning', name)
    files = {path for path in own.rglob('*') if path.is_file()}
    modules = {path for path in files if path.suffix == '.py'}
    lines = sum(len(path.read_text().splitlines()) for path in modules)
    said = capsys.readouterr().out
    assert f'{len(modules)} modules with {lines:,} lines' in said
    assert f'submissions/{own}/submission.py' in said
    assert sorted(path.name for path in files - modules) == [
      *('LICENSE', 'README.md', 'submission_info.yml')
    ]
    form = (own / 'submission_info.yml').read_text()
    assert f'\nsubmission_folder: "{name}"\n' in form
    assert ('orthogonalised' in form) is ('Muon' in form) is (name == 'muon')
    assert (
      f'\ndescription: "Learning-rate cycles: the settings {name} of' in form
    ) is (name != 'muon')
    text = check_same(python_files(own))
    if part := PARTS.get(name):  # which come along where settings name them
      assert (own / f'{part[0].replace(".", "/")}.py').exists()
      assert re.search(rf'from \.{part[0]} import [^.]*\b{part[1]}\b', text)
    else:
      assert not (own / 'shapes').exists()
    page = (own / 'README.md').read_text()
    assert f'\nSettings `{name}` of reset-cycles ' in page
    assert ('The rest of this page is of `muon`' in page) is (name != 'muon')
    code |= modules
  *settings, imported = python(IMPORT, *SETTINGS, path='').splitlines()
  assert settings == [repr(params) for params in SETTINGS.values()]
  assert set(map(pathlib.Path, imported.split())) == code
  # What is left of the import would be a submission to the checker.
  for name in SETTINGS:
    assert entries(pathlib.Path(name, 'self_tuning')) == [name]


@pytest.mark.usefixtures('imported_once')
@pytest.mark.parametrize(
  ('file', 'title'), [('mine.json', 'mine.json'), ('"\\1.json', 'own')]
)
def test_settings_in_a_file_have_its_name(
  file, title, tmp_path, monkeypatch, capsys
):
  """Unless it would break the form."""
  monkeypatch.chdir(tmp_path)
  pathlib.Path(file).write_text('{"repeat": false}')
  assert export('--out=x', f'--settings={file}') == 0
  own = pathlib.Path('x/self_tuning/own')
  assert f'{own}: {title}, ' in capsys.readouterr().out
  form = (own / 'submission_info.yml').read_text()
  assert f': the settings {title} of reset-cycles ' in form
  assert f'\nSettings `{title}` of ' in (own / 'README.md').read_text()


def python_files(own):
  """The files below a folder that are Python's, by their names there."""
  return {
    p.relative_to(own).as_posix(): p.read_bytes() for p in own.rglob('*.py')
  }


def check_same(files):
  """Whole files are the repository's, but for two; returns the settings' file.

  Of that one the type and what it needs are the repository's. Below them there
  is one statement, which has the settings. Each name that it imports is used.
  """
  assert files.pop('__init__.py') == b'"""%s"""\n' % ABOUT
  text = files.pop('schedule_params.py').decode()
  assert files == {name: (ROOT / name).read_bytes() for name in files}
  whole = PLACE.read_text()
  kind = whole[whole.index('def _check_cycles') : whole.index('# What the th')]
  above, _, below = text.partition(kind.rstrip())
  assert below.startswith(
    '\n\n\n# The settings in force. README.md has what stands elsewhere.\n'
    'SCHEDULE_PARAMS = '
  )
  assert len(ast.parse(below).body) == 1
  imported = [
    alias.name for n in ast.parse(above).body[2:] for alias in n.names
  ]
  names = re.findall(r'\w+', kind + below)
  assert [name for name in imported if name not in names] == []
  assert max(map(len, text.splitlines())) <= 80
  return text


ABOUT = b'Learning-rate cycles with soft resets, for AlgoPerf.'


def check_same_project(files):
  """Whole files are the repository's, with all settings; but `__init__.py`.

  That has the names that are there.
  """
  package = files.pop('__init__.py').decode()
  assert files == {name: (ROOT / name).read_bytes() for name in files}
  names = re.findall(r'import (\w+) as', package)
  assert names == [
    *('MUON', 'SCHEDULE_PARAMS', 'SOFT_RESET', 'ScheduleParams', 'THESIS'),
    'make_submission',
  ]


def test_a_setting_is_written_with_every_number():
  """Python reads the same setting; THESIS, line by line."""
  every = (*RUNS.values(), MUON, SOFT_RESET, THESIS)
  names = {kind.__name__: kind for kind in algorithm.classes(every)}
  for params in every:
    assert eval(algorithm.written(params), names) == params
  cycle = """    Cycle(
      peak=0.0017486387539278373,
      length=1.0,
      warmup_factor=0.02,
      warmup=LinearWarmup(start=0.0),
      decay=Cosine(floor=0.0),
      weight_decay=Constant(),
    ),
"""
  assert algorithm.written(THESIS, '', 'SCHEDULE_PARAMS = ') == (
    f"""ScheduleParams(
  cycles=(
{cycle * 3}  ),
  optimizer=AdamW(
    one_minus_beta1=0.06733926164,
    beta2=0.9955159689799007,
    eps=1e-08,
    weight_decay=0.08121616522670176,
    grad_clip=None,
  ),
  budget_factor=2.0,
  reset=SoftReset(alpha=0.5, scale='log', fade=0.0, expected=None),
  switching=SmoothedLossRule(lam=0.7, eps1=0.01, eps2=0.01, k=9, m=9),
  early_switching=True,
  repeat=False,
  relative_peak=None,
  horizon=None,
  dropout_rate=0.1,
  label_smoothing=0.0,
)"""
  )


def test_the_settings_asked_for_decide(tmp_path):
  """Whatever is in force in the checkout, which then imports other files."""
  checkout = tmp_path / 'reset_cycles'
  kept = shutil.ignore_patterns('.*', '__pycache__', 'build', 'logs', 'tests')
  shutil.copytree(ROOT, checkout, ignore=kept)
  place = checkout / 'schedule_params.py'
  line = (
    'from .shapes.simple import HoldingLinear\n'
    'SCHEDULE_PARAMS: ScheduleParams = dataclasses.replace(  # ours\n'
    '  THESIS, budget_factor=3.0\n)\n'
  )
  text = place.read_text()
  assert '\nSCHEDULE_PARAMS = MUON\n' in text
  place.write_text(text.replace('SCHEDULE_PARAMS = MUON\n', line))
  code = 'import sys; from reset_cycles.cli.main import main; sys.exit(main())'
  words = ('export', '--out=x')
  python(code, *words, path=tmp_path, cwd=tmp_path)
  exported = check_same(python_files(tmp_path / 'x/self_tuning/muon'))
  assert 'HoldingLinear' not in exported and 'budget_factor=1.5' in exported


@pytest.fixture
def mine(tmp_path, monkeypatch):
  """A folder with the files of the page on extending."""
  monkeypatch.chdir(tmp_path)
  return write_files('docs/extending.md', pathlib.Path('mine'))


OWN = '--submission_path=mine/my_submission.py'


def test_own_parts_are_exported_as_the_page_says(mine, capsys):
  (mine / 'other.py').write_text('import this_is_not_imported')
  assert export('--out=x', OWN) == 0
  own = pathlib.Path('x/self_tuning/own')
  files = python_files(own)
  ours = {name: files.pop(name) for name in [*files] if '/' not in name}
  assert {name.partition('/')[0] for name in files} == {'reset_cycles'}
  project = {name.partition('/')[2]: text for name, text in files.items()}
  check_same_project(project)
  sources = files_of('docs/extending.md')
  sources['submission.py'] = sources.pop('my_submission.py')
  assert ours == {
    name: text.replace('from reset_cycles', 'from .reset_cycles').encode()
    for name, text in sources.items()
  }
  assert 'modules with' in capsys.readouterr().out


IS_HERE = "__name__.startswith('reset_cycles_submission')"
# A file of the page: what is changed in it, and what is said then.
BROKEN = {
  'absolute': (
    *('plateau.py', 'import dataclasses', 'import dataclasses, reset_cycles'),
    'plateau.py, line 3: write `from reset_cycles import …`',
  ),
  'outside': (
    *('plateau.py', 'import dataclasses', 'from ..above import dataclasses'),
    'above.py: what ',
  ),
  'late': (
    *('patience.py', 'import math', "import math; __import__('reset_cycles')"),
    'cannot be imported: ModuleNotFoundError: ',
  ),
  'untraced': (
    *('plateau.py', 'jnp.where(x < 0.5, 1.0, ', '(1.0 if x < 0.5 else '),
    'plateau.py, line 14: Plateau.__call__ must be a function that JAX can',
  ),
  'mistyped': (
    *('heavy_ball.py', "('trace',)", "('trce',)"),
    "HeavyBall.moments=('trce',): must be a tuple of names of fields",
  ),
  'settings': (
    *('my_submission.py', '(0.25)', f'(0.25 if {IS_HERE} else 0.5)'),
    'has other settings',
  ),
}


@pytest.mark.parametrize(
  ('name', 'old', 'new', 'said'), BROKEN.values(), ids=BROKEN
)
def test_what_would_not_run_is_not_left(mine, capsys, name, old, new, said):
  for above in ('__init__.py', 'above.py'):
    pathlib.Path(above).write_text('import dataclasses')
  text = (mine / name).read_text()
  assert old in text
  (mine / name).write_text(text.replace(old, new, 1))
  assert export('--out=x', OWN) == 2
  [line] = capsys.readouterr().err.splitlines()
  assert said in line
  assert entries(pathlib.Path()) == ['__init__.py', 'above.py', 'mine']


def test_a_submission_in_the_checkout(tmp_path):
  """Imports that lead to the project are relative already."""
  path = ROOT / 'research/board/rivals/thesis.py'
  flags = (f'--out={tmp_path}/x', f'--submission_path={path}')
  assert export(*flags) == 0
  own = tmp_path / 'x/self_tuning/own'
  text = (own / 'submission.py').read_text()
  assert text == path.read_text().replace('from ....', 'from .reset_cycles.')
  check_same_project(python_files(own / 'reset_cycles'))


def test_a_submission_beside_that_of_the_project(tmp_path, monkeypatch):
  """Its settings are written into schedule_params.py: it needs no folder."""
  path = ROOT / 'submission.py'
  params = dataclasses.replace(THESIS, early_switching=False)
  made = make_submission(params)
  monkeypatch.setattr(submission, 'init_optimizer_state', made[0])
  assert export(f'--out={tmp_path}/x', f'--submission_path={path}') == 0
  files = python_files(tmp_path / 'x/self_tuning/own')
  assert 'early_switching=False' in check_same(files)


def test_the_submission_form():
  """Read as the form's own check does: line by line, comments cut off."""
  lines = (ROOT / 'submission_info.yml').read_text().splitlines()
  pairs = [line.split('#')[0].strip().split(': ', 1) for line in lines]
  info = {key: json.loads(value) for key, value in pairs}
  assert set(info) == {
    *('submission_name', 'submission_folder', 'authors', 'affiliations'),
    *('version', 'ruleset', 'framework', 'description'),
  }
  assert all(value.strip() for value in info.values())
  assert re.fullmatch('[a-z0-9_]+', info['submission_folder'])
  assert (info['ruleset'], info['framework']) == ('self-tuning', 'JAX')
  assert info['version'] == __version__
  assert SCHEDULE_PARAMS.optimizer == ScheduleFreeMuon()
  for part in ('cycles', 'soft reset', 'orthogonalised', 'Schedule-Free'):
    assert part in info['description']
  assert 'set to a share of the spectral size' in info['description']


def test_a_submission_for_the_external_ruleset(tmp_path, monkeypatch, capsys):
  monkeypatch.chdir(tmp_path)
  assert export('--out=x', '--ruleset=external') == 0
  assert entries(pathlib.Path('x')) == ['external_tuning']
  own = pathlib.Path('x/external_tuning/muon')
  check_same(python_files(own))
  space = (own / 'tuning_search_space.json').read_bytes()
  assert space == (ROOT / 'tuning_search_space.json').read_bytes()
  form = (own / 'submission_info.yml').read_text()
  assert '\nruleset: "external"\n' in form
  assert 'set to a tuned share of the spectral size' in form
  assert 'for the external ruleset.' in (own / 'README.md').read_text()
  said = capsys.readouterr().out
  place = 'submissions/x/external_tuning/muon'
  assert (
    f'--tuning_ruleset=external --tuning_search_space={place}/'
    f'tuning_search_space.json --submission_path={place}/submission.py'
  ) in said


THESIS_SPACE = """{
  "learning_rate": {"min": 0.001, "max": 0.01, "scaling": "log"},
  "alpha": {"feasible_points": [0.0, 0.5, %s]}
}"""


@pytest.mark.usefixtures('imported_once')
def test_each_value_of_a_search_space_is_tried(tmp_path, monkeypatch, capsys):
  monkeypatch.chdir(tmp_path)
  flags = ['--out=x', '--settings=thesis', '--ruleset=external']
  assert export(*flags) == 2
  assert 'relative_peak__share' in capsys.readouterr().err
  flags.append('--tuning_search_space=own.json')
  pathlib.Path('own.json').write_text(THESIS_SPACE % '1.5')
  assert export(*flags) == 2
  said = '--tuning_search_space=own.json: hyperparameter alpha: reset.alpha=1.5'
  assert said in capsys.readouterr().err
  pathlib.Path('own.json').write_text(THESIS_SPACE % '1.0')
  assert export(*flags) == 0
  own = pathlib.Path('x/external_tuning/thesis/tuning_search_space.json')
  assert own.read_text() == THESIS_SPACE % '1.0'


def test_settings_from_a_file(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  params = dataclasses.replace(THESIS, budget_factor=3.5)
  pathlib.Path('mine.json').write_text(json.dumps(as_plain(params)))
  flags = ['--settings=mine.json', '--name=my_own_2']
  assert export('--out=new/x', *flags) == 0
  own = tmp_path / 'new' / 'x' / 'self_tuning' / 'my_own_2'
  assert 'budget_factor=3.5' in (own / 'schedule_params.py').read_text()


def test_a_pair_that_does_not_go_together_is_not_exported(
  tmp_path, monkeypatch, capsys
):
  """Lion at the peak of matrices."""
  monkeypatch.chdir(tmp_path)
  lion = {'optimizer': {'class': 'FromOptax', 'name': 'lion'}}
  pathlib.Path('pair.json').write_text(json.dumps(lion))
  assert export('--out=x', '--settings=pair.json') == 2
  [line] = capsys.readouterr().err.splitlines()
  assert "optimizer=FromOptax(name='lion'" in line
  assert entries(pathlib.Path()) == ['pair.json']
