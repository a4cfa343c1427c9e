"""What the API says about one episode: its conversation, and its tokens with all that is known of each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from agent_r1_core.errors import RunError
from agent_r1_core.trajectory import Message, Segment, Task, Trajectory, Turn
from agent_r1_viewer.reading.episode import Episode
from agent_r1_viewer.reading.token_texts import TokenTexts

LONGEST = 20_000
"""Characters of a text in an answer."""


def messages(several: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages in order; one that is cut says its full length."""
    return [_message(one) for one in several]


def cut(name: str, text: str) -> dict[str, Any]:
    """A text under its name; with its full length as `cut` if it is too long."""
    return {name: text} if len(text) <= LONGEST else {name: text[:LONGEST], "cut": len(text)}


def shortened(value: Any) -> Any:
    """Nested data whose texts are not too long."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST else f"{value[:LONGEST]} … ({len(value):,} characters)"
    if isinstance(value, Mapping):
        return {str(key): shortened(inner) for key, inner in value.items()}
    return [shortened(inner) for inner in value] if isinstance(value, list | tuple) else value


def _message(one: Message) -> dict[str, Any]:
    names = {"name": str(one["name"])} if one.get("name") is not None else {}
    return {"role": one["role"], **names, **cut("content", one["content"])}


TOKENS = 20_000
"""In one answer: of an episode's segments together, the first ones first, or of one segment that is asked for."""


def episode_answer(episode: Episode, texts: TokenTexts | None) -> dict[str, Any]:
    """The answer, without the run and the place of the episode."""
    one = episode.trajectory
    starts = one.starts
    return {
        "row": episode.row,
        "rows": episode.rows,
        "group": episode.group,
        "group_rows": list(episode.group_rows),
        "group_samples": list(episode.group_samples),
        "task": task_answer(one.task),
        "sample": one.sample,
        "player": one.player,
        "examples": one.examples,
        "branched_from": one.branched_from,
        "repeated_turns": one.repeated_turns,
        "status": one.status.value,
        "reason": shortened(one.reason),
        "answer": shortened(one.answer),
        "reward": one.reward,
        "rewards": one.rewards,
        "return": one.total_reward,
        "bootstrap": one.bootstrap,
        "seed": str(one.seed),  # too large a number for JavaScript
        "policy_version": one.policy_version,
        "attempts": one.attempts,
        "seconds": one.seconds,
        "tool_seconds": one.tool_seconds,
        "baseline": one.baseline,
        "turns": [turn_answer(turn) for turn in one.turns],
        "closing": messages(one.closing),
        "segments": [
            {
                "length": len(segment.ids),
                "sampled": sum(segment.mask),
                "tokens": tokens_answer(episode, index, 0, texts, max(0, TOKENS - starts[index])),
            }
            for index, segment in enumerate(one.segments)
        ],
        "known": {
            "text": texts is not None,
            "advantages": episode.advantages is not None,
            "learner": episode.learner_logprobs is not None,
            "values": episode.values is not None,
            "replayed": None if episode.replayed is None else shortened(", ".join(episode.replayed.changed)),
            "version": any(turn.versions for turn in one.turns),
        },
    }


def task_answer(task: Task) -> dict[str, Any]:
    prompt = shortened(task.prompt) if isinstance(task.prompt, str) else messages(task.prompt)
    about = {"id": task.id, "prompt": prompt, "answers": shortened(list(task.answers))}
    return about | {"seed": None if task.seed is None else str(task.seed)}


def turn_answer(turn: Turn) -> dict[str, Any]:
    """A turn: what was new to the policy, what it said, and what came of it."""
    return {
        "index": turn.index,
        "purpose": turn.purpose,
        "segment": turn.segment,
        "start": turn.start,
        "stop": turn.stop,
        "finish": turn.finish,
        "observation": messages(turn.observation),
        **cut("text", turn.text),
        "reward": turn.reward,
        "rewards": turn.rewards,
        "calls": [shortened(vars(call)) for call in turn.calls],
        "errors": shortened(turn.errors),
        "success": turn.success,
        "info": shortened(turn.info),
        "output": cut("content", printed) if isinstance(printed := turn.info.get("output"), str) else None,
        "notes": shortened(turn.notes),
        "new_context": turn.new_context,
        "versions": turn.versions,
        "tool_seconds": turn.tool_seconds,
    }


