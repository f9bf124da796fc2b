"""The console script `reset-cycles`: its commands, and how they end."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

import click
from click.shell_completion import shell_complete

from .. import __version__
from ..mini_algoperf.interrupts import ENDING, handled
from ..mini_algoperf.user_code import RunError
from ..research.errors import RunFailed
from . import board, errors, recorded, run, settings, thesis

BAD_INPUT = 2
NO_READER = 141  # 128 + SIGPIPE, as shells report it
_NAME, _COMPLETE = 'reset-cycles', '_RESET_CYCLES_COMPLETE'
# What `pip install reset-cycles[mini]` adds.
_MINI_PACKAGES = 'jinja2 matplotlib sacrebleu scipy sklearn tqdm'.split()


@click.group(
  _NAME,
  commands=[
    *(run.run, settings.schedule, settings.export, run.set_targets),
    *(thesis.experiments, thesis.figures, thesis.results),
    *(recorded.replay, recorded.score, recorded.report, recorded.plot),
    *(board.study, board.scoreboard),
  ],
  # For all commands; the width is that of the help.
  context_settings={
    'help_option_names': ['--help', '-h', '-?'],
    'max_content_width': 80,
    'show_default': True,
  },
  epilog='`reset-cycles COMMAND --help` explains a command. A first run: '
  'reset-cycles run --workload=digits. Completion in bash: '
  f'eval "$({_COMPLETE}=bash_source {_NAME})"; also zsh_source, fish_source.',
)
@click.version_option(__version__, prog_name=_NAME)
def cli() -> None:
  """Trains small AlgoPerf-like workloads with soft resets between learning rate
  cycles, and exports the submission."""


def main(arguments: Sequence[str] | None = None) -> int:
  """Runs a command.

  Args:
    arguments: the command line without the program; None for sys.argv's.

  Returns:
    The exit status: 0; 1 after an error in a user's own code; 2 after one line
    about what is wrong (bad input, a full disk, data that end too early); 130
    after Ctrl-C, SIGTERM or SIGHUP; 141 if the output is a closed pipe.
  """
  given = sys.argv[1:] if arguments is None else list(arguments)
  try:
    with handled(signal.default_int_handler, *ENDING):  # all as Ctrl-C
      status = _run(given)
    sys.stdout.flush()
    return status
  except click.UsageError as e:
    path = e.ctx.command_path if e.ctx else _NAME
    return _complain(f'{e.format_message()} See `{path} --help`.')
  except click.ClickException as e:
    return _complain(e.format_message())
  except ModuleNotFoundError as e:
    if e.name not in _MINI_PACKAGES:
      raise
    return _complain(f"{e}: install it with pip install 'reset-cycles[mini]'.")
  except BrokenPipeError:
    # Python ends silently when the output pipe is closed, as by `| head`.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return NO_READER
  except RunError as e:
    print(f'{_NAME}: error: {e}', file=sys.stderr)
    return 1
  except (RunFailed, OSError) as e:
    return _complain(errors.describe(e))
  except MemoryError:
    return _complain('the memory is exhausted.')
  except KeyboardInterrupt:
    print(errors.MESSAGE, file=sys.stderr)
    return errors.INTERRUPTED


def _run(given: Sequence[str]) -> int:
  """A command's exit status; not by click's main, which ends the process."""
  if _COMPLETE in os.environ:
    return shell_complete(cli, {}, _NAME, _COMPLETE, os.environ[_COMPLETE])
  words = ['--help'] if given[:1] == ['help'] else list(given)
  if not words:
    with click.Context(cli, info_name=_NAME) as context:
      print(cli.get_help(context), file=sys.stderr)
    return BAD_INPUT
  try:
    # The commands that train runs in other processes find `main` there.
    with cli.make_context(_NAME, words, obj=main) as context:
      return cli.invoke(context) or 0
  except click.exceptions.Exit as e:  # help or version was shown
    return e.exit_code


def _complain(message: str) -> int:
  print(f'{_NAME}: error: {" ".join(message.split())}', file=sys.stderr)
  return BAD_INPUT


if __name__ == '__main__':
  sys.exit(main())
