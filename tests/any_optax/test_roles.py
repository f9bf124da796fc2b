"""What a reset does to a state follows from what its optimizer does."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
import pytest
from jax.tree_util import keystr

from reset_cycles.any_optax.behaviour import behaviour_of, frozen_in
from reset_cycles.any_optax.roles import QUESTIONS, Surroundings, roles_of
from reset_cycles.optimizers.roles import COUNT, ITERATE, KEPT, MOMENT

PARAMS = {
  'b': jax.ShapeDtypeStruct((3,), jnp.float32),
  'w': jax.ShapeDtypeStruct((4, 3), jnp.float32),
}
map_ = jax.tree_util.tree_map


def of(build, params=PARAMS, frozen=None):
  """Key path -> role of the state of an optimizer, and what is doubtful."""
  behaviour = behaviour_of(lambda step: build(step.rate), params)
  if frozen is None:
    frozen = frozen_in(behaviour)
  return roles_of(behaviour, frozen)


def by_name(roles):
  """The roles by paths as text."""
  return {keystr(path): role for path, role in roles.of.items()}


def in_order(build, params=PARAMS, **more):
  """The roles in the order of the leaves."""
  return list(of(build, params, **more).of.values())


class Named(NamedTuple):
  count: Any
  slow: Any
  mu: Any
  norm: Any
  total: Any
  beta: Any


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass
class Node:
  """A container whose keys jax does not know."""

  fields: Any

  def tree_flatten(self):
    return self.fields, None

  @classmethod
  def tree_unflatten(cls, _, fields):
    return cls(tuple(fields))


CONTAINERS = {
  'NamedTuple': (lambda fields: Named(*fields), tuple),
  'tuple': (tuple, tuple),
  'list': (list, tuple),
  'dict': (
    lambda fields: dict(zip('abcdef', fields)),
    lambda state: tuple(state.values()),
  ),
  'node': (lambda fields: Node(tuple(fields)), lambda node: node.fields),
  'nested': (
    lambda fields: {'one': {'two': tuple(fields)}},
    lambda state: state['one']['two'],
  ),
}


def averaging(rate, pack, unpack):
  """An average x of the iterate z, momentum, and a clipped norm.

  Its fields: steps, z, momentum, the mean norm, the weight of x, a constant.
  """

  def init(params):
    zeros = map_(jnp.zeros_like, params)
    copy = map_(jnp.array, params)
    return pack((0, copy, zeros, 1.0, 0.0, 0.9))

  def update(grads, state, params):
    count, slow, mu, norm, total, beta = unpack(state)
    count += 1
    leaves = jax.tree_util.tree_leaves(grads)
    norm = 0.9 * norm + 0.1 * jnp.sqrt(sum(jnp.sum(g**2) for g in leaves))
    mu = map_(lambda m, g: beta * m + g / norm, mu, grads)
    slow = map_(lambda z, m: z - rate * m / (1 - beta**count), slow, mu)
    total += rate**2
    updates = map_(lambda z, x: rate**2 / total * (z - x), slow, params)
    return updates, pack((count, slow, mu, norm, total, beta))

  return optax.GradientTransformation(init, update)


ROLES = [COUNT, *[ITERATE] * 2, *[MOMENT] * 2, COUNT, ITERATE, COUNT]


@pytest.mark.parametrize('name', CONTAINERS)
def test_a_container_says_nothing(name):
  build = lambda rate: averaging(rate, *CONTAINERS[name])
  assert in_order(build) == ROLES
  assert of(build).doubtful == []


@pytest.mark.parametrize(
  'params',
  [
    {'mu': PARAMS['b'], 'slow': PARAMS['w']},
    {'count': PARAMS['b'], 'norm': PARAMS['w']},
    [PARAMS['b'], PARAMS['w']],
    (PARAMS['b'], (PARAMS['w'],)),
    optax.EmaState(count=None, ema={'mu': PARAMS['b'], 'nu': PARAMS['w']}),
  ],
  ids=['fields', 'others', 'list', 'tuple', 'a state'],
)
@pytest.mark.parametrize('name', CONTAINERS)
def test_names_of_parameters_say_nothing(name, params):
  build = lambda rate: averaging(rate, *CONTAINERS[name])
  assert in_order(build, params) == ROLES


@pytest.mark.parametrize('name', CONTAINERS)
def test_wrappers_say_nothing(name):
  own = lambda rate: averaging(rate, *CONTAINERS[name])
  everything = map_(lambda _: True, PARAMS)
  # It counts steps and its own, and keeps an average of the gradients.
  wrapped = lambda rate: optax.MultiSteps(own(rate), 2)
  roles = in_order(wrapped)
  assert roles == [COUNT, COUNT, *ROLES, MOMENT, MOMENT]
  finite = lambda rate: optax.apply_if_finite(own(rate), 3)
  assert in_order(finite)[3:] == ROLES
  for outer in (
    lambda rate: optax.masked(own(rate), everything),
    lambda rate: optax.chain(optax.clip_by_global_norm(1.0), own(rate)),
    lambda rate: optax.multi_transform(
      {'a': own(rate)}, map_(lambda _: 'a', PARAMS)
    ),
    lambda rate: optax.masked(optax.chain(own(rate)), everything),
  ):
    assert in_order(outer) == ROLES


@pytest.mark.parametrize('name', CONTAINERS)
def test_one_vector_says_the_same(name):
  """`optax.flatten`: one leaf for a tree."""
  build = lambda rate: optax.flatten(averaging(rate, *CONTAINERS[name]))
  assert in_order(build) == [COUNT, ITERATE, MOMENT, COUNT, ITERATE, COUNT]


def test_a_number_for_each_parameter_is_a_moment():
  """The squared norm of each layer, and one of all: a number of all is none."""

  def build(rate):
    def update(grads, state, params):
      square = lambda g: jnp.sum(g**2)
      each = map_(lambda v, g: 0.9 * v + square(g), state['each'], grads)
      every = state['every'] + sum(
        map(square, jax.tree_util.tree_leaves(grads))
      )
      scaled = lambda g, v: -rate * g / jnp.sqrt(v + every)
      return map_(scaled, grads, each), {'each': each, 'every': every}

    init = lambda params: {'each': map_(lambda _: 0.0, params), 'every': 0.0}
    return optax.GradientTransformation(init, update)

  assert in_order(build) == [MOMENT, MOMENT, COUNT]
  # A parameter that is a number changes nothing.
  assert in_order(
    build, {**PARAMS, 'x': jax.ShapeDtypeStruct((), jnp.float32)}
  ) == ([MOMENT] * 3 + [COUNT])


@pytest.mark.parametrize('inner', [optax.adam, optax.sgd])
def test_a_schedule_of_ones_own_goes_on(inner):
  """Its count stands beside no moment, in a chain or injected."""
  schedule = optax.linear_schedule(0.5, 0.9, 10)
  chained = lambda rate: optax.chain(
    inner(rate), optax.scale_by_schedule(schedule)
  )
  assert in_order(chained)[-1] == KEPT
  momentum = {'momentum' if inner is optax.sgd else 'b1': schedule}
  injected = lambda rate: optax.inject_hyperparams(inner)(
    learning_rate=rate, **momentum
  )
  for params in (PARAMS, {'b1': PARAMS['b'], 'momentum': PARAMS['w']}):
    # Whether the rate is set in the state is the loop's business.
    roles = by_name(of(injected, params, [False, False]))
    own = [role for path, role in roles.items() if 'inner_state' not in path]
    assert set(own) == {KEPT} and MOMENT in roles.values()


def bare(learning_rate, decay):
  """Momentum whose state is a tree like the parameters, in no container."""

  def update(grads, state, params=None):
    state = map_(lambda m, g: decay * m + g, state, grads)
    return map_(lambda m: -learning_rate * m, state), state

  init = lambda params: map_(jnp.zeros_like, params)
  return optax.GradientTransformation(init, update)


def scheduled(rate):
  schedule = optax.linear_schedule(0.5, 0.9, 10)
  return optax.inject_hyperparams(bare)(learning_rate=rate, decay=schedule)


def test_a_schedule_goes_on_beside_a_bare_state():
  """Its count makes a number that is kept, the injected decay."""
  finite = lambda rate: optax.apply_if_finite(scheduled(rate), 3)
  for build in (scheduled, finite):
    roles = by_name(of(build, frozen=[False, False]))
    moments = [r for p, r in roles.items() if p.endswith(("['b']", "['w']"))]
    assert moments == [MOMENT, MOMENT]
    counts = [r for p, r in roles.items() if p.endswith('.count')]
    values = [r for p, r in roles.items() if 'hyperparams[' in p]
    # Some versions of optax have one count for all, and one for each schedule.
    assert KEPT in counts and set(values) == {KEPT}


def test_what_a_loss_decides_begins_anew_with_what_stands_beside_it():
  """A rate that is halved where a mean loss has not become smaller."""

  def build(rate):
    init = lambda params: {
      'count': 0,
      'mean': 0.0,
      'best': jnp.inf,
      'waited': 0,
      'scale': 1.0,
    }

    def update(grads, state, params, *, value, **more):
      count = (state['count'] + 1) % 3
      mean = (state['mean'] * state['count'] + value) / (state['count'] + 1)
      is_best = mean < state['best']
      waited = jnp.where(is_best, 0, state['waited'] + 1)
      scale = jnp.where(waited > 2, state['scale'] / 2, state['scale'])
      best = jnp.where(is_best, mean, state['best'])
      state = dict(
        count=count, mean=mean, best=best, waited=waited, scale=scale
      )
      return map_(lambda g: -rate * scale * g, grads), state

    return optax.GradientTransformation(init, update)

  assert of(build) == (dict.fromkeys(of(build).of, COUNT), [])
  assert len(of(build).of) == 5


@pytest.mark.parametrize('frozen', [[True, False], [False, True]])
def test_an_iterate_of_a_kept_parameter_begins_with_that_one(frozen):
  build = lambda rate: averaging(rate, *CONTAINERS['dict'])
  roles = in_order(build, frozen=frozen)
  assert roles[1:3] == [COUNT if kept else ITERATE for kept in frozen]
  assert roles[3:] == ROLES[3:]


def test_what_only_selects_does_not_flow():
  """A state that a NaN leaves alone; the flag of it is no number of the run."""
  adam = lambda rate: optax.apply_if_finite(
    optax.chain(optax.adam(rate), optax.scale_by_schedule(lambda count: 1.0)), 3
  )
  roles = by_name(of(adam))
  schedule = [role for path, role in roles.items() if path.endswith('.count')]
  assert schedule == [COUNT, KEPT]


@pytest.mark.parametrize('shape', [(3, 3), (5, 3), (3, 4), (2, 3)])
def test_what_has_another_shape_has_no_blend(shape):
  def build(rate):
    def update(grads, state, params):
      total = sum(map(jnp.sum, jax.tree_util.tree_leaves(grads)))
      return map_(lambda g: -rate * g, grads), state + total

    return optax.GradientTransformation(lambda _: jnp.zeros(shape), update)

  assert of(build) == ({(): COUNT}, [''])


@pytest.mark.parametrize(
  'shape_of',
  [
    lambda b, rows, columns: (b,),
    lambda b, rows, columns: (rows,),
    lambda b, rows, columns: (columns,),
    lambda b, rows, columns: (1, columns),
    lambda b, rows, columns: (rows, 1),
    lambda b, rows, columns: (1,),
    lambda b, rows, columns: (rows, columns),
    lambda b, rows, columns: (b + rows * columns,),
  ],
  ids=('b', 'rows', 'columns', '1,columns', 'rows,1', '1', 'w', 'all'),
)
def test_rows_columns_and_vectors_are_moments(shape_of):
  """Of parameters (b,) and (rows, columns)."""

  def build(rate):
    def update(grads, state, params):
      total = sum(map(jnp.sum, jax.tree_util.tree_leaves(grads)))
      return map_(lambda g: -rate * g, grads), state + total

    def init(params):
      return jnp.zeros(shape_of(*params['b'].shape, *params['w'].shape))

    return optax.GradientTransformation(init, update)

  assert of(build) == ({(): MOMENT}, [])


class Turned(NamedTuple):
  basis: Any  # for the rows of each parameter
  norms: Any  # of the last six steps
  mu: Any


def turning(rate):
  """Momentum in a basis of the gradients' own, which must stay orthogonal."""

  def init(params):
    basis = map_(lambda p: jnp.eye(p.shape[0]), params)
    return Turned(basis, jnp.zeros(6), map_(jnp.zeros_like, params))

  def update(grads, state, params):
    squared = lambda g: jnp.outer(g, g) if g.ndim == 1 else g @ g.T
    turned = lambda q, g: jnp.linalg.qr(q + squared(g))[0]
    basis = map_(turned, state.basis, grads)
    norm = sum(map(jnp.linalg.norm, jax.tree_util.tree_leaves(grads)))
    norms = jnp.roll(state.norms, 1).at[0].set(norm)
    mu = map_(lambda m, q, g: 0.9 * m + q.T @ g, state.mu, basis, grads)
    step = lambda m, q: -rate * q @ m / jnp.mean(norms)
    return map_(step, mu, basis), Turned(basis, norms, mu)

  return optax.GradientTransformation(init, update)


