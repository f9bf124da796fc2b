"""Flags as tables: how they are defined on absl's FLAGS, parsed and explained."""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from absl import flags
from absl.testing import flagsaver


class Flag(NamedTuple):
  """One flag."""

  name: str
  kind: str  # 'string', 'integer', 'boolean' or 'enum'
  default: Any
  help: str
  choices: Sequence[str] = ()
  bounds: tuple[int | None, int | None] = (None, None)


Groups = Mapping[str, Sequence[Flag]]

_HELP_FLAGS = ('--help', '-help', '-h', '-?')


def asks_for_help(arguments: Sequence[str]) -> bool:
  """Whether help is all that is wanted."""
  return any(argument in _HELP_FLAGS for argument in arguments)


@contextlib.contextmanager
def parsed_flags(
  program: str, arguments: Sequence[str], groups: Groups
) -> Iterator[flags.FlagValues]:
  """FLAGS with the flags of a command, parsed; as before afterwards.

  Submissions look flags up on absl's FLAGS. They are there only while a command
  lasts: importing this package defines none, so that it can be imported
  together with the real benchmark's runner, which defines the same names.

  Flags that are defined already, by the real benchmark, are left as they are
  defined, but start from the defaults given here.

  Args:
    program: name of the program, for absl's messages.
    arguments: the command line without the program.
    groups: the command's flags.

  Raises:
    ValueError: for an unknown flag, an unusable value or anything else.
  """
  values = flags.FLAGS
  was_parsed = values.is_parsed()
  saved = flagsaver.save_flag_values(values)
  try:
    _define(values, groups)
    _parse(values, program, arguments)
    yield values
  finally:
    if not was_parsed:
      values.unparse_flags()
    flagsaver.restore_flag_values(saved, values)


def _parse(
  values: flags.FlagValues, program: str, arguments: Sequence[str]
) -> None:
  try:
    rest = values([program, *arguments])[1:]
  except flags.Error as e:
    raise ValueError(f'{e} (`{program} --help` lists the flags)') from e
  if rest:
    raise ValueError(
      f'unexpected argument {rest[0]!r}: flags look like --name=value '
      f'(`{program} --help` lists them)'
    )


def _define(values: flags.FlagValues, groups: Groups) -> None:
  for flag in [flag for group in groups.values() for flag in group]:
    if flag.name not in values:
      _define_one(flag, values)
    values[flag.name].unparse()
    values[flag.name].value = flag.default


def _define_one(flag: Flag, values: flags.FlagValues) -> None:
  common = {
    'name': flag.name,
    'default': flag.default,
    'help': flag.help,
    'flag_values': values,
  }
  if flag.kind == 'enum':
    flags.DEFINE_enum(enum_values=list(flag.choices), **common)
  elif flag.kind == 'integer':
    low, high = flag.bounds
    flags.DEFINE_integer(lower_bound=low, upper_bound=high, **common)
  elif flag.kind == 'boolean':
    flags.DEFINE_boolean(**common)
  else:
    flags.DEFINE_string(**common)


def help_text(description: str, groups: Groups) -> str:
  """A command's description and its flags, by group, with their defaults."""
  parts = [description]
  for title, group in groups.items():
    parts.append(f'{title}:')
    parts += [_describe(flag) for flag in group]
    parts.append('')
  return '\n'.join(parts).rstrip()


def _describe(flag: Flag) -> str:
  text = flag.help
  if flag.default is not None:
    default = str(flag.default).lower()
    text += f' Default: {default}.'
  body = textwrap.fill(
    text, 78, initial_indent=' ' * 6, subsequent_indent=' ' * 6
  )
  return f'  {_usage(flag)}\n{body}'


def _usage(flag: Flag) -> str:
  if flag.kind == 'boolean':
    return f'--[no]{flag.name}'
  form = {'integer': 'N', 'string': 'TEXT'}.get(flag.kind)
  return f'--{flag.name}={form or "|".join(flag.choices)}'
