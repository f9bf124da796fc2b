"""What a parameter is: stacks of matrices and back, and where a form comes from."""

import doctest
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reset_cycles.core import forms
from reset_cycles.core.forms import (
  DEPTHWISE,
  TABLE,
  VECTOR,
  Answer,
  Form,
  Kind,
  Source,
  as_stack,
  by_shape,
  by_type,
  from_stack,
  matrix,
)


def test_the_example():
  assert doctest.testmod(forms).failed == 0


def test_a_stack_holds_each_matrix_with_its_axes_in_first():
  # Experts' weights (experts, out, in).
  weights = np.arange(24).reshape(2, 3, 4)
  form = matrix(inputs=[2], outputs=[1], stacked=[0])
  stack = as_stack(jnp.asarray(weights), form)
  np.testing.assert_array_equal(stack, [weights[0].T, weights[1].T])
  assert form.sides(weights.shape) == (2, 4, 3)


def test_a_kernel_of_several_axes_in_keeps_their_order():
  kernel = np.arange(24).reshape(2, 3, 4)  # attention's `out`: (heads, dim, d)
  stack = as_stack(jnp.asarray(kernel), matrix([0, 1], [2]))
  np.testing.assert_array_equal(stack, kernel.reshape(1, 6, 4))


def test_a_group_of_a_convolution_is_a_matrix():
  # (width, in of a group, out): 2 groups with 3 outputs each.
  kernel = np.arange(5 * 4 * 6).reshape(5, 4, 6)
  form = matrix([0, 1], [3], [2], split=[5, 4, 2, 3])
  stack = as_stack(jnp.asarray(kernel), form)
  np.testing.assert_array_equal(stack[0], kernel[:, :, :3].reshape(20, 3))
  np.testing.assert_array_equal(stack[1], kernel[:, :, 3:].reshape(20, 3))


@pytest.mark.parametrize(
  ('shape', 'form'),
  [
    ((3, 4), matrix([0], [1])),
    ((3, 4), matrix([1], [0])),
    ((2, 3, 4), matrix([2, 0], [1])),
    ((2, 3, 4, 5), matrix([3], [0, 2], [1])),
    ((5, 4, 6), matrix([0, 1], [3], [2], split=[5, 4, 2, 3])),
  ],
)
def test_a_stack_goes_back(shape, form):
  array = jnp.arange(math.prod(shape)).reshape(shape)
  stack = as_stack(array, form)
  assert stack.shape == form.sides(shape)
  np.testing.assert_array_equal(from_stack(stack, form, shape), array)


def test_only_what_widens_is_multiplied():
  assert matrix([0], [1]).widening((4, 64)) == 4.0
  assert matrix([0], [1]).widening((64, 4)) == 1.0
  assert matrix([1], [0]).widening((64, 4)) == 4.0
  assert matrix([1], [2], [0]).widening((100, 4, 16)) == 2.0


@pytest.mark.parametrize(
  ('form', 'shape', 'words'),
  [
    (VECTOR, (3, 4), 'form='),
    (matrix([0], [1]), (3, 4, 5), r'shape=\(3, 4, 5\)'),
    (matrix([0], [0]), (3, 4), r'shape=\(3, 4\)'),
    (matrix([0], [2], [1], split=[3, 2, 3]), (3, 4), r'shape=\(3, 4\)'),
  ],
)
def test_a_form_of_another_shape_is_refused(form, shape, words):
  with pytest.raises(ValueError, match=words):
    form.sides(shape)


@pytest.mark.parametrize('kind', [Kind.VECTOR, Kind.TABLE, Kind.DEPTHWISE])
@pytest.mark.parametrize('part', ['inputs', 'outputs', 'stacked', 'split'])
def test_only_a_matrix_has_axes(kind, part):
  with pytest.raises(ValueError, match=f'form=.*Form\\({kind}\\)'):
    Form(kind, **{part: (0,)})


def test_a_device_axis_is_left_out():
  with_devices = matrix([1, 2], [3], [0])
  assert with_devices.without_first_axis() == matrix([0, 1], [2])
  grouped = matrix([1], [3], [0, 2], split=[8, 4, 2, 3])
  assert grouped.without_first_axis() == matrix([0], [2], [1], [4, 2, 3])
  assert TABLE.without_first_axis() == TABLE


@pytest.mark.parametrize(
  ('shape', 'form'),
  [
    ((), VECTOR),
    ((7,), VECTOR),
    ((1, 7), VECTOR),
    ((4, 0, 4), VECTOR),
    ((256, 1), VECTOR),
    ((1, 1, 32, 1), VECTOR),
    ((13, 512), matrix([0], [1])),
    # Convolutions with few outputs: their sides are 150 x 16, 768 x 192, 576 x 4.
    ((5, 5, 6, 16), matrix([0, 1, 2], [3])),
    ((16, 16, 3, 192), matrix([0, 1, 2], [3])),
    ((3, 3, 64, 4), matrix([0, 1, 2], [3])),
    ((5, 16, 32), matrix([0, 1], [2])),
    # Attention's queries and what it hands out, with 512 = 8 * 64.
    ((512, 8, 64), matrix([0], [1, 2])),
    ((8, 64, 512), matrix([0, 1], [2])),
    ((65_536, 8), matrix([0], [1])),
    ((65_537, 8), TABLE),
  ],
)
def test_guesses_by_shape(shape, form):
  assert by_shape(shape) == form


