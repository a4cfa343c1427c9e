"""Secrets: values of environment variables that a recipe names as `${NAME}`, so that no record of a run holds them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from agent_r1_core.errors import ConfigError

_NAMED = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET = re.compile(r"authorization|cookie|token|secret|password|api-?_?key", re.IGNORECASE)
_SHORTEST = 4
"""Characters of a value that is hidden; shorter ones turn up by chance."""


def variables(texts: Iterable[str]) -> list[str]:
    """The environment variables that texts name, sorted."""
    return sorted({name for text in texts for name in _NAMED.findall(text)})


def check_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    """The headers of a recipe.

    Raises:
        ValueError: one that carries a secret names no environment variable.
    """
    for name, value in headers.items():
        if _SECRET.search(name) and not _NAMED.search(value):
            raise ValueError(f"the header {name} shows its secret in the recipe; name a variable, such as ${{API_KEY}}")
    return headers


class Secrets:
    """The values of some environment variables."""

    def __init__(self, names: Iterable[str]) -> None:
        """Read them; a ConfigError where one is not set, or empty."""
        self.values = {name: os.environ.get(name, "") for name in names}
        missing = sorted(name for name, value in self.values.items() if not value)
        if missing:
            raise ConfigError(
                f"the environment variable {missing[0]}, which the recipe names, is not set or empty; set it"
            )

    def fill(self, text: str) -> str:
        """The text with values in place of `${NAME}`."""
        return _NAMED.sub(lambda found: self.values[found[1]], text)

    def hide(self, text: str) -> str:
        """The text with names in place of values."""
        for name, value in self.values.items():
            text = text.replace(value, f"${{{name}}}") if len(value) >= _SHORTEST else text
        return text
