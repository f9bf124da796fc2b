"""Runs docs/first_look.ipynb, and keeps the outputs in it: `make notebook`.

The metadata has a digest of the code that ran, which a test compares.
"""

from __future__ import annotations

import hashlib
import pathlib

import nbclient
import nbformat

PATH = pathlib.Path(__file__).parents[1] / 'docs' / 'first_look.ipynb'


def main() -> None:
  notebook = nbformat.read(PATH, as_version=4)
  nbclient.NotebookClient(notebook, timeout=1200).execute()
  code = [cell.source for cell in notebook.cells if cell.cell_type == 'code']
  for cell in notebook.cells:
    cell.metadata = {}  # the times of its run
  digest = hashlib.sha256('\n'.join(code).encode()).hexdigest()
  notebook.metadata.code_sha256 = digest
  notebook.metadata.language_info = {'name': 'python'}
  nbformat.write(notebook, PATH)


if __name__ == '__main__':
  main()
