"""A procedural world: entities, their facts, their passages and the questions that they answer.

The seed determines everything. Each relation has one value, and director, star and founder have one inverse each, so
every question has exactly one answer.
"""

from __future__ import annotations

import itertools
import random
import string
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from agent_r1_core import Passage
from agent_r1_miniwiki.grammar import COMPARISONS, NOUN_PHRASES, RELATIONS, SENTENCES, ask, chains

Split = Literal["train", "eval"]

CONSONANTS = "bdfghjklmnprstvwyz"
VOWELS = "aeiou"
SYLLABLES = tuple(consonant + vowel for consonant in CONSONANTS for vowel in VOWELS)
LAST_SYLLABLES = tuple(syllable for syllable in SYLLABLES if not syllable.endswith("e"))
"""English stemmers cut endings with `-e` (a search index would take `Karize` and `Karive` for one word)."""
EVAL_SHARE = 4
"""One name in this many belongs to the split `eval`."""


def split_of(name: str) -> Split:
    """The split that owns a name: by a checksum of its letters, so that worlds of two splits never share one."""
    return "eval" if zlib.crc32(name.lower().encode()) % EVAL_SHARE == 0 else "train"


def make_name(rng: random.Random, split: Split, taken: set[str]) -> str:
    """Draw a new name of the split and add it to `taken`; about half of the names have two syllables."""
    while True:
        syllables = [rng.choice(SYLLABLES) for _ in range(rng.choice((1, 2)))] + [rng.choice(LAST_SYLLABLES)]
        name = "".join(syllables).capitalize()
        if name not in taken and split_of(name) == split:
            taken.add(name)
            return name


Kind = Literal["compositional", "bridge", "comparison"]

COUNTRIES = 8
"""Number of countries in a world; they have no passages."""
YEARS = range(1900, 2000)


@dataclass(frozen=True)
class Entity:
    """A person, film, city or company and its facts: relation -> name, country or year."""

    name: str
    type: str
    facts: dict[str, str] = field(default_factory=dict)

    def passage(self) -> Passage:
        """The entity's page: its name, then a short sentence or two for each fact."""
        return Passage(self.name, " ".join(self.sentences()))

    def sentences(self) -> list[str]:
        """The sentences of its page, each with a fact or two."""
        patterns = (pattern for pattern in SENTENCES[self.type] if _needs(pattern) <= self.facts.keys())
        return [pattern.format(name=self.name, **self.facts) for pattern in patterns]

    def sentence(self, relation: str) -> str:
        """The sentence of its page that states one fact."""
        pattern = next(pattern for pattern in SENTENCES[self.type] if relation in _needs(pattern))
        return pattern.format(name=self.name, **self.facts)


@dataclass(frozen=True)
class Question:
    """A question with its one answer and the passages that give it."""

    text: str
    answer: str
    kind: Kind
    hops: int
    path: tuple[str, ...]
    """Titles of the passages to read, in order."""
    chain: tuple[str, ...]
    """The relations to follow; a comparison has the one that it compares."""

    @property
    def key(self) -> str:
        """Unique within its world."""
        starts = self.path if self.kind == "comparison" else self.path[:1]
        return ".".join((*starts, *self.chain))


class World:
    """About `size` entities with their facts; avoids the names in `taken` and adds its own to them."""

    def __init__(self, seed: int, split: Split = "train", size: int = 120, taken: set[str] | None = None) -> None:
        if size < 12:
            raise ValueError(f"a world of {size} entities is too small to hold every type; ask for at least 12")
        self.seed, self.split = seed, split
        rng = random.Random(f"miniwiki/{split}/{seed}/{size}")
        names = set() if taken is None else taken
        films, companies, cities = size // 6, size // 8, size // 6
        counts = {"film": films, "company": companies, "city": cities, "person": size - films - companies - cities}
        self.entities: dict[str, Entity] = {}
        of_type: dict[str, list[str]] = {}
        for type_, count in counts.items():
            of_type[type_] = [make_name(rng, split, names) for _ in range(count)]
            self.entities.update((name, Entity(name, type_)) for name in of_type[type_])
        of_type["country"] = [make_name(rng, split, names) for _ in range(COUNTRIES)]
        self._add_facts(rng, of_type)

    def _add_facts(self, rng: random.Random, of_type: dict[str, list[str]]) -> None:
        people = iter(rng.sample(of_type["person"], len(of_type["person"])))
        mayors = iter(rng.sample(of_type["person"], len(of_type["city"])))
        for entity in self.entities.values():
            facts = entity.facts
            if entity.type == "film":
                facts.update(director=next(people), star=next(people), producer=rng.choice(of_type["company"]))
                facts["release_year"] = str(rng.choice(YEARS))
                self.entities[facts["director"]].facts["directed"] = entity.name
                self.entities[facts["star"]].facts["starred"] = entity.name
            elif entity.type == "company":
                facts.update(founder=next(people), founding_year=str(rng.choice(YEARS)))
                facts["headquarters"] = rng.choice(of_type["city"])
                self.entities[facts["founder"]].facts["founded"] = entity.name
            elif entity.type == "city":
                facts.update(country=rng.choice(of_type["country"]), mayor=next(mayors))
            else:
                facts.update(birthplace=rng.choice(of_type["city"]), birth_year=str(rng.choice(YEARS)))
                facts["employer"] = rng.choice(of_type["company"])

    @property
    def passages(self) -> list[Passage]:
        """One passage per entity."""
        return [entity.passage() for entity in self.entities.values()]

    def questions(
        self, hops: int, kinds: Iterable[Kind] = ("compositional", "bridge"), about: Iterable[str] = tuple(NOUN_PHRASES)
    ) -> Iterator[Question]:
        """All questions with `hops` hops (1 to 3), of these kinds and about entities of these types, in a fixed order;
        comparisons have 2 hops."""
        wanted, types = set(kinds), set(about)
        for chain in chains(hops):
            first = RELATIONS[chain[0]]
            kind: Kind = "bridge" if first.inverse_of else "compositional"
            if kind in wanted and first.source in types:
                questions = (self._follow(name, chain, kind) for name in self.entities)
                yield from (question for question in questions if question is not None)
        if hops == 2 and "comparison" in wanted:
            yield from self._comparisons(types)

    def _follow(self, start: str, chain: tuple[str, ...], kind: Kind) -> Question | None:
        """The question for a chain from `start`; None if a fact is missing or an earlier passage gives the answer."""
        path, value = [], start
        for relation in chain:
            entity = self.entities[value]
            if relation not in entity.facts:
                return None
            path.append(value)
            value = entity.facts[relation]
        early = any(value == name or value in self.entities[name].facts.values() for name in path[:-1])
        if early or value == path[-1] or len(set(path)) < len(path):
            return None
        return Question(ask(start, chain), value, kind, len(chain), tuple(path), chain)

    def _comparisons(self, types: set[str]) -> Iterator[Question]:
        for relation, text in COMPARISONS.items():
            if RELATIONS[relation].source not in types:
                continue
            holders = [entity for entity in self.entities.values() if relation in entity.facts]
            for first, second in itertools.pairwise(holders):
                years = (first.facts[relation], second.facts[relation])
                if years[0] != years[1]:
                    answer = first.name if years[0] < years[1] else second.name
                    path = (first.name, second.name)
                    yield Question(text.format(*path), answer, "comparison", 2, path, (relation,))


def _needs(sentence: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(sentence) if name} - {"name"}
