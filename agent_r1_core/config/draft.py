"""A configuration under construction: defaults, then recipes, then overrides; every value knows its source.

One rule merges every layer. Sections and blocks merge key by key. Lists, plain values and mappings that are a block's
option are replaced; a step of an override changes one entry of such a mapping. Where a layer names the component of a
block anew, the options that all components of its kind share stay (`blocks.shared_options`), and those of the old
component alone are dropped; a shared option that the layer gives is replaced, also one with keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_r1_core.config.blocks import SETS, block_kind, holds_sets, shared_options, spelled_out
from agent_r1_core.plugins.validation import Key, key_text


@dataclass(frozen=True)
class Source:
    """Where a value came from."""

    text: str
    """`recipes/default.yaml, line 3`, `override 'training.lr=1e-6'` or `default`."""
    user: bool = True
    """Whether somebody wrote it; only such values are reported as idle (LAW 8)."""
    origin: str = ""
    """For a value from a run's record: its source when the run started."""
    folder: Path | None = None
    """From where relative paths count; None: the current folder."""
    override: bool = False
    """Whether the command line set it, rather than a file that serves several commands."""


DEFAULT = Source("default", user=False)


class At(dict[str, Any]):
    """One step into an existing value, `{"tools": At({"0": ...})}`; a plain dict is itself a value."""


class Whole(dict[str, Any]):
    """A complete block: it replaces one of the same component, and shared options that it gives are not merged."""


@dataclass(frozen=True)
class Dropped:
    """An option that went when its block's component was named anew."""

    component: str
    """The component that had it."""
    value: Any
    source: Source


class Draft:
    """A tree of plain values with the source of every leaf."""

    def __init__(self) -> None:
        self.tree: dict[str, Any] = {}
        self.sources: dict[Key, Source] = {}
        self.dropped: dict[Key, Dropped] = {}
        """Options that went because somebody, not a recipe of the package, named another component."""
        self._kept: dict[Key, tuple[str, Source]] = {}
        """Options that stayed although the component went for which they were written: its name, and their source."""

    def merge(self, layer: dict[str, Any], source: Source | Callable[[Key], Source]) -> list[str]:
        """Add a layer, given the source of all its values, or what says that of each; skips every step that leads
        nowhere and returns a sentence about it."""
        problems: list[str] = []
        source_of = (lambda _: source) if isinstance(source, Source) else source
        self.tree = self._merged(self.tree, layer, (), source_of, problems)
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
        own = self._is_of_one_source(base, layer, key)
        layer = layer if own else spelled_out(layer, key)
        if not (isinstance(base, dict) and isinstance(layer, dict)):
            return self._put(base, layer, key, source)
        anew = self._names_anew(base, layer, key)
        if anew:
            base = self._shared(base, key, source((*key, "name")))
        elif isinstance(layer, Whole) or self._is_option(key) or (not own and self._becomes_sets(base, layer, key)):
            return self._put(base, layer, key, source)
        self.sources.pop(key, None)
        merged = dict(base)
        for name, value in layer.items():
            at = (*key, name)
            if anew:
                merged[name] = self._put(base.get(name), spelled_out(value, at), at, source)
            else:
                merged[name] = self._merged(base.get(name), value, at, source, problems)
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
            if key in SETS and name != "name" and holds_sets(base) and isinstance(value, str):
                value = Whole({"name": value})
            if self._is_option(key):
                self.sources.pop(key, None)
                entry = self._merged((base or {}).get(name), value, (*key, name), source, problems)
                return {**(base or {}), name: entry}
            return self._merged(base or {}, {name: value}, key, source, problems)
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

    def kept_of(self, key: Key) -> str | None:
        """The component that went for which the option at `key` was written, if nobody has set it since; else None."""
        component, source = self._kept.get(key, (None, None))
        return component if source == self.source(key) else None

    def drop_kept(self, block: dict[str, Any], key: Key) -> None:
        """Drop an option that was kept out of its block, for a component that has a value of its own."""
        self._drop(block, key, self._kept[key][0], self.source((*key[:-1], "name")))

    def _shared(self, block: dict[str, Any], key: Key, named_by: Source) -> dict[str, Any]:
        """What stays of a block whose component is named anew."""
        left, shared = dict(block), shared_options(block_kind(key) or "")
        for option in [option for option in block if option != "name"]:
            at = (*key, option)
            if option not in shared:
                self._drop(left, at, block["name"], named_by)
            elif self.kept_of(at) is None:
                self._kept[at] = block["name"], self.source(at)
        return left

    def _drop(self, block: dict[str, Any], key: Key, component: str, named_by: Source) -> None:
        value = block.pop(str(key[-1]))
        if named_by.user:
            self.dropped[key] = Dropped(component, value, self.source(key))
        for other in [other for other in self.sources if other[: len(key)] == key]:
            del self.sources[other]

    @staticmethod
    def _names_anew(base: dict[str, Any], layer: dict[str, Any], key: Key) -> bool:
        """Whether a layer names another component for a block."""
        before, named = base.get("name"), layer.get("name")
        is_named = block_kind(key) is not None and "name" in layer and not isinstance(named, At)
        return is_named and isinstance(before, str) and named != before

    def _is_option(self, key: Key) -> bool:
        """Whether `key` leads to what a block has: one of its options, or a part of one."""
        one_source = key[:2] in SETS and not holds_sets(self.tree["tasks"][key[1]])
        lengths = [length for length in range(1, len(key) + 1) if block_kind(key[:length]) is not None]
        return max((length for length in lengths if not (one_source and length == 3)), default=len(key)) < len(key)

    @staticmethod
    def _is_of_one_source(base: Any, layer: Any, key: Key) -> bool:
        """Whether a layer goes on with the one source that is there: it names no other and no sets."""
        return (
            key in SETS
            and isinstance(base, dict)
            and isinstance(base.get("name"), str)
            and isinstance(layer, dict)
            and not any(isinstance(entry, dict) and "name" in entry for entry in layer.values())
        )

    @staticmethod
    def _becomes_sets(base: dict[str, Any], layer: dict[str, Any], key: Key) -> bool:
        """Whether one source and several by name replace each other."""
        return key in SETS and (("name" in base and holds_sets(layer)) or ("name" in layer and holds_sets(base)))


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
