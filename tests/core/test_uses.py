"""The forms of parameters, by what a model does with them; written out by hand."""

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reset_cycles.core.forms import DEPTHWISE, TABLE, VECTOR, matrix
from reset_cycles.core.uses.traced import forms_of_init, forms_of_uses

DENSE = matrix([0], [1])
X = jnp.ones((2, 6, 16))  # (batch, time, features)
KEY = jax.random.PRNGKey(0)
W0 = np.ones((8, 16), np.float32)


@pytest.fixture(autouse=True)
def models_of_others():
  """They add a bias without a word on its axes."""
  with jax.numpy_rank_promotion('allow'):
    yield


def zeros(*shape):
  return np.zeros(shape, np.float32)  # of NumPy: there are many, made at import


def convolved(kernel, numbers=('NHWC', 'HWIO', 'NHWC'), channels=4, groups=1):
  shape = (1, 8, 8, channels) if numbers[0] == 'NHWC' else (1, channels, 8, 8)
  return jax.lax.conv_general_dilated(
    jnp.ones(shape),
    kernel,
    (1, 1),
    'SAME',
    dimension_numbers=numbers,
    feature_group_count=groups,
  )


def standardised(w):
  return (w - w.mean(0)) / w.std(0)


def scanned(p):
  layer = lambda x, p: (jnp.tanh(x @ p['w'] + p['b']), None)
  return jax.lax.scan(layer, X, p)[0]


def looped(p):
  layer = lambda i, x: jnp.tanh(x @ p['w'][i] + p['b'][i])
  return jax.lax.fori_loop(0, 4, layer, X)


def attended(p):
  q, k = (jnp.einsum('btd,dhk->bthk', X, p[n]) + p[n + 'b'] for n in 'qk')
  weights = jax.nn.softmax(jnp.einsum('bqhk,bthk->bhqt', q, k))
  mixed = jnp.einsum('bhqt,bthk->bqhk', weights, k)
  return jnp.einsum('bqhk,hkd->bqd', mixed, p['o'])


def with_condition(p):
  """Each branch uses a matrix; the bias only selects, which tells nothing."""
  is_first = p['b'].sum() > 0
  return jax.lax.cond(is_first, lambda: X @ p['w'], lambda: X @ p['v'].T)


def asked_by_latents(p):
  q = jnp.einsum('nd,dhk->nhk', p['latents'], p['q'])
  k = jnp.einsum('btd,dhk->bthk', X, p['k'])
  return joined_heads(jnp.einsum('nhk,bthk->bhnt', q, k), k, p['o'])


def joined_heads(scores, values, out):
  mixed = jnp.einsum('bhqt,bthk->bqhk', jax.nn.softmax(scores), values)
  return jnp.einsum('bqhk,hkd->bqd', mixed, out)


def with_token(p):
  token = jnp.broadcast_to(p['token'], (2, 1, 16))
  x = jnp.concatenate([token, X], axis=1)
  q, k, v = jnp.einsum('btd,cdhk->cbthk', x, p['qkv'])
  return joined_heads(jnp.einsum('bqhk,bthk->bhqt', q, k), v, p['o'])


def asked_by_few(p):
  """Attention whose heads share keys and values."""
  q = jnp.einsum('btd,dhk->bthk', X, p['q'])
  k, v = X @ p['k'], X @ p['v']
  weights = jax.nn.softmax(jnp.einsum('bqhk,btk->bhqt', q, k))
  return jnp.einsum('bhqt,btk->bqhk', weights, v).reshape(2, 6, 8) @ p['o']


def member(p):
  return jnp.tanh(X @ p['a']) @ p['b']


def image_member(p):
  x = jnp.ones((1, 8, 8, 3))
  for kernel in p:
    x = jnp.tanh(
      jax.lax.conv_general_dilated(
        x, kernel, (1, 1), 'SAME', dimension_numbers=('NHWC', 'HWIO', 'NHWC')
      )
    )
  return x


def recurrent_member(p):
  def step(h, x):
    return jnp.tanh(x @ p['i'] + h @ p['h']), None

  return jax.lax.scan(step, jnp.zeros((6, 8)), X)[0]


def gates_after(p):
  """Four outputs of one layer that lie in one array."""
  i, f, g, o = jnp.einsum('btd,gdo->gbto', X, p)
  return jnp.tanh(i * f + g) * o


def all_experts(p):
  x = jnp.tanh(jnp.einsum('btd,edf->betf', X, p['w']))
  x = jnp.einsum('betf,efd->betd', x, p['v'])
  return jnp.einsum('bte,betd->btd', jax.nn.softmax(X @ p['gate']), x)


def weighed_experts(p):
  """Of one layer each."""
  x = jnp.einsum('btd,edf->betf', X, p['w'])
  return jnp.einsum('bte,betf->btf', jax.nn.softmax(X @ p['gate']), x)


