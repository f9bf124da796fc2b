"""This project's entries for the benchmark's runner."""

from reset_cycles.cli import handed_in
from reset_cycles.cli import main as cli
from reset_cycles.engine.records import as_plain
from reset_cycles.research.real_runner import own
from reset_cycles.research.thesis.settings import RUNS as OF_THESIS
from reset_cycles.schedule_params import MUON, SOFT_RESET, THESIS


def test_entries_of_the_thesis_are_the_runs_of_its_figures():
  found = {
    name.removeprefix('thesis_'): params
    for name, params in own.OWN.items()
    if name.startswith('thesis_')
  }
  assert found == {
    name: params
    for name, params in OF_THESIS.items()
    if not name.startswith('failed_start')  # once the step_hint, not twice
  }


def test_an_entry_with_other_peaks_is_otherwise_the_same():
  for cycle, hot in zip(SOFT_RESET.cycles, own.OWN['soft_reset_hot'].cycles):
    assert hot.peak == 10 * cycle.peak
  assert own.scaled(own.scaled(SOFT_RESET, 4.0), 0.25) == SOFT_RESET


def test_an_entry_in_capitals_is_exported_under_its_name(tmp_path, monkeypatch):
  """The command takes no capitals. It is called here, in this process."""

  def called(command, check):
    assert check and command[1:3] == ['-m', 'reset_cycles.cli']
    assert cli.main(command[3:]) == 0

  monkeypatch.setattr(own.subprocess, 'run', called)
  monkeypatch.setattr(handed_in, 'check_imports', lambda *unused: None)
  monkeypatch.setattr(own, 'OWN', {'MUON': MUON, 'thesis': THESIS})
  (tmp_path / 'MUON').mkdir()
  (tmp_path / 'MUON' / 'old.py').touch()
  own.export(tmp_path)
  assert sorted(path.name for path in tmp_path.iterdir()) == ['MUON', 'thesis']
  assert not (tmp_path / 'MUON' / 'old.py').exists()
  form = (tmp_path / 'MUON' / 'submission_info.yml').read_text()
  assert 'submission_folder: "muon"' in form


def test_ablations_differ_from_what_is_handed_in_by_what_their_names_say():
  def differing(name):
    plain, changed = map(as_plain, (SOFT_RESET, own.OWN[name]))
    plain.update(plain.pop('optimizer'))
    changed.update(changed.pop('optimizer'))
    return {field for field in plain if plain[field] != changed[field]}

  assert differing('soft_reset_r_0') == {'r'}
  assert differing('soft_reset_published_peak') == {'relative_peak'}
  assert differing('soft_reset_published_peak_r_0') == {'r', 'relative_peak'}
  assert differing('two_cycles') == {'cycles', 'r', 'relative_peak'}
  assert differing('one_cycle_r_0') == {
    *('cycles', 'early_switching', 'r', 'relative_peak')
  }
