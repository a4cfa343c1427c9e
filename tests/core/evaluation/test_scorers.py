"""The scorers against values that HotpotQA's official script prints."""

from __future__ import annotations

import pytest

from agent_r1_core.evaluation.scorers import (
    exact_match_score,
    f1_score,
    normalize_answer,
    substring_match_score,
)


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("The  Eiffel\tTower.", "eiffel tower"),
        ("A.n apple", "apple"),
        ("U.S.A.", "usa"),
        ("the-end", "theend"),
        ("“quoted” – dash", "“quoted” – dash"),
        ("a\nthe an", ""),
        ("ÉCOLE", "école"),
    ],
)
def test_normalisation_is_the_official_one(text: str, normalized: str) -> None:
    assert normalize_answer(text) == normalized


def test_exact_match_takes_the_best_of_the_accepted_answers() -> None:
    assert exact_match_score("the Paris!", ("London", "paris")) == 1.0
    assert exact_match_score("Paris, France", ("paris",)) == 0.0


def test_no_answer_scores_zero_everywhere() -> None:
    for scorer in (exact_match_score, f1_score, substring_match_score):
        assert scorer(None, ("the",)) == 0.0


def test_a_single_string_is_one_answer_and_not_its_letters() -> None:
    assert exact_match_score("n", "no") == 0.0
    assert exact_match_score("No.", "no") == 1.0


@pytest.mark.parametrize("scorer", [exact_match_score, f1_score, substring_match_score])
def test_scoring_without_accepted_answers_is_refused(scorer: object) -> None:
    with pytest.raises(ValueError, match="no accepted answers"):
        scorer("x", ())  # type: ignore[operator]


@pytest.mark.parametrize(
    ("prediction", "answer", "expected"),
    [
        ("Barack Obama", "Obama", 2 / 3),
        ("new new york", "new york new york", 6 / 7),
        ("yes", "no", 0.0),
        ("yes it is", "yes", 0.0),
        ("Yes.", "yes", 1.0),
        ("noanswer", "there is noanswer", 0.0),
        ("the", "a", 0.0),
    ],
)
def test_f1_is_the_official_one(prediction: str, answer: str, expected: float) -> None:
    assert f1_score(prediction, answer) == pytest.approx(expected)


def test_f1_takes_the_best_of_the_accepted_answers() -> None:
    assert f1_score("Barack Obama", ("Obama", "Barack Hussein Obama")) == pytest.approx(0.8)


def test_substring_match_is_laxer_than_exact_match_but_not_blind() -> None:
    assert substring_match_score("It was Paris, I think", ("paris",)) == 1.0
    assert substring_match_score("It was Rome", ("paris",)) == 0.0
    assert substring_match_score("anything", ("the",)) == 0.0
