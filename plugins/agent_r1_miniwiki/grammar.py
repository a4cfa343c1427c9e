"""The English of the world: how facts are told in passages and asked for in questions.

A question is composed: `the film X` -> `the director of the film X` -> `Where was the director of the film X born?`,
so that every chain of relations whose types fit can be asked for.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Relation:
    """A fact of one type of entity: to which type it leads, and its words."""

    source: str
    target: str
    question: str
    """Asks for the value; `{}` is the noun phrase of the source."""
    phrase: str = ""
    """Names the value by the source's noun phrase; empty where a value leads nowhere."""
    inverse_of: str = ""
    """Set on a fact that mentions an entity from its other end: what makes a question a bridge question."""


RELATIONS: dict[str, Relation] = {
    "director": Relation("film", "person", "Who directed {}?", "the director of {}"),
    "star": Relation("film", "person", "Who starred in {}?", "the star of {}"),
    "producer": Relation("film", "company", "Which company produced {}?", "the company that produced {}"),
    "release_year": Relation("film", "year", "When did {} come out?"),
    "birthplace": Relation("person", "city", "Where was {} born?", "the city where {} was born"),
    "birth_year": Relation("person", "year", "When was {} born?"),
    "employer": Relation("person", "company", "Which company does {} work for?", "the company that {} works for"),
    "directed": Relation("person", "film", "Which film did {} direct?", "the film that {} directed", "director"),
    "starred": Relation("person", "film", "Which film starred {}?", "the film that starred {}", "star"),
    "founded": Relation("person", "company", "Which company did {} found?", "the company that {} founded", "founder"),
    "founder": Relation("company", "person", "Who founded {}?", "the founder of {}"),
    "founding_year": Relation("company", "year", "When was {} founded?"),
    "headquarters": Relation("company", "city", "Where is {} based?", "the city where {} is based"),
    "country": Relation("city", "country", "In which country is {}?"),
    "mayor": Relation("city", "person", "Who is the mayor of {}?", "the mayor of {}"),
}

NOUN_PHRASES = {"film": "the film {}", "person": "{}", "company": "the company {}", "city": "the city {}"}

SENTENCES: dict[str, tuple[str, ...]] = {
    "film": (
        "{name} is a film.",
        "{name} was directed by {director}.",
        "It starred {star}.",
        "It was produced by {producer}.",
        "It came out in {release_year}.",
    ),
    "person": (
        "{name} is a person.",
        "{name} was born in {birthplace} in {birth_year}.",
        "{name} works for {employer}.",
        "{name} directed the film {directed}.",
        "{name} starred in the film {starred}.",
        "{name} founded the company {founded}.",
    ),
    "company": (
        "{name} is a company.",
        "{name} was founded by {founder} in {founding_year}.",
        "It is based in {headquarters}.",
    ),
    "city": ("{name} is a city.", "{name} is in {country}.", "Its mayor is {mayor}."),
}
"""A sentence is told when the entity has all the facts that it names."""

COMPARISONS = {
    "birth_year": "Who was born first, {} or {}?",
    "release_year": "Which film came out first, {} or {}?",
    "founding_year": "Which company was founded first, {} or {}?",
}


def chains(hops: int) -> list[tuple[str, ...]]:
    """All chains of relations that can be asked for with so many hops.

    A fact told from its other end may only come first and is not undone at once; years answer only 1-hop questions
    and countries no 2-hop ones, since a small set of answers could be guessed.
    """
    found: list[tuple[str, ...]] = [()]
    for hop in range(hops):
        last = hop == hops - 1
        found = [(*chain, name) for chain in found for name in RELATIONS if _fits(chain, name, hops, last)]
    return found


def _fits(chain: tuple[str, ...], name: str, hops: int, last: bool) -> bool:
    relation = RELATIONS[name]
    if chain:
        before = RELATIONS[chain[-1]]
        if relation.inverse_of or before.target != relation.source or before.inverse_of == name:
            return False
    if not last:
        return bool(relation.phrase)
    return not (relation.target == "year" and hops > 1) and not (relation.target == "country" and hops == 2)


def ask(start: str, chain: tuple[str, ...]) -> str:
    """The question for a chain of relations that starts at the entity `start`."""
    phrase = NOUN_PHRASES[RELATIONS[chain[0]].source].format(start)
    for name in chain[:-1]:
        phrase = RELATIONS[name].phrase.format(phrase)
    return RELATIONS[chain[-1]].question.format(phrase)
