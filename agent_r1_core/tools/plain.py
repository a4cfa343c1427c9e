"""Makes plain data of what authors' functions return: exact builtins and our own data classes, nothing else (LAW 9).

Whatever reads the values later, such as JSON, metrics or templates, then runs no author's code. Making them plain does
(a `str`, the items of a mapping), so it belongs into the author's thread and time-out. Of a class derived from `str`,
`int`, `float`, `dict`, `list` or `tuple` the stored value counts, whatever the class overrides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from numbers import Integral, Real
from typing import Any

from agent_r1_core.contracts.context import SummaryRequest
from agent_r1_core.contracts.env import Observation, RequestOptions, Step
from agent_r1_core.contracts.markup import Markup
from agent_r1_core.trajectory import CallRecord

DEEPEST = 100
"""How many values may lie within one another."""
MOST_VALUES = 100_000
"""Values in all that one call returns."""
MOST_CHARACTERS = 100_000_000
"""Characters of all its texts."""
_QUICK = 2_000
"""Values that may be looked through on the event loop."""
_PRINTED_BITS = 14_000
"""Python prints integers of up to 4,300 digits."""
_EXACT = frozenset(map(id, (str, int, float, bool, type(None))))
"""Identities of classes: an author's class may have an equality and a hash of its own."""
_SHORT = 2**62
"""Integers below it fit a float."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]{6,16}>")
_OURS = frozenset(map(id, (Observation, RequestOptions, Step, CallRecord, SummaryRequest)))


class Unfit(Exception):
    """What an author's function returned breaks its contract; the text follows the function's name."""


def is_plain(value: Any) -> bool:
    """Whether making it plain runs nobody's code and takes no time; neither does this."""
    waiting, seen = [value], 0
    while waiting:
        one = waiting.pop()
        kind = type(one)
        seen += 1
        if id(kind) in _EXACT:
            continue
        inner: Any
        if kind is dict:
            inner = (*one, *one.values())
        elif kind is list or kind is tuple:
            inner = one
        elif kind is Markup:
            inner = (one.spans,)
        elif id(kind) in _OURS:
            inner = vars(one).values()
        else:
            return False
        if seen + len(waiting) + len(inner) > _QUICK:
            return False
        waiting.extend(inner)
    return True


def plain(value: Any) -> Any:
    """The value as exact builtins and `Markup`; what JSON lacks becomes its text.

    So does an integer that no float holds, since no file and no metric could hold it as a number.

    Raises:
        Unfit: there is too much of it, or a key of a dictionary is neither text nor a number.
        BaseException: whatever the author's code raises.
    """
    return Plain().copy(value)


class Plain:
    """Makes plain copies; all that one call returns shares the bounds.

    Args:
        addresses: whether an object may become a text that says where it lies in memory, which differs in each process.
    """

    def __init__(self, addresses: bool = True) -> None:
        self._values = self._characters = 0
        self._addresses = addresses

    def copy(self, value: Any, depth: int = 0) -> Any:
        """As `plain`."""
        self._values += 1
        if self._values > MOST_VALUES:
            raise Unfit(f"returned more than {MOST_VALUES:,} values; return less")
        if depth > DEEPEST:
            raise Unfit(f"returned more than {DEEPEST} values within one another; return less, and nothing in a circle")
        kind, inner = type(value), depth + 1
        if kind is bool or value is None or kind is float or (kind is int and -_SHORT < value < _SHORT):
            return value
        if issubclass(kind, str):
            return self._text(value)
        if issubclass(kind, Real):
            return self._number(value)
        if issubclass(kind, dict):
            return {self._key(key): self.copy(one, inner) for key, one in dict.items(value)}
        if issubclass(kind, list):
            return [self.copy(one, inner) for one in stored(value)]
        if issubclass(kind, tuple):
            return tuple([self.copy(one, inner) for one in stored(value)])
        if kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_"):
            return bool(value)
        if issubclass(kind, Mapping):
            return {self._key(key): self.copy(value[key], inner) for key in value}
        if kind is bytes:
            return self._text(value.decode("utf-8", "replace"))
        text = str(value)
        if not self._addresses and _ADDRESS.search(text):
            raise Unfit(f"returned a {kind.__name__:.40}, which is neither text nor anything that JSON has")
        return self._text(text)

    def _text(self, value: str) -> str:
        text = str.__str__(value)
        self._characters += len(text)
        if self._characters > MOST_CHARACTERS:
            raise Unfit(f"returned more than {MOST_CHARACTERS:,} characters; return less")
        return Markup(text, self._spans(value, len(text))) if isinstance(value, Markup) else text

    def _spans(self, value: Markup, length: int) -> Any:
        spans, last = self.copy(value.spans), 0
        for span in spans if type(spans) is tuple else (None,):
            pair = type(span) is tuple and [type(place) for place in span] == [int, int]
            if not pair or not last <= span[0] <= span[1] <= length:
                raise Unfit(f"returned Markup whose spans are {shown(spans)}; make it from its parts")
            last = span[1]
        return spans

    def _number(self, value: Any) -> int | float | str:
        if isinstance(value, float):
            return float.__float__(value)
        whole = int.__int__(value) if isinstance(value, int) else int(value) if isinstance(value, Integral) else None
        try:
            number = float(value if whole is None else whole)
        except OverflowError:
            bits = 0 if whole is None else whole.bit_length()
            return self._text(str(value) if bits < _PRINTED_BITS else f"an integer of {bits:,} bits")
        return number if whole is None else whole

    def _key(self, key: Any) -> Any:
        if type(key) is str or key is None or isinstance(key, str | Real):
            return self.copy(key)
        raise Unfit(f"returned a dictionary with the key {shown(self.copy(key))}; use text")


def number_of(value: Any) -> float | None:
    """Plain data as a float, if it is a number."""
    return float(value) if type(value) in (int, float, bool) else None


def stored(value: list[Any] | tuple[Any, ...]) -> Iterator[Any]:
    """What a list or tuple holds, whatever its class says."""
    return list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value)


def shown(value: Any) -> str:
    """Plain data as a sentence shows it, cut."""
    return f"{value!r:.80}"
