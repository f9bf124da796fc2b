"""A program made of commands: how it is called, and how it ends."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

import click
from click.shell_completion import shell_complete

from ..mini_algoperf.interrupts import ENDING, handled
from ..mini_algoperf.user_code import RunError
from . import errors

BAD_INPUT = 2
NO_READER = 141  # 128 + SIGPIPE, as shells report it
# For all commands; the width is that of the help.
CONTEXT = {
  'help_option_names': ['--help', '-h', '-?'],
  'max_content_width': 80,
  'show_default': True,
}
# What `pip install reset-cycles[mini]` adds.
_MINI_PACKAGES = 'jinja2 matplotlib sacrebleu scipy sklearn tqdm'.split()
_BENCHMARK_PACKAGES = 'algoperf', 'jraph'


def run(
  command: click.Command, name: str, arguments: Sequence[str] | None = None
) -> int:
  """Runs a command, or one of a group.

  Args:
    command: the whole program.
    name: as it is called; its help says so.
    arguments: the command line without the program; None for sys.argv's.

  Returns:
    The exit status: 0; 1 after an error in a user's own code; 2 after one line
    about what is wrong (bad input, a full disk, data that end too early); 130
    after Ctrl-C, SIGTERM or SIGHUP; 141 if the output is a closed pipe.
  """
  words = sys.argv[1:] if arguments is None else list(arguments)
  try:
    with handled(signal.default_int_handler, *ENDING):  # all as Ctrl-C
      status = _status(command, name, words)
    sys.stdout.flush()
    return status
  except click.UsageError as e:
    path = e.ctx.command_path if e.ctx else name
    return _complain(f'{e.format_message()} See `{path} --help`.')
  except click.ClickException as e:
    return _complain(e.format_message())
  except ModuleNotFoundError as e:
    package = (e.name or '').partition('.')[0]
    if package in _MINI_PACKAGES:
      how = "install it with pip install 'reset-cycles[mini]'"
    elif package in _BENCHMARK_PACKAGES:
      how = "an environment of the benchmark's main branch has it"
    else:
      raise
    return _complain(f'{e}: {how}.')
  except BrokenPipeError:
    # Python ends silently when the output pipe is closed, as by `| head`.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return NO_READER
  except RunError as e:
    print(f'{errors.PROJECT}: error: {e}', file=sys.stderr)
    return 1
  except (errors.RunFailed, OSError) as e:
    return _complain(errors.describe(e))
  except MemoryError:
    return _complain('the memory is exhausted.')
  except KeyboardInterrupt:
    print(errors.MESSAGE, file=sys.stderr)
    return errors.INTERRUPTED


def completion(name: str) -> str:
  """The variable by which a shell asks a program for completions."""
  return f'_{name.replace("-", "_").upper()}_COMPLETE'


def _status(command: click.Command, name: str, arguments: Sequence[str]) -> int:
  """A command's exit status; not by click's main, which ends the process."""
  if (complete := completion(name)) in os.environ:
    return shell_complete(command, {}, name, complete, os.environ[complete])
  words = ['--help'] if arguments[:1] == ['help'] else list(arguments)
  if not words and isinstance(command, click.Group):
    with click.Context(command, info_name=name) as context:
      print(command.get_help(context), file=sys.stderr)
    return BAD_INPUT
  try:
    with command.make_context(name, words) as context:
      return command.invoke(context) or 0
  except click.exceptions.Exit as e:  # help or version was shown
    return e.exit_code


def _complain(message: str) -> int:
  print(
    f'{errors.PROJECT}: error: {" ".join(message.split())}', file=sys.stderr
  )
  return BAD_INPUT