def mixed_experts(p):
  weights = jax.nn.softmax(X[0] @ p['gate'])
  kernels = jnp.einsum('be,eij->bij', weights, p['w'])
  return jnp.einsum('bi,bij->bj', X[0], kernels)


def tied(p):
  x = jnp.tanh(p[jnp.array([[3, 1], [4, 1]])])
  return x @ p.T


@jax.custom_vjp
def own_gradient(x, w):
  return x @ w


own_gradient.defvjp(
  lambda x, w: (x @ w, (x, w)), lambda res, g: (g @ res[1].T, res[0] @ g)
)

STACK = {'w': zeros(4, 16, 16), 'b': zeros(4, 16)}
STACK_FORMS = {'w': matrix([1], [2], [0]), 'b': VECTOR}

# What is computed from the parameters, the parameters, and their forms.
CASES = {
  # Dense layers.
  'in, out': (lambda p: X @ p['w'] + p['b'],
              {'w': zeros(16, 8), 'b': zeros(8)},
              {'w': DENSE, 'b': VECTOR}),
  'out, in': (lambda p: X @ p.T, zeros(8, 16), matrix([1], [0])),
  'reshaped and cast': (
    lambda p: X.astype(jnp.bfloat16) @ p.astype(jnp.bfloat16).reshape(16, 8),
    zeros(4, 4, 8), matrix([0, 1], [2])),
  'an axis that holds experts and what goes in': (
    lambda p: jnp.einsum('ebd,edf->ebf', jnp.ones((3, 5, 7)),
                         p.reshape(3, 7, 9)),
    zeros(21, 9), matrix([1], [2], [0], split=[3, 7, 9])),
  'a single output': (lambda p: X @ p, zeros(16, 1), VECTOR),
  'one of a stack of one': (scanned, {'w': zeros(1, 16, 16), 'b': zeros(1, 16)},
                            STACK_FORMS),
  'fused, and split after': (lambda p: jnp.split(X @ p, 3, -1)[1],
                             zeros(16, 48), DENSE),
  'fused, and split before': (lambda p: X @ p[:, 16:32], zeros(16, 48), DENSE),
  'several joined to one': (lambda p: X @ jnp.concatenate(p, 1),
                            [zeros(16, 4), zeros(16, 8)], [DENSE, DENSE]),
  'several stacked to one': (
    lambda p: jnp.einsum('btd,cdf->cbtf', X, jnp.stack(p)),
    [zeros(16, 4), zeros(16, 4)], [DENSE, DENSE]),
  'weight standardisation': (lambda p: X @ standardised(p), zeros(16, 8), DENSE),
  'weight normalisation': (
    lambda p: X @ (p['g'] * p['w'] / jnp.linalg.norm(p['w'], axis=0)),
    {'w': zeros(16, 8), 'g': zeros(8)}, {'w': DENSE, 'g': VECTOR}),
  'a mask of weights': (
    lambda p: X @ jnp.where(jnp.arange(8) % 2, p, 0), zeros(16, 8), DENSE),
  'shared by two layers': (lambda p: jnp.tanh(X @ p) @ p, zeros(16, 16), DENSE),
  'the decoder is the encoder, transposed': (
    lambda p: jnp.tanh(X @ p) @ p.T, zeros(16, 8), DENSE),
  'a regulariser': (
    lambda p: jnp.sum((p.T @ p - jnp.eye(8)) ** 2) + jnp.sum(X @ p),
    zeros(16, 8), DENSE),
  'a power iteration': (
    lambda p: X @ (p / jnp.linalg.norm(p @ jnp.arange(8.0))), zeros(16, 8),
    DENSE),
  'a low-rank change': (
    lambda p: X @ (p['w'] + p['a'] @ p['b']),
    {'w': zeros(16, 8), 'a': zeros(16, 2), 'b': zeros(2, 8)},
    {'w': DENSE, 'a': DENSE, 'b': DENSE}),
  'a low-rank change, out first': (
    lambda p: X @ (p['w'] + p['b'] @ p['a']).T,
    {'w': zeros(8, 16), 'b': zeros(8, 2), 'a': zeros(2, 16)},
    dict.fromkeys('wba', matrix([1], [0]))),
  'a low-rank change of constants, out first': (
    lambda p: X @ (W0 + 2 * (p['b'] @ p['a'])).T,
    {'b': zeros(8, 2), 'a': zeros(2, 16)},
    dict.fromkeys('ba', matrix([1], [0]))),
  'low-rank changes of constants under a scan, out first': (
    lambda p: jax.lax.scan(
      lambda x, p: (jnp.tanh(x @ (W0[:, :8] + p['b'] @ p['a']).T), None),
      jnp.ones((5, 8)), p)[0],
    {'b': zeros(4, 8, 2), 'a': zeros(4, 2, 8)},
    dict.fromkeys('ba', matrix([2], [1], [0]))),
  'a product': (
    lambda p: X @ (p['a'] @ p['b']), {'a': zeros(16, 9), 'b': zeros(9, 8)},
    {'a': DENSE, 'b': DENSE}),
  'a product, out first': (
    lambda p: X @ (p['b'] @ p['a']).T, {'a': zeros(9, 16), 'b': zeros(8, 9)},
    dict.fromkeys('ab', matrix([1], [0]))),
  'a product, out first, of columns': (
    lambda p: (p['b'] @ p['a']) @ X[0].T, {'a': zeros(9, 16), 'b': zeros(8, 9)},
    dict.fromkeys('ab', matrix([1], [0]))),
  'a product with what is transposed': (
    lambda p: X @ (p['u'] @ p['v'].T).T, {'u': zeros(8, 9), 'v': zeros(16, 9)},
    {'u': matrix([1], [0]), 'v': DENSE}),
  'a product of three': (
    lambda p: X @ (p['a'] @ p['b'] @ p['c']),
    {'a': zeros(16, 9), 'b': zeros(9, 7), 'c': zeros(7, 8)},
    dict.fromkeys('abc', DENSE)),
  'a product that einsum makes first': (
    lambda p: jnp.einsum('bi,ij,jk->bk', jnp.ones((1000, 16)), p['a'], p['b']),
    {'a': zeros(16, 64), 'b': zeros(64, 32)}, {'a': DENSE, 'b': DENSE}),
  'a product that multi_dot makes first': (
    lambda p: jnp.linalg.multi_dot([jnp.ones((1000, 16)), p['a'], p['b']]),
    {'a': zeros(16, 64), 'b': zeros(64, 32)}, {'a': DENSE, 'b': DENSE}),
  'a product, or a learnt query of one head': (
    lambda p: jnp.tanh(X @ p['k']) @ (p['b'] @ p['a']).T,
    {'k': zeros(16, 16), 'a': zeros(9, 16), 'b': zeros(8, 9)},
    {'k': DENSE, 'a': None, 'b': None}),
  'rows of a product': (
    lambda p: (p['e'] @ p['w'])[jnp.array([3, 1])],
    {'e': zeros(50, 4), 'w': zeros(4, 16)}, {'e': TABLE, 'w': DENSE}),
  # Many layers.
  'a basis of layers': (
    lambda p: jnp.einsum('rnd,rdo->no', jnp.ones((3, 9, 16)),
                         jnp.einsum('rk,kdo->rdo', p['a'], p['v'])),
    {'a': zeros(3, 2), 'v': zeros(2, 16, 8)},
    {'a': VECTOR, 'v': matrix([1], [2], [0])}),
  'one matrix that the members scale': (
    lambda p: jnp.einsum('ebd,edf->ebf', jnp.ones((3, 5, 16)),
                         p['w'][None] * p['r'][:, :, None] * p['s'][:, None]),
    {'w': zeros(16, 8), 'r': zeros(3, 16), 's': zeros(3, 8)},
    {'w': DENSE, 'r': VECTOR, 's': VECTOR}),
  'one matrix, and one for each expert': (
    lambda p: jnp.einsum('ebd,edf->ebf', jnp.ones((3, 5, 16)),
                         p['w'][None] + p['e']),
    {'w': zeros(16, 8), 'e': zeros(3, 16, 8)},
    {'w': DENSE, 'e': matrix([1], [2], [0])}),
  'two experts that are chosen for each token': (
    lambda p: jnp.einsum('td,tkdf->tkf', jnp.ones((5, 16)),
                         p[jnp.array([[0, 2]] * 5)]),
    zeros(3, 16, 8), matrix([1], [2], [0])),
  'two chosen experts whose outputs are weighed': (
    lambda p: jnp.einsum('td,tkdf,tk->tf', jnp.ones((5, 16)),
                         p[jnp.array([[0, 2]] * 5)], jnp.ones((5, 2))),
    zeros(3, 16, 8), matrix([1], [2], [0])),
  'two chosen experts that are weighed': (
    lambda p: jnp.einsum(
      'td,tdf->tf', jnp.ones((5, 16)), jnp.einsum(
        'tk,tkdf->tdf', jnp.ones((5, 2)), p[jnp.array([[0, 2]] * 5)])),
    zeros(3, 16, 8), matrix([1], [2], [0])),
  'mixtures of the chosen experts': (
    lambda p: jnp.einsum(
      'td,tqdf->tqf', jnp.ones((5, 16)), jnp.einsum(
        'tqk,tkdf->tqdf', jnp.ones((5, 4, 2)), p[jnp.array([[0, 2]] * 5)])),
    zeros(3, 16, 8), matrix([1], [2], [0])),
  'experts that are chosen by a one-hot code': (
    lambda p: jnp.einsum(
      'td,tdf->tf', jnp.ones((5, 16)),
      jnp.einsum('te,edf->tdf', jax.nn.one_hot(jnp.arange(5) % 3, 3), p)),
    zeros(3, 16, 8), matrix([1], [2], [0])),
  'keys that are repeated for groups of heads': (
    lambda p: jnp.einsum('btd,dhk->bthk', X, jnp.repeat(p, 2, axis=1)),
    zeros(16, 2, 4), None),
  'experts': (lambda p: jnp.einsum('ebd,edf->ebf', jnp.ones((3, 5, 7)), p),
              zeros(3, 7, 9), matrix([1], [2], [0])),
  'experts that are chosen for each token': (
    lambda p: jnp.einsum('td,tdf->tf', jnp.ones((5, 7)),
                         p[jnp.array([0, 2, 2, 1, 0])]),
    zeros(3, 7, 9), matrix([1], [2], [0])),
  'scanned layers': (scanned, STACK, STACK_FORMS),
  'layers chosen by a count': (looped, STACK, STACK_FORMS),
  'layers chosen by number': (
    lambda p: sum(jnp.sum(X @ p['w'][i] + p['b'][i]) for i in range(4)),
    STACK, STACK_FORMS),
  'layers under vmap': (
    lambda p: jax.vmap(lambda x, p: x @ p['w'] + p['b'])(
      jnp.ones((4, 3, 16)), p),
    STACK, STACK_FORMS),
  'layers under scan and vmap': (
    jax.vmap(scanned),
    {'w': zeros(3, 4, 16, 16), 'b': zeros(3, 4, 16)},
    {'w': matrix([2], [3], [0, 1]), 'b': VECTOR}),
  'a scan that makes the layers': (
    lambda p: scanned(jax.lax.scan(
      lambda c, p: (c, jax.tree_util.tree_map(lambda a: 2 * a, p)), 0, p)[1]),
    STACK, STACK_FORMS),
  # Convolutions.
  'HWIO': (convolved, zeros(3, 3, 4, 8), matrix([0, 1, 2], [3])),
  'few outputs': (lambda p: convolved(p, channels=64), zeros(3, 3, 64, 4),
                  matrix([0, 1, 2], [3])),
  'OIHW': (lambda p: convolved(p, ('NCHW', 'OIHW', 'NCHW')), zeros(8, 4, 3, 3),
           matrix([1, 2, 3], [0])),
  'OHWI': (lambda p: convolved(p, ('NHWC', 'OHWI', 'NHWC')), zeros(8, 3, 3, 4),
           matrix([1, 2, 3], [0])),
  'transposed': (
    lambda p: jax.lax.conv_transpose(jnp.ones((1, 8, 8, 4)), p, (2, 2), 'SAME'),
    zeros(2, 2, 4, 8), matrix([0, 1, 2], [3])),
  'transposed, with the kernel of the forward one': (
    lambda p: jax.lax.conv_transpose(
      jnp.ones((1, 8, 8, 4)), p, (2, 2), 'SAME', transpose_kernel=True),
    zeros(2, 2, 8, 4), matrix([0, 1, 3], [2])),
  'to one channel': (convolved, zeros(1, 1, 4, 1), VECTOR),
  'of one channel': (lambda p: convolved(p, channels=1), zeros(3, 3, 1, 8),
                     matrix([0, 1, 2], [3])),
  'depthwise': (lambda p: convolved(p, groups=4), zeros(3, 3, 1, 4), DEPTHWISE),
  'depthwise, two filters each': (
    lambda p: convolved(p, groups=4), zeros(3, 3, 1, 8), DEPTHWISE),
  'grouped': (lambda p: convolved(p, groups=2), zeros(3, 3, 2, 8),
              matrix([0, 1, 2], [4], [3], split=[3, 3, 2, 2, 4])),
  'grouped, OIHW': (
    lambda p: convolved(p, ('NCHW', 'OIHW', 'NCHW'), groups=2),
    zeros(8, 2, 3, 3), matrix([2, 3, 4], [1], [0], split=[2, 4, 2, 3, 3])),
  'convolutions under vmap': (
    lambda p: jax.vmap(lambda x, w: jax.lax.conv_general_dilated(
      x, w, (1,), 'SAME', dimension_numbers=('NHC', 'HIO', 'NHC')))(
        jnp.ones((5, 2, 8, 4)), p),
    zeros(5, 3, 4, 8), matrix([1, 2], [3], [0])),
  # Attention.
  'attention': (
    attended,
    {'q': zeros(16, 4, 2), 'qb': zeros(4, 2), 'k': zeros(16, 4, 2),
     'kb': zeros(4, 2), 'o': zeros(4, 2, 16)},
    {'q': matrix([0], [1, 2]), 'qb': VECTOR, 'k': matrix([0], [1, 2]),
     'kb': VECTOR, 'o': matrix([0, 1], [2])}),
  'learnt latents that ask': (
    asked_by_latents,
    {'latents': zeros(5, 16), 'q': zeros(16, 4, 2), 'k': zeros(16, 4, 2),
     'o': zeros(4, 2, 16)},
    {'latents': VECTOR, 'q': matrix([0], [1, 2]), 'k': matrix([0], [1, 2]),
     'o': matrix([0, 1], [2])}),
  'heads that share keys and values': (
    asked_by_few,
    {'q': zeros(16, 4, 2), 'k': zeros(16, 2), 'v': zeros(16, 2),
     'o': zeros(8, 16)},
    {'q': matrix([0], [1, 2]), 'k': DENSE, 'v': DENSE, 'o': DENSE}),
  'heads that no layer brings together': (
    lambda p: jnp.einsum('bqhk,bthk->bhqt', *(
      jnp.einsum('btd,dhk->bthk', X, p[n]) for n in 'qk')),
    {'q': zeros(16, 4, 2), 'k': zeros(16, 4, 2)}, {'q': None, 'k': None}),
  'a learnt query': (
    lambda p: jnp.einsum(
      'bnd,dhk->bnhk', jnp.tile(p['probe'], (2, 1, 1)), p['q']
    ).reshape(2, 8) @ p['o'],
    {'probe': zeros(1, 1, 16), 'q': zeros(16, 4, 2), 'o': zeros(8, 4)},
    {'probe': VECTOR, 'q': matrix([0], [1, 2]), 'o': DENSE}),
  'queries, keys and values in one, after a learnt token': (
    with_token,
    {'qkv': zeros(3, 16, 4, 2), 'token': zeros(1, 1, 16),
     'o': zeros(4, 2, 16)},
    {'qkv': matrix([1], [0, 2, 3]), 'token': VECTOR,
     'o': matrix([0, 1], [2])}),
  'a table of relative positions': (
    lambda p: jnp.einsum('btd,bud->btu', X, X) + p[
      jnp.arange(6)[:, None] - jnp.arange(6) + 6, 0],
    zeros(13, 4), TABLE),
  # Layers that have one input.
  'an ensemble': (
    jax.vmap(member), {'a': zeros(3, 16, 8), 'b': zeros(3, 8, 4)},
    dict.fromkeys('ab', matrix([1], [2], [0]))),
  'an ensemble, its first layer (out, in)': (
    jax.vmap(lambda p: member({'a': p['a'].T, 'b': p['b']})),
    {'a': zeros(3, 8, 16), 'b': zeros(3, 8, 4)},
    {'a': matrix([2], [1], [0]), 'b': matrix([1], [2], [0])}),
  'an ensemble of convolutions': (
    jax.vmap(image_member), [zeros(5, 3, 3, 3, 8), zeros(5, 3, 3, 8, 4)],
    [matrix([1, 2, 3], [4], [0])] * 2),
  'an ensemble of recurrent layers': (
    jax.vmap(recurrent_member), {'i': zeros(3, 16, 8), 'h': zeros(3, 8, 8)},
    dict.fromkeys('ih', matrix([1], [2], [0]))),
  'an ensemble of single layers': (
    jax.vmap(lambda p: X @ p), zeros(3, 16, 8), None),
  'all experts on each token': (
    all_experts,
    {'w': zeros(3, 16, 8), 'v': zeros(3, 8, 16), 'gate': zeros(16, 3)},
    {'w': matrix([1], [2], [0]), 'v': matrix([1], [2], [0]), 'gate': DENSE}),
  'outputs of experts that are mixed': (
    weighed_experts, {'w': zeros(3, 16, 8), 'gate': zeros(16, 3)},
    {'w': matrix([1], [2], [0]), 'gate': DENSE}),
  'weights of experts that are mixed': (
    mixed_experts, {'w': zeros(3, 16, 8), 'gate': zeros(16, 3)},
    {'w': matrix([1], [2], [0]), 'gate': DENSE}),
  'gates that lie in one array': (
    gates_after, zeros(4, 16, 8), matrix([1], [0, 2])),
  # No matrices.
  'positions': (
    lambda p: jnp.tanh(X @ p['w'] + p['pos'][:, :6]) @ p['w'],
    {'w': zeros(16, 16), 'pos': zeros(1, 9, 16)}, {'w': DENSE, 'pos': VECTOR}),
  'positions on what comes in': (
    lambda p: (X + p['pos']) @ p['w'],
    {'w': zeros(16, 8), 'pos': zeros(1, 6, 16)}, {'w': DENSE, 'pos': VECTOR}),
  'an embedding': (lambda p: p[jnp.array([3, 1])], zeros(50, 16), TABLE),
  'jnp.take': (lambda p: jnp.take(p, jnp.array([3, 1]), axis=0), zeros(50, 16),
               TABLE),
  'tables under vmap': (
    jax.vmap(lambda p: p[jnp.array([3, 1])]), zeros(4, 50, 16), TABLE),
  'an embedding that makes the logits': (tied, zeros(50, 16), TABLE),
  'the same, of one word': (
    lambda p: jnp.tanh(p[jnp.zeros((1, 1), int)]) @ p.T, zeros(50, 16), TABLE),
  'the same, a word at a time': (
    lambda p: jax.lax.scan(
      lambda h, word: (jnp.tanh(h + p[word]), h @ p.T), jnp.zeros(16),
      jnp.arange(5) % 3)[1],
    zeros(50, 16), TABLE),
  'an embedding of one word': (
    lambda p: p['e'][jnp.zeros((1, 1), int)] @ p['w'],
    {'e': zeros(50, 16), 'w': zeros(16, 8)}, {'e': TABLE, 'w': DENSE}),
  'a one-hot code': (
    lambda p: jax.nn.one_hot(jnp.array([3, 1]), 50) @ p, zeros(50, 16), TABLE),
  'a code of several words': (
    lambda p: jax.nn.one_hot(jnp.array([[3, 1], [2, 2]]), 50).sum(1) @ p,
    zeros(50, 16), TABLE),
  'learnt keys before those of the batch': (
    lambda p: jnp.einsum('btd,bud->btu', X, jnp.concatenate(
      [jnp.broadcast_to(p, (2, 3, 16)), X], axis=1)),
    zeros(3, 16), None),
  'learnt tokens, and a frozen layer': (
    lambda p: jnp.broadcast_to(p, (2, 3, 16)) @ W0.T, zeros(3, 16), None),
  'a comparison': (
    lambda p: (jnp.array([[3], [1]]) == jnp.arange(50)).astype(float) @ p,
    zeros(50, 16), TABLE),
  'one array for all of an LSTM': (
    lambda p: X @ p[:128].reshape(16, 8) + p[128:], zeros(136), VECTOR),
  # Calls.
  'remat': (jax.checkpoint(lambda p: jnp.sin(X @ p)), zeros(16, 8), DENSE),
  'jit': (jax.jit(lambda p: X @ p), zeros(16, 8), DENSE),
  'custom_jvp': (lambda p: X @ jax.nn.relu(p), zeros(16, 8), DENSE),
  'custom_vjp': (lambda p: own_gradient(X[0], p), zeros(16, 8), DENSE),
  'cond': (with_condition,
           {'b': zeros(8), 'w': zeros(16, 8), 'v': zeros(8, 16)},
           {'b': None, 'w': DENSE, 'v': matrix([1], [0])}),
  'a gradient': (jax.grad(lambda p: jnp.sum(jnp.tanh(X @ p) @ zeros(8, 4))),
                 zeros(16, 8), DENSE),
  'what is not used': (
    lambda p: (jnp.ones((100, 16)) @ p, X @ p.T)[1], zeros(16, 16),
    matrix([1], [0])),
  # Nothing is told.
  'only decayed': (lambda p: jnp.sum(p**2), zeros(16, 8), None),
}  # fmt: skip


