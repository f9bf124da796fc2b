"""The picture of performance profiles."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import pictures
from . import profiles
from .text import Entry

# Okabe and Ito's palette, which is told apart without colour vision.
_COLORS = ('#0072B2', '#D55E00', '#009E73', '#CC79A7', '#E69F00', '#56B4E9')
_LINES = ('-', '--', '-.', ':')


def save_profiles(
  path: pathlib.Path, entries: Sequence[Entry], r_max: float = profiles.R_MAX
) -> None:
  """Draws the profile of every submission.

  Args:
    path: PNG file to write; an existing one is replaced.
    entries: the submissions, the best first.
    r_max: where the picture ends.
  """
  figure = Figure(figsize=(9.0, 4.2), dpi=120, layout='constrained')
  draw_profiles(figure.subplots(), entries, r_max)
  pictures.save(figure, path)


def draw_profiles(
  axes: Axes, entries: Sequence[Entry], r_max: float = profiles.R_MAX
) -> None:
  """rho over tau, a stair per submission.

  Args:
    axes: empty.
    entries: the submissions, the best first.
    r_max: where the axis ends.
  """
  styles = zip(itertools.cycle(_COLORS), itertools.cycle(_LINES))
  for entry, (color, line) in zip(entries, styles):
    stairs = entry.relative[entry.relative <= r_max]
    taus = np.unique([1.0, *stairs, r_max])
    axes.step(
      taus,
      profiles.profile(entry.relative, taus),
      where='post',
      color=color,
      linestyle=line,
      linewidth=1.6,
      label=f'{entry.submission}: {entry.score:.3f}',
    )
  axes.set_xlim(1.0, r_max)
  axes.set_ylim(0.0, 1.02)
  axes.set_xlabel('τ: time to the target as a multiple of the fastest')
  axes.set_ylabel('ρ(τ): share of workloads')
  axes.grid(alpha=0.25, linewidth=0.5)
  axes.legend(fontsize='small', loc='upper left', bbox_to_anchor=(1.01, 1.0))
