"""The experiments of the thesis as configurations, by figure.

Written down from the thesis' chapter 3 and its appendix. Peaks are those of the
first cycle, 0.0017486..., plus alter_lr.
"""

from __future__ import annotations

import dataclasses

from reset_cycles.schedule_params import THESIS

_PEAKS_DIFFER = {'alter_lr': (0.0, 0.001, -0.001)}
_DECAYS_DIFFER = {'decays': ('cosine', 'holding_exponential', 'holding_linear')}
_WARMUPS_DIFFER = {'alter_warmup': (0.0, 0.18, -0.015)}
_FAILING = {'alter_lr': (0.0, 0.02, 0.05)}
_TWO_CYCLES = {
  'warmups': ('linear',) * 2,
  'decays': ('cosine',) * 2,
  'alter_lr': (0.05, 0.0),
  'alter_warmup': (0.0,) * 2,
  'lengths': (1.0,) * 2,
  'budget_factor': 1.0,
}
_ONE_CYCLE = {
  'warmups': ('linear',),
  'decays': ('cosine',),
  'alter_lr': (0.0,),
  'alter_warmup': (0.2,),
  'lengths': (1.0,),
}
_FULL = {'reset_mode': 'full'}
_KEPT = {'reset_mode': 'kept_momentum'}
_SOFT = {'reset_mode': 'soft', 'alpha': 0.5}
_RULE = {'name': 'thesis', 'eps1': 0.01, 'eps2': 0.01, 'k': 9, 'm': 9}
_SWITCHING = {
  'early_switching': True,
  'switching': {**_RULE, 'lam': 0.7},
}

_FIGURES = {
  '2.1': _ONE_CYCLE,
  '3.1 full': {**_PEAKS_DIFFER, **_FULL},
  '3.1 soft': {**_PEAKS_DIFFER, **_SOFT},
  '3.3ab': {**_PEAKS_DIFFER, **_FULL},
  '3.3cd': {**_DECAYS_DIFFER, **_FULL},
  '3.3ef': {**_WARMUPS_DIFFER, **_FULL},
  '3.4a kept': {**_PEAKS_DIFFER, **_KEPT},
  '3.4b kept': {**_DECAYS_DIFFER, **_KEPT},
  '3.4c kept': {**_WARMUPS_DIFFER, **_KEPT},
  # The run whose losses are in 3.6; lambda is logged only.
  '3.5': {**_FAILING, **_FULL, 'switching': {**_RULE, 'lam': 0.6}},
  '3.6': {**_FAILING, **_FULL, 'switching': {**_RULE, 'lam': 0.6}},
  '3.7': {**_FAILING, **_FULL, **_SWITCHING},
  '3.8a': {**_PEAKS_DIFFER, **_SOFT},
  '3.8b': {**_DECAYS_DIFFER, **_SOFT},
  '3.8c': {**_WARMUPS_DIFFER, **_SOFT},
  '3.9 full': {**_PEAKS_DIFFER, **_FULL},
  '3.9 soft': {**_PEAKS_DIFFER, **_SOFT},
  '3.10': {**_TWO_CYCLES, 'reset_mode': 'cyclic'},
  '3.11': {**_TWO_CYCLES, **_SOFT},
  'A.1 full': {**_PEAKS_DIFFER, **_FULL},
  'A.1 kept': {**_PEAKS_DIFFER, **_KEPT},
}

EXPERIMENTS = {
  figure: dataclasses.replace(THESIS, **{'early_switching': False, **changes})
  for figure, changes in _FIGURES.items()
}
