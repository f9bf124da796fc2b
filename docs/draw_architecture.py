"""Draws docs/architecture.png: the way of the data through the rooms.

python docs/draw_architecture.py
"""

from __future__ import annotations

import pathlib

import matplotlib as mpl

mpl.use('Agg')
import matplotlib.pyplot as plt

PICTURE = pathlib.Path(__file__).with_name('architecture.png')
COLOURS = {
  'given': '#eeeeee',
  'made once': '#dbe9f6',
  'during the run': '#fdebd0',
}
# Name -> (x and y of the centre, kind, first line, second line).
BOXES = {
  'runner': (9, 24, 'given', 'the runner', "benchmark's, or ours"),
  'workload': (9, 6, 'given', 'workload', 'model, loss, target'),
  'params': (36, 54, 'given', 'schedule_params', 'read by settings/'),
  'schedules': (63, 54, 'made once', 'schedules/', 'the chain of cycles'),
  'rules': (91, 54, 'made once', 'Rules', 'the parts that decide'),
  'submission': (
    36,
    24,
    'during the run',
    'submission',
    'unpack, call, repack',
  ),
  'set_up': (36, 39, 'made once', 'training/set_up', 'before the first step'),
  'run': (63, 24, 'during the run', 'training/run', 'is anything due?'),
  'control': (91, 24, 'during the run', 'control/', 'pure decisions'),
  'step': (63, 6, 'during the run', 'training/step', 'compiled once'),
  'inner': (91, 6, 'during the run', 'optimizers/', 'what steps in a cycle'),
  'resetting': (
    63,
    39,
    'during the run',
    'training/resetting',
    'blends, leaf by leaf',
  ),
  'records': (
    91,
    39,
    'during the run',
    'training/records',
    'cycles.csv, pictures',
  ),
}
# From, to, label, where the label stands relative to the arrow's middle.
ARROWS = (
  ('params', 'schedules', 'lay_out', (0, 1.4)),
  ('schedules', 'rules', '', (0, 0)),
  ('params', 'set_up', '', (0, 0)),
  ('submission', 'set_up', 'init', (2.4, 0)),
  ('runner', 'submission', 'calls', (0, 1.4)),
  ('workload', 'runner', '', (0, 0)),
  ('submission', 'run', 'evaluations', (0, 1.4)),
  ('run', 'control', 'observe,\ndecide', (0, 2.4)),
  ('run', 'resetting', 'reset', (-3.0, 0)),
  ('run', 'records', 'events', (3.4, -1.6)),
  ('run', 'step', 'traced clock', (5.5, 0)),
  ('step', 'inner', 'rate', (0, 1.4)),
)
WIDTH, HEIGHT = 17, 8


def draw(path: pathlib.Path) -> None:
  """Writes the picture."""
  figure, axes = plt.subplots(figsize=(10, 6))
  for x, y, kind, title, text in BOXES.values():
    corner = (x - WIDTH / 2, y - HEIGHT / 2)
    colour = COLOURS[kind]
    box = plt.Rectangle(corner, WIDTH, HEIGHT, fc=colour, ec='#555555', lw=0.8)
    axes.add_patch(box)
    axes.text(
      x, y + 1.5, title, ha='center', va='center', weight='bold', fontsize=9.5
    )
    axes.text(x, y - 1.8, text, ha='center', va='center', fontsize=8.5)
  for start, end, label, offset in ARROWS:
    _draw_arrow(axes, BOXES[start], BOXES[end], label, offset)
  handles = [
    plt.Rectangle((0, 0), 1, 1, fc=colour, ec='#555555')
    for colour in COLOURS.values()
  ]
  axes.legend(handles, COLOURS, loc='upper left', frameon=False, fontsize=9)
  axes.set(xlim=(0, 100), ylim=(0, 60))
  axes.axis('off')
  figure.tight_layout()
  figure.savefig(path, dpi=110, metadata={'Software': None})
  plt.close(figure)


def _draw_arrow(
  axes: plt.Axes,
  start: tuple,
  end: tuple,
  label: str,
  offset: tuple[float, float],
) -> None:
  """From the edge of one box to the edge of another."""
  (x0, y0), (x1, y1) = start[:2], end[:2]
  if y0 == y1:
    side = 1 if x1 > x0 else -1
    x0, x1 = x0 + side * WIDTH / 2, x1 - side * WIDTH / 2
  else:
    side = 1 if y1 > y0 else -1
    y0, y1 = y0 + side * HEIGHT / 2, y1 - side * HEIGHT / 2
  arrow = {'arrowstyle': '-|>', 'color': '#333333', 'shrinkA': 0, 'shrinkB': 0}
  axes.annotate('', (x1, y1), (x0, y0), arrowprops=arrow)
  x, y = (x0 + x1) / 2 + offset[0], (y0 + y1) / 2 + offset[1]
  axes.text(x, y, label, ha='center', va='center', fontsize=8.5, style='italic')


if __name__ == '__main__':
  draw(PICTURE)
