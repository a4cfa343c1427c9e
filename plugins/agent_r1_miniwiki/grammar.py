"""The English of the world: how passages state facts and questions ask for them.

A question is composed: `the film X` -> `the director of the film X` -> `What is the birthplace of the director of the
film X?`, so there is a question for every chain of relations whose types fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Type = Literal["film", "person", "company", "city"]
"""Of the entities that have a passage, and so of what a question begins with."""


@dataclass(frozen=True)
class Relation:
    """A fact about one type of entity: the type of its value, and its words."""

    source: str
    target: str
    question: str
    """Asks for the value; `{}` is the noun phrase of the source."""
    phrase: str = ""
    """Names the value by the source's noun phrase; empty if no relation starts from the value."""
    inverse_of: str = ""
    """Set if the fact is the inverse of another; a question that begins with one is a bridge question."""


RELATIONS: dict[str, Relation] = {
    "director": Relation("film", "person", "Who is the director of {}?", "the director of {}"),
    "star": Relation("film", "person", "Who is the star of {}?", "the star of {}"),
    "producer": Relation("film", "company", "What is the producer of {}?", "the producer of {}"),
    "release_year": Relation("film", "year", "What is the year of {}?"),
    "birthplace": Relation("person", "city", "What is the birthplace of {}?", "the birthplace of {}"),
    "birth_year": Relation("person", "year", "What is the birth year of {}?"),
    "employer": Relation("person", "company", "What is the employer of {}?", "the employer of {}"),
    "directed": Relation("person", "film", "What is the film of {}?", "the film of {}", "director"),
    "starred": Relation("person", "film", "What is the film of {}?", "the film of {}", "star"),
    "founded": Relation("person", "company", "What is the company of {}?", "the company of {}", "founder"),
    "founder": Relation("company", "person", "Who is the founder of {}?", "the founder of {}"),
    "founding_year": Relation("company", "year", "What is the founding year of {}?"),
    "headquarters": Relation("company", "city", "What is the seat of {}?", "the seat of {}"),
    "country": Relation("city", "country", "What is the country of {}?"),
    "mayor": Relation("city", "person", "Who is the mayor of {}?", "the mayor of {}"),
}
"""Passages and questions use the same noun for a relation, as 2WikiMultihopQA's do. A person made one film at most, as
its director or its star."""

NOUN_PHRASES = {"film": "the film {}", "person": "{}", "company": "the company {}", "city": "the city {}"}

SENTENCES: dict[str, tuple[str, ...]] = {
    "film": (
        "{name} is a film.",
        "The director is {director}.",
        "The star is {star}.",
        "The producer is {producer}.",
        "The year is {release_year}.",
    ),
    "person": (
        "{name} is a person.",
        "The birthplace is {birthplace}.",
        "The birth year is {birth_year}.",
        "The employer is {employer}.",
        "The film is {directed}.",
        "The film is {starred}.",
        "The company is {founded}.",
    ),
    "company": (
        "{name} is a company.",
        "The founder is {founder}.",
        "The founding year is {founding_year}.",
        "The seat is {headquarters}.",
    ),
    "city": ("{name} is a city.", "The country is {country}.", "The mayor is {mayor}."),
}
"""A passage has a sentence if the entity has the fact that the sentence names."""

COMPARISONS = {
    "birth_year": "Who was born first, {} or {}?",
    "release_year": "Which film came out first, {} or {}?",
    "founding_year": "Which company was founded first, {} or {}?",
}


def chains(hops: int) -> list[tuple[str, ...]]:
    """All chains of relations that can be asked for with `hops` hops.

    An inverse relation may only come first, and its original must not follow directly. Years answer only 1-hop
    questions and countries no 2-hop ones, since a model could guess among so few answers.
    """
    chains_so_far: list[tuple[str, ...]] = [()]
    for hop in range(hops):
        last = hop == hops - 1
        chains_so_far = [
            (*chain, name) for chain in chains_so_far for name in RELATIONS if _fits(chain, name, hops, last)
        ]
    return chains_so_far


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
