"""The process rewards `valid_tool_call` and `supporting_titles`.

`valid_tool_call` rewards the form of a call, not its use. A call is rewarded once per episode, so repeating it earns
nothing, but a policy can still earn by many different calls: give it a small weight.
"""

from __future__ import annotations

import json

from agent_r1_core import CallRecord, RewardFn, Trajectory, Turn, new_lines, supporting_titles


class ValidToolCall(RewardFn):
    """1 when the turn made a call that ran without error and that no earlier turn of the episode made, else 0."""

    scope = "turn"

    def score_turn(self, turn: Turn, trajectory: Trajectory) -> float:
        """0 or 1; calls that differ only in letter case or white space are the same."""
        rewarded = {call for other in trajectory.turns if other.index < turn.index for call in _valid_calls(other)}
        return float(bool(_valid_calls(turn) - rewarded))


def _valid_calls(turn: Turn) -> set[str]:
    return {_canonical(call) for call in turn.calls if call.error is None}


def _canonical(call: CallRecord) -> str:
    text = json.dumps([call.name, call.arguments], sort_keys=True, ensure_ascii=False, default=str)
    return " ".join(
        text.replace("\\n", " ").replace("\\t", " ").casefold().replace('" ', '"').replace(' "', '"').split()
    )


class SupportingTitles(RewardFn):
    """Share of the task's supporting passages that the turn's results show for the first time in the episode.

    It reads what followed the turn's action, so it sees results that end an episode, too. A title counts where it
    stands on a line of its own, as the headings of `wiki_search` do; each pays once in an episode, so repeating a
    search earns nothing. What the policy may itself have written into the results (a call's text with several lines)
    pays nothing, and a title that it put there is taken as seen.
    """

    scope = "turn"
    cap = 1.0

    def score_turn(self, turn: Turn, trajectory: Trajectory) -> float:
        """Between 0 and 1.

        Raises:
            ValueError: the task's metadata names no supporting passages.
        """
        titles = supporting_titles(trajectory.task)
        if not titles:
            raise ValueError(
                f"task {trajectory.task.id} names no supporting passages in metadata['path']; use tasks that do, such "
                f"as those of miniwiki, hotpotqa, 2wikimultihopqa or musique, or another reward"
            )
        return len(new_lines(turn, trajectory).intersection(titles)) / len(titles)
