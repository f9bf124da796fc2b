"""A small language and its translation, both made by rules.

A sentence is a subject, a verb, an object and perhaps a place:

  the old dog s | see | no cat | near Kilemo

The translation has another word order (place after the subject, verb last,
adjective after the noun), cases where the source has order and prepositions, and
agreement: determiners and adjectives follow the gender and the number of their
noun, verbs their subject. A noun's gender must be learned word by word. Some
verbs are translated differently if the object is animate. Nouns and adjectives
follow Zipf's law, so that rare ones are seen a few times only. Names are in no
lexicon: both languages spell them in the same syllables.

Sentences are lists of pieces, as a subword tokenizer makes them: a piece that
starts with '_' starts a word.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

Pieces = list[str]
Entry = TypeVar('Entry')

_NUM_NOUNS, _NUM_ADJECTIVES, _NUM_VERBS, _NUM_GENDERS = 160, 40, 50, 3
# Shares of what may have the feature: of phrases, sentences, nouns, verbs.
_PLURAL, _NAME, _ADJECTIVE, _PLACE, _PAST = 0.3, 0.2, 0.4, 0.5, 0.4
_ANIMATE, _AMBIGUOUS = 0.5, 0.3
_ZIPF_OFFSET = 3  # Weights of the words of a kind: 1/3, 1/4, 1/5 and so on.
_DETERMINERS, _PREPOSITIONS = ('the', 'my', 'no'), ('in', 'on', 'near', 'by')
# Of the translation: by case and number, gender and number, tense and number.
_CASE_ENDINGS = {
  'subject': ('u', 'us'),
  'object': ('am', 'ams'),
  'in': ('in', 'ins'),
  'on': ('or', 'ors'),
  'near': ('ek', 'eks'),
  'by': ('ul', 'uls'),
}
_AGREEMENT = (('y', 'ys'), ('ia', 'ias'), ('ex', 'exe'))
_VERB_ENDINGS = (('it', 'ont'), ('at', 'ant'))
_DETERMINER_STEMS, _GENDER_VOWELS = 'lmn', 'aei'
_CONSONANTS, _VOWELS = 'bdfgklmnprst', 'aeiou'
_NAME_SYLLABLES = [c + v for c in 'gklm' for v in 'aeio']


class Noun(NamedTuple):
  """A noun of the lexicon."""

  source: str
  target: str
  gender: int
  is_animate: bool


class Adjective(NamedTuple):
  """An adjective of the lexicon."""

  source: str
  target: str


class Verb(NamedTuple):
  """A verb of the lexicon; most translate alike before any object."""

  source: str
  target: str
  target_if_animate: str


class Phrase(NamedTuple):
  """A noun phrase in both languages; the translation without its ending."""

  source: Pieces
  target: Pieces
  is_plural: bool
  is_animate: bool

  def inflected(self, case: str) -> Pieces:
    """The translation in a case; the ending stands after the last word."""
    return [*self.target, _CASE_ENDINGS[case][self.is_plural]]


class Language:
  """The lexicon, drawn once, and the rules.

  Attributes:
    pieces: every piece of both languages, once, in a fixed order.
  """

  def __init__(self, seed: int) -> None:
    """Draws what means what, the genders and which nouns are animate."""
    rng = np.random.default_rng(seed)
    source, target = _words(rng, ''), _words(rng, 'o')
    self._nouns = [
      Noun(
        next(source),
        next(target),
        int(rng.integers(_NUM_GENDERS)),
        bool(rng.random() < _ANIMATE),
      )
      for _ in range(_NUM_NOUNS)
    ]
    self._adjectives = [
      Adjective(next(source), next(target)) for _ in range(_NUM_ADJECTIVES)
    ]
    self._verbs = [_draw_verb(rng, source, target) for _ in range(_NUM_VERBS)]
    self.pieces = list(dict.fromkeys(self._all_pieces()))

  def sentence(self, rng: np.random.Generator) -> tuple[Pieces, Pieces]:
    """A random sentence and its translation."""
    subject, thing = (self._phrase(rng, _ADJECTIVE) for _ in range(2))
    verb = self._verbs[int(rng.integers(_NUM_VERBS))]
    is_past = bool(rng.random() < _PAST)
    source = [*subject.source, verb.source]
    if is_past or not subject.is_plural:
      source.append('ed' if is_past else 's')
    source += thing.source
    target = subject.inflected('subject')
    if rng.random() < _PLACE:
      preposition = _PREPOSITIONS[int(rng.integers(len(_PREPOSITIONS)))]
      place = self._phrase(rng, 0.0)
      source += [f'_{preposition}', *place.source]
      target += place.inflected(preposition)
    target += thing.inflected('object')
    target.append(verb.target_if_animate if thing.is_animate else verb.target)
    return source, [*target, _VERB_ENDINGS[is_past][subject.is_plural]]

  def _phrase(self, rng: np.random.Generator, adjective_share: float) -> Phrase:
    if rng.random() < _NAME:
      return _draw_name(rng)
    noun = _zipf(rng, self._nouns)
    determiner = int(rng.integers(len(_DETERMINERS)))
    is_plural = bool(rng.random() < _PLURAL)
    source = [f'_{_DETERMINERS[determiner]}']
    target = [_target_determiner(determiner, noun.gender, is_plural)]
    target.append(noun.target)
    if rng.random() < adjective_share:
      adjective = _zipf(rng, self._adjectives)
      source.append(adjective.source)
      target += [adjective.target, _AGREEMENT[noun.gender][is_plural]]
    source += [noun.source, *(['s'] if is_plural else [])]
    return Phrase(source, target, is_plural, noun.is_animate)

  def _all_pieces(self) -> Iterator[str]:
    """The pieces, some of them more than once."""
    for entry in (*self._nouns, *self._adjectives, *self._verbs):
      yield from (word for word in entry if isinstance(word, str))
    yield from (f'_{word}' for word in (*_DETERMINERS, *_PREPOSITIONS))
    yield from ('s', 'ed')
    for syllable in _NAME_SYLLABLES:
      yield from (f'_{syllable.capitalize()}', syllable)
    forms = (range(len(_DETERMINERS)), range(_NUM_GENDERS), (False, True))
    yield from itertools.starmap(_target_determiner, itertools.product(*forms))
    for pair in (*_CASE_ENDINGS.values(), *_AGREEMENT, *_VERB_ENDINGS):
      yield from pair


def _words(rng: np.random.Generator, last: str) -> Iterator[str]:
  """Different words of two syllables, and `last`, in random order."""
  syllables = [c + v for c in _CONSONANTS for v in _VOWELS]
  words = [f'_{a}{b}{last}' for a in syllables for b in syllables]
  for index in rng.permutation(len(words)):
    yield words[index]


def _draw_verb(
  rng: np.random.Generator, source: Iterator[str], target: Iterator[str]
) -> Verb:
  word = next(target)
  is_ambiguous = rng.random() < _AMBIGUOUS
  return Verb(next(source), word, next(target) if is_ambiguous else word)


def _draw_name(rng: np.random.Generator) -> Phrase:
  """A name of two or three syllables: singular, animate, the same in both."""
  length = 2 + int(rng.integers(2))
  chosen = rng.integers(len(_NAME_SYLLABLES), size=length).tolist()
  first, *rest = (_NAME_SYLLABLES[i] for i in chosen)
  pieces = [f'_{first.capitalize()}', *rest]
  return Phrase(pieces, pieces, False, True)


def _zipf(rng: np.random.Generator, entries: Sequence[Entry]) -> Entry:
  """An entry; its probability falls with its place in the list."""
  weights = 1 / (np.arange(len(entries)) + _ZIPF_OFFSET)
  shares = np.cumsum(weights) / weights.sum()
  # Rounding may leave the last share below 1.
  index = np.searchsorted(shares[:-1], rng.random(), side='right')
  return entries[int(index)]


def _target_determiner(determiner: int, gender: int, is_plural: bool) -> str:
  stem = _DETERMINER_STEMS[determiner] + _GENDER_VOWELS[gender]
  return f'_{stem}s' if is_plural else f'_{stem}'