def tokens_answer(
    episode: Episode, segment: int, start: int, texts: TokenTexts | None, most: int = TOKENS
) -> dict[str, list[Any]]:
    """At most so many tokens of a segment from a place on, as arrays of one value a token.

    Raises:
        RunError: the episode has no such segment or place.
    """
    one = episode.trajectory
    if not 0 <= segment < len(one.segments) or not 0 <= start <= len(one.segments[segment].ids):
        raise RunError(f"episode {one.id} has no segment {segment} with a token {start}; look at its segments")
    before = sum(len(other.ids) for other in one.segments[:segment])
    found = one.segments[segment]
    span = slice(start, start + most)
    joined = slice(before + start, before + min(start + most, len(found.ids)))
    ids, mask = found.ids[span], found.mask[span]
    spelled = [texts.of(token) for token in ids] if texts else [(str(token), "text") for token in ids]
    return {
        "id": ids,
        "text": [text for text, _ in spelled],
        "kind": [kind for _, kind in spelled],
        "mask": mask,
        "logprob": _where_sampled(_known(found.logprobs, span, len(ids)), mask),
        "advantage": _known(episode.advantages, joined, len(ids)),
        "replayed": _known(None if episode.replayed is None else episode.replayed.advantages, joined, len(ids)),
        "learner": _where_sampled(_known(episode.learner_logprobs, joined, len(ids)), mask),
        "value": _known(episode.values, joined, len(ids)),
        "version": _versions(one, segment, found)[span],
    }


def text_part(one: Trajectory, part: str) -> str:
    """A whole text of an episode: `turns.0.observation.1`, `turns.2.text`, `closing.0`, `task.prompt` or
    `task.prompt.0`, `answer`, `reason`.

    Raises:
        RunError: it has no such text.
    """
    try:
        match part.split("."):
            case ["turns", turn, "observation", place]:
                return one.turns[_index(turn)].observation[_index(place)]["content"]
            case ["turns", turn, "text"]:
                return one.turns[_index(turn)].text
            case ["turns", turn, "output"]:
                return str(one.turns[_index(turn)].info["output"])
            case ["closing", place]:
                return one.closing[_index(place)]["content"]
            case ["task", "prompt"] if isinstance(one.task.prompt, str):
                return str(one.task.prompt)
            case ["task", "prompt", place] if not isinstance(one.task.prompt, str):
                return one.task.prompt[_index(place)]["content"]
            case ["answer"]:
                return one.answer or ""
            case ["reason"]:
                return one.reason
    except (ValueError, LookupError):
        pass
    raise RunError(f"episode {one.id} has no text {part!r}; name one such as turns.0.text")


def _index(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(text)
    return int(text)


def _known(numbers: Sequence[float] | None, span: slice, length: int) -> list[float | None]:
    if numbers is None:
        return [None] * length
    return [None if value is None or math.isnan(value) else value for value in numbers[span]]


def _where_sampled(numbers: list[float | None], mask: Sequence[int]) -> list[float | None]:
    return [value if sampled else None for value, sampled in zip(numbers, mask, strict=True)]


def _versions(one: Trajectory, index: int, segment: Segment) -> list[int | None]:
    """The version of the weights that sampled each token; None where it was not sampled, or not known."""
    versions: list[int | None] = [None] * len(segment.ids)
    for turn in one.turns:
        place = turn.start
        for version, count in turn.versions if turn.segment == index else ():
            stop = max(place, min(place + count, turn.stop, len(versions)))
            versions[place:stop] = [version] * (stop - place)
            place = stop
    return [version if sampled else None for version, sampled in zip(versions, segment.mask, strict=True)]
