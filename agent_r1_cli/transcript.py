"""Prints episodes token by token, as the policy saw them, with the action mask in colour and the rewards of each turn.

The text is decoded from the ids that the engine saw, not rendered again: the marked text is what is trained (LAW 1).
What a terminal would obey in it is shown as an escape.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from agent_r1_core.terminal import shown, shown_in_line
from agent_r1_core.work import is_terminal

if TYPE_CHECKING:
    from agent_r1_core.trajectory import Trajectory, Turn

Decode = Callable[[Sequence[int]], str]

_ACTION, _CONTEXT, _NOTE, _HEAD = "bold green", "dim", "cyan", "bold"
_OPEN, _CLOSE = "[[", "]]"


@dataclass(frozen=True)
class Span:
    """Neighbouring ids with one mask value."""

    text: str
    action: bool
    turn: int | None = None
    """Index of the turn whose action ends with this span."""


def spans(trajectory: Trajectory, segment: int, decode: Decode) -> Iterator[Span]:
    """A segment as spans of sampled and of given ids; two actions never share a span."""
    ends = {turn.stop: turn.index for turn in trajectory.turns if turn.segment == segment}
    ids, mask = trajectory.segments[segment].ids, trajectory.segments[segment].mask
    borders = {0, len(ids), *ends, *(turn.start for turn in trajectory.turns if turn.segment == segment)}
    for start, stop in itertools.pairwise(sorted(borders)):
        action = bool(mask[start])
        yield Span(decode(ids[start:stop]), action, ends.get(stop) if action else None)


class Transcript:
    """Writes episodes to a stream: in colours on a terminal, else with plain marks."""

    def __init__(self, stream: TextIO | None = None, colour: bool | None = None) -> None:
        self.stream = stream if stream is not None else sys.stdout
        self.colour = is_terminal(self.stream) if colour is None else colour
        if self.colour:
            from rich.console import Console

            self._console = Console(file=self.stream, force_terminal=True, highlight=False, emoji=False)

    def legend(self) -> None:
        self._span(Span("sampled by the policy (action mask 1)", action=True))
        self._write("  " if self.colour else "  the rest: ", "")
        self._span(Span("prompt and environment (action mask 0)\n\n", action=False))

    def episode(self, trajectory: Trajectory, decode: Decode) -> None:
        """Write one episode: its ids as text, its rewards turn by turn, and how it ended."""
        self._write(f"{headline(trajectory)}\n", _HEAD)
        for index in range(len(trajectory.segments)):
            if index:
                self._write(f"--- segment {index}: the context was rewritten ---\n", _NOTE)
            noted = False
            for span in spans(trajectory, index, decode):
                if noted and not span.text.startswith("\n"):
                    self._write("\n", "")
                self._span(span)
                noted = span.turn is not None
                if span.turn is not None:
                    self._write(f"\n  {turn_line(trajectory.turns[span.turn])}", _NOTE)
            self._write("\n", "")
        for line in outcome_lines(trajectory):
            self._write(f"  {line}\n", _NOTE)
        self._write("\n", "")

    def _span(self, span: Span) -> None:
        if span.action and not self.colour:
            self._write(f"{_OPEN}{span.text}{_CLOSE}", "")
        else:
            self._write(span.text, _ACTION if span.action else _CONTEXT)

    def _write(self, text: str, style: str) -> None:
        text = shown(text, self.stream.encoding)
        if self.colour:
            self._console.print(text, style=style or None, markup=False, end="", soft_wrap=True)
        else:
            self.stream.write(text)


def headline(trajectory: Trajectory) -> str:
    """The episode's id, end and length."""
    steps, summaries = len(trajectory.steps), len(trajectory.turns) - len(trajectory.steps)
    turns = f"{steps} turns, {summaries} summaries" if summaries else f"{steps} turns"
    sizes = f"{turns}, {trajectory.tokens} tokens, {trajectory.action_tokens} of them sampled"
    reason = trajectory.reason or "no reason given"
    shown = f", after {trajectory.examples} examples" * bool(trajectory.examples)
    return f"episode {shown_in_line(trajectory.id)}: {trajectory.status} ({shown_in_line(reason)}), {sizes}{shown}"


def turn_line(turn: Turn) -> str:
    """`turn 0: reward 0.200 (valid_tool_call 1.000)`, with the errors of the turn; a summary has no reward."""
    cut = ["cut by the token budget"] if turn.finish == "length" else []
    failed = [f"{call.name}: {call.error}" for call in turn.calls if call.error is not None]
    errors = "".join(f"; {shown_in_line(error)}" for error in (*cut, *turn.errors, *failed))
    if turn.purpose == "summary":
        return f"turn {turn.index}: a summary, with which the context begins anew{errors}"
    return f"turn {turn.index}: reward {turn.reward:.3f}{_components(turn.rewards)}{errors}"


def outcome_lines(trajectory: Trajectory) -> list[str]:
    """The answer beside the accepted ones, and the rewards."""
    accepted = " or ".join(repr(answer) for answer in trajectory.task.answers)
    answer = "no answer" if trajectory.answer is None else f"answer {trajectory.answer!r}"
    return [
        f"{answer}, accepted: {accepted}" if accepted else answer,
        f"outcome reward {trajectory.reward:.3f}{_components(trajectory.rewards)}",
        f"return {trajectory.total_reward:.3f}",
    ]


def episode_json(trajectory: Trajectory, decode: Decode) -> dict[str, Any]:
    """An episode as plain data: its turns with rewards, and its ids, mask and text by segment."""
    return {
        "task": trajectory.task.id,
        "sample": trajectory.sample,
        "examples": trajectory.examples,
        "status": str(trajectory.status),
        "reason": trajectory.reason,
        "answer": trajectory.answer,
        "accepted": list(trajectory.task.answers),
        "reward": trajectory.reward,
        "rewards": dict(trajectory.rewards),
        "return": trajectory.total_reward,
        "turns": [
            {
                "observation": list(turn.observation),
                "purpose": turn.purpose,
                "new_context": turn.new_context,
                "action": turn.text,
                "finish": turn.finish,
                "reward": turn.reward,
                "rewards": dict(turn.rewards),
                "calls": [dict(vars(call)) for call in turn.calls],
                "errors": list(turn.errors),
                "success": turn.success,
                "info": dict(turn.info),
            }
            for turn in trajectory.turns
        ],
        "closing": list(trajectory.closing),
        "segments": [
            {"ids": list(segment.ids), "mask": list(segment.mask), "text": decode(segment.ids)}
            for segment in trajectory.segments
        ],
    }


def _components(rewards: dict[str, float]) -> str:
    """The components of a reward, unweighted; an environment's reward of 0 is left out."""
    parts = [f"{name} {value:.3f}" for name, value in rewards.items() if name != "env" or value]
    return f" ({', '.join(parts)})" if parts else ""