@pytest.mark.parametrize('name', CASES)
def test_what_a_function_does_with_its_parameters(name):
  fn, params, expected = CASES[name]
  is_form = lambda x: x is None or hasattr(x, 'kind')
  of_leaves = jax.tree_util.tree_leaves(expected, is_leaf=is_form)
  assert forms_of_uses(fn, params) == tuple(of_leaves)


def all_derivatives(p):
  fn = lambda x: jnp.tanh(x @ p['a']) @ p['w']
  return jax.vmap(jax.jacrev(fn))(jnp.ones((5, 2)))


def second_derivatives(p):
  fn = lambda x: jnp.sum(jnp.tanh(jnp.tanh(x @ p['a']) @ p['w']))
  return jax.vmap(lambda x: jnp.trace(jax.hessian(fn)(x)))(jnp.ones((5, 2)))


@pytest.mark.skipif(
  jax.__version_info__ < (0, 5), reason='its traces do not name gradients'
)
@pytest.mark.parametrize('fn', [all_derivatives, second_derivatives])
def test_layers_of_which_gradients_are_used(fn):
  params = {'a': zeros(2, 8), 'w': zeros(8, 8)}
  assert forms_of_uses(fn, params) == (DENSE, DENSE)


@pytest.mark.skipif(
  not hasattr(jax.lax, 'ragged_dot'), reason='this version of jax has none'
)
def test_rows_sorted_by_expert():
  rows = jnp.ones((6, 16))
  fn = lambda p: jax.lax.ragged_dot(rows, p, jnp.array([1, 3, 2]))
  assert forms_of_uses(fn, zeros(3, 16, 8)) == (matrix([1], [2], [0]),)


