"""A strict session: 8 virtual devices, no rank promotion, counted compiles.

A program that a test has compiled is read from a folder by those after it, which
halves the session's time. It counts as a compilation all the same.

Warnings are errors; that is set in pyproject.toml.
"""

import atexit
import contextlib
import dataclasses
import importlib.metadata
import inspect
import os
import pathlib
import re
import signal
import tempfile

# A shell has what it starts in the background ignore Ctrl-C, and nohup SIGHUP;
# processes that tests start inherit that, too.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Read when jax first asks for its devices. Processes that tests start inherit
# it.
_DEVICE_COUNT = '--xla_force_host_platform_device_count'
if _DEVICE_COUNT not in os.environ.get('XLA_FLAGS', ''):
  _flags = (os.environ.get('XLA_FLAGS', ''), f'{_DEVICE_COUNT}=8')
  os.environ['XLA_FLAGS'] = ' '.join(_flags).strip()

# On a busy machine virtual devices may wait for one another for longer than the
# 40 s after which XLA ends the process. The others have XLA take the shorter of
# its ways to a program, in half the time; what helpers.runs trains was the same to
# the bit when it was compared. Older versions do not know the flags.
if int(importlib.metadata.version('jaxlib').split('.')[1]) >= 10:
  os.environ['XLA_FLAGS'] += (
    ' --xla_cpu_collective_call_terminate_timeout_seconds=600'
    ' --xla_cpu_use_fusion_emitters=false'
    ' --xla_cpu_parallel_codegen_split_count=1'
    ' --xla_llvm_disable_expensive_passes=true'
  )

# The same for programs. jax 0.4 has no such folder for a CPU.
if 'JAX_COMPILATION_CACHE_DIR' not in os.environ:
  _programs = tempfile.TemporaryDirectory()
  atexit.register(_programs.cleanup)
  os.environ['JAX_COMPILATION_CACHE_DIR'] = _programs.name
  os.environ['JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS'] = '0'

import jax
import pytest

jax.config.update('jax_numpy_rank_promotion', 'raise')
jax.devices()  # jax 0.4 says here, and in no test, that there is no GPU


def pytest_collection_modifyitems(items):
  """The longest files first: no process is to be left with one at the end.

  Those that are compiled alike lie together.
  """
  longest = (
    *('test_workloads', 'test_run', 'test_optax', 'test_chaos_files'),
    *('test_placement', 'test_examples', 'test_settings'),
  )
  items.sort(
    key=lambda item: (
      item.path.stem not in longest,
      _is_compiled_as_in_use(item.path),
    )
  )


def pytest_make_parametrize_id(config, val, argname):
  """Cases are named after what they are, so that -k finds them."""
  del config, argname
  if isinstance(val, dict):
    val = [f'{name}={value}' for name, value in val.items()]
  if isinstance(val, (list, tuple)):
    text = ','.join(map(str, val))
  elif dataclasses.is_dataclass(val) and not isinstance(val, type):
    text = str(val)
  else:
    return None  # pytest's own way
  # Workers must agree on names, and an address is another one in each.
  text = '' if ' at 0x' in text else re.sub(r'[^\w.=,+-]+', '_', text)
  return text[:50].strip('_') or None


@pytest.fixture(scope='session')
def _compile_events():
  """Grows by an entry per XLA compilation.

  One listener for the session: jax 0.4 has no public way to remove one.
  """
  events = []

  def listen(event, duration, **unused):
    if 'backend_compile' in event:
      events.append(event)

  jax.monitoring.register_event_duration_secs_listener(listen)
  return events


@pytest.fixture
def compilations(_compile_events):
  """`with compilations() as compiled:` fills the list, an entry each."""

  @contextlib.contextmanager
  def count():
    before, compiled = len(_compile_events), []
    yield compiled
    compiled.extend(_compile_events[before:])

  return count


