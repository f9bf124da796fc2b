"""A picture of what rules reach by budget."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from ..paths import save_picture
from ..scores import line_styles
from .cases import Replayed
from .rules import in_words

_BUDGETS = np.linspace(0.25, 3.0, 56)


def save_replay(path: pathlib.Path, shown: Sequence[Replayed]) -> None:
  """Draws the share of cases that reach their target, a line per rule."""
  figure = Figure(figsize=(7.0, 4.4), dpi=120, layout='constrained')
  axes = figure.subplots()
  for one, style in zip(shown, line_styles()):
    cases = ([c for g in one.groups for c in g.cases(b)] for b in _BUDGETS)
    reached = [np.mean([case.reached for case in own]) for own in cases]
    name = in_words(one.rule.given)
    axes.plot(_BUDGETS, reached, label=name, **style)
  axes.set_xlim(0.0, _BUDGETS[-1])
  axes.set_ylim(0.0, 1.0)
  axes.set_xlabel('budget as a multiple of the maximum runtime')
  axes.set_ylabel('share of cases that reach their target')
  axes.grid(alpha=0.25, linewidth=0.5)
  axes.legend(fontsize='small', loc='lower right')
  save_picture(figure, path)
