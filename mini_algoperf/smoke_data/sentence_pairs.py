"""Random German sentences and their translations.

A small grammar, but with what makes German hard: gender and case in articles
and adjectives, the verb second in main clauses and last in subordinate ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_NOUNS = (  # gender, German, English
  ('m', 'Hund', 'dog'),
  ('m', 'Lehrer', 'teacher'),
  ('m', 'Bäcker', 'baker'),
  ('m', 'König', 'king'),
  ('m', 'Vogel', 'bird'),
  ('m', 'Freund', 'friend'),
  ('f', 'Katze', 'cat'),
  ('f', 'Frau', 'woman'),
  ('f', 'Ärztin', 'doctor'),
  ('f', 'Nachbarin', 'neighbour'),
  ('f', 'Maus', 'mouse'),
  ('f', 'Tochter', 'daughter'),
  ('n', 'Kind', 'child'),
  ('n', 'Pferd', 'horse'),
  ('n', 'Mädchen', 'girl'),
  ('n', 'Schaf', 'sheep'),
)
_ADJECTIVES = (
  ('groß', 'big'),
  ('klein', 'small'),
  ('alt', 'old'),
  ('jung', 'young'),
  ('schön', 'beautiful'),
  ('müd', 'tired'),
  ('klug', 'clever'),
  ('still', 'quiet'),
  ('freundlich', 'friendly'),
  ('fremd', 'strange'),
)
_VERBS = (
  ('sieht', 'sees'),
  ('hört', 'hears'),
  ('sucht', 'seeks'),
  ('findet', 'finds'),
  ('mag', 'likes'),
  ('kennt', 'knows'),
  ('malt', 'paints'),
  ('ruft', 'calls'),
  ('fragt', 'asks'),
  ('grüßt', 'greets'),
)
_TIMES = (
  ('heute', 'today'),
  ('jetzt', 'now'),
  ('oft', 'often'),
  ('manchmal', 'sometimes'),
)
_PLACES = (
  ('im Garten', 'in the garden'),
  ('in der Stadt', 'in the city'),
  ('am Strand', 'on the beach'),
  ('vor dem Haus', 'in front of the house'),
  ('auf dem Markt', 'at the market'),
)
_SUBORDINATORS = (
  ('weil', 'because'),
  ('obwohl', 'although'),
  ('während', 'while'),
)
_NOMINATIVE = {'m': 'der', 'f': 'die', 'n': 'das'}
_ACCUSATIVE = {'m': 'den', 'f': 'die', 'n': 'das'}


class Pair(NamedTuple):
  """A text in both languages, by their codes."""

  de: str
  en: str


class _Clause(NamedTuple):
  """The parts of a clause."""

  subject: Pair
  verb: Pair
  rest: Pair  # object, perhaps a place


def draw_pair(rng: np.random.Generator) -> Pair:
  """Draws a sentence of one or two clauses.

  Args:
    rng: source of all choices.
  """
  pair = _draw_main_clause(rng)
  ending = rng.integers(3)
  if ending == 0:
    other = _draw_main_clause(rng)
    pair = Pair(f'{pair.de} und {other.de}', f'{pair.en} and {other.en}')
  elif ending == 1:
    other = _draw_subordinate_clause(rng)
    pair = Pair(f'{pair.de}, {other.de}', f'{pair.en} {other.en}')
  return Pair(*(text[0].upper() + text[1:] + '.' for text in pair))


def _draw_main_clause(rng: np.random.Generator) -> Pair:
  subject, verb, rest = _draw_clause(rng)
  english = f'{subject.en} {verb.en} {rest.en}'
  if rng.integers(2):
    return Pair(f'{subject.de} {verb.de} {rest.de}', english)
  time = _choose(rng, _TIMES)
  return Pair(
    f'{time.de} {verb.de} {subject.de} {rest.de}', f'{time.en} {english}'
  )


def _draw_subordinate_clause(rng: np.random.Generator) -> Pair:
  subject, verb, rest = _draw_clause(rng)
  subordinator = _choose(rng, _SUBORDINATORS)
  return Pair(
    f'{subordinator.de} {subject.de} {rest.de} {verb.de}',
    f'{subordinator.en} {subject.en} {verb.en} {rest.en}',
  )


def _draw_clause(rng: np.random.Generator) -> _Clause:
  subject = _draw_noun_phrase(rng, _NOMINATIVE)
  rest = _draw_noun_phrase(rng, _ACCUSATIVE)
  if rng.integers(2):
    place = _choose(rng, _PLACES)
    rest = Pair(f'{rest.de} {place.de}', f'{rest.en} {place.en}')
  return _Clause(subject, _choose(rng, _VERBS), rest)


def _draw_noun_phrase(
  rng: np.random.Generator, articles: dict[str, str]
) -> Pair:
  gender, german, english = _NOUNS[rng.integers(len(_NOUNS))]
  article = articles[gender]
  if rng.integers(2):
    return Pair(f'{article} {german}', f'the {english}')
  adjective = _choose(rng, _ADJECTIVES)
  # After a definite article only the masculine accusative has -en.
  ending = 'en' if article == 'den' else 'e'
  return Pair(
    f'{article} {adjective.de}{ending} {german}',
    f'the {adjective.en} {english}',
  )


def _choose(
  rng: np.random.Generator, pairs: tuple[tuple[str, str], ...]
) -> Pair:
  return Pair(*pairs[rng.integers(len(pairs))])