@pytest.mark.parametrize('shape', [(6, 6), (4, 6), (6, 4)])
def test_a_shape_that_fits_by_chance_makes_no_moment(shape):
  """A basis of 6 x 6, or six norms, beside a parameter of 6 x 6 or of 6."""
  f = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.float32)
  roles = of(turning, {'b': f(6), 'w': f(*shape)})
  assert list(roles.of.values()) == [*[COUNT] * 3, MOMENT, MOMENT]
  assert roles.doubtful == [".basis['b']", ".basis['w']", '.norms']


def square_only(shape):
  return len(shape) == 2 and shape[0] == shape[1]


def small_only(shape):
  return len(shape) == 2 and max(shape) <= 6


def in_blocks(shape):
  if len(shape) == 2 and shape[0] % 2:
    raise ValueError(f'{shape}: not of blocks of 2 rows')
  return len(shape) == 2


def turning_some(has_basis):
  """Momentum, in a basis where the shape of a parameter lets it have one."""

  def build(rate):
    def init(params):
      basis = lambda p: jnp.eye(p.shape[0] if has_basis(p.shape) else 1)
      return Turned(map_(basis, params), (), map_(jnp.zeros_like, params))

    def update(grads, state, params):
      mu = map_(lambda m, g: 0.9 * m + g, state.mu, grads)
      turned = lambda q, m: (
        jnp.linalg.qr(q + m @ m.T)[0] if has_basis(m.shape) else q
      )
      basis = map_(turned, state.basis, mu)
      step = lambda q, m: -rate * (q @ m if has_basis(m.shape) else m)
      return map_(step, basis, mu), Turned(basis, (), mu)

    return optax.GradientTransformation(init, update)

  return build


