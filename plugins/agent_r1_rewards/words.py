"""Words and numbers of texts, and the lines that a policy has read: how `grounded` and its neighbours compare texts.

Two words are the same after NFKC, without case, accents, apostrophes and a possessive 's. Articles are no words.
English numbers from one to twelve, once, twice, II, III and IV are digits; `1,000` is 1000, `2.50` is 2.5, and `1980s`
is 1980 and s. All other characters separate words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from agent_r1_core import Turn

Words = tuple[str, ...]
_TOKEN = re.compile(
    r"(?P<number>[0-9]+(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?)"
    r"|(?P<word>[^\W\d_][^\W_]*(?:['’][^\W_]+)*)|(?P<other>[^ \t\r\f\v])"
)
ARTICLES = frozenset({"a", "an", "the"})
_NUMBERS = "one two three four five six seven eight nine ten eleven twelve"
_DIGITS = {word: str(number) for number, word in enumerate(_NUMBERS.split(), start=1)}
_DIGITS |= {"once": "1", "twice": "2", "ii": "2", "iii": "3", "iv": "4"}
_LETTERS = str.maketrans({"ø": "o", "æ": "ae", "œ": "oe", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i"})
_COMMON = """
a about after all also although among an and another any are as assuming at based be because been before being both
but by can checking comparing considering could did do does each either every finally find finding first for from
given had has have he hence her here his how however i if in instead is it its last let likely looking maybe me most
my need neither next no none nor not nothing now of on once one only or other otherwise our perhaps possibly
probably reading results search searching second she should since so some still such that the their them then there
therefore these they this those though thus to unfortunately unknown until was we were what when where whereas
which while who whose why will with would yes yet you your according step answer question okay ok hmm wait
"""
COMMON = frozenset(_COMMON.split())
"""Words that begin a sentence without being a name."""


def tokens_of(text: str) -> Iterator[re.Match[str]]:
    """Numbers, words, and single other characters, line breaks among them."""
    return _TOKEN.finditer(unicodedata.normalize("NFKC", text))


def normal(token: re.Match[str]) -> str:
    """The form in which a word or number is compared; other characters stay as they are."""
    text = token[0]
    if token["number"]:
        whole, _, part = text.replace(",", "").partition(".")
        part = part.rstrip("0")
        return (whole.lstrip("0") or "0") + ("." + part if part else "")
    if token["word"]:
        bare = "".join(one for one in unicodedata.normalize("NFKD", text) if not unicodedata.combining(one))
        bare = re.sub(r"['’]s$", "", bare.casefold().translate(_LETTERS)).replace("'", "").replace("’", "")
        return _DIGITS.get(bare, bare)
    return text


@lru_cache(maxsize=1024)
def lines_of(text: str) -> tuple[Words, ...]:
    """The words and numbers of each line, without articles."""
    lines: list[list[str]] = [[]]
    for token in tokens_of(text):
        if token[0] == "\n":
            lines.append([])
        elif not token["other"] and (word := normal(token)) not in ARTICLES:
            lines[-1].append(word)
    return tuple(tuple(line) for line in lines if line)


def words_of(text: str) -> Words:
    """All words and numbers of a text, without articles."""
    return tuple(word for line in lines_of(text) for word in line)


def lines_read(turns: Sequence[Turn]) -> list[Words]:
    """The lines that a policy has read before the last of these turns' actions: the prompt and every observation.

    A word that the policy itself wrote into its last call, and had not read, is left blank in what answers that call:
    results and errors repeat queries. After a new context so are the words of all of its calls and summaries.
    """
    lines: list[Words] = []
    known: set[str] = set(COMMON)
    for place, turn in enumerate(turns):
        answered = turns[:place] if turn.new_context else turns[max(0, place - 1) : place]
        own = {word for one in answered for text in _written(one) for word in words_of(text)} - known
        said = [one.get("content") or "" for one in turn.observation if one.get("role") != "assistant"]
        for line in (line for text in said for line in lines_of(str(text))):
            lines.append(tuple("" if word in own else word for word in line))
            known.update(lines[-1])
    return lines


def _written(turn: Turn) -> Iterator[str]:
    """What the policy may see again in an observation: its calls, errors about them, or, without a call, its action."""
    if not turn.calls or turn.purpose == "summary":
        yield turn.text
    yield from turn.errors
    for call in turn.calls:
        yield call.name
        yield from leaves(call.arguments)


def leaves(value: Any) -> Iterator[str]:
    """The keys and values of JSON as texts."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from leaves(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from leaves(inner)
    else:
        yield str(value)
