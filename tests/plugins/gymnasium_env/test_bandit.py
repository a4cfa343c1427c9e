"""The two-armed bandit: what its arms pay, and which of them is the better one."""

from __future__ import annotations

import statistics

import pytest
from agent_r1_gymnasium.bandit import Bandit
from pydantic import ValidationError


def pays(begun, answer, arm: str, **options) -> list[float]:
    return [answer(begun(Bandit, luck=luck, **options), arm).reward for luck in range(400)]


def test_the_safe_arm_always_pays_little_and_the_risky_one_rarely_much(begun, answer) -> None:
    assert set(pays(begun, answer, "phoenix")) == {0.1}
    risky = pays(begun, answer, "dragon")
    assert set(risky) == {0.0, 1.0}
    assert statistics.fmean(risky) == pytest.approx(0.25, abs=0.07)


def test_the_names_can_be_exchanged(begun, answer) -> None:
    assert set(pays(begun, answer, "dragon", reverse=True)) == {0.1}


def test_success_is_the_arm_that_pays_more_on_average_and_not_luck(begun, answer) -> None:
    for luck in range(20):
        assert answer(begun(Bandit, luck=luck), "dragon").success is True
        assert answer(begun(Bandit, luck=luck), "phoenix").success is False
        assert answer(begun(Bandit, luck=luck, risky_chance=0.05), "phoenix").success is True
    with pytest.raises(ValidationError, match="pays the same"):
        Bandit.Config(safe_pay=0.25)


def test_both_orders_of_the_names_occur_and_pulls_end_the_episode(begun, answer) -> None:
    said = {begun(Bandit, seed=seed, rules="").first.messages[0]["content"] for seed in range(20)}
    assert said == {"Pull phoenix or dragon.", "Pull dragon or phoenix."}
    env = begun(Bandit, pulls=2)
    first = answer(env, "phoenix")
    assert first.observation.messages[0]["content"] == "It pays 0.1. Pull again."
    assert (first.terminated, answer(env, "phoenix").terminated) == (False, True)
