"""Invented names: two or three syllables of a consonant and a vowel, divided between the splits.

A checksum of its letters assigns a name to exactly one split, so training and evaluation worlds never share a name,
whatever their seeds.
"""

from __future__ import annotations

import random
import zlib
from typing import Literal

Split = Literal["train", "eval"]

CONSONANTS = "bdfghjklmnprstvwyz"
VOWELS = "aeiou"
SYLLABLES = tuple(consonant + vowel for consonant in CONSONANTS for vowel in VOWELS)
LAST_SYLLABLES = tuple(syllable for syllable in SYLLABLES if not syllable.endswith("e"))
"""English stemmers cut endings with `-e` (a search index would take `Karize` and `Karive` for one word)."""
EVAL_SHARE = 4
"""One name in this many belongs to the split `eval`."""


def split_of(name: str) -> Split:
    """The split that owns a name."""
    return "eval" if zlib.crc32(name.lower().encode()) % EVAL_SHARE == 0 else "train"


def make_name(rng: random.Random, split: Split, taken: set[str]) -> str:
    """Draw a new name of the split and add it to `taken`; about half of the names have two syllables."""
    while True:
        syllables = [rng.choice(SYLLABLES) for _ in range(rng.choice((1, 2)))] + [rng.choice(LAST_SYLLABLES)]
        name = "".join(syllables).capitalize()
        if name not in taken and split_of(name) == split:
            taken.add(name)
            return name
