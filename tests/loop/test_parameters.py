"""What a loop's parameters are told to be, and that a guess is said."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from helpers import documents, loops
from reset_cycles import Cycles, State
from reset_cycles.core.forms import TABLE, VECTOR, Source, matrix
from reset_cycles.loop import cycles as cycles_module
from reset_cycles.optimizers.schedule_free import ScheduleFreeMuon
from reset_cycles.soft_reset import FullReset

SETTINGS = dataclasses.replace(loops.CHAIN, optimizer=ScheduleFreeMuon())


def init(key):
  return {'w': jax.random.normal(key, (3, 2)), 'shift': jnp.ones((2, 2))}


def loss_of(params):
  """The shift has two axes, and is only added."""
  return jnp.sum(jnp.ones((2, 3)) @ params['w'] + params['shift'])


@pytest.mark.parametrize(
  ('told', 'guesses'),
  (
    ({}, "['shift'], ['w']"),
    ({'loss_fn': loss_of}, ''),
    ({'matrices': lambda path: path == "['w']"}, "['w']"),
    ({'matrices': {"['w']": matrix((0,), (1,)), "['shift']": VECTOR}.get}, ''),
  ),
  ids=('nothing', 'loss', 'one', 'both'),
)
def test_what_is_only_guessed_is_a_warning(told, guesses):
  cycles = Cycles(SETTINGS, num_steps=9, make_params=init, target=0.9, **told)
  params = init(jax.random.PRNGKey(0))
  state = State(params, cycles.optimizer.init(params))
  _, events = cycles.before_step(0, state)
  reasons = [e.reason for e in events if e.kind == 'warning']
  sentence = f'guessed by name or shape: the form of {guesses}'
  assert reasons == ([sentence] if guesses else [])


def answers_of_the_page(monkeypatch, word, **names):
  """What the parameters are by the example of the page that has this word."""
  page = documents.blocks(documents.ROOT / 'docs' / 'loop_reference.md')
  [text] = [b.text for b in page if word in b.text and 'Cycles(' in b.text]
  ask, forms = cycles_module.parameter_forms, {}

  def noted(params, *args):
    answers = ask(params, *args)
    leaves = jax.tree_util.tree_flatten_with_path(params)[0]
    for (path, _), answer in zip(leaves, answers):
      forms[jax.tree_util.keystr(path)] = answer.form, answer.source
    return answers

  monkeypatch.setattr(cycles_module, 'parameter_forms', noted)
  settings = dataclasses.replace(SETTINGS, reset=FullReset())
  exec(text, {'Cycles': Cycles, 'jax': jax, 'settings': settings, **names})
  return forms


def test_the_example_of_nnx(monkeypatch):
  """Kernels are (in, out), biases vectors, and nothing is guessed."""
  nnx = pytest.importorskip('flax.nnx')
  if not hasattr(nnx, 'as_pure'):
    pytest.skip('this nnx has no as_pure')

  class Net(nnx.Module):
    def __init__(self, rngs):
      self.embed = nnx.Embed(5, 3, rngs=rngs)
      self.output = nnx.Linear(3, 2, rngs=rngs)

    def __call__(self, tokens):
      return self.output(self.embed(tokens))

  loss = lambda model, tokens: jnp.sum(model(tokens))
  inputs = jnp.zeros((4,), int)
  names = {'Net': Net, 'loss': loss, 'inputs': inputs}
  assert answers_of_the_page(monkeypatch, 'nnx.merge', **names) == {
    "['embed']['embedding']": (TABLE, Source.TRACE),
    "['output']['bias']": (VECTOR, Source.TRACE),
    "['output']['kernel']": (matrix((0,), (1,)), Source.TRACE),
  }


def test_the_example_of_equinox(monkeypatch):
  """Weights are (out, in)."""
  eqx = pytest.importorskip('equinox')
  net = lambda key: eqx.nn.Linear(3, 2, key=key)
  loss = lambda model, inputs: jnp.sum(jax.vmap(model)(inputs))
  names = {'Net': net, 'loss': loss, 'inputs': jnp.ones((4, 3))}
  assert answers_of_the_page(monkeypatch, 'eqx.combine', **names) == {
    '.weight': (matrix((1,), (0,)), Source.TRACE),
    '.bias': (VECTOR, Source.TRACE),
  }


def test_the_example_of_plain_arrays(monkeypatch):
  """And its table, as the page has it."""
  init = lambda key: {
    'layers': jax.random.normal(key, (6, 64, 32)),
    'scale': jnp.ones((6, 64)),
    'words': jnp.ones((900, 32)),
  }
  made = []
  noted = lambda *args, **more: made.append(Cycles(*args, **more))
  names = {'init': init, 'Cycles': noted}
  assert answers_of_the_page(monkeypatch, 'forms.get', **names) == {
    "['layers']": (matrix((2,), (1,), (0,)), Source.USER),
    "['scale']": (VECTOR, Source.NAME),
    "['words']": (TABLE, Source.USER),
  }
  page = documents.blocks(documents.ROOT / 'docs' / 'loop_reference.md')
  [table] = [block.text for block in page if block.text.startswith('name ')]
  assert made[0].forms == table.rstrip()
