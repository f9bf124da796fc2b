"""Files that are written whole, and tables of which a part may be missing."""

import errno
import os

import pytest

from reset_cycles.mini_algoperf import files


def test_a_full_disk_is_said_with_the_files_name_and_costs_nothing(
  tmp_path, monkeypatch
):
  path = tmp_path / 'table.csv'
  files.write_whole(path, 'before')

  def full(self, content):
    self.touch()
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

  monkeypatch.setattr('pathlib.Path.write_bytes', full)
  with pytest.raises(files.WriteError) as raised:
    files.write_whole(path, 'after')
  assert str(raised.value) == (
    f'{path} cannot be written: {os.strerror(errno.ENOSPC)}.'
  )
  assert path.read_text() == 'before'
  assert [p.name for p in tmp_path.iterdir()] == ['table.csv']


@pytest.mark.parametrize(
  ('text', 'rows'),
  [
    ('', []),
    ('step,loss\n', []),
    ('step,loss\n1,0.5\n', [('1', '0.5')]),
    ('step,loss\r\n1,0.5\r\n', [('1', '0.5')]),
    # 0.25, killed within the number; behind it; in the header.
    ('step,loss\n1,0.5\n2,0.2', [('1', '0.5')]),
    ('step,loss\n1,0.5\n2,0.25', [('1', '0.5')]),
    ('step,lo', []),
    ('step,loss\n1,\n', [('1', '')]),
    ('"a\nb",loss\n1,0.5\n', [('1', '0.5')]),
  ],
)
def test_rows_without_a_last_line_that_has_no_end(text, rows, tmp_path):
  path = tmp_path / 'table.csv'
  assert files.read_rows(path) == []
  path.write_bytes(text.encode())
  assert [tuple(row.values()) for row in files.read_rows(path)] == rows


@pytest.mark.parametrize(
  ('content', 'message'),
  [
    (b'step,loss\n1,\xff\n', 'table.csv is not a table in CSV form'),
    (b'step,loss\n1,0.5\n2,0.22,0.2\n', 'table.csv: row 2 has more values'),
  ],
)
def test_what_is_no_table_is_named(content, message, tmp_path):
  path = tmp_path / 'table.csv'
  path.write_bytes(content)
  with pytest.raises(ValueError, match=message):
    files.read_rows(path)


@pytest.mark.parametrize(
  ('text', 'message'),
  [
    ('{"a": 1', 'file.json is not valid JSON: '),
    ('[' * 100_000, 'file.json is nested too deeply'),
    (b'"\xff"', 'file.json is not valid JSON: '),
  ],
)
def test_what_is_no_json_is_named(text, message, tmp_path):
  path = tmp_path / 'file.json'
  path.write_bytes(text if isinstance(text, bytes) else text.encode())
  with pytest.raises(ValueError, match=message):
    files.read_json(path)


def test_only_regular_files_are_read(tmp_path):
  """A pipe would be waited for, and /dev/zero has no end."""
  os.mkfifo(tmp_path / 'pipe')
  (tmp_path / 'endless').symlink_to('/dev/zero')
  for name in ('pipe', 'endless'):
    for read in (files.read_bytes, files.read_json, files.read_rows):
      with pytest.raises(ValueError, match=f'{name} is not a regular file'):
        read(tmp_path / name)
