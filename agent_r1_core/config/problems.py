"""Collects all problems of a configuration, so that a command reports them all at once."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from agent_r1_core.contracts.component import RUN_NAME
from agent_r1_core.errors import AgentR1Error, ConfigError
from agent_r1_core.nearest import nearest_key
from agent_r1_core.plugins.validation import Key, WrongValue, key_text, short, wrong_values

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
        found: dict[Key, list[WrongValue]] = {}
        for wrong in wrong_values(error, value):
            key = (*at, *wrong.key)
            if key not in found and len(found) >= MOST_PROBLEMS:
                break
            found.setdefault(key, []).append(wrong)
        for key, several in found.items():
            first, *others = dict.fromkeys(_sentence(wrong, key, valid) for wrong in several)
            given = f", not {short(several[0].given)}" if first.startswith("must be") else ""
            self.add(key, " or ".join([first, *(text.removeprefix("must be ") for text in others)]) + given)

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


def unknown_key(key: Key, valid: Collection[str]) -> str:
    """Say that a key is unknown, which valid key is nearest, and which keys are allowed here."""
    text = key_text(key)
    parent, _, _ = text.rpartition(".")
    allowed = sorted(other.rpartition(".")[2] for other in valid if other.rpartition(".")[0] == parent)
    close = nearest_key(text, valid)
    hint = f" (did you mean {close}?)" if close else ""
    return f"is not a key{hint}; allowed here: {', '.join(allowed) or 'none'}"


def _sentence(wrong: WrongValue, key: Key, valid: Collection[str]) -> str:
    if wrong.type == "extra_forbidden":
        return unknown_key(key, valid)
    if wrong.type == "missing":
        return "is missing; add it"
    text = wrong.text
    for pydantic, plain in _PLAIN.items():
        text = text.replace(pydantic, plain, 1)
    return text
