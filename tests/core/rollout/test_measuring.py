"""A measurer asks every score about every episode that did not fail."""

from __future__ import annotations

import asyncio
import threading

import pytest

from agent_r1_core import DeclaredScore, ScoreFn
from agent_r1_core.rollout import Measurer
from agent_r1_core.rollout.measuring import AT_ONCE, MOST_SLOW
from agent_r1_core.testing.trajectories import make_task, make_trajectory
from agent_r1_core.tools import threads
from agent_r1_core.trajectory import EndStatus, Trajectory

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


def test_every_episode_has_its_scores_in_its_own_place() -> None:
    judge = Judge()
    failed = make_trajectory(status=EndStatus.FAILED)
    measurer = Measurer(dict.fromkeys((Turns(), judge), 60.0))
    measured, faults = asyncio.run(measurer.measure([*EPISODES, failed]))
    assert measured == [{}, *({"turns": turns, "judge": turns} for turns in range(2, 21)), {}]
    assert faults == []
    assert measurer.declared == {"turns": Turns.declared, "judge": Turns.declared}
    assert judge.most == AT_ONCE


def test_after_too_many_hung_calls_a_score_is_asked_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_score_that_takes_too_long_again_and_again_is_asked_no_more() -> None:
    asked: list[str] = []

    class Waits(Turns):
        name = "waits"

        async def score(self, trajectory: Trajectory) -> float | None:
            asked.append(trajectory.id)
            await asyncio.Event().wait()
            return 1.0

    measured, faults = asyncio.run(Measurer({Waits(): 0.05}).measure(EPISODES * 2))
    assert MOST_SLOW <= len(asked) < MOST_SLOW + AT_ONCE
    assert faults[0].startswith("40 of 40 episodes lack the score waits, first q1/0: it took longer than 0.05 seconds")
    assert not any(measured)
