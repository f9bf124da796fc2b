"""Which folders are packages; everything else is in pyproject.toml.

The root of the repository is the package `reset_cycles`, and every folder with an
`__init__.py` is one below it. setuptools' own search would find them without
the first part of their names.
"""

from setuptools import find_packages, setup

setup(
  packages=['reset_cycles', *(f'reset_cycles.{p}' for p in find_packages())],
  # pip calls this file by another name; by its own it is left out of the wheel.
  script_name='setup.py',
)
