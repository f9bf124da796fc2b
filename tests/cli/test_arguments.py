"""Flags as the benchmark's runner takes them."""

from __future__ import annotations

import argparse

import pytest

from reset_cycles.cli import arguments, errors
from reset_cycles.cli import main as cli
from reset_cycles.mini_algoperf.run_options import RunOptions
from reset_cycles.mini_algoperf.workloads import WORKLOADS


def parse(*words):
  """The options of `soft-reset run`."""
  given = arguments.with_two_dashes(['run', *words])
  options, rest = cli.make_parser().parse_known_args(given)
  options.parser.refuse(rest)
  return options


@pytest.mark.parametrize(
  'words',
  [
    ['--rng_seed=5'],
    ['--rng_seed', '5'],
    ['-rng_seed=5'],
    ['-rng_seed', '5'],
    ['--rng-seed=5'],
    ['--rng_seed=1', '--rng_seed=5'],
  ],
)
def test_ways_to_write_a_value(words):
  assert parse(*words).rng_seed == 5


@pytest.mark.parametrize(
  ('words', 'value'),
  [
    ([], True),
    (['--stop_at_targets'], True),
    (['--nostop_at_targets'], False),
    (['-nostop_at_targets'], False),
    (['--stop_at_targets=true'], True),
    (['--stop_at_targets=True'], True),
    (['--stop_at_targets=1'], True),
    (['--stop_at_targets=false'], False),
    (['--stop_at_targets=F'], False),
    (['--nostop_at_targets', '--stop_at_targets'], True),
  ],
)
def test_ways_to_write_a_switch(words, value):
  assert parse(*words).stop_at_targets is value


@pytest.mark.parametrize(
  ('word', 'message'),
  [
    ('--nooverwrite=true', '--overwrite=true or --overwrite=false'),
    ('--overwrite=maybe', '--overwrite=true or --overwrite=false'),
    ('--overwrit', 'unknown flag --overwrit; see .* Did you mean --overwrite?'),
    (
      '--workloda=x',
      'unknown flag --workloda; see .* Did you mean --workload?',
    ),
    ('--zzz=1', 'unknown flag --zzz; see `soft-reset run --help`.$'),
    ('digits', "unexpected argument 'digits'"),
    ('--rng_seed', '--rng_seed: expected one argument'),
    ('--rng_seed=1.5', '--rng_seed: 1.5 must be a whole number from 0 to 429'),
    ('--eval_every=0', '--eval_every: 0 must be a whole number of at least 1'),
    ('--eval_by=epochs', "--eval_by: invalid choice: 'epochs'"),
  ],
)
def test_what_is_refused(word, message):
  with pytest.raises(errors.SetupError, match=message):
    parse(word)


def test_the_defaults_are_those_of_a_run():
  options = vars(parse('--workload=digits'))
  del options['experiment_name']  # of the workload, if it isn't given
  expected = vars(RunOptions('digits'))
  assert {name: options[name] for name in options if name in expected} == {
    name: expected[name] for name in expected if name != 'experiment_name'
  }


def test_a_whole_number_has_both_bounds():
  read = arguments.whole(2, 4)
  assert [read(text) for text in ('2', '3', '4')] == [2, 3, 4]
  for text in ('1', '5', '', '3.0', 'x', '9' * 5000):
    with pytest.raises(argparse.ArgumentTypeError, match='from 2 to 4'):
      read(text)


def test_the_workloads_that_the_help_names():
  from reset_cycles.cli import run

  assert run.WORKLOADS.replace(' or', ',').split(', ') == list(WORKLOADS)
