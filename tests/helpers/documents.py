"""The project's Markdown documents, taken apart."""

from __future__ import annotations

import pathlib
import re
from typing import NamedTuple

import reset_cycles

ROOT = pathlib.Path(reset_cycles.__file__).resolve().parent
DOCUMENTS = sorted(
  path
  for part in ('.', 'docs', 'research/*', 'research/board/*')
  for path in ROOT.glob(f'{part}/*.md')
)
_FENCE = re.compile(r'^```(\w*)\n(.*?)^```$', re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
  """A block of code: its language, its text, and the last line before it."""

  language: str
  text: str
  before: str


def blocks(path: pathlib.Path) -> list[Block]:
  """All fenced blocks of a document."""
  text = path.read_text(encoding='utf-8')
  return [
    Block(match[1], match[2], text[: match.start()].strip().rpartition('\n')[2])
    for match in _FENCE.finditer(text)
  ]


def files_of(name: str) -> dict[str, str]:
  """The files of a document's package: blocks below a line with their name."""
  found = [
    (re.fullmatch(r'`(\w+\.py)`:', b.before), b) for b in blocks(ROOT / name)
  ]
  files = {match[1]: block.text for match, block in found if match}
  return {'__init__.py': '', **files}


def write_files(name: str, folder: pathlib.Path) -> pathlib.Path:
  """Writes them into a folder, which is made."""
  folder.mkdir()
  for file, text in files_of(name).items():
    (folder / file).write_text(text)
  return folder


def without_code(path: pathlib.Path) -> str:
  """A document's text without blocks and code in lines."""
  text = _FENCE.sub('', path.read_text(encoding='utf-8'))
  return re.sub(r'`[^`\n]*`', '', text)


def anchors(path: pathlib.Path) -> set[str]:
  """The names by which a document's headings can be linked to."""
  text = _FENCE.sub('', path.read_text(encoding='utf-8'))
  titles = re.findall(r'^#+ (.*)$', text, re.MULTILINE)
  return {
    re.sub(r'[^\w -]', '', title.lower()).strip().replace(' ', '-')
    for title in titles
  }
