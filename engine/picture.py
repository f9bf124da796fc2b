"""lr_schedule.png: the learning rate of a run, as far as it is known.

Before the first step the picture shows the plan, as the thesis does. A run that
scales its peaks, abandons a cycle or lays its cycles over a time budget departs
from it: its clocks tell the rates so far, and the rest of the chain follows at
the last clock's pace.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from absl import logging

from ..core.chain import Chain

# A title, and what the vertical axis shows.
_PLAN = 'Planned; dashed: a new cycle starts', 'learning rate, as written'
_RUN = 'Run so far, then planned; dashed: a new cycle starts', 'learning rate'


class Piece(NamedTuple):
  """Steps of a cycle over which its clock runs on by itself."""

  start: float  # the first step
  end: float  # the first step after them
  setting: int  # index of the cycle in the chain, from 0
  nominal: float  # step of the cycle at the start
  pace: float  # nominal steps per step
  rate_factor: float  # on the cycle's learning rate


def pieces_of(chain: Chain, events: Sequence[Mapping[str, str]]) -> list[Piece]:
  """The steps of a run, piece by piece: those taken, then the planned ones.

  Args:
    chain: the plan.
    events: rows of cycles.csv, of which only the clocks count; empty for the
      plan alone.
  """
  pieces = [
    Piece(
      int(row['global_step']),
      int(row['cycle_end']),
      int(row['setting']) - 1,
      *(float(row[n]) for n in ('anchor_nominal', 'pace', 'rate_factor')),
    )
    for row in events
    if row['event'] in ('cycle_start', 'clock')
  ] or [Piece(0, chain.cycles[0].steps, 0, 0.0, 1.0, 1.0)]
  # A piece lasts up to the next piece, and the last piece up to its cycle's
  # end.
  following = zip(pieces, pieces[1:])
  cut = [a._replace(end=b.start) for a, b in following if a.start < b.start]
  pieces = [*cut, pieces[-1]]
  last = pieces[-1]
  for setting in range(last.setting + 1, len(chain.cycles)):
    start, length = pieces[-1].end, chain.cycles[setting].steps / last.pace
    more = last._replace(start=start, setting=setting, nominal=0.0)
    pieces.append(more._replace(end=start + length))
  return pieces


def sampled(
  chain: Chain, pieces: Sequence[Piece]
) -> tuple[np.ndarray, np.ndarray]:
  """Steps and their learning rates, two arrays of shape=(n,).

  Args:
    chain: the plan.
    pieces: of a run. A whole cycle is drawn with as many points as
      `Chain.rates` has.
  """
  table, steps, rates = chain.rates, list[np.ndarray](), list[np.ndarray]()
  most = table.shape[1]
  for piece in pieces:
    whole = chain.cycles[piece.setting].steps
    share = (piece.end - piece.start) * piece.pace / whole
    points = min(max(math.ceil(most * share), 2), most)
    x = np.linspace(piece.start, piece.end, points)
    nominal = piece.nominal + (x - piece.start) * piece.pace
    row, at = table[piece.setting], np.linspace(0.0, whole, most)
    steps.append(x)
    rates.append(piece.rate_factor * np.interp(nominal, at, row))
  return np.concatenate(steps), np.concatenate(rates)


def drawn(chain: Chain, pieces: Sequence[Piece] = ()) -> bytes:
  """The learning rate as a PNG; empty if matplotlib is missing.

  Args:
    chain: the plan.
    pieces: of a run; empty for the plan alone.
  """
  try:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
  except ImportError:
    logging.info('matplotlib is missing: no picture of the learning rate.')
    return b''
  figure = Figure(layout='constrained', figsize=(7, 3))
  axes = figure.subplots()
  title, label = _RUN if pieces else _PLAN
  pieces = pieces or pieces_of(chain, [])
  axes.plot(*sampled(chain, pieces))
  starts = [piece.start for piece in pieces if piece.nominal == 0.0]
  for start in starts[1:]:
    axes.axvline(start, color='0.5', linestyle='--', linewidth=1)
  axes.set_title(title, loc='left')
  axes.set(xlabel='global step', ylabel=label, xlim=(0, pieces[-1].end))
  picture = io.BytesIO()
  FigureCanvasAgg(figure).print_png(picture)
  return picture.getvalue()