@pytest.mark.skipif(
  not hasattr(jax.lax, 'ragged_dot_general'),
  reason='this version of jax has none',
)
def test_rows_sorted_by_expert_times_weights_in_another_order():
  numbers = jax.lax.RaggedDotDimensionNumbers(
    dot_dimension_numbers=(((1,), (1,)), ((), ())),
    lhs_ragged_dimensions=[0],
    rhs_group_dimensions=[2],
  )
  fn = lambda p: jax.lax.ragged_dot_general(
    jnp.ones((6, 16)), p, jnp.array([1, 3, 2]), numbers
  )
  # (out, in, experts)
  assert forms_of_uses(fn, zeros(8, 16, 3)) == (matrix([1], [0], [2]),)


@pytest.mark.skipif(
  not hasattr(jax, 'shard_map'), reason='this version of jax has none'
)
def test_a_layer_in_shards():
  mesh = jax.sharding.Mesh(jax.devices(), ('d',))
  spec = jax.sharding.PartitionSpec
  fn = jax.shard_map(
    lambda p: X @ p,
    mesh=mesh,
    in_specs=spec(None, 'd'),
    out_specs=spec(None, None, 'd'),
  )
  assert forms_of_uses(fn, zeros(16, 16)) == (DENSE,)


def test_shapes_alone_are_enough():
  shape = jax.ShapeDtypeStruct((16, 8), jnp.float32)
  assert forms_of_uses(lambda p: X @ p, shape) == (DENSE,)


