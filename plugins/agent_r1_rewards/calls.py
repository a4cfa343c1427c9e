"""The process reward `valid_tool_call`.

It rewards the form of a call, not its use. A call is rewarded once per episode, so repeating it earns nothing, but a
policy can still earn by many different calls: give it a small weight.
"""

from __future__ import annotations

import json

from agent_r1_core import CallRecord, RewardFn, Trajectory, Turn


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
