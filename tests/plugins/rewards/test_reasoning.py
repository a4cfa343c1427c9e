"""The rewards that see the reasoning: their scores, the error rate of the rule of invented names, what they ask."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from agent_r1_rewards.names import names_of, unread
from agent_r1_rewards.reasoning import Grounded, NewQuery, SupportedAnswer
from agent_r1_rewards.thoughts import ThoughtEffect
from agent_r1_rewards.words import lines_of, words_of

from agent_r1_core import CallRecord, Message, NotedScore, Trajectory, train
from agent_r1_core.config import load_config
from agent_r1_core.contracts.reward import SamplingPolicy
from agent_r1_core.errors import ConfigError
from agent_r1_core.testing import RewardContract, make_trajectory
from agent_r1_core.training.notices import catalogue_of

LABELLED = yaml.safe_load((Path(__file__).parent / "thoughts.yaml").read_text())


class TestGrounded(RewardContract):
    component = Grounded
    cases = (
        (make_trajectory(texts=["", "<think>1 and 99</think>"], answer="2"), -0.25),
        (make_trajectory(texts=["", "no thought, 99"], answer=None), 0.0),
    )


class TestSupportedAnswer(RewardContract):
    component = SupportedAnswer
    cases = ((make_trajectory(answer="2 3"), 1.0), (make_trajectory(answer="3 2"), 0.0))


class TestNewQuery(RewardContract):
    component = NewQuery


def test_the_rule_errs_as_often_on_labelled_thoughts_as_its_docstring_says() -> None:
    right = flagged = invented = thoughts = 0
    for case in LABELLED:
        for thought in case["thoughts"]:
            found = set(unread(names_of(thought["say"]), lines_of(case["read"])))
            labels = {words_of(name) for name in thought["invented"]}
            thoughts, right = thoughts + 1, right + len(found & labels)
            flagged, invented = flagged + len(found), invented + len(labels)
    assert thoughts == 100
    precision, recall = right / flagged, right / invented
    assert precision >= 0.82, f"{precision:.3f} of {flagged} names that it calls invented are"
    assert recall >= 0.92, f"it finds {recall:.3f} of {invented} invented names"
    said = " ".join((Grounded.__doc__ or "").split())
    assert f"invented in {precision:.0%} of the cases" in said.replace(" %", "%")
    assert f"finds {recall:.0%} of those that are" in said.replace(" %", "%")


QUESTION = "Where was the director of Mira born?"


def episode(*turns: tuple[str, Any, str], answer: str | None = None, error: str | None = None) -> Trajectory:
    """Turns as (thought, the query or no call, what answered it); the last one answers."""
    thoughts = [f"<think>{thought}</think>" for thought, _, _ in turns]
    trajectory = make_trajectory([((1,), (2,))] * len(turns), texts=thoughts, answer=answer)
    said: list[Message] = [{"role": "user", "content": QUESTION}]
    for turn, (_, query, result) in zip(trajectory.turns, turns, strict=True):
        turn.observation = said
        turn.calls = [] if query is None else [CallRecord("search", {"query": query}, error)]
        said = [{"role": "tool", "content": result}]
    trajectory.closing = said
    return trajectory


def grounded(trajectory: Trajectory) -> list[float]:
    return [float(Grounded().score_turn(turn, trajectory)) for turn in trajectory.turns]


def test_a_name_is_invented_until_something_was_read_that_holds_it_and_a_run_knows_its_numbers() -> None:
    found = "Mira\nMira is a film by Jan Tavelo, born in Oslo in 1,950."
    trajectory = episode(
        ("The director of Mira is Jan Tavelo.", "Mira", found),
        ("Tavelo was born in Oslo in 1950, or in Bergen.", None, ""),
        answer="Rome",
    )
    assert grounded(trajectory) == [-0.25, -0.5], "what came after an action was not read before it"
    score = Grounded().score_turn(trajectory.turns[1], trajectory)
    assert isinstance(score, NotedScore)
    assert score.note == {"invented": ["bergen", "rome"], "share": 2 / 5, "said": 5}
    many = episode((", ".join(f"X{name}" for name in "abcdefgh"), None, ""))
    assert grounded(many) == [-1.0]
    catalogue = catalogue_of(load_config("default", ["rewards=[exact_match, {name: grounded, weight: 0}]"]))
    assert not catalogue.undeclared(["reward/grounded", "reward/grounded/share", "reward/grounded/said"])


@pytest.mark.parametrize("how", ["result", "error", "no call", "new context", "summary"])
def test_an_echo_of_the_policys_own_words_is_nothing_that_it_has_read(how: str) -> None:
    query = None if how == "no call" else "Zorblax city"
    trajectory = episode(
        ("Zorblax", query, "Nothing about Zorblax city, see Oslo."),
        ("Oslo, Zorblax", "Mira", "Mira is a city. Zorblax city."),
        ("Zorblax", None, ""),
        answer="Zorblax",
        error="unknown" if how == "error" else None,
    )
    _, second, third = trajectory.turns
    third.new_context = how in ("new context", "summary")
    if how == "summary":
        second.purpose, second.calls, second.text = "summary", [], "It is Zorblax."
    repeated = how not in ("new context", "summary")
    assert grounded(trajectory)[: 1 if how == "summary" else 2] in ([-0.25], [-0.25, -0.25])
    assert grounded(trajectory)[2] == (0.0 if repeated else -0.25), "another call showed it, or one context after all"
    assert SupportedAnswer().score_turn(third, trajectory) == float(repeated)


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        *(("the OSLO?", 1.0), ("in Oslo in 1950", 1.0), ("Mira", 1.0)),
        *(("1950 in Oslo", 0.0), ("Oslo Bergen", 0.0), ("yes", 0.0), ("The", 0.0), ("", 0.0), (None, 0.0)),
    ],
)
def test_an_answer_is_supported_where_a_line_has_its_words_side_by_side(answer: str | None, score: float) -> None:
    trajectory = episode(("", "Mira", "Yes, born in Oslo in 1,950.\nBergen"), ("", None, ""), answer=answer)
    assert [SupportedAnswer().score_turn(turn, trajectory) for turn in trajectory.turns] == [0.0, score]


def new_queries(*queries: Any, error: str | None = None) -> list[float]:
    trajectory = episode(*(("", query, "") for query in queries), error=error)
    return [NewQuery().score_turn(turn, trajectory) for turn in trajectory.turns]


def test_a_query_pays_unless_the_episode_has_made_it_before() -> None:
    same: Sequence[Any] = ("The Mira?", "mira", '"Mira"', "a  MÍRA.")
    assert new_queries(*same) == [0.25, 0.0, 0.0, 0.0]
    assert new_queries("3-2", "3+2", "32", "3 - 2") == [0.25, 0.25, 0.25, 0.0]
    assert new_queries({"a": 1, "b": [2]}, {"b": ["two"], "a": "1.0"}, {"a": 1, "b": 2}) == [0.25, 0.0, 0.25]
    assert new_queries("Mira", None, "Tavelo") == [0.25, 0.0, 0.25]
    assert new_queries("Mira", error="time-out") == [0.0]
    retried = episode(("", "Mira", ""), ("", "Mira", ""))
    retried.turns[0].calls = [CallRecord("search", {"query": "Mira"}, "time-out")]
    assert NewQuery().score_turn(retried.turns[1], retried) == 0.25


def said(*texts: str) -> Trajectory:
    return make_trajectory([([ord(" ")], [ord(one) for one in text]) for text in texts])


class TestThoughtEffect(RewardContract):
    component = ThoughtEffect
    cases = ((said("<think>red</think>left"), 0.0), (said("left"), 0.0))


def decode(ids: Sequence[int]) -> str:
    return "".join(map(chr, ids))


async def obedient(families: Sequence[Any]) -> list[list[list[float]]]:
    """Finds an action likely, -1 a token, whose first letter its thought holds; else -1.5 and after no thought -3."""

    def score(prompt: list[int], action: list[int]) -> float:
        thought = decode(prompt).rpartition("<think>")[2].partition("</think>")[0]
        return len(action) * (-1.0 if chr(action[0]) in thought else -1.5 if thought else -3.0)

    return [[[score(prompt, action) for prompt in prompts] for action in actions] for prompts, actions in families]


def test_it_pays_for_thoughts_that_decide() -> None:
    reward = ThoughtEffect(ThoughtEffect.Config(most=2.0))
    reward.connect_policy(SamplingPolicy(obedient, decode))
    episodes = [
        said("<think>left</think>left", "<think>red</think>right"),
        said("<think>right</think>right"),
        said("left"),
        said("<think>blue</think>up"),
    ]
    scores = asyncio.run(reward.score_group(episodes))
    assert [round(score, 3) for score in scores] == [0.125, 0.25, 0.0, 0.25]
    assert [getattr(score, "note", {}).get("nats") for score in scores] == [0.25, 0.5, None, 0.5]
    (alone,) = asyncio.run(reward.score_group(episodes[:1]))
    assert alone == 1.0, "an empty thought is all that there is to compare with"


def test_a_run_asks_the_learner(tmp_path: Path) -> None:
    keys = ["training.tasks_per_step=2", "training.samples_per_task=4", "training.steps=1", "threads=1"]
    keys += ["evaluation={every: 0, at_start: false, at_end: false}", f"run.dir={tmp_path}", "checkpoint.best=null"]
    (line,) = train("default", [*keys, "rewards=[exact_match, {name: thought_effect, weight: 0}]"]).metrics()
    assert 0 < line["reward/thought_effect"] <= 1
    assert line["reward/thought_effect/nats"] > 0


def test_a_learner_that_is_busy_cannot_be_asked() -> None:
    for key, option in (("training.max_staleness=1", "max_staleness"), ("algorithm=dapo", "extra_rollouts")):
        why = f"training.{option}.* must be 0: the reward thought_effect asks the policy"
        with pytest.raises(ConfigError, match=why):
            load_config("default", ["rewards=[exact_match, thought_effect]", key])
