"""`judge_comparison`: a group's answers against each other."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from agent_r1_judges.asking import JudgeError
from agent_r1_judges.comparison import JudgeComparison
from scripted_judge import ScriptedJudge, block_of

from agent_r1_core.errors import ConfigError
from agent_r1_core.testing import RewardContract, make_task, make_trajectory
from agent_r1_core.training.api import resolve


class TestContract(RewardContract):
    component = JudgeComparison

    @pytest.fixture(autouse=True)
    def _scripted(self, judge: ScriptedJudge) -> None:
        judge.says = shortest_first
        self.config = {"address": judge.address}


def answers_of(request: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = json.loads(block_of(request))["answers"]
    return found


def shortest_first(request: dict[str, Any]) -> str:
    found = answers_of(request)
    return json.dumps({"ranking": [int(number) for number in sorted(found, key=lambda one: len(found[one]))]})


def scores(judge: ScriptedJudge, *answers: str | None, **options: Any) -> list[Any]:
    own = JudgeComparison(JudgeComparison.Config(**{"address": judge.address, "retries": 0, **options}))
    task = make_task(answers=("a",))
    group = [make_trajectory(task=task, sample=place, answer=one) for place, one in enumerate(answers)]
    return asyncio.run(own.score_group(group))


def test_a_judge_that_prefers_what_stands_first_finds_no_difference(judge: ScriptedJudge) -> None:
    judge.says = lambda request: json.dumps({"ranking": [int(number) for number in answers_of(request)]})
    assert scores(judge, "a", "b", "c") == [0.5, 0.5, 0.5]
    once = scores(judge, "a", "b", "c", orders=1)
    assert sorted(once) == [0.0, 0.5, 1.0]
    assert scores(judge, "c", "b", "a", orders=1) == once[::-1], "who gave an answer makes no difference"


def test_equal_answers_ask_nobody_and_others_get_the_share_of_those_that_they_beat(judge: ScriptedJudge) -> None:
    assert scores(judge, "a", "a", None) == [0.75, 0.75, 0.0]
    assert scores(judge, "a") == scores(judge, None) == [0.5]
    assert scores(judge, None, None) == [0.5, 0.5]
    assert not judge.requests
    judge.says = shortest_first
    found = scores(judge, "aaa", "a", None, "aa", "a")
    assert found == [0.25, 0.875, 0.0, 0.5, 0.875]
    assert found[0].note["ranking"] == ["a", "aa", "aaa"]
    assert found[0].note["agreement"] == 1.0
    assert len(judge.requests) == 2, "in both orders"
    assert list(answers_of(judge.requests[0]).values()) == list(answers_of(judge.requests[1]).values())[::-1]


@pytest.mark.parametrize(
    "said",
    [
        *(f'{{"ranking": {numbers}}}' for numbers in ("[1]", "[1, 1]", "[1, 3]", '["1", "2"]', "[true, 2]", "null")),
        *('{"ranking": [1, 2], "why": ""}', "[1, 2]", "A"),
    ],
)
def test_what_ranks_not_each_answer_once_is_an_error(judge: ScriptedJudge, said: str) -> None:
    judge.says = lambda request: said
    with pytest.raises(JudgeError, match="gave no verdict"):
        scores(judge, "a", "b")


def test_no_evaluation_is_chosen_by_a_comparison() -> None:
    """There a task has no group, and no such score."""
    with pytest.raises(ConfigError, match=r"must be null or one of .*, not 'eval/reward/judge_comparison'"):
        resolve("calculator", ["rewards=[judge_comparison]", "checkpoint.best=eval/reward/judge_comparison"])
