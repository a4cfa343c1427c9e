"""The forms of question: what they ask, which passages they need, and what answers them.

The hops are the passages that must be read. That a country's capital is Riga stands in the country's passage, and so
does what that country borders: such a question has one hop, whichever way it is asked.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from agent_r1_geo.atlas import Atlas, City, Country, folded

Kind = Literal["compositional", "bridge", "conjunction", "comparison", "bridge_comparison"]

HOPS: dict[Kind, frozenset[int]] = {
    "compositional": frozenset({1, 2}),
    "bridge": frozenset({1}),
    "conjunction": frozenset({1, 2}),
    "comparison": frozenset({2}),
    "bridge_comparison": frozenset({4}),
}
"""How many hops questions of a kind have."""
COUNTRY_RATIO = 1.5
CITY_RATIO = 2.0
"""How many times as many inhabitants the larger one of a comparison has, so that newer figures agree."""

_OF_A_COUNTRY = {
    "capital": "What is the capital of {}?",
    "currency": "What is the currency of {}?",
    "continent": "On which continent does {} lie?",
    "only_neighbour": "Which is the only country that borders {}?",
}
_OF_A_CITY = {
    "capital": "What is the capital of the country where {} lies?",
    "currency": "What is the currency of the country where {} lies?",
    "continent": "On which continent is the country where {} lies?",
    "only_neighbour": "Which is the only country that borders the country where {} lies?",
}
_OF_A_CAPITAL = {
    "country": "Of which country is {} the capital?",
    "currency": "What is the currency of the country whose capital is {}?",
    "continent": "On which continent lies the country whose capital is {}?",
}


@dataclass(frozen=True)
class Question:
    """A question about entities of one split."""

    text: str
    answers: tuple[str, ...]
    kind: Kind
    path: tuple[str, ...]
    """Titles of the passages to read, in order."""
    chain: tuple[str, ...]
    """The facts to follow."""
    about: tuple[str, ...]
    """Codes of countries and keys of cities that the question names."""

    @property
    def hops(self) -> int:
        """The passages to read."""
        return len(self.path)

    @property
    def key(self) -> str:
        """Unique within its split."""
        return ".".join((self.kind, *self.chain, *self.about))


def questions(atlas: Atlas, seed: int) -> Iterator[Question]:
    """All questions about the entities of a split, in a fixed order; the seed draws the pairs that are compared."""
    for country in atlas.countries.values():
        facts = _facts(atlas, country)
        for name, answers in facts.items():
            text = _OF_A_COUNTRY[name].format(country.phrase)
            yield Question(text, answers, "compositional", (country.name,), (name,), (country.code,))
    for city in atlas.cities.values():
        yield from _about_city(city, atlas)
    yield from _borders(atlas)
    yield from _compared(atlas, random.Random(f"geo/pairs/{seed}"))


def _facts(atlas: Atlas, country: Country) -> dict[str, tuple[str, ...]]:
    """What is asked about a country: fact -> answers."""
    facts: dict[str, tuple[str, ...]] = {}
    if country.capital:
        facts["capital"] = country.capital
    if country.currency:
        facts["currency"] = country.currency
    if country.continent:
        facts["continent"] = (country.continent,)
    if country.neighbours and len(country.neighbours) == 1 and country.neighbours[0] in atlas.countries:
        facts["only_neighbour"] = atlas.countries[country.neighbours[0]].answers
    return facts


def _about_city(city: City, atlas: Atlas) -> Iterator[Question]:
    country = atlas.countries[city.country]
    facts = _facts(atlas, country)
    about = (city.key,)
    text = f"In which country does {city.name} lie?"
    yield Question(text, country.answers, "compositional", (city.name,), ("country",), about)
    if city.name in facts.get("capital", ()):
        for name, pattern in _OF_A_CAPITAL.items():
            answers = country.answers if name == "country" else facts.get(name)
            if answers:
                chain = ("capital_of",) if name == "country" else ("capital_of", name)
                yield Question(pattern.format(city.name), answers, "bridge", (country.name,), chain, about)
        return
    if _tells(city, country):
        return
    for name, answers in facts.items():
        path = (city.name, country.name)
        text = _OF_A_CITY[name].format(city.name)
        yield Question(text, answers, "compositional", path, ("country", name), about)


def _borders(atlas: Atlas) -> Iterator[Question]:
    """The one country that borders two others, of which the second may be given by a city."""
    cities: dict[str, list[City]] = {}
    for city in atlas.cities.values():
        if not _tells(city, atlas.countries[city.country]):
            cities.setdefault(city.country, []).append(city)
    bordering: dict[tuple[str, str], list[str]] = {}
    for code, neighbours in sorted(atlas.borders.items()):
        for pair in itertools.permutations(sorted(neighbours), 2):
            bordering.setdefault(pair, []).append(code)
    for (first, second), found in sorted(bordering.items()):
        if len(found) > 1 or not {first, second, *found} <= atlas.countries.keys():
            continue
        between, one, other = (atlas.countries[code] for code in (*found, first, second))
        if between.neighbours is None:
            continue
        if first < second:
            text = f"Which country borders both {one.phrase} and {other.phrase}?"
            about = (first, second)
            yield Question(text, between.answers, "conjunction", (between.name,), ("borders", "borders"), about)
        for city in cities.get(second, []):
            text = f"Which country borders both {one.phrase} and the country where {city.name} lies?"
            path, chain = (city.name, between.name), ("country", "borders", "borders")
            yield Question(text, between.answers, "conjunction", path, chain, (first, city.key))


def _compared(atlas: Atlas, rng: random.Random) -> Iterator[Question]:
    """Each country and each city with another one, where one is clearly larger."""
    countries, cities = list(atlas.countries.values()), list(atlas.cities.values())
    rng.shuffle(countries)
    rng.shuffle(cities)
    for one, other in itertools.pairwise(countries):
        if _ratio(one, other) >= COUNTRY_RATIO:
            text = f"Which country has more inhabitants, {one.phrase} or {other.phrase}?"
            path, about = (one.name, other.name), (one.code, other.code)
            yield Question(text, _larger(one, other).answers, "comparison", path, ("population",), about)
    for first, second in itertools.pairwise(cities):
        about = (first.key, second.key)
        if _ratio(first, second) >= CITY_RATIO:
            text = f"Which city has more inhabitants, {first.name} or {second.name}?"
            path = (first.name, second.name)
            yield Question(text, _larger(first, second).answers, "comparison", path, ("population",), about)
        one, other = atlas.countries[first.country], atlas.countries[second.country]
        if _tells(first, one) or _tells(second, other):
            continue
        if one != other and _ratio(one, other) >= COUNTRY_RATIO:
            text = f"Which country has more inhabitants, that of the city {first.name} or that of {second.name}?"
            titles, chain = (first.name, one.name, second.name, other.name), ("country", "population")
            yield Question(text, _larger(one, other).answers, "bridge_comparison", titles, chain, about)


def _tells(city: City, country: Country) -> bool:
    """Whether the city's name holds its country's or the other way round, or the capital's name holds the city's.

    Santiago de Cuba, Bissau and Delhi do: the country's passage could be found without the city's.
    """
    own, of_country = f" {folded(city.name)} ", f" {folded(country.name)} "
    names = (of_country, *(f" {folded(name)} " for name in country.capital or ()))
    return of_country in own or any(own in name for name in names)


def _larger(one: City | Country, other: City | Country) -> City | Country:
    return one if one.population > other.population else other


def _ratio(one: City | Country, other: City | Country) -> float:
    low, high = sorted((one.population, other.population))
    return high / low
