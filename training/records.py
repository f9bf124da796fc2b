"""The files that a run writes. No failure to write them ends the run.

Of several processes only the first writes; the others read what they need. The
picture and the configuration are written before the first step, cycles.csv
grows by one line per event, and the benchmark's metrics logger gets the
numbers.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
from absl import logging

from ..schedule_params import ScheduleParams
from . import configuration, events, picture, scalars
from .folder import find_folder
from .workload import MetricsLogger
from .writing import Attempts

_Rows = Sequence[Mapping[str, Any]]


class Records:
  """The files of a run and the benchmark's metrics logger.

  Attributes:
    folder: where the files go; None if nothing is saved.
    writes: whether this process is the one that writes.
  """

  def __init__(self, folder: pathlib.Path | None, writes: bool = True):
    """Writes nothing yet.

    Args:
      folder: the run's folder, or None.
      writes: False in all processes but the first.
    """
    self.folder, self.writes = folder, writes
    has_log = writes and folder is not None
    self._log = events.EventLog(folder) if has_log else None
    self._attempt = Attempts()

  @classmethod
  def of_trial(cls, hyperparameters: Any) -> Records:
    """The records of the trial that is starting; see `folder.find_folder`.

    Every process finds the folder: a resumed run reads its settings there.
    """
    attempt = Attempts()
    folder = attempt("finding the run's folder", find_folder, hyperparameters)
    if folder is None:
      logging.warning(
        'No experiment folder was found: training goes on, nothing is saved.'
      )
    return cls(folder, writes=jax.process_index() == 0)

  def begun_with(self) -> tuple[int, ScheduleParams] | None:
    """(step_hint, settings) of the run in the folder, if it has begun.

    See `configuration.has_begun`. Also None if they cannot be read.
    """
    if self.folder is None or not configuration.has_begun(self.folder):
      return None
    name = configuration.CONFIGURATION
    return self._attempt(
      f'reading {name}', configuration.read_configuration, self.folder
    )

  def write_settings(
    self, step_hint: int, params: ScheduleParams, not_in_force: Sequence[str]
  ) -> None:
    """Writes the configuration and its picture, before the first step.

    Args:
      step_hint: the workload's step_hint, steps.
      params: the configuration.
      not_in_force: names of settings that the benchmark has decided itself.
    """
    if self.folder is None or not self.writes:
      return
    name = configuration.CONFIGURATION
    if params.has_function:
      logging.warning(
        'A shape has a Python function, so %s is not written.', name
      )
    else:
      self._attempt(
        f'writing {name}',
        configuration.write_configuration,
        self.folder,
        step_hint,
        params,
        not_in_force,
      )
    self._attempt(
      f'drawing {picture.SCHEDULE_PICTURE}',
      picture.draw_schedule,
      self.folder,
      step_hint,
      params,
    )

  def start(self, global_step: int, columns: Iterable[str]) -> None:
    """Begins cycles.csv; a resumed run continues it from its step.

    Args:
      global_step: the step about to be taken.
      columns: further columns, those of the parts in force.
    """
    if self._log is not None:
      self._attempt(
        f'writing {events.CYCLES}', self._log.keep_before, global_step, columns
      )

  def add_events(
    self,
    rows: _Rows,
    global_step: int,
    metrics_logger: MetricsLogger | None,
    step_metrics: Mapping[str, Any],
  ) -> None:
    """Writes events to cycles.csv and to the benchmark's metrics logger.

    Args:
      rows: the events, in order.
      global_step: the step about to be taken.
      metrics_logger: the workload's, or None.
      step_metrics: loss and gradient norm of the last step, on the host.
    """
    if self._log is not None:
      self._attempt(
        f'writing {events.CYCLES}', self._log.append, rows, global_step
      )
    if metrics_logger is not None and self.writes:
      self._attempt(
        "the benchmark's metrics logger",
        scalars.log_scalars,
        metrics_logger,
        rows,
        step_metrics,
        global_step,
      )

  def draw_rates(
    self,
    metrics_logger: MetricsLogger | None,
    rate: Callable[[int], float],
    since: int,
    until: int,
    horizon: int,
  ) -> None:
    """Logs the learning rates since the last events; see `log_rates`."""
    if metrics_logger is not None and self.writes:
      self._attempt(
        "the benchmark's metrics logger",
        scalars.log_rates,
        metrics_logger,
        rate,
        since,
        until,
        horizon,
      )
