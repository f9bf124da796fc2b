"""Published settings by name: submissions of others to the benchmark.

A name is that of a submission to the external ruleset of 2024 and the number of
its trial: 'cyclic_lr/3'. The figures are those of its tuning_search_space.json;
the recorded runs state them too (studies/real_runs/runs.csv, with which a test
compares them). A setting is a linear warm-up from 0 and a cosine to 0 (no decay
for Schedule-Free), over `length` of step_hint; the warm-up is a share of that
length.

Differences from the code that was submitted:

  - Its dropout had a second rate for some models (aux_dropout_rate); here the
    benchmark's default applies where a submission cannot set it.
  - lawa_ema: its decay, 0.2, was converted to an integer, 0, so its average was
    the last snapshot. Here it has no average.
  - schedule_free_adamw corrected the bias in the step instead of the moment,
    and kept the second moment in bfloat16.
  - cyclic_lr/4 and /5 had two cosines in one run, each with the whole warm-up,
    without a reset: here each is one cycle of half the length, with twice the
    warm-up share. Two of them, the second with start_from='current', make up
    that run.
  - generalized_adam/1 is momentum without Adam ('nesterov').

Left out, since their optimizers are not implemented here: amos, caspr_adaptive,
schedule_free_prodigy, shampoo_submission.

Source: AlgoPerf's leaderboards, algoperf_v05, external tuning, 2024.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .setting import CYCLES

# The columns of a search space that has one_minus_beta1, and of one with beta1.
_SHARED = (
  'learning_rate',
  'one_minus_beta1',
  'beta2',
  'weight_decay',
  'warmup_factor',
  'dropout_rate',
  'label_smoothing',
)
_WITH_BETA1 = (_SHARED[0], 'beta1', *_SHARED[2:], 'length')
# Five points that several submissions have in common.
_A = (
  *(0.001308209823469072, 0.02686663061, 0.9981232922116359),
  *(0.16375311233774334, 0.1, 0.0, 0.1),
)
_B = (
  *(0.0008445074561975979, 0.11042418465, 0.9978504782314613),
  *(0.08135402759553023, 0.05, 0.0, 0.2),
)
_C = (*_A[:6], 0.0)
_D = (
  *(0.004958460849689891, 0.13625575743, 0.6291854735396584),
  *(0.1147386261512052, 0.02, 0.0, 0.0),
)
_E = (
  *(0.0017486387539278373, 0.06733926164, 0.9955159689799007),
  *(0.08121616522670176, 0.02, 0.1, 0.0),
)
_GENERALIZED_ADAM = (
  (
    *(1.9487942250159782, 0.9721703824185486, 0.0),
    *(0.00024022723093685417, 0.1, 0.1, 0.2, 1.0),
  ),
  (
    *(0.0023792566965593815, 0.9800966478498105, 0.9632738717172477),
    *(0.3417568278549717, 0.01, 0.0, 0.0, 0.75),
  ),
  (
    *(0.003705201967500061, 0.9735338788784104, 0.9785557586542197),
    *(0.022670946869370066, 0.1, 0.1, 0.2, 0.75),
  ),
  (
    *(0.0014271957958295392, 0.9661952124707597, 0.9957304053273589),
    *(0.09153141484048229, 0.01, 0.1, 0.1, 1.0),
  ),
  (
    *(0.001768509931943289, 0.9414979138541995, 0.9768053375036079),
    *(0.0279513959224539, 0.02, 0.0, 0.2, 1.0),
  ),
)
_NADAMP = (
  (
    *(0.0019622900485451312, 0.8009875258060416, 0.9601975051612083),
    *(0.040896666067943545, 0.05, 0.0, 0.1, 1.0),
  ),
  (
    *(0.0013002412605362058, 0.9603612866058248, 0.9778023204992619),
    *(0.16056758401092633, 0.05, 0.1, 0.2, 1.0),
  ),
  _GENERALIZED_ADAM[1],
  (
    *(0.003689112930403633, 0.9762202917508654, 0.995244058350173),
    *(0.061885025693737994, 0.05, 0.0, 0.2, 1.0),
  ),
  _GENERALIZED_ADAM[3],
)
_SCHEDULE_FREE = (
  (0.004, 0.1, 0.9955, 0.08, 0.02, 0.1, 0.4),
  (0.003, 0.1, 0.9955, 0.08, 0.02, 0.0, 0.2),
  (0.002, 0.1, 0.9955, 0.08, 0.02, 0.0, 0.2),
  (0.005, 0.1, 0.62918, 0.08, 0.02, 0.0, 0.4),
  (0.001, 0.1, 0.9955, 0.08, 0.02, 0.0, 0.2),
)
_SCHEDULE_FREE_ADAMW = {'name': 'schedule_free_adamw', 'r': 0.75}
_LAWA = {'name': 'lawa', 'k': 10, 'distance': 0.002, 'start': 0.02}
# What all submissions have in common, written out: nothing is inherited.
_COMMON = {
  'warmup': 'linear',
  'decay': 'cosine',
  'length': 1.0,
  'eps': 1e-8,
  'grad_clip': None,
  'optimizer': 'nadamw',
  'averaging': 'none',
}
# What some trials have besides their figures.
_OWN = {
  # One of the two cosines in a run, each with the whole warm-up.
  'cyclic_lr/4': {'length': 0.5, 'warmup_factor': 2 * _A[4]},
  'cyclic_lr/5': {'length': 0.5, 'warmup_factor': 2 * _E[4]},
  'generalized_adam/1': {'optimizer': 'nesterov'},
  'nadamp/4': {'optimizer': {'name': 'nadamw', 'power': 1.5}},
}


def published() -> Iterator[tuple[str, Mapping[str, Any]]]:
  """(name, fields of CycleSetting) of every published setting."""
  for submission, trials in {
    'baseline': (_A, _B, _C, _D, _E),
    'cyclic_lr': (_B, _C, _E, _A, _E),
    'generalized_adam': _GENERALIZED_ADAM,
    'lawa_ema': (_A, _B, _C, _D, _E),
    'lawa_queue': (_A, _B, _C, _D, _E),
    'nadamp': _NADAMP,
    'schedule_free_adamw': _SCHEDULE_FREE,
  }.items():
    for i, figures in enumerate(trials, start=1):
      name = f'{submission}/{i}'
      yield name, {**_fields(submission, figures), **_OWN.get(name, {})}


def _fields(submission: str, figures: tuple[float, ...]) -> dict[str, Any]:
  names = _SHARED if len(figures) == len(_SHARED) else _WITH_BETA1
  fields = {**_COMMON, **dict(zip(names, figures))}
  if 'beta1' in fields:
    fields['one_minus_beta1'] = round(1.0 - fields.pop('beta1'), 16)
  if submission == 'lawa_queue':
    fields['averaging'] = _LAWA
  if submission == 'schedule_free_adamw':
    fields.update(decay='constant', optimizer=_SCHEDULE_FREE_ADAMW)
  return fields


def register_all() -> None:
  """Makes every published setting a part of CYCLES."""
  for name, fields in published():
    CYCLES.preset(name, 'own', fields)
