"""Scores of episodes that were played: rewards that compare the episodes of a group, and a measurer's scores."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from agent_r1_core import DeclaredScore, NotedScore, RewardFn, ScoreFn
from agent_r1_core.metrics import declared as metric
from agent_r1_core.rollout import Measurer, measuring
from agent_r1_core.rollout.measuring import AT_ONCE, MOST_SLOW
from agent_r1_core.rollout.result import RolloutResult
from agent_r1_core.rollout.scoring import GroupScorer
from agent_r1_core.rollout.settings import WeightedReward
from agent_r1_core.testing import make_task, make_trajectory
from agent_r1_core.tools import threads
from agent_r1_core.trajectory import EndStatus, Group, Trajectory


class Longest(RewardFn):
    """1 for the longest answer of a group, with the number of answers as a note."""

    name, scope = "longest", "group"

    async def score_group(self, trajectories: Sequence[Trajectory]) -> list[float]:
        await asyncio.sleep(0)
        assert len({one.task.id for one in trajectories}) == 1
        most = max(len(one.answer or "") for one in trajectories)
        return [NotedScore(len(one.answer or "") == most, seen=len(trajectories)) for one in trajectories]


class Outcome(RewardFn):
    """Another scope, which is not called here."""

    name = "outcome"


class Says(RewardFn):
    """Gives whatever it was told."""

    name, scope = "says", "group"

    def __init__(self, what: Any) -> None:
        super().__init__()
        self.what = what

    def score_group(self, trajectories: Sequence[Trajectory]) -> Any:
        if trajectories[0].task.id != "bad":
            return [0.5] * len(trajectories)
        return self.what() if callable(self.what) else self.what


def group(name: str, *answers: str, baseline: str | None = None) -> Group:
    task = make_task(name)
    made = [make_trajectory(task=task, sample=place, answer=answer) for place, answer in enumerate(answers)]
    greedy = None if baseline is None else make_trajectory(task=task, sample=9, answer=baseline)
    return Group(task, made, greedy)


def scored(rollout: RolloutResult, *rewards: WeightedReward) -> RolloutResult:
    scorer = GroupScorer(rewards)
    try:
        return asyncio.run(scorer.score(rollout))
    finally:
        scorer.close()


def test_scores_are_added_to_each_episode_of_a_group_and_to_its_baseline_if_there_are_any():
    rollout = RolloutResult([group("one", "a", "aaa", baseline="aa"), group("two", "b", "b")])
    before = [one.reward for one in rollout.trajectories]
    found = scored(rollout, WeightedReward(Outcome()), WeightedReward(Longest(), weight=2.0))
    assert [one.rewards["longest"] for one in found.trajectories] == [0, 1, 1, 1]
    assert [one.reward for one in found.trajectories] == [b + 2 * s for b, s in zip(before, [0, 1, 1, 1], strict=True)]
    assert [one.rewards["longest"] for one in found.baselines] == [0]
    assert found.trajectories[0].turns[-1].notes == {"longest": {"seen": 3}}
    assert found.metrics["reward/longest"] == 0.75
    assert found.metrics["reward/longest/seen"] == 2.5
    assert found.groups[0].varies
    rollout = RolloutResult([group("one", "a")])
    assert scored(rollout, WeightedReward(Outcome())) is rollout


def late() -> None:
    time.sleep(1.5)


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ([0.5], "gave no list of 2 scores"),
        (0.5, "gave no list of 2 scores"),
        (None, "gave no list of 2 scores"),
        ([0.5, 2.0], "outside its declared range 0 to 1; fix the score, or `range` of its class"),
        ([0.5, "much"], "a score must be a number"),
        ([0.5, float("nan")], "outside its declared range"),
        (lambda: 1 / 0, "failed with ZeroDivisionError"),
        (late, "took longer than 0.8 seconds"),
    ],
)
def test_a_broken_score_fails_its_group_and_no_other(what, why):
    rollout = RolloutResult([group("good", "a", "b"), group("bad", "a", "b")])
    found = scored(rollout, WeightedReward(Says(what), timeout=0.8 if what is late else 60.0))
    assert [one.task.id for one in found.groups] == ["good"]
    assert [one.rewards["says"] for one in found.trajectories] == [0.5, 0.5]
    assert len(found.dropped) == 2
    for one in found.dropped:
        assert one.status is EndStatus.FAILED
        assert "reward says of task bad" in one.reason
        assert why in one.reason
        assert "says" not in one.rewards
    assert found.metrics[metric.ROLLOUT_FAILED] == 2


EPISODES = [make_trajectory([([1], [2])] * index, task=make_task(f"q{index}")) for index in range(1, 21)]


class Turns(ScoreFn):
    """The number of turns, where there are several."""

    name = "turns"
    declared = DeclaredScore("turns")

    def score(self, trajectory: Trajectory) -> float | None:
        return len(trajectory.turns) if len(trajectory.turns) > 1 else None


class Judge(Turns):
    """The same, asked of a judge; it keeps how many it was asked at once."""

    name = "judge"

    def __init__(self) -> None:
        super().__init__()
        self.most = self.now = 0

    async def score(self, trajectory: Trajectory) -> float | None:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        return super().score(trajectory)


def test_every_episode_has_its_scores_in_its_own_place():
    judge = Judge()
    failed = make_trajectory(status=EndStatus.FAILED)
    measurer = Measurer(dict.fromkeys((Turns(), judge), 60.0))
    measured, faults = asyncio.run(measurer.measure([*EPISODES, failed]))
    assert measured == [{}, *({"turns": turns, "judge": turns} for turns in range(2, 21)), {}]
    assert faults == []
    assert measurer.declared == {"turns": Turns.declared, "judge": Turns.declared}
    assert judge.most == AT_ONCE


def test_after_too_many_hung_calls_a_score_is_asked_no_more(monkeypatch):
    for name, value in (("MOST_LEFT", 2), ("LEFT_SECONDS", 0.05)):
        monkeypatch.setattr(threads, name, value)
    release, asked = threading.Event(), list[str]()

    class Hangs(Turns):
        name = "hangs"

        def score(self, trajectory: Trajectory) -> float | None:
            asked.append(trajectory.id)
            release.wait(20)
            return 1.0

    measured, faults = asyncio.run(Measurer({Hangs(): 0.8, Turns(): 60.0}).measure(EPISODES))
    release.set()
    assert AT_ONCE <= len(asked) <= AT_ONCE + 1
    assert faults == [
        "20 of 20 episodes lack the score hangs, first q1/0: it took longer than 0.8 seconds; make it faster, or raise "
        "its timeout"
    ]
    assert measured == [{}, *({"turns": turns} for turns in range(2, 21))]


@pytest.mark.parametrize("at_once", [1, AT_ONCE])
def test_a_score_that_takes_too_long_again_and_again_is_asked_no_more(at_once, monkeypatch):
    monkeypatch.setattr(measuring, "AT_ONCE", at_once)
    asked: list[str] = []

    class Waits(Turns):
        name = "waits"

        async def score(self, trajectory: Trajectory) -> float | None:
            asked.append(trajectory.id)
            await asyncio.Event().wait()
            return 1.0

    measured, faults = asyncio.run(Measurer({Waits(): 0.02}).measure(EPISODES * 2))
    assert MOST_SLOW <= len(asked) < MOST_SLOW + at_once
    assert faults[0].startswith("40 of 40 episodes lack the score waits, first q1/0: it took longer than 0.02 seconds")
    assert not any(measured)
