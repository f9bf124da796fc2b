"""Synthetic data for the real benchmark, as far as TensorFlow isn't needed."""

from __future__ import annotations

import hashlib
import itertools
import pickle
import re

import numpy as np
import pytest

from reset_cycles.mini_algoperf.smoke_data import (
  mnist,
  ogbg,
  sentence_pairs,
  tokenizer_model,
  wmt,
)
from reset_cycles.mini_algoperf.smoke_data.data_set import Sizes

SMALL = Sizes(num_train=60, num_eval=20)


def digest(data):
  """Of the tokenizer and of each split's start, on which the rest depends.

  Digests are compared, since pytest describes how two values differ: with `CI`
  set, for hours if they are the half million bytes of two tokenizers.
  """
  content = (
    data.files,
    [
      (data_set.name, name, split[:60])
      for data_set in data.data_sets
      for name, split in data_set.splits.items()
    ],
  )
  return hashlib.sha256(pickle.dumps(content)).hexdigest()


@pytest.mark.parametrize(
  ('module', 'sizes'),
  [(ogbg, SMALL), (wmt, SMALL), (mnist, mnist.DEFAULT_SIZES)],
)
def test_data_follow_from_the_seed(module, sizes):
  first = digest(module.make_data(1, sizes))
  assert digest(module.make_data(1, sizes)) == first
  assert digest(module.make_data(2, sizes)) != first


@pytest.mark.parametrize(
  ('module', 'sizes', 'expected'),
  [
    (
      ogbg,
      SMALL,
      {'ogbg_molpcba:0.1.3': {'train': 60, 'validation': 20, 'test': 20}},
    ),
    (
      wmt,
      SMALL,
      {
        'wmt17_translate/de-en:1.0.0': {'train': 60},
        'wmt14_translate/de-en:1.0.0': {'validation': 20, 'test': 20},
      },
    ),
    (
      mnist,
      mnist.DEFAULT_SIZES,
      {'mnist:3.0.1': {'train': 60_000, 'test': 10_000}},
    ),
  ],
)
def test_names_and_sizes(module, sizes, expected):
  assert {
    data_set.name: {name: len(split) for name, split in data_set.splits.items()}
    for data_set in module.make_data(0, sizes).data_sets
  } == expected


# ogbg.


def graphs(split, num_train=60, num_eval=20):
  data = ogbg.make_data(0, Sizes(num_train, num_eval))
  return data.data_sets[0].splits[split]


def test_a_graph_has_the_shapes_and_types_of_the_data_set():
  for graph in graphs('train'):
    num_nodes, num_edges = graph['num_nodes'][0], graph['num_edges'][0]
    assert {
      name: (array.shape, array.dtype.name) for name, array in graph.items()
    } == {
      'num_nodes': ((1,), 'int64'),
      'node_feat': ((num_nodes, 9), 'float32'),
      'num_edges': ((1,), 'int64'),
      'edge_feat': ((num_edges, 3), 'float32'),
      'edge_index': ((num_edges, 2), 'int64'),
      'labels': ((128,), 'float32'),
    }
    # Connected: each atom has a bond, none leads out of the molecule.
    assert set(graph['edge_index'].flat) == set(range(num_nodes))


@pytest.mark.parametrize('num_eval', [2, 20, 512])
def test_each_label_has_both_classes_in_each_split(num_eval):
  for split in ('train', 'validation', 'test'):
    labels = np.array([g['labels'] for g in graphs(split, 60, num_eval)])
    assert (labels == 0).any(axis=0).all()
    assert (labels == 1).any(axis=0).all()


def test_labels_are_missing():
  labels = np.array([graph['labels'] for graph in graphs('train')])
  assert 0.2 < np.isnan(labels).mean() < 0.4


def test_only_labels_without_both_classes_are_changed():
  nan = np.nan
  labels = np.array([[0, 1, nan, 0], [nan, 1, nan, 1], [nan, 1, nan, nan]])
  np.testing.assert_equal(
    ogbg.cover(labels),
    [[1, 1, 1, 0], [0, 0, 0, 1], [nan, 1, nan, nan]],
  )
  np.testing.assert_equal(labels[0], [0, 1, nan, 0])


def average_precision(truth, scores):
  is_labelled = ~np.isnan(truth)
  hits = truth[is_labelled][np.argsort(-scores[is_labelled])]
  precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
  return precision[hits == 1].mean()


def test_labels_can_be_learned_from_the_graph():
  """By least squares on how often each kind of atom and of bond occurs."""

  def features(examples):
    return np.array(
      [
        np.concatenate(
          [
            np.bincount(g['node_feat'][:, 0].astype(int), minlength=17),
            np.bincount(g['edge_feat'][:, 0].astype(int), minlength=4),
            [1],
          ]
        )
        for g in examples
      ]
    )

  train, test = graphs('train', 600, 300), graphs('test', 600, 300)
  labels = np.array([g['labels'] for g in train])
  truth = np.array([g['labels'] for g in test])
  filled = np.where(np.isnan(labels), np.nanmean(labels, axis=0), labels)
  solution = np.linalg.lstsq(features(train), filled, rcond=None)[0]
  scores = features(test) @ solution
  precisions = [
    average_precision(truth[:, task], scores[:, task]) for task in range(128)
  ]
  # Scores by chance have about the share of positives.
  assert np.mean(precisions) > 1.5 * np.nanmean(truth)


