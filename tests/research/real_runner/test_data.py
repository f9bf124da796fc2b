"""What the data sets of real_runner read, from files made here."""

import gzip
import io
import json
import math
import sys
import types
import wave
import zipfile

import numpy as np
import pytest

from reset_cycles.mini_algoperf.workloads import translation
from reset_cycles.research.real_runner import data


def test_fashion_is_read_in_full_with_pixels_up_to_1(tmp_path):
  files = {
    'train-images-idx3': bytes(16) + bytes([0, 255] * 784),
    'train-labels-idx1': bytes(8) + bytes([7, 3]),
    't10k-images-idx3': bytes(16) + bytes([51] * 784),
    't10k-labels-idx1': bytes(8) + bytes([9]),
  }
  for name, content in files.items():
    with gzip.open(tmp_path / f'{name}-ubyte.gz', 'wb') as file:
      file.write(content)
  found = data.fashion(tmp_path)
  assert found['train']['image'].shape == (2, 28, 28, 1)
  assert found['train']['image'].ravel()[:3].tolist() == [0, 1, 0]
  assert found['train']['label'].tolist() == [7, 3]
  assert found['test']['image'][0, 0, 0, 0] == np.float32(0.2)
  assert found['test']['label'].tolist() == [9]


def test_no_digit_is_in_two_splits(tmp_path):
  """Image i of a digit has the pixel i: 0 and 1 are trained on, 2, 3 held out."""
  for label in range(10):
    pixels = [[i / 255, *[label / 255] * 783] for i in range(4)]
    content = json.dumps({'data': np.ravel(pixels).round(3).tolist()})
    (tmp_path / f'{label}.json').write_text(content)
  found = data.digits(tmp_path)
  assert found['train']['image'].shape == (60_000, 28, 28, 1)
  assert found['test']['image'].shape == (10_000, 28, 28, 1)
  first = found['train']['image'][:, 0, 0, 0]
  assert set(first[:50_000]) == {0, 1}
  assert set(first[50_000:]) == {2}
  assert set(found['test']['image'][:, 0, 0, 0]) == {3}
  for split in found.values():
    assert (split['image'][:, 1, 0, 0] == split['label']).all()
    assert np.ptp(np.bincount(split['label'])) == 0


# Three atoms, as OGB's smiles2graph writes CCO: each bond twice in a row.
ETHANOL = {
  'edge_index': np.array([[0, 1, 1, 2], [1, 0, 2, 1]]),
  'edge_feat': np.array([[0, 0, 1], [0, 0, 1], [2, 0, 0], [2, 0, 0]]),
  'node_feat': np.arange(27).reshape(3, 9),
  'num_nodes': 3,
}


def test_tox21_has_each_bond_once_and_nan_where_a_label_is_missing(
  tmp_path, monkeypatch
):
  """Rows: a molecule four times, one atom, and what is no molecule."""
  rows = (
    *('a,b,mol_id,smiles', '0,,1,CCO', ',1,2,OCC', ',,3,C', '1,1,4,bad'),
    *('1,0,5,CCCO', '1,0,6,CCO'),
  )
  with gzip.open(tmp_path / 'tox21.csv.gz', 'wt') as file:
    file.write('\n'.join(rows))

  def read(smiles):
    bonds = len(smiles) - 1
    molecule = types.SimpleNamespace(GetNumBonds=lambda: bonds)
    return None if smiles == 'bad' else molecule

  fakes = {
    'rdkit': types.SimpleNamespace(
      Chem=types.SimpleNamespace(MolFromSmiles=read)
    ),
    'ogb': types.SimpleNamespace(),
    'ogb.utils': types.SimpleNamespace(smiles2graph=lambda smiles: ETHANOL),
  }
  for name, module in fakes.items():
    monkeypatch.setitem(sys.modules, name, module)
  sizes = {'train': 1, 'validation': 1, 'test': 1}
  monkeypatch.setattr(data, 'TOX21_SIZES', sizes)
  found = data.tox21(tmp_path)
  assert [*found] == ['train', 'validation', 'test']
  labels = [part['labels'] for part in found.values()]
  assert [len(each) for each in labels] == [1, 1, 1]
  np.testing.assert_array_equal(
    sorted(np.concatenate(labels).tolist(), key=str),
    # Of the two rows of CCO the last one counts.
    [[1, 0], [1, 0], [math.nan, 1]],
  )
  [train] = zip(*found['train'].values())
  count, atoms, bonds, features, ends, _ = train
  assert (count.tolist(), bonds.tolist()) == ([3], [2])
  assert atoms.tolist() == ETHANOL['node_feat'].tolist()
  assert features.tolist() == [[0, 0, 1], [2, 0, 0]]
  assert ends.tolist() == [[0, 1], [1, 2]]
  assert (atoms.dtype, ends.dtype) == (np.float32, np.int64)
  # Another rdkit, which reads more: each split would have other molecules.
  monkeypatch.setattr(data, 'TOX21_SIZES', {**sizes, 'train': 2})
  with pytest.raises(ValueError, match=r'tox21\.csv\.gz=3: must be 4'):
    data.tox21(tmp_path)


