"""EpisodeRecord: what scores need of an episode, small enough to keep; every score is computed from records alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from pydantic import TypeAdapter

from agent_r1_core.contracts.markup import encodable
from agent_r1_core.trajectory import CallRecord, EndStatus, Message, Task, Trajectory, Turn, question

LONGEST_FAILURE = 160
"""Characters of a failed call's text that a record keeps."""
LONGEST_QUESTION = 2000
"""Characters of a question that a record keeps; it is there for people, and to tell questions apart."""


@dataclass(frozen=True)
class EpisodeRecord:
    """An episode without its ids and texts."""

    task: str
    """The task's id."""
    sample: int
    question: str
    """The task's prompt, or its last user message, as the task source gave it; a longer one is cut."""
    answers: tuple[str, ...]
    """The accepted ones; empty where the environment alone decides."""
    prediction: str | None
    """The final answer; None: the episode gave none."""
    status: Literal["terminated", "truncated", "failed"]
    reason: str
    success: bool | None
    total: float
    """The return."""
    rewards: dict[str, float]
    """Each outcome reward, unweighted."""
    process_rewards: dict[str, float]
    """Each process reward, unweighted, summed over the turns; only those that a turn got."""
    turns: int
    tool_calls: int
    tokens: int
    action_tokens: int
    supporting: tuple[str, ...] = ()
    """The titles of the passages that the answer needs; empty where the task names none."""
    shown: tuple[str, ...] = ()
    """Those of them that the prompt or the environment showed."""
    hops: int | None = None
    kind: str | None = None
    source: str | None = None
    """Metadata of the task: passages to combine, question type, name of the source among several."""
    set: str = ""
    """The evaluation set; empty if there is one without a name."""
    tool_errors: int = 0
    """Tool calls that were answered with an error."""
    tool_failures: dict[str, int] = field(default_factory=dict)
    """How many of them have the same tool and text, as `tool: text`, in which `#` stands for each number."""
    scores: dict[str, float] = field(default_factory=dict)
    """Those of the recipe's `scores` that the episode has."""

    @property
    def failed(self) -> bool:
        """Whether infrastructure broke the episode: it is counted, and not scored (LAW 5)."""
        return self.status == EndStatus.FAILED

    @classmethod
    def of(
        cls,
        trajectory: Trajectory,
        asked: Task | None = None,
        set_name: str = "",
        scores: Mapping[str, float] | None = None,
    ) -> EpisodeRecord:
        """The record of an episode.

        Args:
            trajectory: a complete episode.
            asked: the task as its source gave it; None: the episode's own, whose prompt a baseline may have changed.
            set_name: the evaluation set.
            scores: those of the recipe's `scores` that the episode has.
        """
        task, turns, metadata = trajectory.task, trajectory.steps, trajectory.task.metadata
        process: dict[str, float] = {}
        for turn in trajectory.turns:
            for name, value in turn.rewards.items():
                process[name] = process.get(name, 0.0) + value
        hops = metadata.get("hops")
        failures = [_failure(call) for turn in turns for call in turn.calls if call.error is not None]
        return cls(
            task=encodable(task.id),
            sample=trajectory.sample,
            question=encodable(question((asked or task).prompt)[:LONGEST_QUESTION]),
            answers=tuple(map(encodable, task.answers)),
            prediction=None if trajectory.answer is None else encodable(trajectory.answer),
            status=trajectory.status.value,
            reason=encodable(trajectory.reason),
            success=trajectory.success,
            total=float(trajectory.total_reward),
            rewards={name: float(value) for name, value in trajectory.rewards.items()},
            process_rewards={name: float(value) for name, value in process.items()},
            turns=len(turns),
            tool_calls=sum(len(turn.calls) for turn in turns),
            tokens=trajectory.tokens,
            action_tokens=trajectory.action_tokens,
            supporting=tuple(map(encodable, supporting_titles(task))),
            shown=tuple(map(encodable, shown_titles(trajectory))),
            hops=hops if isinstance(hops, int) else None,
            kind=_text(metadata.get("kind")),
            source=_text(metadata.get("source")),
            set=set_name,
            tool_errors=len(failures),
            tool_failures=dict(Counter(failures)),
            scores=dict(scores or {}),
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> EpisodeRecord:
        """What `to_json` wrote; raises ValueError if it is malformed."""
        return _ADAPTER.validate_python(data)


_ADAPTER = TypeAdapter(EpisodeRecord)


def _failure(call: CallRecord) -> str:
    """A failed call's tool and text on one line; those that differ in numbers alone, such as ids, have one text."""
    text = re.sub(r"\d+", "#", " ".join(f"{call.name}: {call.error}".split()))[:LONGEST_FAILURE]
    return encodable("".join(character if character.isprintable() else "?" for character in text))


def _text(value: Any) -> str | None:
    return encodable(str(value)) if isinstance(value, str | int) and value != "" else None


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
    following = [other.observation for other in trajectory.turns if other.index == turn.index + 1]
    return _lines(following[0] if following else trajectory.closing) - _written(turn) - seen


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
    elif isinstance(value, dict | list):
        for inner in (*value, *value.values()) if isinstance(value, dict) else value:
            yield from _texts(inner)
