"""Names and numbers: which a text has, and which of them lines do not hold.

A name is a run of words with capital initials that spaces, hyphens, or the points of initials and titles join; a
possessive ends it. Where a sentence begins, common English words are no part of a name, and neither are titles
(`Dr`, `actress`) nor initials beside other words. A line holds a name if it has all of its words, in any order, and a
number if it has it. The nationality and the name of 30 countries are the same. Numbers that count lines (`1.`) or
steps (`step 1`) are none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from agent_r1_rewards.words import ARTICLES, COMMON, Words, normal, tokens_of

_TITLES = frozenset(
    {*("mr", "mrs", "ms", "dr", "prof", "sir"), *("captain", "president", "actor", "actress", "director")}
)
_POINTED = frozenset({"mr", "mrs", "ms", "dr", "prof", "st", "jr", "sr", "vs"})
_COUNTRIES = """
america american americans us usa, britain british uk, england english, scotland scottish, wales welsh, ireland irish,
france french, germany german germans, austria austrian, switzerland swiss, italy italian, spain spanish,
portugal portuguese, netherlands dutch, belgium belgian, denmark danish, norway norwegian, sweden swedish,
finland finnish, poland polish, russia russian, greece greek, turkey turkish, india indian, china chinese,
japan japanese, canada canadian, mexico mexican, brazil brazilian, australia australian
"""
_COUNTRY = {name: line.split()[0] for line in _COUNTRIES.split(",") for name in line.split()}


def names_of(text: str) -> list[Words]:
    """The names and numbers of a text, each once, in order."""
    found: dict[Words, None] = {}
    run: list[str] = []

    def close() -> None:
        if run:
            found[_bare(run)] = None
            run.clear()

    begins, tokens = True, list(tokens_of(text))
    for place, token in enumerate(tokens):
        word, before = normal(token), tokens[place - 1][0].casefold() if place else "\n"
        common = begins and (word in COMMON or word.isdigit())
        if token["word"] and token[0][0].isupper() and not common and not _is_filler(token[0]):
            run.append(word)
            begins = False
            if token[0].endswith(("'s", "’s")):
                close()
            continue
        if run and (token[0] == "-" or (token[0] == "." and (len(before) == 1 or before in _POINTED))):
            continue
        close()
        after = tokens[place + 1][0] if place + 1 < len(tokens) else ""
        counts = before == "step" or (before == "\n" and len(word) < 3 and after in (".", ")"))
        if token["number"] and not counts:
            found[(word,)] = None
        begins = token[0] in ".!?:;\n" or (begins and bool(token["other"]))
    close()
    return list(found)


def unread(names: Iterable[Words], lines: Iterable[Words]) -> list[Words]:
    """The names and numbers that no line holds."""
    read = [frozenset(_COUNTRY.get(word, word) for word in line) for line in lines]
    return [
        name for name in names if not any(line.issuperset(_COUNTRY.get(word, word) for word in name) for line in read)
    ]


def _bare(run: list[str]) -> Words:
    """A name without titles and initials, where something is left."""
    named = tuple(word for word in run if word not in _TITLES and len(word) > 1)
    return named or tuple(run)


def _is_filler(word: str) -> bool:
    """Whether its capital letter says nothing: an article in a title, and `I`."""
    return word.casefold() in ARTICLES or re.split("['’]", word)[0] == "I"