def test_a_function_is_traced_and_not_run_where_jit_is_disabled():
  with jax.disable_jit():
    assert forms_of_uses(scanned, STACK) == (VECTOR, matrix([1], [2], [0]))


class Layer(nn.Module):
  @nn.compact
  def __call__(self, x, _):
    return x + nn.tanh(nn.Dense(16)(x)), None


class Scanned(nn.Module):
  @nn.compact
  def __call__(self, x):
    scan = nn.scan(
      nn.remat(Layer),
      variable_axes={'params': 0},
      split_rngs={'params': True},
      length=3,
    )
    return scan()(x, None)[0]


class Mapped(nn.Module):
  @nn.compact
  def __call__(self, x):
    dense = nn.vmap(
      nn.Dense, variable_axes={'params': 0}, split_rngs={'params': True}
    )
    return dense(8)(x)


class Ensemble(nn.Module):
  """Of models that have one input."""

  @nn.compact
  def __call__(self, x):
    members = nn.vmap(
      Pair,
      in_axes=None,
      axis_size=3,
      variable_axes={'params': 0},
      split_rngs={'params': True},
    )
    return members()(x)


class Pair(nn.Module):
  @nn.compact
  def __call__(self, x):
    return nn.Dense(4)(nn.relu(nn.Dense(8)(x)))


