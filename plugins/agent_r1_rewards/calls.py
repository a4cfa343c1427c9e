"""The process reward `valid_tool_call`.

It pays for the form of a call and not for its use. A call pays once per episode, so repeating it earns nothing, but a
policy may still earn by many different calls: give it a small weight.
"""

from __future__ import annotations

import json

from agent_r1_core import CallRecord, RewardFn, Trajectory, Turn


class ValidToolCall(RewardFn):
    """1 when the turn made a call that ran without error and that no earlier turn of the episode made, else 0."""

    scope = "turn"

    def score_turn(self, turn: Turn, trajectory: Trajectory) -> float:
        """0 or 1; calls that differ in letter case or white space alone are the same."""
        paid = {call for earlier in trajectory.turns if earlier.index < turn.index for call in _valid_calls(earlier)}
        return float(bool(_valid_calls(turn) - paid))


def _valid_calls(turn: Turn) -> set[str]:
    return {_canonical(call) for call in turn.calls if call.error is None}


def _canonical(call: CallRecord) -> str:
    text = json.dumps([call.name, call.arguments], sort_keys=True, ensure_ascii=False, default=str)
    return " ".join(
        text.replace("\\n", " ").replace("\\t", " ").casefold().replace('" ', '"').replace(' "', '"').split()
    )