# Folders and files whose programs are optimised, but for what XLA_FLAGS leaves out
# above: of what is handed in. Elsewhere programs take longer to be compiled than
# to run.
_AS_IN_USE = ('core', 'engine', 'shapes', 'test_schedule_params.py')
_AS_IN_USE += ('test_soft_reset.py', 'test_submission.py')


def _is_compiled_as_in_use(path):
  place = path.relative_to(pathlib.Path(__file__).parent)
  return place.parts[0] in _AS_IN_USE


@pytest.fixture(scope='module', autouse=True)
def _compiled_as_in_use_or_quickly(request):
  is_wanted = _is_compiled_as_in_use(request.path)
  if jax.config.read('jax_disable_most_optimizations') == is_wanted:
    jax.config.update('jax_disable_most_optimizations', not is_wanted)
    jax.clear_caches()  # whose keys are without this setting


@pytest.fixture
def key():
  """A key with a fixed seed."""
  return jax.random.PRNGKey(0)


@pytest.fixture(scope='session')
def _pictures():
  """What of a run was drawn, and the pictures."""
  return {}


@pytest.fixture(autouse=True)
def _each_picture_is_drawn_once(_pictures, monkeypatch):
  """A fifth of a second at every set-up, and most runs have the same plan."""
  from reset_cycles.engine import records

  draw = records.drawn

  def drawn(chain, pieces):
    lengths = tuple(cycle.steps for cycle in chain.cycles)
    of = lengths, tuple(pieces), chain.rates.tobytes()
    if of not in _pictures:
      _pictures[of] = draw(chain, pieces)
    return _pictures[of]

  monkeypatch.setattr(records, 'drawn', drawn)


@pytest.fixture(scope='session')
def _rates_programs():
  """A program for each chain of shapes."""
  return {}


@pytest.fixture(autouse=True)
def _the_rates_of_equal_shapes_are_traced_once(_rates_programs, monkeypatch):
  """A tenth of a second at every set-up, and most runs have the same shapes."""
  from reset_cycles.core import clock

  traced = clock._rates_program

  def program(cycles):
    shapes = tuple((c.cycle.warmup, c.cycle.decay) for c in cycles)
    try:
      if shapes not in _rates_programs:
        _rates_programs[shapes] = traced(cycles)
    except TypeError:  # a test's own shape, which cannot be hashed
      return traced(cycles)
    return _rates_programs[shapes]

  monkeypatch.setattr(clock, '_rates_program', program)


@pytest.fixture(autouse=True)
def _nothing_is_swallowed(request, caplog):
  """What a run survives is a fault all the same, unless the test is about it."""
  yield
  own = inspect.signature(request.function).parameters
  if not {'said', 'caplog', 'warnings'} & own.keys():
    messages = [record.getMessage() for record in caplog.get_records('call')]
    survived = [m for m in messages if 'this is logged only once' in m]
    assert survived == []


@pytest.fixture
def folder(tmp_path, monkeypatch):
  """Makes runs of tiny workloads write their files into a temporary folder."""
  from helpers.fake_benchmark import Logger, TinyWorkload

  monkeypatch.setattr(TinyWorkload, 'metrics_logger', Logger(tmp_path))
  return tmp_path


@pytest.fixture
def fake_workload(tmp_path, monkeypatch):
  """An empty current folder, and a workload `fake` for the command line."""
  from helpers.fakes import FakeWorkload
  from reset_cycles.mini_algoperf import workloads

  monkeypatch.chdir(tmp_path)
  # Locks go with the test.
  (tmp_path / '.locks').mkdir()
  monkeypatch.setattr(tempfile, 'tempdir', str(tmp_path / '.locks'))
  monkeypatch.setitem(workloads.WORKLOADS, 'fake', FakeWorkload)


@pytest.fixture
def reads(monkeypatch):
  """A list that grows with the shape of every array that the host reads."""
  from jax._src.array import ArrayImpl

  value, found = ArrayImpl._value, []

  def counted(self):
    found.append(self.shape)
    return value.fget(self)

  monkeypatch.setattr(ArrayImpl, '_value', property(counted))
  return found
