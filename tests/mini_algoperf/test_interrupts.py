"""Ctrl-C and SIGTERM: remembered for the end of a step, and not lost."""

from __future__ import annotations

import contextlib
import signal
import threading

import pytest

from reset_cycles.mini_algoperf import interrupts

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture
def usual_handlers():
  """As in a terminal: shells have background processes ignore Ctrl-C."""
  before = {s: signal.getsignal(s) for s in SIGNALS}
  signal.signal(signal.SIGINT, signal.default_int_handler)
  signal.signal(signal.SIGTERM, signal.SIG_DFL)
  yield
  for signum, handler in before.items():
    signal.signal(signum, handler)


@pytest.mark.usefixtures('usual_handlers')
@pytest.mark.parametrize('signum', SIGNALS)
def test_the_first_signal_waits_until_it_is_asked_for(signum, capfd):
  with interrupts.deferred() as interrupted:
    interrupted.check()
    signal.raise_signal(signum)
    with pytest.raises(KeyboardInterrupt):
      interrupted.check()
    with pytest.raises(KeyboardInterrupt):
      interrupted.on_step(None)
  assert capfd.readouterr().err == (
    '\nsoft-reset: ends after the set-up or this step; Ctrl-C again ends it at '
    'once.\n'
  )


@pytest.mark.usefixtures('usual_handlers')
@pytest.mark.parametrize('first', SIGNALS)
@pytest.mark.parametrize('second', SIGNALS)
def test_the_second_one_does_not_wait(first, second):
  with interrupts.deferred() as interrupted:
    signal.raise_signal(first)
    with pytest.raises(KeyboardInterrupt):
      signal.raise_signal(second)
    # Swallowed by a callback, it ends the run after the step nevertheless.
    with pytest.raises(KeyboardInterrupt):
      interrupted.on_step(None)


@pytest.mark.usefixtures('usual_handlers')
def test_handlers_are_as_before_afterwards():
  with contextlib.suppress(ZeroDivisionError), interrupts.deferred():
    assert all(callable(signal.getsignal(s)) for s in SIGNALS)
    raise ZeroDivisionError
  assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
  assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.usefixtures('usual_handlers')
@pytest.mark.parametrize(
  'handler', [signal.SIG_IGN, lambda *unused: None], ids=['ignored', 'another']
)
@pytest.mark.parametrize('signum', SIGNALS)
def test_what_is_handled_otherwise_stays_so(signum, handler):
  signal.signal(signum, handler)
  with interrupts.deferred() as interrupted:
    assert signal.getsignal(signum) is handler
    signal.raise_signal(signum)
    interrupted.check()


@pytest.mark.usefixtures('usual_handlers')
def test_another_thread_leaves_the_handlers_alone():
  seen = []

  def work():
    with interrupts.deferred():
      seen.extend(signal.getsignal(s) for s in SIGNALS)

  thread = threading.Thread(target=work)
  thread.start()
  thread.join()
  assert seen == [signal.default_int_handler, signal.SIG_DFL]
