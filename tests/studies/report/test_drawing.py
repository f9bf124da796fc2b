"""Pictures inside of the page."""

from __future__ import annotations

import re

from matplotlib.figure import Figure

from reset_cycles.studies.report import drawing, elements


def drawn(name):
  with drawing.drawing():
    figure = Figure(figsize=(3, 2))
    axes = figure.subplots()
    axes.plot([0, 1], color=drawing.LINES[1], marker='o', label='a$b$')
    axes.axhline(0.5, color='#000000')
    axes.set_xlabel('<step>')
    axes.legend()
    return elements.as_text(drawing.inline(figure, name, 'T & t', 'D'))


def test_colours_are_the_pages():
  text = drawn('p')
  assert 'var(--line-1)' in text and 'var(--ink)' in text
  assert not re.search('#[0-9a-f]{6}', text)


def test_text_stays_text_and_names_are_no_formulas():
  text = drawn('p')
  assert '&lt;step&gt;</text>' in text and 'a$b$</text>' in text
  assert '<title id="p-title">T &amp; t</title>' in text
  assert 'aria-labelledby="p-title p-description"' in text


def test_pictures_share_no_ids_and_refer_to_their_own():
  ids, used = [], []
  for name in ('p', 'q'):
    text = drawn(name)
    own = re.findall(r' id="([^"]*)"', text)
    refer = re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)', text)
    refer = [a or b for a, b in refer]
    assert refer and set(refer) <= set(own)
    assert all(i.startswith(f'{name}-') for i in own)
    ids += own
    used += refer
  assert len(ids) == len(set(ids))


def test_nothing_is_fetched_and_the_same_picture_is_the_same_text():
  text = drawn('p')
  assert 'http' not in text and '<style' not in text
  assert text == drawn('p')
