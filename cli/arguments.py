"""argparse with the flag syntax of the benchmark's runner.

--flag=value  --flag value  -flag=value  --switch  --noswitch  --switch=false
A flag of two words may also have a hyphen: --left-out is --left_out.
"""

from __future__ import annotations

import argparse
import math
import pathlib
import re
from collections.abc import Sequence
from typing import Callable

from ..settings.checks import did_you_mean
from .errors import SetupError

_WORDS = {
  **dict.fromkeys(('true', 't', '1'), True),
  **dict.fromkeys(('false', 'f', '0'), False),
}
_HELP_INDENT = 6


class Parser(argparse.ArgumentParser):
  """A parser whose errors are SetupErrors."""

  def __init__(self, **settings: object):
    settings.setdefault('formatter_class', _FlagHelp)
    super().__init__(**settings, allow_abbrev=False, add_help=False)
    self.add_argument(
      '-h', '-?', '--help', action='help', help=argparse.SUPPRESS
    )

  def error(self, message: str, more: str = '') -> None:
    """Raises a SetupError in place of printing usage and message."""
    raise SetupError(f'{message}; see `{self.prog} --help`.{more}')

  def refuse(self, rest: Sequence[str]) -> None:
    """Refuses arguments that no flag has taken.

    Raises:
      SetupError: if there are any; says what is wrong with the first.
    """
    if not rest:
      return
    name = rest[0].partition('=')[0]
    if not name.startswith('--'):
      self.error(f'unexpected argument {rest[0]!r}')
    meant = did_you_mean(name, self._option_string_actions)
    self.error(f'unknown flag {name}', meant)


class Switch(argparse.Action):
  """A flag that is on or off."""

  def __init__(
    self, option_strings: Sequence[str], dest: str, **settings: object
  ):
    self._off = f'--no{dest}'
    super().__init__([*option_strings, self._off], dest, nargs='?', **settings)

  def __call__(
    self,
    parser: argparse.ArgumentParser,
    namespace: argparse.Namespace,
    values: str | None,
    option_string: str | None = None,
  ) -> None:
    """Stores the flag's value, True or False."""
    if values is None:
      setattr(namespace, self.dest, option_string != self._off)
    elif option_string == self._off or values.lower() not in _WORDS:
      raise argparse.ArgumentError(
        self, f'give {self._off}, --{self.dest}=true or --{self.dest}=false'
      )
    else:
      setattr(namespace, self.dest, _WORDS[values.lower()])


class _FlagHelp(argparse.HelpFormatter):
  """A line with the flag, and below it the help text with the default."""

  def __init__(self, prog: str, **settings: object):
    super().__init__(prog, max_help_position=_HELP_INDENT, width=80, **settings)

  def _format_action_invocation(self, action: argparse.Action) -> str:
    if isinstance(action, Switch):
      return f'--[no]{action.dest}'
    if not action.option_strings:
      return super()._format_action_invocation(action)
    form = action.metavar or '|'.join(action.choices)
    return f'{action.option_strings[0]}={form}'

  def _get_help_string(self, action: argparse.Action) -> str:
    if action.default in (None, argparse.SUPPRESS):
      return action.help
    return f'{action.help} Default: {str(action.default).lower()}.'


def whole(low: int, high: float = math.inf) -> Callable[[str], int]:
  """The argparse type of a flag that takes a whole number from low to high."""
  upto = f'of at least {low}' if high == math.inf else f'from {low} to {high}'

  def read(text: str) -> int:
    try:
      number = int(text)
    except ValueError:
      number = low - 1
    if not low <= number <= high:
      raise argparse.ArgumentTypeError(f'{text} must be a whole number {upto}')
    return number

  return read


def factor(text: str) -> float:
  """The argparse type of a flag that takes a number above 0."""
  try:
    number = float(text)
  except ValueError:
    number = math.nan
  if not 0 < number < math.inf:
    raise argparse.ArgumentTypeError(f'{text} must be a number above 0')
  return number


def picture_path(name: str | None) -> pathlib.Path | None:
  """The file that --out=PNG names; None if it isn't given.

  Raises:
    ValueError: if the file cannot be written there.
  """
  if name is None:
    return None
  path = pathlib.Path(name)
  if path.suffix.lower() != '.png':
    raise ValueError(f'--out={path} must end in .png.')
  if path.is_dir():
    raise ValueError(f'--out={path} is a folder: give a file.')
  if not path.parent.is_dir():
    raise ValueError(f'--out={path}: there is no folder {path.parent}.')
  return path


def with_two_dashes(arguments: Sequence[str]) -> list[str]:
  """The words with -a-flag=a-b as --a_flag=a-b; -h, -? and numbers stay."""
  return [
    re.sub(
      r'^--?([A-Za-z][\w-]+)',
      lambda found: '--' + found[1].replace('-', '_'),
      word,
    )
    for word in arguments
  ]
