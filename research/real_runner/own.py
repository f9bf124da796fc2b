"""This project's entries, to run beside the published ones."""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
from typing import Any

from ...core.checks import replaced_at
from ...engine.records import as_plain
from ...optimizers.peaks import SpectralPeak
from ...schedule_params import MUON, SOFT_RESET, THESIS, ScheduleParams
from ..former import BEFORE_THE_LAW
from ..thesis.settings import RUNS


def scaled(params: ScheduleParams, factor: float) -> ScheduleParams:
  """The same settings with other peaks."""
  cycles = [dataclasses.replace(c, peak=factor * c.peak) for c in params.cycles]
  return dataclasses.replace(params, cycles=tuple(cycles))


def _muon(share: float, decay: float) -> ScheduleParams:
  params = replaced_at(BEFORE_THE_LAW, 'optimizer.inner.weight_decay', decay)
  peak = SpectralPeak(share, whole=1e9)
  return dataclasses.replace(params, relative_peak=peak)


_replaced = functools.partial(dataclasses.replace, SOFT_RESET)
_OPTIMIZER: Any = SOFT_RESET.optimizer
_R_0 = dataclasses.replace(_OPTIMIZER, r=0.0)
_ONE: Any = {
  'cycles': SOFT_RESET.cycles[:1],
  'relative_peak': None,
  'early_switching': False,
}
OWN = {
  'soft_reset': SOFT_RESET,
  'soft_reset_hot': scaled(SOFT_RESET, 10.0),
  'soft_reset_cold': scaled(SOFT_RESET, 0.1),
  # All steps weigh alike in the average, but for their rates.
  'soft_reset_r_0': _replaced(optimizer=_R_0),
  # The peak as it is written.
  'soft_reset_published_peak': _replaced(relative_peak=None),
  'soft_reset_published_peak_r_0': _replaced(
    optimizer=_R_0, relative_peak=None
  ),
  # The published peak, one cycle, and with r = 0 nearly Schedule-Free AdamW v2.
  'one_cycle': _replaced(**_ONE),
  'one_cycle_r_0': _replaced(optimizer=_R_0, **_ONE),
  # The published peak, r = .4, and two cycles, a fifth and the rest of the run.
  'two_cycles': _replaced(
    cycles=SOFT_RESET.cycles[::2],
    optimizer=dataclasses.replace(_OPTIMIZER, r=0.4),
    relative_peak=None,
  ),
  'thesis': THESIS,
  # The runs behind figures of the thesis that take twice the step_hint, for the
  # cases of `cases.THESIS`.
  **{
    f'thesis_{name}': params
    for name, params in RUNS.items()
    if params.budget_factor == 2.0
  },
  # What is handed in.
  'MUON': MUON,
  # The setting before it, also on the seeds seen while it was chosen.
  'before_the_law': BEFORE_THE_LAW,
  'before_the_law_seen': BEFORE_THE_LAW,
  # What share and weight decay were chosen by, whatever a run's length.
  'before_share_08_decay_081': _muon(0.08, 0.081),
  'before_share_05_decay_081': _muon(0.05, 0.081),
  'before_share_03_decay_081': _muon(0.03, 0.081),
  'before_share_03_decay_02': _muon(0.03, 0.02),
  'before_share_03_decay_0': _muon(0.03, 0.0),
}


def export(entries: pathlib.Path) -> None:
  """Writes a folder for each entry; those of an earlier export are replaced.

  Raises:
    subprocess.CalledProcessError: if the command fails.
  """
  with tempfile.TemporaryDirectory() as folder:
    for entry, params in OWN.items():
      name = entry.lower()
      file = pathlib.Path(folder, f'{name}.json')
      file.write_text(json.dumps(as_plain(params)))
      out = pathlib.Path(folder, name)
      command = [sys.executable, '-m', 'reset_cycles.cli', 'export']
      flags = [f'--settings={file}', f'--name={name}', f'--out={out}']
      subprocess.run([*command, *flags], check=True)
      shutil.rmtree(entries / entry, ignore_errors=True)
      shutil.copytree(out / 'self_tuning' / name, entries / entry)
