"""A picture of all shapes, each with its defaults and some other parameters.

Colours of Okabe and Ito's palette, which is told apart without colour vision;
each line of a panel has a style of its own besides.
"""

from __future__ import annotations

import io
import pathlib
import textwrap
from collections.abc import Mapping, Sequence
from itertools import starmap
from typing import Any

import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ...mini_algoperf import files
from ...schedules.decays import DECAYS
from ...schedules.phase import Phase
from ...schedules.warmups import WARMUPS
from ...settings.named import REQUIRED, Registry

_STYLES = (('#0072B2', '-'), ('#D55E00', '--'), ('#009E73', '-.'))
_STEPS = 1200
_COLUMNS = 4
_LABEL_WIDTH = 40


def _decays_to_half(step: int) -> float:
  return 0.5 ** (1 / 300) if step < 600 else 1.0


# For some names up to three sets of parameters; the others have the default.
_WARMUPS: dict[str, Sequence[Mapping[str, Any]]] = {
  'linear': ({}, {'start': 0.3}),
  'cosine': ({}, {'start': 0.3}),
  'exponential': ({}, {'start': 0.1}),
  'polynomial': ({'power': 2}, {'power': 0.5}),
}
_DECAYS: dict[str, Sequence[Mapping[str, Any]]] = {
  'cosine': ({}, {'floor': 0.2}),
  'linear': ({}, {'floor': 0.2}),
  'exponential': ({}, {'factor': 0.5, 'share': 0.25, 'staircase': True}),
  'step': ({}, {'factor': 0.5, 'at': [0.3, 0.6]}),
  'polynomial': (
    {},
    {'power': 2, 'end': 0.1},
    {'share': 0.25, 'cycle': True},
  ),
  'inverse_time': ({}, {'rate': 1}, {'exponent': 2}),
  'inverse_power': (
    {},
    {'exponent': 1},
    {'hold': 0.2, 'cooldown': 0.3},
  ),
  'k_decay_cosine': ({}, {'k': 1.5}, {'k': 3, 'cooldown': 0.2}),
  'cosine_annealing': ({}, {'share': 0.3, 'floor': 0.2}),
  'cosine_warm_restarts': ({}, {'multiplier': 2}),
  'piecewise_constant': ({}, {'values': [0.3, 1, 0.1], 'at': [0.2, 0.8]}),
  'cyclic': (
    {},
    {'mode': 'triangular2'},
    {'mode': 'exp_range', 'rise': 0.2},
  ),
  'one_cycle': ({}, {'three_phase': True}, {'anneal': 'linear'}),
  'wsd': (
    {},
    {'fall': 'sqrt', 'checkpoints': 3},
    {'fall': 'inverse', 'floor': 0.05},
  ),
  'sequential': (
    {'shapes': ['cosine', 'cosine'], 'at': [0.4], 'peaks': [1, 0.6]},
    {'shapes': ['constant', 'linear'], 'at': [0.7]},
  ),
  'chained': (
    {'shapes': ['cosine', 'exponential']},
    {'shapes': ['cosine', 'step']},
  ),
  'lambda': ({'function': lambda share: jnp.exp(-5 * share**2)},),
  'multiplicative': ({'function': _decays_to_half},),
}


def save_gallery(path: pathlib.Path) -> pathlib.Path:
  """Writes the picture as a PNG; returns the file."""
  figure = Figure(figsize=(10.5, 13.5), dpi=110, layout='constrained')
  canvas = FigureCanvasAgg(figure)
  draw_gallery(figure)
  picture = io.BytesIO()
  canvas.print_png(picture)
  files.write_whole(path, picture.getvalue())
  return path


def draw_gallery(figure: Figure) -> None:
  """All shapes on a grid of axes, the warm-ups first.

  Args:
    figure: a figure without axes.
  """
  panels = [
    *((name, _WARMUPS, WARMUPS) for name in WARMUPS if name != 'none'),
    *((name, _DECAYS, DECAYS) for name in DECAYS),
  ]
  rows = -(-len(panels) // _COLUMNS)
  grid = figure.subplots(rows, _COLUMNS, sharex=True, sharey=True)
  for axes, (name, variants, registry) in zip(grid.flat, panels):
    draw_shape(axes, name, variants.get(name, ({},)), registry)
  for axes in grid.flat[len(panels) :]:
    axes.set_axis_off()
  figure.supxlabel('share of the phase')
  figure.supylabel('share of the peak')


def draw_shape(
  axes: Axes,
  name: str,
  variants: Sequence[Mapping[str, Any]],
  registry: Registry,
) -> None:
  """One shape with each of some sets of parameters.

  Args:
    axes: where to draw it.
    name: a name of the registry.
    variants: sets of parameters, a line each; {} is the default.
    registry: WARMUPS or DECAYS.
  """
  share = np.linspace(0.0, 1.0, _STEPS + 1)
  for parameters, (color, style) in zip(variants, _STYLES):
    setting = registry.read(name, {'name': name, **parameters})
    schedule = registry.make(setting, Phase(_STEPS))
    values = schedule(jnp.asarray(_STEPS * share, jnp.float32))
    axes.plot(
      share,
      np.broadcast_to(np.asarray(values), share.shape),
      color=color,
      linestyle=style,
      linewidth=1.4,
      label=_label(parameters, registry, name),
    )
  kind = ', warm-up' if registry is WARMUPS else ''
  axes.set_title(name + kind, loc='left', fontsize='medium')
  # Above the peak there is room for the legend.
  axes.set_ylim(-0.04, 1.9)
  axes.set_yticks([0.0, 0.5, 1.0])
  axes.grid(linewidth=0.3)
  if registry.parameters(name):
    _draw_legend(axes)


def _draw_legend(axes: Axes) -> None:
  legend = axes.legend(
    loc='upper left',
    fontsize=6.5,
    frameon=False,
    handlelength=2.2,
    borderaxespad=0.1,
    labelspacing=0.3,
  )
  legend.set_in_layout(False)


def _label(parameters: Mapping[str, Any], registry: Registry, name: str) -> str:
  """The parameters that are given, or all with their defaults if none is."""
  defaults = {
    key: parameter.default
    for key, parameter in registry.parameters(name).items()
    if parameter.default is not REQUIRED
  }
  listed = '; '.join(starmap(_text, (parameters or defaults).items()))
  return textwrap.fill(listed, _LABEL_WIDTH)


def _text(key: str, value: Any) -> str:
  if key == 'function':
    return 'a Python function'
  if isinstance(value, (list, tuple)):
    value = ', '.join(map(str, value)) or 'none'
  if isinstance(value, bool):
    return key if value else f'no {key}'
  return value if key == 'shapes' else f'{key} {value}'