@pytest.mark.parametrize(
  ('has_basis', 'roles_of_w', 'doubtful'),
  [
    (in_blocks, (COUNT, MOMENT), [".basis['w']"]),
    (square_only, (COUNT, COUNT), [".basis['w']", ".mu['w']"]),
    (small_only, (COUNT, COUNT), [".basis['w']", ".mu['w']"]),
  ],
)
def test_bases_of_some_shapes_only_are_no_moments(
  has_basis, roles_of_w, doubtful
):
  """Of a parameter (6, 6) beside one of 3; only blocks can be told apart."""
  f = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.float32)
  roles = of(turning_some(has_basis), {'b': f(3), 'w': f(6, 6)})
  found = by_name(roles)
  assert (found[".basis['w']"], found[".mu['w']"]) == roles_of_w
  assert found[".mu['b']"] == MOMENT
  assert roles.doubtful == doubtful


def test_an_optimizer_may_know_the_shapes_of_its_parameters():
  """It is then looked at with those."""

  def build(rate):
    def update(grads, state, params):
      mu = jnp.reshape(grads['w'], (4, 3)) + 0.9 * state
      return {'b': -rate * grads['b'], 'w': -rate * mu}, mu

    return optax.GradientTransformation(lambda _: jnp.zeros((4, 3)), update)

  assert of(build) == ({(): MOMENT}, [])


