"""Reads the actions of `agent-r1 play` from the keyboard or a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent_r1_core.errors import ConfigError
from agent_r1_core.opening import read_text


def from_keyboard() -> Iterator[str]:
    """One action per line until the end of the input; empty lines are skipped.

    Raises:
        ConfigError: a line is not text.
    """
    prompt = "action> " if sys.stdin.isatty() else ""
    while True:
        try:
            line = input(prompt)
        except EOFError:
            return
        except UnicodeDecodeError as error:
            raise ConfigError(f"the input is no text ({error}); write UTF-8") from None
        if line.strip():
            yield line


def from_script(actions: Sequence[str], name: str) -> Iterator[str]:
    """The actions in their order.

    Raises:
        ConfigError: the episode is not over after the last one.
    """
    yield from actions
    raise ConfigError(f"{name} has too few actions ({len(actions)}): the episode is not over; add one, or /quit")


def read_script(path: Path) -> list[str]:
    """The actions of a script: a YAML list of texts (.yaml, .yml), else one per non-empty line.

    Raises:
        ConfigError: the file is missing, is not text, or has no actions.
    """
    from agent_r1_core.config.yaml_text import parse

    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the script {path} cannot be read ({error}); give a UTF-8 text file") from None
    actions = parse(text, str(path)).value if path.suffix in (".yaml", ".yml") else text.splitlines()
    if not isinstance(actions, list) or not all(isinstance(action, str) for action in actions):
        raise ConfigError(f"the script {path} must be a YAML list of texts, one per action; quote other values")
    actions = [action for action in actions if action.strip()]
    if not actions:
        raise ConfigError(f"the script {path} has no actions; write one per line")
    return actions
