"""The scorers against values that HotpotQA's official script prints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agent_r1_core.evaluation.episode_record import EpisodeRecord
from agent_r1_core.metrics.scorers import (
    EXACT_MATCH_HIGH,
    EXACT_MATCH_LOW,
    FAILED,
    REPORTED,
    N,
    exact_match_score,
    f1_score,
    normalize_answer,
    scores_of,
    substring_match_score,
)
from agent_r1_core.testing.trajectories import make_task, make_trajectory

Scorer = Callable[[str | None, str | tuple[str, ...]], float]
SCORERS = (exact_match_score, f1_score, substring_match_score)


def test_normalisation_is_the_official_one() -> None:
    texts = {
        "The  Eiffel\tTower.": "eiffel tower",
        "the-end": "theend",
        "“quoted” – dash": "“quoted” – dash",
        "a\nthe an": "",
        "ÉCOLE": "école",
    }
    assert {text: normalize_answer(text) for text in texts} == texts


@pytest.mark.parametrize(
    ("scorer", "prediction", "accepted", "expected"),
    [
        (exact_match_score, "the Paris!", ("London", "paris"), 1.0),
        (exact_match_score, "n", "no", 0.0),
        (f1_score, "Barack Obama", ("Obama", "Barack Hussein Obama"), 0.8),
        (f1_score, "new new york", "new york new york", 6 / 7),
        (f1_score, "yes it is", "yes", 0.0),
        (substring_match_score, "It was Paris, I think", ("paris",), 1.0),
        (substring_match_score, "It was Rome", ("paris",), 0.0),
        (substring_match_score, "anything", ("the",), 0.0),
        *((scorer, None, ("the",), 0.0) for scorer in SCORERS),
    ],
)
def test_an_answer_scores_by_the_best_of_the_accepted_ones(
    scorer: Scorer, prediction: str | None, accepted: str | tuple[str, ...], expected: float
) -> None:
    assert scorer(prediction, accepted) == pytest.approx(expected)
    with pytest.raises(ValueError, match="no accepted answers"):
        scorer("x", ())


def test_the_table_of_the_docs_has_every_score() -> None:
    page = (Path(__file__).parents[3] / "docs" / "evaluation.md").read_text(encoding="utf-8")
    table = page.partition("| score |")[2].partition("\n\n")[0]
    families = {"pass@<k>": "`pass@k`", "status/<status>": "`status/truncated`"}
    of_a_report = {EXACT_MATCH_LOW, EXACT_MATCH_HIGH, N, FAILED}
    missing = [one for one in REPORTED if one not in of_a_report and families.get(one, f"`{one}`") not in table]
    assert not missing


def test_a_score_is_measured_in_a_record_alone_within_its_bounds_and_no_process_reward_is_zero() -> None:
    task = make_task(answers=("Paris",))
    found, none = (EpisodeRecord.of(make_trajectory(task=task, answer=answer)) for answer in ("Paris", None))
    scores = scores_of([found, none])
    assert "exact_match" in scores
    for score in scores.values():
        for value in (score.measure(found), score.measure(none)):
            assert value is None or score.bounds not in ("0 or 1", "0 to 1") or 0.0 <= value <= 1.0, score
            assert value is None or score.bounds != "0 or 1" or value in (0.0, 1.0), score
    paid, unpaid = make_trajectory(turn_rewards=(0.5, 0.25)), make_trajectory(sample=1)
    for turn in paid.turns:
        turn.rewards = {"step": turn.reward}
    records = [EpisodeRecord.of(one) for one in (paid, unpaid)]
    assert [scores_of(records)["reward/step"].measure(one) for one in records] == [0.75, 0.0]