def test_an_update_that_asks_for_more_is_seen_as_far_as_may_be():
  """By its beginning alone: what begins with no parameter may be a moment."""

  def build(rate):
    def update(grads, state, params, *, reward):
      mu = map_(lambda m, g: m + reward * g, state['mu'], grads)
      return mu, {'mu': mu, 'best': jnp.maximum(state['best'], reward)}

    init = lambda params: {'mu': map_(jnp.zeros_like, params), 'best': -jnp.inf}
    return optax.GradientTransformation(init, update)

  behaviour = behaviour_of(lambda step: build(step.rate), PARAMS)
  assert frozen_in(behaviour) == [False, False]
  assert list(roles_of(behaviour, [False] * 2).of.values()) == [
    COUNT,
    MOMENT,
    MOMENT,
  ]


def test_what_an_optimizer_raises_is_raised():
  def build(rate):
    def update(grads, state, params):
      raise TypeError('no gradients today')

    return optax.GradientTransformation(lambda _: (), update)

  with pytest.raises(TypeError, match='no gradients today'):
    behaviour_of(lambda step: build(step.rate), PARAMS)


def test_each_question_decides_its_example():
  if not hasattr(optax, 'lbfgs'):
    pytest.skip('optax is too old')
  averaged = lambda rate: averaging(rate, *CONTAINERS['NamedTuple'])
  free = lambda rate: optax.contrib.schedule_free(optax.sgd(rate), rate)
  chained = lambda rate: optax.chain(
    optax.sgd(rate, 0.9), optax.scale_by_schedule(lambda count: 0.9)
  )
  examples = (
    (free, ".z['w']", 'copies_parameters'),
    (turning_some(square_only), ".basis['s']", 'fits_by_chance'),
    (optax.adam, "[0].mu['w']", 'averages_gradients'),
    (free, '.weight_sum', 'weighs_iterates'),
    (optax.lbfgs, "[0].diff_params_memory['w']", 'remembers_steps'),
    (optax.lbfgs, '[2].value', 'remembers_a_loss'),
    (averaged, '.norm', 'may_become_nan'),
    (scheduled, ".hyperparams_states['decay'].count", 'makes_a_kept_number'),
    (optax.adam, '[0].count', 'stands_beside'),
    (chained, '[1].count', 'stands_alone'),
  )
  assert [name for *_, name in examples] == [q.__name__ for q, _ in QUESTIONS]
  params = {**PARAMS, 's': jax.ShapeDtypeStruct((2, 2), jnp.float32)}
  for build, path, name in examples:
    behaviour = behaviour_of(lambda step, build=build: build(step.rate), params)
    surroundings = Surroundings(behaviour, frozenset())
    asked = {
      keystr(leaf.path): next(q for q, _ in QUESTIONS if q(leaf, surroundings))
      for leaf in behaviour.leaves
    }
    assert asked[path].__name__ == name
