"""The workloads of the stand-in, by name, and workloads from a user's file."""

from __future__ import annotations

from ...core.checks import did_you_mean
from . import from_file
from .arrays import ArrayWorkload as ArrayWorkload
from .base import MiniWorkload as MiniWorkload
from .chains import ChainsWorkload
from .clicks import ClicksWorkload, EmbedInitWorkload
from .digits import DigitsWorkload
from .images import GatedPatchesWorkload, PatchesWorkload, ResidualWorkload
from .molecules import MoleculesWorkload, WideMoleculesWorkload
from .photos import PhotosWorkload, TanhPhotosWorkload
from .speech import FramesWorkload, WavesWorkload
from .text import TextWorkload
from .translation import GatedTranslationWorkload, TranslationWorkload

_OWN: tuple[type[MiniWorkload], ...] = (
  *(DigitsWorkload, MoleculesWorkload, TranslationWorkload, TextWorkload),
  *(ResidualWorkload, PatchesWorkload, GatedPatchesWorkload, ClicksWorkload),
  *(EmbedInitWorkload, PhotosWorkload, TanhPhotosWorkload, WavesWorkload),
  *(FramesWorkload, WideMoleculesWorkload, GatedTranslationWorkload),
  ChainsWorkload,
)
WORKLOADS: dict[str, type[MiniWorkload]] = {kind.name: kind for kind in _OWN}


def workload_class(name: str) -> type[MiniWorkload]:
  """The class of a workload; its attribute `name` also names folders.

  The argument is a key of `WORKLOADS`, or 'path/to/file.py:ClassName';
  ValueError for anything else.
  """
  if name in WORKLOADS:
    return WORKLOADS[name]
  if not from_file.is_file(name):
    raise ValueError(
      f'workload: {name!r} is unknown; use one of '
      f'{", ".join(sorted(WORKLOADS))}, or file.py:ClassName.'
      + did_you_mean(name, WORKLOADS)
    )
  kind = from_file.load_class(name)
  if kind.name in WORKLOADS:
    raise ValueError(
      f'workload: {name}: the name {kind.name!r} is that of a workload of '
      'this project; give another.'
    )
  return kind


def get_workload(name: str, generation: str = 'jit') -> MiniWorkload:
  """Makes a workload of a generation, 'jit' (now) or 'pmap' (2024).

  ValueError for another generation, or an impossible attribute of a user's
  class.
  """
  workload = workload_class(name)(generation=generation)
  if from_file.is_file(name):
    from_file.check_attributes(workload)
  return workload