@pytest.mark.parametrize(
  ('kind', 'shape', 'form'),
  [
    ('EMBEDDING', (50, 8), TABLE),
    ('ATTENTION_BIAS', (4, 8), VECTOR),
    ('BATCH_NORM_SCALE', (4, 8), VECTOR),
    ('WEIGHT', (12, 8), matrix([0], [1])),
    ('WEIGHT', (8,), VECTOR),
    ('WEIGHT', (100_000, 8), matrix([0], [1])),
    ('CONV_WEIGHT', (3, 3, 64, 4), matrix([0, 1, 2], [3])),
    # Narrower heads than the model is wide.
    ('ATTENTION_Q', (100, 4, 8), matrix([0], [1, 2])),
    ('ATTENTION_QKV', (32, 3, 4, 8), matrix([0], [1, 2, 3])),
    ('ATTENTION_OUT', (4, 8, 100), matrix([0, 1], [2])),
  ],
)
def test_forms_by_the_types_of_the_benchmark(kind, shape, form):
  assert by_type(kind, shape) == form


PARAMS = {
  'embedding': jnp.zeros((50, 8)),
  'layer': {'bias': jnp.zeros((4, 2)), 'kernel': jnp.zeros((8, 4, 2))},
  'scale': jnp.zeros(8),
}
E, B, K, S = range(4)  # in the order of the leaves


def test_the_best_source_answers():
  queries = matrix([0], [1, 2])
  by_form = {"['layer']['kernel']": matrix([1, 2], [0])}
  answers = forms.forms(
    PARAMS,
    user=lambda path: by_form.get(path, 'scale' not in path),
    trace=(None, VECTOR, queries, TABLE),
    types=['EMBEDDING', 'WEIGHT', 'WEIGHT', 'WEIGHT'],
  )
  assert answers == (
    Answer(TABLE, Source.TYPES, False),
    Answer(VECTOR, Source.TRACE, False),
    Answer(matrix([1, 2], [0]), Source.USER, False),
    Answer(TABLE, Source.USER, False),
  )


def test_no_matrix_is_a_table_where_the_best_other_source_says_so():
  found = forms.forms(
    PARAMS, user=lambda path: False, trace=(None, None, None, VECTOR),
    types=['EMBEDDING', 'WEIGHT', 'WEIGHT', 'EMBEDDING'],
  )  # fmt: skip
  assert [a.form for a in found] == [TABLE, VECTOR, VECTOR, VECTOR]
  assert {a.source for a in found} == {Source.USER}


@pytest.mark.parametrize('word', [True, None])
def test_true_and_none_only_permit(word):
  answers = forms.forms(PARAMS, user=lambda path: word, trace=[TABLE] * 4)
  assert set(answers) == {Answer(TABLE, Source.TRACE, False)}


def test_names_tell_only_where_they_may():
  by_names = forms.forms(PARAMS, has_names=True)
  assert [a.form for a in by_names] == [
    TABLE,
    VECTOR,
    matrix([0], [1, 2]),
    VECTOR,
  ]
  assert [a.source for a in by_names] == [
    Source.NAME,
    Source.NAME,
    Source.SHAPE,
    Source.NAME,
  ]
  by_shapes = forms.forms(PARAMS)
  assert {a.source for a in by_shapes} == {Source.SHAPE}
  assert by_shapes[B].form == matrix([0], [1])


def test_what_has_one_axis_is_not_guessed():
  assert [a.is_guess for a in forms.forms(PARAMS)] == [True, True, True, False]
  assert not any(a.is_guess for a in forms.forms(PARAMS, trace=[DEPTHWISE] * 4))


def test_the_table_of_forms():
  params = {**PARAMS, 'mixed': jnp.zeros((5, 4, 6))}
  answers = forms.forms(
    params,
    user={"['mixed']": matrix([0, 1], [3], [2], split=[5, 4, 2, 3])}.get,
    trace=[None, None, None, None, VECTOR],
    has_names=True,
  )
  assert forms.form_table(answers, params).splitlines() == [
    'name                 shape      form                                                 by',
    "['embedding']        (50, 8)    table                                                name, a guess",
    "['layer']['bias']    (4, 2)     vector                                               name, a guess",
    "['layer']['kernel']  (8, 4, 2)  matrix; in 0; out 1, 2                               shape, a guess",
    "['mixed']            (5, 4, 6)  matrix; in 0, 1; out 3; stacked 2; split 5, 4, 2, 3  user",
    "['scale']            (8,)       vector                                               trace",
  ]
  assert forms.form_table((), params) == ''


def test_what_has_no_entries_is_a_vector_whatever_is_said():
  wide = matrix([0], [1, 2])
  [answer] = forms.forms(
    {'w': jnp.zeros((0, 4, 4))},
    user=lambda path: wide,
    trace=[wide],
    types=['ATTENTION_Q'],
  )
  assert answer == Answer(VECTOR, Source.SHAPE, False)


@pytest.mark.parametrize('answer', ['matrix', 1, (0, 1)])
def test_another_answer_of_a_user_is_refused(answer):
  with pytest.raises(ValueError, match=r"matrices=.*\['embedding'\]"):
    forms.forms(PARAMS, user=lambda path: answer)


def test_a_form_of_a_user_that_does_not_fit_is_refused():
  with pytest.raises(ValueError, match='shape='):
    forms.forms({'w': jnp.zeros(8)}, user=lambda path: matrix([0], [1]))


def test_shapes_alone_are_enough():
  shapes = jax.tree_util.tree_map(
    lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), PARAMS
  )
  assert forms.forms(shapes) == forms.forms(PARAMS)
