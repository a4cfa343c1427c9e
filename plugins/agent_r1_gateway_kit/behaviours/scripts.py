"""Actions of scripted policies. A text begins with a word of its own, so that a reply shows which action it is."""

from __future__ import annotations

from typing import Any

import pytest

CHAT, MESSAGES, RESPONSES = (
    pytest.mark.parametrize("api", [name], indirect=True) for name in ("chat", "messages", "responses")
)
"""For what only one API has."""


def say(text: str, **more: Any) -> dict[str, Any]:
    """A text; `to`: only in answer to a prompt that holds this; `held`: not before the program releases it; `think`:
    what is thought before."""
    return {"say": text, **more}


def call(name: str, text: str = "", **arguments: Any) -> dict[str, Any]:
    """A tool call, with a text before it."""
    return {"say": text, "calls": [{"name": name, "arguments": arguments}]}


def calls(*several: dict[str, Any]) -> dict[str, Any]:
    """Parallel calls."""
    return {"say": "", "calls": [one for action in several for one in action["calls"]]}
