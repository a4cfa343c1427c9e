"""Shares of time: they add up where the parts of a step follow one another, and not where the roles overlap."""

from __future__ import annotations

import re

from agent_r1_cli.display import TimeShares

STEP = {
    "time/step": 10.0,
    "time/rollout": 6.0,
    "time/update": 2.0,
    "time/weights": 1.0,
    "time/learner_waits": 0.8,
    "time/rollouts_wait": 0.4,
}


def test_parts_that_follow_one_another_add_up() -> None:
    shares = TimeShares()
    shares.add(STEP)
    waits = {"time/learner_waits": 14 / 15, "time/rollouts_wait": 0.8}
    shares.add({**STEP, "time/step": 30.0, "time/evaluation": 20.0, **waits})
    *parts, learner, rollouts = shares.texts()
    assert parts == ["rollout 30 %", "update 10 %", "weights 5 %", "evaluation 50 %", "other 5 %"]
    assert sum(int(number) for number in re.findall(r"\d+", " ".join(parts))) == 100
    assert (learner, rollouts) == ("learner waits 90 %", "rollouts wait 70 %")


def test_roles_that_work_at_once_have_the_time_in_which_each_works() -> None:
    shares = TimeShares()
    shares.add({**STEP, "time/rollout": 1.0, "time/update": 7.0, "time/learner_waits": 0.3, "time/rollouts_wait": 0.05})
    assert shares.texts() == [
        "rollout 95 %",
        "update 70 % at the same time",
        "learner waits 30 %",
        "rollouts wait 5 %",
        "weights 10 %",
        "evaluation 0 %",
    ]


def test_a_step_that_was_not_measured_says_nothing() -> None:
    shares = TimeShares()
    shares.add({"reward/mean": 1.0})
    assert shares.texts() == []
