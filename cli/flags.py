"""Flags written as for the benchmark's runner, read by click.

--flag=value  --flag value  -flag=value  --switch  --noswitch  --switch=false
A flag of two words may also have a hyphen: --left-out is --left_out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import click

_ON, _OFF = ('true', 't', '1'), ('false', 'f', '0')
# Passed to every command; the width is that of the help.
SETTINGS: dict[str, Any] = {
  'help_option_names': ['--help', '-h', '-?'],
  'max_content_width': 80,
  'show_default': True,
}
COUNT = click.IntRange(1)
# Paths are checked, and a ~ expanded, where they are used.
FILE = click.Path()


class Command(click.Command):
  """A command that takes the forms of flags above."""

  def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
    """Rewrites the words for click, which knows --flag=value and --switch."""
    switches = {
      name
      for param in self.params
      if isinstance(param, click.Option) and param.is_flag
      for name in param.opts
    }
    words = [_as_click_has_it(word, switches) for word in args]
    return super().parse_args(ctx, words)


def _as_click_has_it(word: str, switches: set[str]) -> str:
  found = re.match(r'--?([A-Za-z][\w-]+)(=.*)?$', word, re.DOTALL)
  if not found:
    return word
  name, value = found[1].replace('-', '_'), found[2] or ''
  if f'--{name}' in switches and value[1:].lower() in _ON:
    return f'--{name}'
  if f'--{name}' in switches and value[1:].lower() in _OFF:
    return f'--no{name}'
  return f'--{name}{value}'


def option(name: str, kind: Any = str, **settings: Any) -> Callable[..., Any]:
  """A flag that takes a value; click.option with the value's kind second."""
  if isinstance(kind, Sequence) and not isinstance(kind, str):
    kind = click.Choice(kind)
  return click.option(f'--{name}', type=kind, **settings)


def switch(name: str, text: str, default: bool = False) -> Callable[..., Any]:
  """A flag that is on or off."""
  return click.option(f'--{name}/--no{name}', default=default, help=text)


def factor(
  ctx: click.Context, param: click.Parameter, values: tuple[float, ...]
) -> tuple[float, ...]:
  """Refuses numbers that are not above 0 and finite."""
  for value in values:
    if not 0 < value < float('inf'):
      raise click.BadParameter(f'{value} must be a number above 0', ctx, param)
  return values


overwrite = switch('overwrite', 'Replace existing files.')
