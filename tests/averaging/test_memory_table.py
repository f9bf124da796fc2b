"""The memory that docs/averaging.md states."""

from __future__ import annotations

import pathlib
import runpy

import reset_cycles

ROOT = pathlib.Path(reset_cycles.__file__).parent


def test_the_table_is_that_of_the_models_sizes():
  sizes = runpy.run_path(str(ROOT / 'benchmarks' / 'model_sizes.py'))
  text = (ROOT / 'docs' / 'averaging.md').read_text()
  for name, size in sizes['SIZES'].items():
    params = 4 * size.params
    step = 5 * params + 4 * size.statistics  # with gradient and two moments
    left = sizes['DEVICE_BYTES'] - step
    cells = map(sizes['megabytes'], (params, 10 * params, step, left))
    assert f'| {name} | {" | ".join(cells)} |' in text
