"""Pages that are written from templates."""

from __future__ import annotations

import pathlib
import textwrap
from typing import Any

import jinja2


def render(template: pathlib.Path, **values: Any) -> str:
  """A page from its template."""
  is_html = template.suffix == '.html'
  environment = jinja2.Environment(
    autoescape=is_html,
    trim_blocks=not is_html,
    lstrip_blocks=not is_html,
    keep_trailing_newline=not is_html,
    undefined=jinja2.StrictUndefined,
  )
  environment.filters['wrapped'] = _wrapped
  text = template.read_text(encoding='utf-8')
  return environment.from_string(text).render(values)


def _wrapped(text: str) -> str:
  return textwrap.fill(text.strip(), 80, break_on_hyphens=False)
