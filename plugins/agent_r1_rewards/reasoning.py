"""The process rewards `grounded`, `supported_answer` and `new_query`: what a policy says against what it has read.

They compare words and know no meaning. A policy that can put words of its own into a result (`python`, a tool that
keeps notes) can make itself read what it likes: do not pay `grounded` or `supported_answer` for such tools.
"""

from __future__ import annotations

import re
from typing import Any

from agent_r1_core import Metric, NotedScore, RewardFn, Trajectory, Turn
from agent_r1_core.chat import thoughts_of
from agent_r1_rewards.names import names_of, unread
from agent_r1_rewards.words import lines_read, normal, tokens_of, words_of

_COST = 0.25
"""What an invented name costs."""
_PAY = 0.25
"""What a turn with a new call earns."""


class Grounded(RewardFn):
    """-0.25 for each name or number of the turn's thoughts and of its answer that the policy has not read, at least -1.

    Thoughts are `<think>` blocks. Read is what the prompt and the observations before the action hold. `names.py` says
    what names are and when a line holds one, `words.py` which words are the same and what becomes of the policy's own
    words in a result. A sum, an abbreviation and a title in other words count as invented though they are not; a name
    in lower case or in a script without capitals, and one put together of two names of a line, are not seen; and a
    true name in a false sentence is no invention. On 100 thoughts labelled by hand, to which the rule was fitted, a
    name that it calls invented is invented in 83 % of the cases, and it finds 93 % of those that are.

    It only takes: a turn without thoughts scores 0, too, and naming what was read makes up for nothing.
    """

    scope = "turn"
    range = (-1.0, 0.0)
    cap = 1.0
    metrics = (
        Metric("share", "names and numbers of a turn that were not read; turns that have any", better="lower"),
        Metric("said", "names and numbers in the thoughts and the answer of a turn that has any"),
    )

    def score_turn(self, turn: Turn, trajectory: Trajectory) -> float:
        """Between -1 and 0; the note has the invented names."""
        said = {name: None for text in _claims(turn, trajectory) for name in names_of(text)}
        if not said:
            return 0.0
        invented = unread(said, lines_read(trajectory.turns[: turn.index + 1]))
        names = [" ".join(name) for name in invented]
        score = -min(1.0, _COST * len(invented))
        return NotedScore(score, invented=names, share=len(invented) / len(said), said=len(said))


def _claims(turn: Turn, trajectory: Trajectory) -> list[str]:
    """The texts of the turn that say something: its thoughts, and the answer that it gave."""
    answer = trajectory.answer if turn is trajectory.turns[-1] else None
    return [*thoughts_of(turn.text), *([] if answer is None else [answer])]


class SupportedAnswer(RewardFn):
    """1 for a final answer that stands, word for word, in one line of what the policy has read, else 0.

    Words are compared as `grounded` compares them, so that case, articles and punctuation make no difference. No
    answer, an empty one, and a yes or no earn nothing: nothing that was read shows them. It does not ask whether the
    answer is right: a name of the question will do. Give it a smaller weight than the reward of right answers.
    """

    scope = "turn"
    cap = 1.0

    def score_turn(self, turn: Turn, trajectory: Trajectory) -> float:
        """0 or 1; 0 in every turn but the one that answers."""
        if trajectory.answer is None or turn is not trajectory.turns[-1]:
            return 0.0
        answer = words_of(trajectory.answer)
        if not answer or answer in (("yes",), ("no",)):
            return 0.0
        sought = f" {' '.join(answer)} "
        return float(any(sought in f" {' '.join(line)} " for line in lines_read(trajectory.turns)))


class NewQuery(RewardFn):
    """0.25 for a turn with a call that ran without error and that no earlier turn made with the same arguments, else 0.

    Arguments are the same without case, white space, articles, quotation marks and the punctuation of sentences, in
    any order of their keys: `The Mira?` repeats `mira`, `3-2` does not repeat `3+2`. A call that failed taught nothing
    and may be made again. An episode earns 1 at most, by its first four calls.
    """

    scope = "turn"
    range = (0.0, _PAY)
    cap = 1.0

    def score_turn(self, turn: Turn, trajectory: Trajectory) -> float:
        """0 or 0.25."""
        known = {call for other in trajectory.turns if other.index < turn.index for call in _queries(other)}
        return _PAY * bool(_queries(turn) - known)


def _queries(turn: Turn) -> set[str]:
    return {repr((call.name, _comparable(call.arguments))) for call in turn.calls if call.error is None}


_UNSAID = re.compile(r"[.,;:!?\"'`“”‘’\s]|a|an|the", re.IGNORECASE)


def _comparable(value: Any) -> Any:
    """JSON with the words of its values in the form in which they are compared."""
    if isinstance(value, dict):
        return sorted((str(key), _comparable(inner)) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return [_comparable(inner) for inner in value]
    return [normal(token) for token in tokens_of(str(value)) if not _UNSAID.fullmatch(token[0])]
