"""Flags written as for the benchmark's runner, read by click.

--flag=value  --flag value  -flag=value  --switch  --noswitch  --switch=false
A flag of two words may also have a hyphen: --step-hint is --step_hint.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
from collections.abc import Callable, Iterable
from typing import Any

import click

from ..core.checks import check_choice
from . import errors


class Command(click.Command):
  """A command that takes the forms of flags above."""

  def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
    """Rewrites the words for click, which knows --flag=value and --switch."""
    options = [p for p in self.params if isinstance(p, click.Option)]
    switches = {p.name: p for p in options if p.is_flag}
    words = []
    for word in args:
      match = re.match(r'--?([A-Za-z][\w-]+)(=.*)?$', word, re.DOTALL)
      if match:
        name, value = match[1].replace('-', '_'), match[2] or ''
        if value and name in switches:
          is_on = click.BOOL(value[1:], switches[name], ctx)
          name, value = name if is_on else f'no{name}', ''
        word = f'--{name}{value}'
      words.append(word)
    return super().parse_args(ctx, words)


class _Path(click.Path):
  """A path in which ~ stands for one's home; '' is not the current folder."""

  def convert(self, value: Any, *where: Any) -> Any:
    if not value:
      self.fail("'' is no path.", *where)
    value = os.path.expanduser(value)
    if not self.file_okay and os.path.isfile(value):
      self.fail(f'{value} is a file: give a folder.', *where)
    return super().convert(value, *where)


class WholeNumber(click.IntRange):
  """A whole number in a range, by a name that an error may have."""

  name = 'whole number'


def completes(words: Callable[[], Iterable[str]]) -> Callable[..., list[str]]:
  """Completes a word, or the last of several words with commas between them."""

  def complete(
    ctx: click.Context, param: click.Parameter, incomplete: str
  ) -> list[str]:
    first, comma, last = incomplete.rpartition(',')
    matches = (word for word in words() if word.startswith(last))
    return [first + comma + word for word in matches]

  return complete


def workloads() -> Iterable[str]:
  """The names of the stand-in's workloads, without an import of jax."""
  file = pathlib.Path(__file__).parents[1] / 'mini_algoperf/workloads'
  return json.loads((file / 'targets.json').read_text())['workloads']


COUNT = WholeNumber(1)
PATH = _Path(path_type=pathlib.Path)
NEW_FOLDER = _Path(file_okay=False, path_type=pathlib.Path)
FILE = _Path(exists=True, dir_okay=False, path_type=pathlib.Path)
FOLDER = _Path(exists=True, file_okay=False, path_type=pathlib.Path)


def read_seeds(text: str) -> list[int]:
  """Seeds such as '1-3,7'; ValueError for anything else."""
  seeds: list[int] = []
  for part in text.split(','):
    match = re.fullmatch(r'(\d+)(?:-(\d+))?', part)
    if match is None:
      raise ValueError(f'--seeds={text}: must be like 1-10 or 3,5,8.')
    first, last = int(match[1]), int(match[2] or match[1])
    if first > last:
      raise ValueError(f'--seeds={text}: {part} must go from low to high.')
    seeds.extend(range(first, last + 1))
  return sorted(set(seeds))


def read_names(flag: str, text: str | None, known: Iterable[str]) -> list[str]:
  """Names with commas between them, each once; all known names for None.

  Raises:
    ValueError: for a name that is not known.
  """
  names = [*known] if text is None else [*dict.fromkeys(text.split(','))]
  for name in names:
    check_choice(flag, name, known)
  return names


def command(function: Callable[..., None]) -> click.Command:
  """Makes a command that trains nothing itself: errors mean bad input."""
  return click.command(cls=Command)(errors.setup_phase()(function))


def option(
  name: str, text: str, kind: Any = str, **settings: Any
) -> Callable[..., Any]:
  """A flag that takes a value, of a type or one of several words."""
  kind = click.Choice(kind) if isinstance(kind, list) else kind
  return click.option(f'--{name}', help=text, type=kind, **settings)


def switch(name: str, text: str, default: bool = False) -> Callable[..., Any]:
  """A flag that is on or off."""
  return click.option(f'--{name}/--no{name}', default=default, help=text)


overwrite = switch('overwrite', 'Replace existing files.')