class Language(nn.Module):
  """A table that is looked up and makes the logits, and attention."""

  @nn.compact
  def __call__(self, tokens):
    embed = nn.Embed(50, 16)
    x = embed(tokens)
    x = x + self.param('pos', nn.initializers.normal(), (1, 6, 16))
    x = nn.MultiHeadDotProductAttention(num_heads=4, qkv_features=8)(x, x)
    return embed.attend(nn.LayerNorm()(x))


class Image(nn.Module):
  @nn.compact
  def __call__(self, x):
    x = nn.Conv(12, (3, 3))(x)
    x = nn.Conv(12, (3, 3), feature_group_count=12)(x)
    x = nn.ConvTranspose(5, (2, 2))(nn.relu(x))
    x = nn.BatchNorm(use_running_average=True)(x)
    return nn.Dense(3)(x.reshape(len(x), -1))


QUERIES = matrix([0], [1, 2])
MODELS = {
  # Leaves in the order of their names: bias before kernel.
  'scanned': (Scanned(), X, (VECTOR, matrix([1], [2], [0]))),
  'mapped': (Mapped(), jnp.ones((3, 2, 16)), (VECTOR, matrix([1], [2], [0]))),
  'ensemble': (
    Ensemble(), X, (VECTOR, matrix([1], [2], [0])) * 2),
  'language': (
    Language(), jnp.ones((2, 6), jnp.int32),
    (TABLE, VECTOR, VECTOR,
     VECTOR, QUERIES, VECTOR, matrix([0, 1], [2]), VECTOR, QUERIES, VECTOR,
     QUERIES, VECTOR)),
  'image': (
    Image(), jnp.ones((1, 8, 8, 4)),
    (VECTOR, VECTOR, VECTOR, matrix([0, 1, 2], [3]), VECTOR,
     matrix([0, 1, 2], [3]), VECTOR, DEPTHWISE, VECTOR, DENSE)),
}  # fmt: skip


