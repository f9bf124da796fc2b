"""The examples run, in short, and say what they promise."""

import importlib
import pathlib
import re
import sys

import jax
import numpy as np
import optax
import pytest

from helpers import loops
from reset_cycles import submission

FOLDER = pathlib.Path(submission.__file__).parent / 'examples'
EXAMPLES = sorted(path.stem for path in FOLDER.glob('*.py'))


@pytest.fixture
def example(tmp_path, monkeypatch):
  """Imports an example as if it was run from its folder."""
  monkeypatch.chdir(tmp_path)
  monkeypatch.syspath_prepend(str(FOLDER))
  # For the processes that an example starts, whose programs are to be the same.
  monkeypatch.setenv('PYTHONPATH', ':'.join(p for p in sys.path if p))
  is_plain = jax.config.read('jax_disable_most_optimizations')
  monkeypatch.setenv('JAX_DISABLE_MOST_OPTIMIZATIONS', str(is_plain))
  yield importlib.import_module
  for name in EXAMPLES:
    sys.modules.pop(name, None)


def printed(capsys):
  """The lines; the last one says what was reached."""
  said = capsys.readouterr().out.splitlines()
  assert said[-1].startswith('Reached: ')
  assert not any(line.startswith('Reached') for line in said[:-1])
  return said


def resets(events):
  return [event for event in events if event.kind == 'reset']


@pytest.mark.parametrize(
  ('name', 'needs'),
  [
    ('plain_jax', 'jax'),
    ('flax_nnx', 'flax.nnx'),
    pytest.param(
      'equinox_mlp',
      'equinox',
      marks=pytest.mark.skipif(
        not hasattr(getattr(optax, 'contrib', None), 'muon'),
        reason='this optax has no Muon',
      ),
    ),
    ('scan', 'jax'),
  ],
)
def test_three_cycles(name, needs, example, capsys):
  module = pytest.importorskip(needs)
  if name == 'flax_nnx' and not hasattr(module, 'as_pure'):
    pytest.skip('this flax has no as_pure')
  events = example(name).main(60, 10)
  assert [event.step for event in resets(events)] == [20, 40]
  assert all(0 < event.numbers['tau'] < 0.7 for event in resets(events))
  assert [str(event) for event in events if event.kind == 'warning'] == []
  # Five starts and resets, the evaluations before two and at the end, Reached.
  said = printed(capsys)
  assert len(said) <= 10
  assert said[-2].startswith('step 60: loss ')


@pytest.mark.parametrize(
  ('name', 'needs'),
  (
    ('muon_linen', 'flax'),
    ('muon_nnx', 'flax.nnx'),
    ('muon_equinox', 'equinox'),
  ),
)
def test_muon_beside_adamw(name, needs, example, capsys, monkeypatch):
  """Thirty steps, and AdamW at two of its peaks, the better one named."""
  module = pytest.importorskip(needs)
  if name == 'muon_nnx' and not hasattr(module, 'as_pure'):
    pytest.skip('this flax has no as_pure')
  monkeypatch.setattr(example('common'), 'PEAKS', (0.0, 0.03))
  ours, still, adamw = example(name).main(30).values()
  assert len({ours, still, adamw}) == 3
  said = printed(capsys)
  numbers = re.findall(r'\d\.\d{3}', ' '.join(said))
  best = max(still, adamw)
  expected = ours, still, adamw, ours, best
  assert numbers == [f'{accuracy:.3f}' for accuracy in expected]


def test_muon_batch_norm(example, capsys):
  """A batch is a tenth of the new statistics."""
  module = example('muon_batch_norm')
  [(before, after)] = module.main(1, 100)
  assert after != before
  said = printed(capsys)
  assert re.findall(r'\d\.\d{4}', said[-1]) == [f'{before:.4f}', f'{after:.4f}']
  net, points = module.Net(), module.spirals(7)[0]
  params, stats = net.init(jax.random.PRNGKey(0), points, True).values()
  renewed = module.renewed(params, stats, 7, 1)
  hidden = points @ np.asarray(params['Dense_0']['kernel'])  # its bias is 0
  mean = renewed['BatchNorm_0']['mean']
  np.testing.assert_allclose(mean, 0.1 * hidden.mean(axis=0), atol=1e-6)


def test_flax_linen(example, capsys):
  """As it is run by hand, since it must not end at chance."""
  events = example('flax_linen').main()
  reasons = [event.reason for event in events if event.kind == 'abandon']
  assert 'loss is not finite' in reasons
  assert 'FullReset' in ' '.join(event.reason for event in resets(events))
  said = printed(capsys)
  accuracy = float(re.search('accuracy of ([.0-9]+)', said[-1])[1])
  assert accuracy > 0.99
  assert len(said) < 15


def test_falling_error(example, capsys):
  """The parameters that were kept have the loss that they were kept for."""
  best, last = example('falling_error').main(300, 5)
  assert best < last
  said = printed(capsys)
  assert f'a test loss of {best:.3f} with' in said[-1]
  assert f'and {last:.3f} with the last' in said[-1]
  assert sum('starts, up to step' in line for line in said) == 4


def test_sharded_orbax(example):
  loops.orbax_checkpoint()
  assert example('sharded_orbax').main(20) == (-9, True)


def test_growing_data(example, capsys):
  """Each way by its name, after four steps on the old images."""
  found = example('growing_data').main(4, 4, 1)
  assert list(found) == [
    'the old model',
    'going on plainly',
    'a soft reset, tau 0.1',
    'a soft reset, tau 0.4',
    'a fresh model',
  ]
  assert len(set(found.values())) > 1
  said = capsys.readouterr().out.splitlines()
  assert [line.split(' of the model')[0] for line in said] == [
    f'step 4: cycle 2 starts with {tau}' for tau in ('0', '0.1', '0.4')
  ]
