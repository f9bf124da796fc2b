"""The rule-made language: a second translator, names, rare words."""

from __future__ import annotations

import collections

import numpy as np
import pytest

from reset_cycles.mini_algoperf.workloads import translation_language
from reset_cycles.mini_algoperf.workloads.translation_language import Language

NUM_SENTENCES = 400
DETERMINERS = {'_the': 'l', '_my': 'm', '_no': 'n'}
# By preposition, or by place in the sentence: singular, plural.
CASES = {
  'subject': ('u', 'us'),
  'object': ('am', 'ams'),
  '_in': ('in', 'ins'),
  '_on': ('or', 'ors'),
  '_near': ('ek', 'eks'),
  '_by': ('ul', 'uls'),
}
# By gender, singular and plural.
AGREEMENT = {0: ('y', 'ys'), 1: ('ia', 'ias'), 2: ('ex', 'exe')}


@pytest.fixture(scope='module')
def language():
  return Language(0)


@pytest.fixture(scope='module')
def sentences(language):
  rng = np.random.default_rng(0)
  return [language.sentence(rng) for _ in range(NUM_SENTENCES)]


class Translator:
  """Reads the source from left to right, with the lexicon as dicts."""

  def __init__(self, language):
    self.nouns = {noun.source: noun for noun in language._nouns}
    self.adjectives = dict(language._adjectives)
    self.verbs = {verb.source: verb for verb in language._verbs}

  def translate(self, source):
    self.rest = collections.deque(source)
    subject, subject_number, _ = self.phrase('subject')
    verb = self.verbs[self.rest.popleft()]
    is_past = self.take('ed')
    assert is_past or self.take('s') == (subject_number == 0)
    thing, _, is_animate = self.phrase('object')
    place = self.phrase(self.rest.popleft())[0] if self.rest else []
    assert not self.rest
    word = verb.target_if_animate if is_animate else verb.target
    ending = (('it', 'ont'), ('at', 'ant'))[is_past][subject_number]
    return [*subject, *place, *thing, word, ending]

  def take(self, piece):
    found = bool(self.rest) and self.rest[0] == piece
    if found:
      self.rest.popleft()
    return found

  def phrase(self, case):
    """(translation, 0 or 1 for the number, whether animate)."""
    first = self.rest.popleft()
    if first not in DETERMINERS:
      name = [first]
      while self.rest and self.rest[0] in translation_language._NAME_SYLLABLES:
        name.append(self.rest.popleft())
      return [*name, CASES[case][0]], 0, True
    adjective = self.adjectives.get(self.rest[0])
    if adjective:
      self.rest.popleft()
    noun = self.nouns[self.rest.popleft()]
    number = int(self.take('s'))
    determiner = f'_{DETERMINERS[first]}{"aei"[noun.gender]}{"s" * number}'
    words = [determiner, noun.target]
    if adjective:
      words += [adjective, AGREEMENT[noun.gender][number]]
    return [*words, CASES[case][number]], number, noun.is_animate


def test_a_second_translator_agrees(language, sentences):
  translator = Translator(language)
  for source, target in sentences:
    assert translator.translate(source) == target


def test_every_piece_is_listed_once(language, sentences):
  assert len(set(language.pieces)) == len(language.pieces)
  used = {piece for pair in sentences for side in pair for piece in side}
  assert used <= set(language.pieces)


def test_the_lexicon_translates_no_two_words_alike(language):
  entries = (language._nouns, language._adjectives, language._verbs)
  words = [entry for kind in entries for entry in kind]
  assert len({word.source for word in words}) == len(words) == 250
  targets = [word.target for word in words]
  targets += [
    verb.target_if_animate
    for verb in language._verbs
    if verb.target_if_animate != verb.target
  ]
  assert len(set(targets)) == len(targets)
  # About 30 % of the 50 verbs have a second translation.
  assert 8 <= len(targets) - 250 <= 22


def test_the_seed_decides():
  def first(seed):
    return Language(seed).sentence(np.random.default_rng(1))

  assert first(1) == first(1)
  assert Language(1).pieces != Language(2).pieces


def test_shares_of_names_plurals_and_places(sentences):
  sources = [source for source, _ in sentences]
  phrases = sum(
    piece in DETERMINERS or piece[1:2].isupper()
    for source in sources
    for piece in source
  )
  names = sum(piece[1:2].isupper() for source in sources for piece in source)
  places = sum(bool(set(source) & set(CASES)) for source in sources)
  assert names / phrases == pytest.approx(0.2, abs=0.04)
  assert places / len(sources) == pytest.approx(0.5, abs=0.08)


def test_words_follow_zipfs_law():
  rng = np.random.default_rng(0)
  drawn = [translation_language._zipf(rng, range(10)) for _ in range(20_000)]
  weights = 1 / np.arange(3, 13)
  np.testing.assert_allclose(
    np.bincount(drawn) / len(drawn), weights / weights.sum(), atol=0.01
  )
