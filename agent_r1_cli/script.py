"""Where the actions of `agent-r1 play` come from: the keyboard, or a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent_r1_core.errors import ConfigError


def from_keyboard() -> Iterator[str]:
    """One line each, to the end of the input; empty lines are passed over."""
    prompt = "action> " if sys.stdin.isatty() else ""
    while True:
        try:
            line = input(prompt)
        except EOFError:
            return
        if line.strip():
            yield line


def from_script(actions: Sequence[str], name: str) -> Iterator[str]:
    """The actions in their order.

    Raises:
        ConfigError: the episode goes on after the last one.
    """
    yield from actions
    raise ConfigError(f"{name} holds too few actions ({len(actions)}): the episode goes on; add one, or /quit")


def read_script(path: Path) -> list[str]:
    """The actions of a script: a YAML list of texts (.yaml, .yml), else one a line without the empty ones.

    Raises:
        ConfigError: the file is missing, is not text, or holds no action.
    """
    from agent_r1_core.config.yaml_text import parse

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the script {path} cannot be read ({error}); give a UTF-8 text file") from None
    actions = parse(text, str(path)).value if path.suffix in (".yaml", ".yml") else text.splitlines()
    if not isinstance(actions, list) or not all(isinstance(action, str) for action in actions):
        raise ConfigError(
            f"the script {path} must be a YAML list of texts, one for each action; quote those that are not"
        )
    actions = [action for action in actions if action.strip()]
    if not actions:
        raise ConfigError(f"the script {path} holds no action; write one a line")
    return actions
