"""The process reward `supporting_titles`: did a turn's results show a passage that the answer needs?

It reads what followed the turn's action, so it sees results that end an episode, too. A title counts where it stands on
a line of its own, as the headings of `wiki_search` do; each pays once in an episode, so repeating a search earns
nothing. What the policy may itself have written into the results (a call's text with several lines) pays nothing, and
a title that it put there is taken as seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from agent_r1_core import Message, RewardFn, Task, Trajectory, Turn

_TAG = re.compile(r"^<[a-z_]+>")
"""Of a tool format, before the first line of a result."""


class SupportingTitles(RewardFn):
    """Share of the task's supporting passages that the turn's results show for the first time in the episode."""

    scope = "turn"
    cap = 1.0

    def score_turn(self, turn: Turn, trajectory: Trajectory) -> float:
        """Between 0 and 1.

        Raises:
            ValueError: the task's metadata names no supporting passages.
        """
        titles = _titles(trajectory.task)
        earlier = [other.observation for other in trajectory.turns if 0 < other.index <= turn.index]
        seen = {line for messages in earlier for line in _lines(messages)}
        return len(titles & _lines(_after(turn, trajectory)) - _written(turn) - seen) / len(titles)


def _titles(task: Task) -> set[str]:
    path = task.metadata.get("path")
    if not isinstance(path, list | tuple) or not path:
        raise ValueError(
            f"task {task.id} names no supporting passages in metadata['path']; use tasks that do, such as those of "
            f"miniwiki or hotpotqa, or another reward"
        )
    return {str(title) for title in path}


def _after(turn: Turn, trajectory: Trajectory) -> list[Message]:
    """What followed a turn's action."""
    following = [other.observation for other in trajectory.turns if other.index == turn.index + 1]
    return following[0] if following else trajectory.closing


def _lines(messages: list[Message]) -> set[str]:
    """The lines of what the environment said: a new context may also repeat the policy's own words."""
    said = [message["content"] for message in messages if message["role"] != "assistant"]
    return {_TAG.sub("", line).strip() for text in said for line in text.splitlines()}


def _written(turn: Turn) -> set[str]:
    """Lines of the policy's own texts of several lines, and of what the environment said about its errors."""
    texts = [*turn.errors, *(text for call in turn.calls for text in (call.name, *_texts(call.arguments)))]
    return {line.strip() for text in texts if len(text.splitlines()) > 1 for line in text.splitlines()}


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
