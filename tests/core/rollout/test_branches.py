"""Episodes that branch off from others of their group: they repeat its actions, and go on by themselves."""

from __future__ import annotations

import itertools
from typing import Any

from bad_tools import lookup
from stage import BOTH_MODES, Right, Stage, call, questions

from agent_r1_core import EndStatus, Tool, ToolArguments, ToolContext
from agent_r1_core.rollout import WeightedReward
from agent_r1_core.rollout.plan import EpisodePlan, branched
from agent_r1_core.testing import Cue, ScriptedPolicy, make_trajectory

ANSWER = "<answer>Tavelo</answer>"


def searching(cue: Cue) -> str:
    """Three searches, each for something of the request's own, then an answer."""
    read = cue.prompt.count("was born in")
    return ANSWER if read == 3 else call("lookup", name=f"n{cue.request.seed}")


@BOTH_MODES
def test_branches_repeat_what_was_sampled_and_sample_the_rest(deterministic):
    policy = ScriptedPolicy(searching)
    policy.version = 4
    stage = Stage(policy, [lookup()], rewards=[WeightedReward(Right(), 1.0)], deterministic=deterministic)
    result = stage.play(questions(2), 6, trees=2, greedy_baseline=True)
    for group in result.groups:
        episodes = group.trajectories
        assert [one.branched_from for one in episodes] == [None, None, 0, 1, 0, 1]
        for one in episodes[2:]:
            root, shared = episodes[one.branched_from], one.repeated_turns
            assert 1 <= shared < len(root.turns)
            assert one.seed == root.seed
            (own,), (its,) = one.segments, root.segments
            stop = one.turns[shared].start
            assert (own.ids[:stop], own.mask[:stop], own.logprobs[:stop]) == (
                its.ids[:stop],
                its.mask[:stop],
                its.logprobs[:stop],
            )
            assert [turn.versions for turn in one.turns] == [((4, turn.tokens),) for turn in one.turns]
            if shared < 3:  # the answer is always the same
                assert one.turns[shared].text != root.turns[shared].text
            assert (one.status, one.reward) == (EndStatus.TERMINATED, 1.0)
    played = [one for group in result.groups for one in (*group.trajectories, group.baseline)]
    assert len(policy.requests) == sum(len(one.turns) - one.repeated_turns for one in played), "repeated ones are asked"
    assert result.metrics["rollout/branched"] == 8 / 12
    assert 0 < result.metrics["rollout/repeated_tokens"] < 0.5


class Counting(Tool):
    """Answers every call otherwise."""

    name = "lookup"
    calls = itertools.count()

    class Arguments(ToolArguments):
        name: str

    def run(self, arguments: Any, context: ToolContext) -> str:
        return f"{arguments.name} was born in Tavelo {next(self.calls)}."


@BOTH_MODES
def test_a_world_that_answers_otherwise_fails_its_branches_with_a_sentence(deterministic):
    stage = Stage(ScriptedPolicy(searching), [Counting()], deterministic=deterministic, max_retries=0)
    result = stage.play(questions(1), 9, trees=1)
    later = [one for one in result.dropped if one.repeated_turns > 1]
    assert later, "no branch repeats two turns"
    assert len(result.dropped) == len(later)
    assert "turn 1 of task q0 began otherwise when it was repeated" in later[0].reason
    assert [one.repeated_turns for one in result.groups[0].trajectories] == [0] + [1] * (8 - len(later))


def test_what_cannot_be_repeated_begins_at_the_start():
    plan = EpisodePlan(3, questions(1)[0], 3, 17, "key")
    failed = make_trajectory(status=EndStatus.FAILED)
    of_two = make_trajectory()
    of_two.others = (make_trajectory(),)
    assert len(branched(plan, make_trajectory()).script) == 1
    for stem in (failed, of_two, make_trajectory([([1, 2], [3])])):
        assert branched(plan, stem) == plan
