"""The console script `soft-reset`: its sub-commands and their errors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Callable, NamedTuple

from . import (
  errors,
  flag_definitions,
  flag_parsing,
  schedule_flags,
  study_flags,
)

FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells report it
# What `pip install soft-reset[mini]` adds.
_MINI_PACKAGES = ('matplotlib', 'sacrebleu', 'scipy', 'sklearn', 'tqdm')


class Command(NamedTuple):
  """A sub-command."""

  summary: str  # one line for the list of commands
  description: str  # stands over its flags in its own help
  flags: flag_parsing.Groups
  run: Callable[[Sequence[str]], int]  # arguments -> exit status


# Imported when it is run, like every command: help must not wait for jax.
def _run(arguments: Sequence[str]) -> int:
  from . import run as run_command

  return run_command.run(arguments)


def _set_targets(arguments: Sequence[str]) -> int:
  from . import set_targets as targets_command

  return targets_command.run(arguments)


def _smoke_data(arguments: Sequence[str]) -> int:
  from . import smoke_data as smoke_data_command

  return smoke_data_command.run(arguments)


def _experiments(arguments: Sequence[str]) -> int:
  from . import experiments as experiments_command

  return experiments_command.run(arguments)


def _figures(arguments: Sequence[str]) -> int:
  from . import figures as figures_command

  return figures_command.run(arguments)


def _results(arguments: Sequence[str]) -> int:
  from . import results as results_command

  return results_command.run(arguments)


def _plot(arguments: Sequence[str]) -> int:
  from . import plot as plot_command

  return plot_command.run(arguments)


def _schedule(arguments: Sequence[str]) -> int:
  from . import schedule as schedule_command

  return schedule_command.run(arguments)


COMMANDS: dict[str, Command] = {
  'run': Command(
    'train a workload with a submission',
    flag_definitions.RUN_DESCRIPTION,
    flag_definitions.RUN_FLAGS,
    _run,
  ),
  'set-targets': Command(
    "set a workload's targets with tuned AdamW",
    flag_definitions.SET_TARGETS_DESCRIPTION,
    flag_definitions.SET_TARGETS_FLAGS,
    _set_targets,
  ),
  'smoke-data': Command(
    "write synthetic data for the real benchmark's runner",
    flag_definitions.SMOKE_DATA_DESCRIPTION,
    flag_definitions.SMOKE_DATA_FLAGS,
    _smoke_data,
  ),
  'experiments': Command(
    "the thesis' figures and how to reproduce them",
    flag_definitions.EXPERIMENTS_DESCRIPTION,
    {},
    _experiments,
  ),
  'figures': Command(
    "draw the thesis' figures from logs, training what has none",
    study_flags.FIGURES_DESCRIPTION,
    study_flags.FIGURES_FLAGS,
    _figures,
  ),
  'results': Command(
    'measure what holds of the thesis, over seeds',
    study_flags.RESULTS_DESCRIPTION,
    study_flags.RESULTS_FLAGS,
    _results,
  ),
  'plot': Command(
    'draw the standard picture of any run',
    study_flags.PLOT_DESCRIPTION,
    {},
    _plot,
  ),
  'schedule': Command(
    'show the learning rate that a chain of cycles plans',
    schedule_flags.SCHEDULE_DESCRIPTION,
    schedule_flags.SCHEDULE_FLAGS,
    _schedule,
  ),
}


def help_text() -> str:
  """The list of commands."""
  lines = [
    'usage: soft-reset COMMAND [flags]',
    '',
    'Trains small AlgoPerf-like workloads with soft resets between learning',
    'rate cycles.',
    '',
    'commands:',
  ]
  width = max(map(len, COMMANDS))
  lines += [
    f'  {name:<{width}}  {command.summary}'
    for name, command in COMMANDS.items()
  ]
  lines += [
    '',
    '`soft-reset COMMAND --help` explains a command. A first run:',
    '  soft-reset run --workload=digits',
  ]
  return '\n'.join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
  """Runs a sub-command.

  Args:
    arguments: the command line without the program; None takes sys.argv's.

  Returns:
    The exit status: 0, 1 if something failed after training, 2 after bad input, 130
    after Ctrl-C.
  """
  given = sys.argv[1:] if arguments is None else list(arguments)
  if not given:
    print(help_text(), file=sys.stderr)
    return BAD_INPUT
  if given[0] == 'help' or flag_parsing.asks_for_help(given[:1]):
    print(help_text())
    return 0
  try:
    command = _find(given[0])
    if flag_parsing.asks_for_help(given[1:]):
      print(flag_parsing.help_text(command.description, command.flags))
      return 0
    return command.run(given[1:])
  except errors.SetupError as e:
    return _complain(str(e))
  except errors.RunFailed as e:
    _complain(str(e))
    return FAILED
  except ModuleNotFoundError as e:
    if e.name not in _MINI_PACKAGES:
      raise
    return _complain(f"{e}: install it with pip install 'soft-reset[mini]'.")
  except KeyboardInterrupt:
    print('soft-reset: interrupted.', file=sys.stderr)
    return INTERRUPTED


def _find(name: str) -> Command:
  if name not in COMMANDS:
    raise errors.SetupError(
      f'{name!r} is not a command: use one of {", ".join(COMMANDS)}.'
    )
  return COMMANDS[name]


def _complain(message: str) -> int:
  print(f'soft-reset: error: {errors.one_line(message)}', file=sys.stderr)
  return BAD_INPUT


if __name__ == '__main__':
  sys.exit(main())
