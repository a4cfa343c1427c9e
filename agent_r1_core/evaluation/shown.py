"""What an episode showed its policy: the lines of its prompt and of the environment, without the policy's own words.

A title counts where it stands on a line of its own, as the headings of search results do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from agent_r1_core.trajectory import Message, Task, Trajectory, Turn

_TAG = re.compile(r"^<[a-z_]+>")
"""Of a tool format, before the first line of a result."""


def supporting_titles(task: Task) -> list[str]:
    """The titles of the passages that the answer needs, each once: the task's metadata `path`; empty without one."""
    path = task.metadata.get("path")
    return list(dict.fromkeys(map(str, path))) if isinstance(path, list | tuple) else []


def shown_titles(trajectory: Trajectory) -> list[str]:
    """The supporting titles that the prompt or the environment showed, in the order of the task's metadata."""
    titles, turns = supporting_titles(trajectory.task), trajectory.turns
    if not titles:
        return []
    shown = _lines(turns[0].observation) if turns else set()
    for turn in turns:
        shown |= new_lines(turn, trajectory)
    return [title for title in titles if title in shown]


def new_lines(turn: Turn, trajectory: Trajectory) -> set[str]:
    """The lines that followed a turn's action and that no earlier turn's action was answered with.

    It reads what followed, so it sees results that end an episode, too. What the policy may itself have written into
    them (a call's text with several lines, a summary that became its context) is left out, and counts as seen
    afterwards.
    """
    earlier = [other.observation for other in trajectory.turns if 0 < other.index <= turn.index]
    seen = {line for messages in earlier for line in _lines(messages)}
    return _lines(_after(turn, trajectory)) - _written(turn) - seen


def _after(turn: Turn, trajectory: Trajectory) -> list[Message]:
    """What followed a turn's action."""
    following = [other.observation for other in trajectory.turns if other.index == turn.index + 1]
    return following[0] if following else trajectory.closing


def _lines(messages: Iterable[Message]) -> set[str]:
    """The lines of what the environment said: a new context may also repeat the policy's own words."""
    said = [message["content"] for message in messages if message["role"] != "assistant"]
    return {_TAG.sub("", line).strip() for text in said for line in text.splitlines()}


def _written(turn: Turn) -> set[str]:
    """Lines of the policy's own texts of several lines, and of what the environment said about its errors."""
    own = [turn.text] if turn.purpose == "summary" else []
    texts = [*turn.errors, *(text for call in turn.calls for text in (call.name, *_texts(call.arguments)))]
    several = [text for text in texts if len(text.splitlines()) > 1]
    return {line.strip() for text in own + several for line in text.splitlines()}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _texts_of((*value.keys(), *value.values()))
    elif isinstance(value, list):
        yield from _texts_of(value)


def _texts_of(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        yield from _texts(value)
