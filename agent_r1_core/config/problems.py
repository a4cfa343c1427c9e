"""Collects all problems of a configuration, so that a command reports them all at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from agent_r1_core.config.keys import Key, key_text, nearest
from agent_r1_core.contracts.component import RUN_NAME
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
    f"must match pattern '^{RUN_NAME}$'": "must consist of letters, digits, '.', '_', '+' and '-', the first of them a "
    "letter or digit",
}


MOST_PROBLEMS = 20
"""Problems that are described; with so many, others are not even looked for."""


class Problems:
    """Problems of one configuration; each is a sentence that starts with the key and the source of its value."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self._problems: dict[tuple[str, type[AgentR1Error]], None] = {}

    @property
    def full(self) -> bool:
        """Whether so many problems are known that looking for others would help nobody."""
        return len(self._problems) >= MOST_PROBLEMS

    def add(self, key: Key, text: str, kind: type[AgentR1Error] = ConfigError) -> None:
        """Note a problem at `key`."""
        if not self.full:
            self.add_text(f"{key_text(key)} ({self.draft.near(key).text}) {text}", kind)

    def add_text(self, text: str, kind: type[AgentR1Error] = ConfigError) -> None:
        """Note a problem whose text already names its place."""
        self._problems[text, kind] = None

    def add_validation(self, error: ValidationError, value: Any, at: Key, valid: Collection[str]) -> None:
        """Note every problem that pydantic found in the value at `at`."""
        sentences: dict[Key, list[str]] = {}
        for item in error.errors(include_url=False):
            place = _place(item["loc"], value, missing=item["type"] == "missing")
            key = (*at, *place)
            if key not in sentences and len(sentences) >= MOST_PROBLEMS:
                break
            texts = sentences.setdefault(key, [])
            text = self._sentence(item, key, valid)
            texts += [text] if text not in texts else []
        for key, texts in sentences.items():
            given = f", not {_short(_value_at(value, key[len(at) :]))}" if texts[0].startswith("must be") else ""
            self.add(key, " or ".join([texts[0], *(text.removeprefix("must be ") for text in texts[1:])]) + given)

    def raise_any(self) -> None:
        """Raise all problems, if there are any, one per line.

        Raises:
            ConfigError: a key or value is wrong; or the one PluginError type when only components are at fault.
        """
        if not self._problems:
            return
        kinds = {kind for _, kind in self._problems}
        kind = kinds.pop() if len(kinds) == 1 else ConfigError
        lines = [text for text, _ in self._problems]
        if self.full:
            lines.append(f"these are the first {MOST_PROBLEMS} problems; mend them to see whether there are more")
        raise kind("\n".join(lines))

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
    """Say that a key is unknown, which valid key is nearest, and which keys are allowed here."""
    text = key_text(key)
    parent, _, _ = text.rpartition(".")
    allowed = sorted(other.rpartition(".")[2] for other in valid if other.rpartition(".")[0] == parent)
    close = nearest(text, valid)
    hint = f" (did you mean {close}?)" if close else ""
    return f"is not a key{hint}; allowed here: {', '.join(allowed) or 'none'}"


def _place(loc: Iterable[str | int], value: Any, missing: bool) -> Key:
    """Pydantic's location without the names of union members, which are no part of the value."""
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
