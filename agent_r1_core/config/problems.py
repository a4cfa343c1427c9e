"""Collects everything that is wrong with a configuration, so that one run of the command names it all."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from agent_r1_core.config.keys import Key, key_text, nearest
from agent_r1_core.errors import AgentR1Error, ConfigError

if TYPE_CHECKING:
    from pydantic import ValidationError

    from agent_r1_core.config.draft import Draft

_PLAIN = {
    "Input should be an object": "must be keys with values",
    "Input should be a valid dictionary": "must be keys with values",
    "Input should be a valid array": "must be a list",
    "Input should be ": "must be ",
    "String should ": "must ",
    "Tuple should have": "must have",
    "List should have": "must have",
    " after validation": "",
    r"must match pattern '^[\w.+-]+$'": "must consist of letters, digits, '.', '_', '+' and '-'",
}


class Problems:
    """Problems of one configuration; each is one sentence that opens with the key and the source of its value."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self._found: list[tuple[str, type[AgentR1Error]]] = []

    def add(self, key: Key, text: str, kind: type[AgentR1Error] = ConfigError) -> None:
        """Note a problem at `key`."""
        self.add_text(f"{key_text(key)} ({self.draft.near(key).text}) {text}", kind)

    def add_text(self, text: str, kind: type[AgentR1Error] = ConfigError) -> None:
        """Note a problem that already says where it is."""
        if (text, kind) not in self._found:
            self._found.append((text, kind))

    def add_validation(self, error: ValidationError, value: Any, at: Key, valid: Collection[str]) -> None:
        """Note everything that pydantic found in `value`, which stands at `at`."""
        found: dict[Key, list[str]] = {}
        for item in error.errors(include_url=False):
            place = _place(item["loc"], value, missing=item["type"] == "missing")
            key = (*at, *place)
            texts = found.setdefault(key, [])
            text = self._sentence(item, key, valid)
            texts += [text] if text not in texts else []
        for key, texts in found.items():
            given = f", not {_short(_value_at(value, key[len(at) :]))}" if texts[0].startswith("must be") else ""
            self.add(key, " or ".join([texts[0], *(text.removeprefix("must be ") for text in texts[1:])]) + given)

    def raise_any(self) -> None:
        """Raise what was found, if anything, one line each.

        Raises:
            ConfigError: a key or value is wrong; or the one PluginError type when only components are at fault.
        """
        if not self._found:
            return
        kinds = {kind for _, kind in self._found}
        kind = kinds.pop() if len(kinds) == 1 else ConfigError
        raise kind("\n".join(text for text, _ in self._found))

    def _sentence(self, item: Any, key: Key, valid: Collection[str]) -> str:
        if item["type"] == "extra_forbidden":
            return unknown_key(key, valid)
        if item["type"] == "missing":
            return "is missing; add it"
        text = str(item["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
        for pydantic, plain in _PLAIN.items():
            text = text.replace(pydantic, plain, 1)
        return text


def unknown_key(key: Key, valid: Collection[str]) -> str:
    """Say that a key is unknown, which valid one is nearest, and what stands beside it."""
    text = key_text(key)
    parent, _, _ = text.rpartition(".")
    beside = sorted(other.rpartition(".")[2] for other in valid if other.rpartition(".")[0] == parent)
    close = nearest(text, valid)
    hint = f" (did you mean {close}?)" if close else ""
    return f"is no key{hint}; allowed here: {', '.join(beside) or 'none'}"


def _place(loc: Iterable[str | int], value: Any, missing: bool) -> Key:
    """The part of pydantic's location that is a way through the value: it also names the members of unions."""
    parts = list(loc)
    last = parts.pop() if missing else None
    place: list[str | int] = []
    for part in parts:
        if (isinstance(value, dict) and part in value) or (isinstance(value, list) and isinstance(part, int)):
            value = value[part]  # type: ignore[index]
            place.append(part)
    return (*place, last) if last is not None else tuple(place)


def _value_at(value: Any, key: Key) -> Any:
    for part in key:
        value = value[part]
    return value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
