"""The console script `soft-reset`: its commands, and how they end."""

from __future__ import annotations

import argparse
import functools
import importlib
import os
import sys
from collections.abc import Sequence

from ..studies.errors import RunFailed
from . import arguments as arguments_lib
from . import errors, signals
from .errors import SetupError

BAD_INPUT = 2
NO_READER = 141  # 128 + SIGPIPE, as shells report it
# One module each, with SUMMARY, USAGE, DESCRIPTION, add_flags(parser) and
# run(options), which returns the exit status. None imports jax before it is
# run: help must not wait for it.
COMMANDS = (
  'run',
  'set-targets',
  'smoke-data',
  'export',
  'experiments',
  'figures',
  'results',
  'plot',
  'report',
  'schedule',
  'replay',
  'clocks',
  'expected',
  'score',
  'study',
  'scoreboard',
)
_DESCRIPTION = (
  'Trains small AlgoPerf-like workloads with soft resets between learning rate '
  'cycles.'
)
_EPILOG = (
  '`soft-reset COMMAND --help` explains a command. A first run: soft-reset run '
  '--workload=digits'
)
# What `pip install reset-cycles[mini]` adds.
_MINI_PACKAGES = ('matplotlib', 'sacrebleu', 'scipy', 'sklearn', 'tqdm')


def main(arguments: Sequence[str] | None = None) -> int:
  """Runs a command.

  Args:
    arguments: the command line without the program; None for sys.argv's.

  Returns:
    The exit status: 0; 2 after one line about what is wrong (bad input, a full
    disk, data that end too early); 130 after Ctrl-C or SIGTERM; 141 if the
    output is a closed pipe.
  """
  given = sys.argv[1:] if arguments is None else list(arguments)
  try:
    with signals.raising():
      status = _run(given)
    sys.stdout.flush()
    return status
  except SetupError as e:
    return _complain(str(e), BAD_INPUT)
  except ModuleNotFoundError as e:
    if e.name not in _MINI_PACKAGES:
      raise
    hint = "install it with pip install 'reset-cycles[mini]'."
    return _complain(f'{e}: {hint}', BAD_INPUT)
  except BrokenPipeError:
    _write_no_more()
    return NO_READER
  except (RunFailed, OSError) as e:
    return _complain(errors.describe(e), BAD_INPUT)
  except KeyboardInterrupt:
    print(signals.MESSAGE, file=sys.stderr)
    return signals.INTERRUPTED


def _run(given: Sequence[str]) -> int:
  with signals.ending_at_once():
    parser = make_parser()
    if not given:
      parser.print_help(sys.stderr)
      return BAD_INPUT
    words = ['--help'] if given[0] == 'help' else given
    try:
      options, rest = parser.parse_known_args(
        arguments_lib.with_two_dashes(words)
      )
    except SystemExit:  # help was shown
      return 0
    options.parser.refuse(rest)
  return options.run(options)


def make_parser() -> argparse.ArgumentParser:
  """The parser of all commands; options get the command's run and parser."""
  parser = arguments_lib.Parser(
    prog='soft-reset',
    usage='soft-reset COMMAND [flags]',
    description=_DESCRIPTION,
    epilog=_EPILOG,
    formatter_class=functools.partial(argparse.HelpFormatter, width=80),
  )
  commands = parser.add_subparsers(
    title='commands', metavar='COMMAND [flags]', required=True
  )
  for name in COMMANDS:
    module = importlib.import_module('.' + name.replace('-', '_'), __package__)
    command = commands.add_parser(
      name,
      prog=f'soft-reset {name}',
      usage=f'soft-reset {name} {module.USAGE}',
      help=module.SUMMARY,
      description=module.DESCRIPTION,
    )
    module.add_flags(command)
    command.set_defaults(run=module.run, parser=command)
  return parser


def _complain(message: str, status: int) -> int:
  print(f'soft-reset: error: {errors.one_line(message)}', file=sys.stderr)
  return status


def _write_no_more() -> None:
  """Lets Python end silently when the output pipe is closed, as by `| head`."""
  os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == '__main__':
  sys.exit(main())
