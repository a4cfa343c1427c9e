"""Reads the named actions of a turn: `<answer>left, down</answer>`."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from agent_r1_core import Action, Markup
from agent_r1_core.chat import clip_text, split_tagged, without_thinking

_BETWEEN = re.compile(r"\|\||[,;\n]")

CUT = "the reply was cut off before an action; be shorter"
NONE = Markup("no action; write it between <answer> and </answer>")


@dataclass(frozen=True)
class Moves:
    """The actions that a turn names, up to the first one that is illegal."""

    names: tuple[str, ...] = ()
    illegal: int = 0
    """Actions that are not taken because they are illegal, or too many."""
    error: str | None = None
    """What was wrong, in one sentence."""


def read_moves(action: Action, legal: Collection[str], most: int) -> Moves:
    """The named actions in the last `<answer>`, at most `most` of them; what follows an illegal one is not taken,
    since it was meant for another state. Case and outer spaces do not count."""
    answers, _ = split_tagged(without_thinking(action.text), "answer")
    said = [name.strip().lower() for name in _BETWEEN.split(answers[-1])] if answers else []
    said = [name for name in said if name]
    if not said:
        return Moves(illegal=1, error=CUT if action.cut else NONE)
    first = next((index for index, name in enumerate(said) if name not in legal), len(said))
    taken = tuple(said[: min(first, most)])
    if first < min(len(said), most):
        error = f"{clip_text(said[first], 40)!r} is no action; the actions are {', '.join(legal)}"
    elif len(said) > most:
        error = f"{len(said)} actions are too many; a turn has at most {most}"
    else:
        error = None
    return Moves(taken, len(said) - len(taken), error)