@pytest.mark.parametrize('is_compiled', [False, True])
@pytest.mark.parametrize('name', MODELS)
def test_what_flax_makes_and_uses(name, is_compiled):
  model, example, expected = MODELS[name]
  init = jax.jit(model.init) if is_compiled else model.init
  assert (
    forms_of_init(lambda key: init(key, example)['params'], KEY) == expected
  )


@pytest.mark.parametrize('name', ['language', 'scanned'])
def test_a_loss_of_the_same_model_says_the_same(name):
  model, example, expected = MODELS[name]
  params = jax.eval_shape(model.init, KEY, example)['params']
  apply = lambda params: model.apply({'params': params}, example)
  assert forms_of_uses(apply, params) == expected


def test_an_ensemble_that_vmap_makes():
  init = lambda key: jax.vmap(Pair().init, (0, None))(
    jax.random.split(key, 3), X
  )
  stack = matrix([1], [2], [0])
  assert forms_of_init(init, KEY) == (VECTOR, stack, VECTOR, stack)


def test_a_typed_key():
  if not hasattr(jax.random, 'key'):
    pytest.skip('this version of jax has raw keys only')

  def init(key):
    w = jax.random.normal(key, (16, 8))
    X @ w
    return w

  assert forms_of_init(init, jax.random.key(0)) == (DENSE,)


