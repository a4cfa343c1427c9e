"""A configuration under construction: defaults, then recipes, then overrides; every value knows its source.

One rule merges every layer. Sections merge key by key. Lists and plain values are replaced. A component block with a
new name is replaced as a whole, so that no option of the old component survives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from agent_r1_core.config.blocks import SETS, block_kind, holds_sets, spelled_out
from agent_r1_core.config.keys import Key, key_text


@dataclass(frozen=True)
class Source:
    """Where a value came from."""

    text: str
    """`recipes/default.yaml, line 3`, `override 'training.lr=1e-6'` or `default`."""
    user: bool = True
    """Whether somebody wrote it; only such values are reported as idle (LAW 8)."""
    origin: str = ""
    """For a value from a run's record: its source when the run started."""
    override: bool = False
    """Whether the command line set it, rather than a file that serves several commands."""


DEFAULT = Source("default", user=False)


class At(dict[str, Any]):
    """One step into an existing value, `{"tools": At({"0": ...})}`; a plain dict is itself a value."""


class Whole(dict[str, Any]):
    """A block that replaces whatever was there, even a block with the same name."""


class Draft:
    """A tree of plain values with the source of every leaf."""

    def __init__(self) -> None:
        self.tree: dict[str, Any] = {}
        self.sources: dict[Key, Source] = {}
        self.dropped: dict[Key, Source] = {}
        """Options that somebody wrote for a component that a later layer replaced."""

    def merge(self, layer: dict[str, Any], source: Callable[[Key], Source]) -> list[str]:
        """Add a layer; skips every step that leads nowhere and returns a sentence about it."""
        problems: list[str] = []
        self.tree = self._merged(self.tree, layer, (), source, problems)
        return problems

    def source(self, key: Key) -> Source:
        """The source of the value at `key`: its own, else that of its container or of its content."""
        for length in range(len(key), 0, -1):
            if key[:length] in self.sources:
                return self.sources[key[:length]]
        return next((source for other, source in self.sources.items() if other[: len(key)] == key), DEFAULT)

    def near(self, key: Key) -> Source:
        """The source of `key`; if nobody set it, the source of the section that lacks it."""
        if key in self.sources:
            return self.sources[key]
        sources = (self.source(key[:length]) for length in range(len(key), 0, -1))
        return next((source for source in sources if source.user), DEFAULT)

    def _merged(self, base: Any, layer: Any, key: Key, source: Callable[[Key], Source], problems: list[str]) -> Any:
        if isinstance(layer, At):
            return self._stepped(base, layer, key, source, problems)
        layer = spelled_out(layer, key)
        merges = isinstance(base, dict) and isinstance(layer, dict) and not isinstance(layer, Whole)
        if not merges or self._replaces(base, layer, key):
            self._drop(base, layer, key)
            return self._put(base, layer, key, source)
        self.sources.pop(key, None)
        merged = dict(base)
        for name, value in layer.items():
            merged[name] = self._merged(base.get(name), value, (*key, name), source, problems)
        return merged

    def _stepped(self, base: Any, step: At, key: Key, source: Callable[[Key], Source], problems: list[str]) -> Any:
        """Follow one step of an override into a section or a list."""
        (name, value), *_ = step.items()
        if isinstance(base, list):
            if not name.isdigit() or int(name) >= len(base):
                entries = "no entries" if not base else f"the entries 0 to {len(base) - 1}"
                problems.append(f"{key_text(key)} has {entries}; name one of them, or give the whole list")
                return base
            index = int(name)
            entry = self._merged(base[index], value, (*key, index), source, problems)
            return [*base[:index], entry, *base[index + 1 :]]
        if isinstance(base, dict) or base is None:
            base = base or {}
            if self._replaces(base, {name: value}, key):
                self._drop(base, {name: value}, key)
                return self._put(base, {name: value}, key, source)
            if key in SETS and holds_sets(base) and isinstance(value, str):
                value = Whole({"name": value})
            self.sources.pop(key, None)
            return {**base, name: self._merged(base.get(name), value, (*key, name), source, problems)}
        problems.append(f"{key_text(key)} is the value {base!r} and has no key {name!r}; set {key_text(key)} itself")
        return base

    def _put(self, base: Any, value: Any, key: Key, source: Callable[[Key], Source]) -> Any:
        """Record the sources of a value that replaces `base` at `key`; returns the value."""
        below = list(self.sources) if isinstance(base, dict | list) else [key]
        for other in below:
            if other[: len(key)] == key:
                self.sources.pop(other, None)
        self.sources.update((leaf, source(leaf)) for leaf in leaves(value, key))
        return value

    def _drop(self, base: Any, layer: Any, key: Key) -> None:
        """Remember what somebody wrote for the component at `key` if a layer names another one."""
        if block_kind(key) is None or not (isinstance(base, dict) and isinstance(layer, dict)):
            return
        if base.get("name") != layer.get("name"):
            options = [other for other in self.sources if other[: len(key)] == key and other != (*key, "name")]
            self.dropped |= {other: self.sources[other] for other in options if self.sources[other].user}

    @staticmethod
    def _replaces(base: dict[str, Any], layer: dict[str, Any], key: Key) -> bool:
        """Whether a layer names another component than the block does, or named sources instead of a block."""
        if block_kind(key) is None:
            return False
        renamed = "name" in layer and layer["name"] != base.get("name")
        return renamed or (key in SETS and "name" in base and holds_sets(layer))


def leaves(value: Any, key: Key) -> Iterator[Key]:
    """The keys of all plain values and empty containers in the value at `key`."""
    if isinstance(value, dict) and value:
        for name, child in value.items():
            yield from leaves(child, (*key, name))
    elif isinstance(value, list) and value:
        for index, child in enumerate(value):
            yield from leaves(child, (*key, index))
    else:
        yield key