def test_captions_are_read_line_by_line_in_three_splits(tmp_path):
  for name in ('train', 'val', 'test_2016_flickr'):
    for language in ('de', 'en'):
      with gzip.open(tmp_path / f'{name}.{language}.gz', 'wb') as file:
        text = f'Ein Büro: {name}.{language}\nZwei\x85Hunde \n'
        file.write(text.encode())
  found = data.multi30k(tmp_path)
  assert {
    split: {language: texts.tolist() for language, texts in side.items()}
    for split, side in found.items()
  } == {
    split: {
      language: [f'Ein Büro: {name}.{language}', 'Zwei\x85Hunde']
      for language in ('de', 'en')
    }
    for split, name in (
      ('train', 'train'),
      ('validation', 'val'),
      ('test', 'test_2016_flickr'),
    )
  }


def test_no_image_of_cifar10_is_in_two_splits(tmp_path, monkeypatch):
  """Five images to train on, two of which are held, and two for the test."""
  from PIL import Image

  names = [f'train/{label}/{i}.jpg' for label in 'ab' for i in (0, 1)]
  names += ['train/b/2.jpg', 'test/a/0.jpg', 'test/b/0.jpg']
  with zipfile.ZipFile(tmp_path / 'cifar10.zip', 'w') as archive:
    for shade, name in enumerate(names):
      file = io.BytesIO()
      Image.new('RGB', (32, 32), (40 * shade,) * 3).save(file, 'jpeg')
      archive.writestr(name, file.getvalue())
  monkeypatch.setattr(data, 'CIFAR10_HELD', 2)
  found = data.cifar10(tmp_path)
  pixels, labels = found['train'].values()
  assert list(found['train']) == ['image', 'label']
  assert (pixels.shape, pixels.dtype) == ((20, 32, 32, 3), np.uint8)
  shades = pixels[:, 0, 0, 0] // 40
  trained, held = shades[:18], shades[18:]
  # Three images, six times, each time in some order; and two others.
  assert {tuple(sorted(each)) for each in trained.reshape(6, 3)} == {
    tuple(sorted({*range(5)} - {*held.tolist()}))
  }
  assert labels.tolist() == [int(shade > 1) for shade in shades]
  assert found['test']['label'].tolist() == [0, 1]
  assert found['test']['image'][:, 0, 0, 0].tolist() == [200, 240]


def test_a_spoken_digit_lies_in_a_second_of_silence(tmp_path):
  """Recordings 0 to 4 are for the test, 5 to 9 for validation."""
  lengths = {'3_ann_4': 3, '7_ann_9': 2, '0_bob_10': 8000, '0_bob_11': 8001}
  with zipfile.ZipFile(tmp_path / 'spoken_digits.zip', 'w') as archive:
    for name, length in lengths.items():
      file = io.BytesIO()
      with wave.open(file, 'wb') as recording:
        recording.setparams((1, 2, 8000, 0, 'NONE', ''))
        recording.writeframes(np.full(length, -1000, '<i2').tobytes())
      archive.writestr(f'recordings/{name}.wav', file.getvalue())
    archive.writestr('recordings/README.md', '')
  found = data.spoken_digits(tmp_path)
  assert {split: part['text'].tolist() for split, part in found.items()} == {
    'train': ['zero'],  # the longer one is left out
    'validation': ['seven'],
    'test': ['three'],
  }
  [audio] = found['test']['audio']
  assert (audio.shape, audio.dtype) == ((16_000,), np.int16)
  assert audio[6:].tolist() == [0] * (16_000 - 6)
  # Twice as many samples of the same sound, between its ends.
  [audio] = found['train']['audio']
  np.testing.assert_allclose(audio[1000:-1000], -1000, atol=5)


def test_sentences_are_those_of_the_stand_in():
  """In the same splits; no pair is in two."""
  found = data.sentences()
  assert {name: len(side['de']) for name, side in found.items()} == {
    'train': 2048,
    'validation': 256,
    'test': 256,
  }
  assert list(found['train']) == ['de', 'en']
  for split, pairs in translation.load_pairs().items():
    for language, side in (('de', 'inputs'), ('en', 'targets')):
      texts = map(str.split, found[split][language].tolist())
      np.testing.assert_array_equal(translation.encode(texts), pairs[side])
  pairs = [p for side in found.values() for p in zip(side['de'], side['en'])]
  assert len(set(pairs)) == len(pairs)