def test_what_a_layer_gives_is_data_after_any_number_of_rounds():
  def fn(p):
    # What round i has made is added to `pos` in round i + 3 only.
    def body(carry, _):
      a, b, c, d = carry
      return (jnp.tanh(X @ p['w']), a, b, (c + p['pos']) @ p['w']), None

    zero = jnp.zeros_like(X)
    return jax.lax.scan(body, (zero,) * 4, None, length=5)[0]

  params = {'pos': zeros(1, 6, 16), 'w': zeros(16, 16)}
  assert forms_of_uses(fn, params) == (VECTOR, DENSE)


def test_parameters_that_are_stacked_after_use():
  def init(key):
    layers = [jax.random.normal(k, (16, 16)) for k in jax.random.split(key, 3)]
    x = X
    for layer in layers:
      x = jnp.tanh(x @ layer)
    return jnp.stack(layers)

  assert forms_of_init(init, KEY) == (matrix([1], [2], [0]),)


def test_parameters_that_are_laid_out_after_use():
  def init(key):
    w = jax.random.normal(key, (16, 8))
    X @ w
    return jax.jit(lambda w: jax.device_put(w, jax.devices()[0]))(w)

  assert forms_of_init(init, KEY) == (DENSE,)


def test_a_function_that_runs_no_model_tells_nothing():
  init = lambda key: {'w': jax.random.normal(key, (3, 4)), 'b': jnp.zeros(4)}
  assert forms_of_init(init, KEY) == (None, None)


def test_an_initialiser_that_multiplies_is_no_use():
  def init(key):
    a, b = jax.random.normal(key, (2, 16, 16))
    w = a @ b
    X @ w.T
    return w

  assert forms_of_init(init, KEY) == (matrix([1], [0]),)


def test_equinox_layers_under_a_scan():
  make = eqx.filter_vmap(lambda key: eqx.nn.Linear(16, 16, key=key))
  layers = eqx.filter_eval_shape(make, jax.random.split(KEY, 3))
  is_shape = lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct)
  params, static = eqx.partition(layers, is_shape)

  def loss(params):
    def layer(x, row):
      linear = eqx.combine(row, static)
      return jnp.tanh(jax.vmap(linear)(x)), None

    return jax.lax.scan(layer, X[0], params)[0].sum()

  # Equinox has (out, in): weight, then bias.
  assert forms_of_uses(loss, params) == (matrix([2], [1], [0]), VECTOR)


def test_nnx_layers_under_a_scan():
  nnx = pytest.importorskip('flax.nnx')
  graph, state = nnx.split(nnx.Linear(16, 16, rngs=nnx.Rngs(0)))
  stacked = lambda leaf: jnp.stack([leaf] * 3)
  state = jax.tree_util.tree_map(stacked, state)

  def loss(state):
    layer = lambda x, row: (jnp.tanh(nnx.merge(graph, row)(x)), None)
    return jax.lax.scan(layer, X, state)[0].sum()

  assert forms_of_uses(loss, state) == (VECTOR, matrix([1], [2], [0]))
