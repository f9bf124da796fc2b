"""Ctrl-C, SIGTERM and SIGHUP: remembered for the end of a step, and not lost."""

import signal

import pytest

from reset_cycles.mini_algoperf import interrupts

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
USUAL = (signal.default_int_handler, signal.SIG_DFL, signal.SIG_DFL)


def handlers():
  return tuple(map(signal.getsignal, SIGNALS))


@pytest.fixture(autouse=True)
def usual_handlers():
  """Those that the session begins with."""
  yield
  for pair in zip(SIGNALS, USUAL):
    signal.signal(*pair)


@pytest.mark.parametrize('signum', SIGNALS)
def test_the_first_signal_waits_until_it_is_asked_for(signum, capfd):
  with interrupts.deferred() as interrupted:
    interrupted.raise_pending()
    signal.raise_signal(signum)
    for ask in (interrupted.raise_pending, lambda: interrupted.on_step(None)):
      with pytest.raises(KeyboardInterrupt):
        ask()
  assert capfd.readouterr().err == (
    '\nreset-cycles: ends after the set-up or this step; Ctrl-C again ends it at '
    'once.\n'
  )


@pytest.mark.parametrize('first', SIGNALS)
@pytest.mark.parametrize('second', SIGNALS)
def test_the_second_one_does_not_wait(first, second):
  with pytest.raises(KeyboardInterrupt), interrupts.deferred() as interrupted:
    assert not set(handlers()) & set(USUAL)
    signal.raise_signal(first)
    with pytest.raises(KeyboardInterrupt):
      signal.raise_signal(second)
    # Swallowed by a callback, it ends the run after the step nevertheless.
    interrupted.on_step(None)
  assert handlers() == USUAL


@pytest.mark.parametrize(
  'handler', [signal.SIG_IGN, lambda *unused: None], ids=['ignored', 'another']
)
@pytest.mark.parametrize('signum', SIGNALS)
def test_what_is_handled_otherwise_stays_so(signum, handler):
  signal.signal(signum, handler)
  with interrupts.deferred() as interrupted:
    assert signal.getsignal(signum) is handler
    signal.raise_signal(signum)
    interrupted.raise_pending()