# mnist.


def test_images_have_the_shape_and_type_of_the_data_set():
  for example in mnist.draw_images(np.random.default_rng(0), 50):
    assert example['image'].shape == (28, 28, 1)
    assert example['image'].dtype == np.uint8
    assert example['image'].max() in (160, 192, 224, 255)


def test_each_class_is_there():
  examples = mnist.draw_images(np.random.default_rng(0), 10)
  assert {example['label'] for example in examples} == set(range(10))


def test_no_classifier_reaches_the_target():
  digits = mnist.digit_segments()
  best = 0
  for pattern in itertools.product([False, True], repeat=7):
    faults = (digits != pattern).sum(axis=1)
    rate = mnist.FAULT_RATE
    best += max(rate**faults * (1 - rate) ** (7 - faults)) / 10
  assert best == pytest.approx(0.920, abs=5e-4)


def test_classes_can_be_learned():
  examples = mnist.draw_images(np.random.default_rng(0), 2000)
  images = np.array([e['image'].ravel() > 0 for e in examples], np.float32)
  labels = np.array([e['label'] for e in examples])
  distances = (
    images[1800:, None].sum(-1)
    + images[None, :1800].sum(-1)
    - 2 * images[1800:] @ images[:1800].T
  )
  nearest = labels[distances.argmin(axis=1)]
  assert 0.75 < (nearest == labels[1800:]).mean() < 0.97


def test_zero_is_a_display_without_the_middle_segment(monkeypatch):
  monkeypatch.setattr(mnist, 'FAULT_RATE', 0)
  monkeypatch.setattr(mnist, '_SHIFTS', 1)
  image = mnist.draw_images(np.random.default_rng(0), 1)[0]['image'][..., 0]
  rows = [''.join('.#'[int(pixel > 0)] for pixel in row[7:19]) for row in image]
  assert rows[3:23] == [
    '............',
    *['.##########.'] * 2,
    *['.##......##.'] * 14,
    *['.##########.'] * 2,
    '............',
  ]


# wmt.


@pytest.fixture(scope='module')
def pairs():
  rng = np.random.default_rng(0)
  return [sentence_pairs.draw_pair(rng) for _ in range(2000)]


def test_the_german_sentence_determines_the_english_one(pairs):
  assert len({pair.de for pair in pairs}) == len(set(pairs)) > 1900
  for pair in pairs:
    assert all(re.fullmatch(r'[A-ZÄÖÜ][^.]*[^ ]\.', text) for text in pair)
    assert max(len(text.split()) for text in pair) < 40


def test_german_grammar(pairs):
  text = ' '.join(pair.de for pair in pairs)
  assert re.search(r'\bden kleinen Hund\b', text)
  assert not re.search(r'\bden \w+ (Katze|Kind)\b', text)
  assert not re.search(r'\b[Dd](er|ie|as) \w+en (?!Garten)[A-ZÄÖÜ]', text)
  # The verb comes second after the time, last after the subordinator.
  verbs = 'sieht|hört|sucht|findet|mag|kennt|malt|ruft|fragt|grüßt'
  times = re.findall(r'(?:[Hh]eute|[Jj]etzt) (\w+)', text)
  assert set(times) == set(verbs.split('|'))
  for clause in re.findall(r'(?:weil|obwohl|während) ([^.]*)\.', text):
    assert re.fullmatch(rf'[^,]* ({verbs})', clause)


def test_pieces_of_the_tokenizer():
  pieces = tokenizer_model.make_pieces(['a b, a', 'a c.'], 150)
  assert len(pieces) == len({piece.text for piece in pieces}) == 150
  assert pieces[:5] == [
    ('<unk>', 0.0, tokenizer_model.UNKNOWN),
    ('<s>', 0.0, tokenizer_model.CONTROL),
    ('</s>', 0.0, tokenizer_model.CONTROL),
    ('▁a', pytest.approx(np.log(3 / 7)), tokenizer_model.NORMAL),
    (',', pytest.approx(np.log(1 / 7)), tokenizer_model.NORMAL),
  ]
  ascii_only = {chr(code) for code in range(33, 127)}
  assert ascii_only < {piece.text for piece in pieces}
  assert pieces[-1] == ('▁unused48', 0.0, tokenizer_model.UNUSED)


def test_a_vocabulary_that_is_too_small_is_refused():
  with pytest.raises(ValueError, match='vocab_size=50: this text needs'):
    tokenizer_model.make_pieces(['a'], 50)


def test_sentencepiece_reads_the_model(pairs):
  sentencepiece = pytest.importorskip('sentencepiece')
  data = wmt.make_data(0, SMALL)
  processor = sentencepiece.SentencePieceProcessor(
    model_proto=data.files['wmt_sentencepiece_model']
  )
  assert processor.get_piece_size() == 32_000
  for pair in data.data_sets[0].splits['train']:
    for text in pair.values():
      ids = processor.encode(text)
      assert len(ids) == len(re.findall(r'\w+|[,.]', text))
      assert processor.decode(ids) == text
  unseen = 'Xylophon (5) unused7'
  assert 0 not in processor.encode(unseen)
  assert processor.decode(processor.encode(unseen)) == unseen
  for start in range(0, 32_000, 1000):
    assert isinstance(processor.decode(list(range(start, start + 1000))), str)
