from __future__ import annotations

from typing import Any

import pytest
from agent_r1_rewards.answers import F1, ExactMatch
from agent_r1_rewards.calls import ValidToolCall
from agent_r1_rewards.form import ExactMatchWithFormat, Format
from agent_r1_rewards.numbers import NumericMatch, read_number

from agent_r1_core import EndStatus, Trajectory
from agent_r1_core.testing import make_task, make_trajectory


def call(query: str, error: str | None = None) -> dict[str, Any]:
    return {"name": "wiki_search", "arguments": {"query": query}, "error": error}


def episode(*infos: dict[str, Any], answer: str | None = "Paris", accepted: tuple[str, ...] = ("Paris",)) -> Trajectory:
    """An episode whose turns have these notes of the environment."""
    turns = [((1,), (2,)) for _ in infos] or [((1,), (2,))]
    trajectory = make_trajectory(turns, task=make_task(answers=accepted), answer=answer)
    for turn, info in zip(trajectory.turns, infos, strict=False):
        turn.info = info
    return trajectory


def test_exact_match_and_f1_follow_the_official_normalisation() -> None:
    assert ExactMatch().score(episode(answer="The Paris!")) == 1.0
    assert ExactMatch().score(episode(answer="Paris, France")) == 0.0
    assert F1().score(episode(answer="Paris, France")) == pytest.approx(2 / 3)
    assert F1().score(episode(answer="no", accepted=("no way",))) == 0.0


def test_an_episode_without_an_answer_earns_nothing() -> None:
    cut = episode(answer=None)
    cut.status = EndStatus.TRUNCATED
    assert ExactMatch().score(cut) == F1().score(cut) == 0.0
    assert NumericMatch().score(episode(answer=None, accepted=("4",))) == 0.0


@pytest.mark.parametrize("reward", [ExactMatch(), F1(), NumericMatch(), ExactMatchWithFormat()])
def test_a_task_without_accepted_answers_is_an_error_and_no_zero(reward: Any) -> None:
    with pytest.raises(ValueError, match="answers"):
        reward.score(episode(accepted=()))


@pytest.mark.parametrize(
    ("text", "accepted", "score"),
    [
        ("1,000", "1000.0", 1.0),
        ("$18", "18", 1.0),
        ("18 dollars", "18", 1.0),
        ("The answer is 42.", "42", 1.0),
        ("6 * 7 is 42, so\n#### 42", "42", 1.0),
        ("0.75", "3/4", 1.0),
        ("0.333333333333", "1/3", 1.0),
        ("−5", "-5", 1.0),
        ("- 5", "-5", 1.0),
        ("1.5e-9", "0.0000000015", 1.0),
        ("12 apples, yes 12", "12", 1.0),
        ("12 or 13", "12", 0.0),
        ("109,200,001", "109,200,000", 0.0),
        ("10000000000000000000001", "10000000000000000000000", 0.0),
        ("5", "-5", 0.0),
        ("1,23", "123", 0.0),
        ("1/0", "0", 0.0),
        ("2024-05-01", "2024", 0.0),
        ("twelve", "12", 0.0),
        ("", "0", 0.0),
    ],
)
def test_numbers_are_compared_as_numbers(text: str, accepted: str, score: float) -> None:
    assert NumericMatch().score(episode(answer=text, accepted=(accepted,))) == score


def test_a_tolerance_is_relative_and_spares_whole_numbers() -> None:
    reward = NumericMatch(NumericMatch.Config(tolerance=0.01))
    assert reward.score(episode(answer="3.14", accepted=("3.14159",))) == 1.0
    assert reward.score(episode(answer="1001", accepted=("1000",))) == 0.0


def test_a_hostile_number_is_no_number_and_costs_nothing() -> None:
    assert read_number("1e" + "9" * 50) is None
    assert read_number("9" * 100_000) is None
    assert NumericMatch().score(episode(answer="1e999", accepted=("0.1",))) == 0.0


def test_an_accepted_answer_that_is_no_number_is_an_error() -> None:
    with pytest.raises(ValueError, match="numeric_match needs numbers"):
        NumericMatch().score(episode(answer="4"))


@pytest.mark.parametrize(
    ("infos", "answer", "score"),
    [
        ((), "Paris", 1.0),
        ((), None, 0.0),
        (({"calls": [call("a")]}, {}), "Paris", 1.0),
        (({"calls": [call("a", error="no such page")]}, {}), "Paris", 1.0),
        (({"errors": ["not JSON"]}, {"calls": [call("a")]}), "Paris", 0.75),
        (({"errors": ["not JSON"]},), None, 0.0),
        (({"calls": [call("a")]}, {"calls": [call("b")]}, {"calls": [call("c")]}), None, 0.5),
    ],
)
def test_format_is_the_share_of_well_formed_parts(
    infos: tuple[dict[str, Any], ...], answer: str | None, score: float
) -> None:
    assert Format().score(episode(*infos, answer=answer)) == score


def test_em_with_format_pays_a_right_answer_only_in_the_right_form() -> None:
    reward = ExactMatchWithFormat()
    assert reward.score(episode({"calls": [call("a")]})) == 1.0
    assert reward.score(episode({"calls": [call("a")]}, answer="Rome")) == 0.0
    assert reward.score(episode({"errors": ["not JSON"]}, {"calls": [call("a")]})) == -0.25
    assert reward.score(episode({"errors": ["not JSON"]}, answer=None)) == -1.0
    assert reward.range == (-1.0, 1.0)


def test_a_valid_call_pays_once_per_episode() -> None:
    trajectory = episode(
        {"calls": [call("Paris")]},
        {"calls": [call("paris ")]},
        {"calls": [call("Paris"), call("Rome")]},
        {"calls": [call("Oslo", error="time-out")]},
        {"calls": [call("Oslo")]},
        {"errors": ["not JSON"]},
        {},
    )
    reward = ValidToolCall()
    assert [reward.score_turn(turn, trajectory) for turn in trajectory.turns] == [1, 0, 1, 0, 1, 0, 0]


def test_the_order_of_arguments_makes_no_new_call() -> None:
    first, second = call("a"), call("a")
    first["arguments"] = {"query": "a b", "k": 1}
    second["arguments"] = {"k": 1, "query": "a\n b"}
    trajectory = episode({"calls": [first]}, {"calls": [second]})
    assert ValidToolCall().score_turn(trajectory.turns[1], trajectory) == 0.0
