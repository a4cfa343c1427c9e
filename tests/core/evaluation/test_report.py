"""The report scores what finished, counts what failed, and says how."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from agent_r1_core.evaluation.episode_record import LONGEST_QUESTION, EpisodeRecord
from agent_r1_core.evaluation.report import EvaluationResult, report
from agent_r1_core.testing.trajectories import make_task, make_trajectory
from agent_r1_core.trajectory import CallRecord, EndStatus, Group, Trajectory

GREEDY = {"greedy": True, "temperature": 0.0, "max_new_tokens": 64}


def group(task_id: str, *answers: str | None, accepted: tuple[str, ...] = ("Paris",), **more: object) -> Group:
    """A group with one trajectory per answer."""
    task = make_task(task_id, "Where?", accepted)
    made = [make_trajectory(task=task, sample=i, answer=answer, **more) for i, answer in enumerate(answers)]  # type: ignore[arg-type]
    return Group(task, made)


def scored(groups: list[Group], dropped: Sequence[Trajectory] = (), **facts: Any) -> EvaluationResult:
    """The report of these groups."""
    played = [one for group in groups for one in group.trajectories]
    return report([EpisodeRecord.of(one) for one in (*played, *dropped)], **facts)


def failed(task_id: str = "lost", reason: str = "the simulator is gone") -> Trajectory:
    return make_trajectory(task=make_task(task_id, "Where?", ("Paris",)), status=EndStatus.FAILED, reason=reason)


def test_failures_stand_beside_every_score_with_their_commonest_reason() -> None:
    """Prompts that did not fit made of a hundred tasks seventy-one, and only the number 71 said so."""
    long = [failed(f"long{i}", f"the prompt has {2000 + i} tokens, above env.max_tokens=1024") for i in range(28)]
    groups = [group(f"t{i}", "Paris") for i in range(71)]
    result = scored(groups, sampling=GREEDY, dropped=[*long, failed("gone")])
    assert {row[-1] for row in result.rows()} == {"71 of 100"}
    assert result.to_metrics()["eval/failed"] == 29
    (line,) = result.failure_lines()
    assert line == (
        "failed and not scored: 29 of 100 episodes (28 of them: the prompt has 2000 tokens, above env.max_tokens=1024)"
    )
    assert line in result.headline()
    assert "n = 71 of 100" in result.headline()
    plain = json.loads(json.dumps({"schema": 1, **result.to_json()}))
    f1 = plain["metrics"]["f1"]
    assert (plain["n"], plain["asked"], f1["n"], f1["asked"]) == (71, 100, 71, 100)
    assert plain["failures"] == {"episodes": 29, "of": 100, "reason": long[0].reason, "alike": 28, "at_least": False}
    assert EvaluationResult.from_json(plain) == result


def test_what_failed_only_in_part_is_no_lost_task_and_who_ran_out_of_budget_gave_no_answer() -> None:
    task = group("a", "Paris").trajectories[0]
    again = make_trajectory(task=task.task, sample=1, status=EndStatus.FAILED, reason="gone")
    unanswerable = make_trajectory(task=make_task("u", "Where?", ()), status=EndStatus.FAILED, reason="gone")
    half = scored([Group(task.task, [task]), group("b", None, accepted=())], sampling={}, dropped=[again, unanswerable])
    assert half.metrics["exact_match"].count == "1", "the lost task has no accepted answer"
    assert half.metrics["turns"].count == "2 of 3"
    assert (half.n, half.asked) == (2, 3)
    late = [group(name, None, status=EndStatus.TRUNCATED) for name in "bcd"]
    result = scored([group("a", "Paris"), *late], sampling=GREEDY)
    found = {name: result.metrics[name].mean for name in ("exact_match", "answered", "status/truncated")}
    assert found == {"exact_match": 0.25, "answered": 0.25, "status/truncated": 0.75}
    with pytest.raises(ValueError, match="no episode of the evaluation finished: there were no tasks"):
        scored([], sampling=GREEDY)


def test_every_reward_is_reported_by_name() -> None:
    rewarded = group("a", "Paris", rewards={"exact_match": 1.0, "format": 0.5}, reward=1.1, turn_rewards=[0.2, 0.2])
    for turn in rewarded.trajectories[0].turns:
        turn.rewards = {"valid_tool_call": 1.0}
    result = scored([rewarded], sampling=GREEDY)
    metrics = result.metrics
    means = {name: metrics[f"reward/{name}"].mean for name in ("mean", "format", "valid_tool_call")}
    assert means == {"mean": pytest.approx(1.5), "format": 0.5, "valid_tool_call": 2.0}
    assert (metrics["reward/exact_match"].method, metrics["reward/format"].method) == ("wilson", "none")
    assert ("reward/format", "0.500", "", "none", "1") in result.rows()
    found = scored([group("a", "Paris", rewards={"found": 0.0})], sampling=GREEDY)
    assert found.metrics["reward/found"].method == "wilson"
    assert found.headline().startswith("exact_match 1.000 ")


def test_tasks_without_answers_have_no_exact_match_but_success_where_the_environment_says_so() -> None:
    won, lost = group("a", None, accepted=(), reward=0.5), group("b", None, accepted=())
    won.trajectories[0].turns[-1].success, lost.trajectories[0].turns[-1].success = True, False
    result = scored([won, lost], sampling=GREEDY)
    assert "exact_match" not in result.metrics
    assert result.metrics["success"].mean == 0.5
    played = scored([group("b", None, accepted=(), reward=0.25)], sampling=GREEDY)
    assert played.headline().startswith("reward/mean 0.250 ")


def test_a_result_becomes_metrics_and_rows_and_several_samples_give_pass_at_k() -> None:
    groups = [group("a", "Paris", "Rome"), group("b", "Rome", "Rome"), group("c", "Paris", "Paris")]
    metrics = scored(groups, sampling={"temperature": 1.0}, samples=2).metrics
    assert metrics["exact_match"].mean == pytest.approx(0.5)
    assert metrics["pass@2"].mean == pytest.approx(2 / 3)
    assert metrics["exact_match"].n == 3
    lost = group("d", "Paris")
    assert scored([*groups, lost], sampling={}, samples=2).metrics["pass@2"].n == 3, "it lost a sample"
    assert "pass@2" not in scored([lost], sampling={}, samples=2).metrics
    result = scored([group("a", "Paris"), group("b", "Rome")], sampling=GREEDY)
    metrics = result.to_metrics()
    assert metrics["eval/exact_match"] == 0.5
    assert metrics["eval/exact_match_low"] < 0.5 < metrics["eval/exact_match_high"]
    assert metrics["eval/n"] == 2
    assert result.rows()[0] == ("exact_match", "0.500", "[0.095, 0.905]", "wilson", "2")
    assert result.sentence() == "exact_match 0.500 [0.095, 0.905] (95 %, wilson, n = 2, greedy)"


def searched(task_id: str, *found: str, **metadata: object) -> Group:
    """A task that needs the passages X and Y, whose episode was shown those that are `found`."""
    task = make_task(task_id, "Where?", ("Paris",), metadata={"path": ["X", "Y"], **metadata})
    made = make_trajectory(task=task, answer="Paris" if len(found) == 2 else None)
    made.closing = [{"role": "tool", "content": "\n".join(found)}]
    return Group(task, [made])


def test_retrieval_is_scored_for_tasks_that_name_their_passages_alone() -> None:
    result = scored([searched("a", "X", "Y", "Z"), searched("b", "Y"), group("c", "Paris")], sampling=GREEDY)
    recall, every = result.metrics["retrieval_recall"], result.metrics["retrieval_all"]
    assert (recall.mean, recall.n, recall.method) == (0.75, 2, "bootstrap over tasks")
    assert (every.mean, every.method) == (0.5, "wilson")
    extreme = scored([searched("a", "X", "Y"), searched("b")], sampling=GREEDY).metrics["retrieval_recall"]
    assert extreme.method == "bootstrap over tasks", "a share of titles is no share of tasks"
    assert "retrieval_recall" in result.scorers
    assert "retrieval_recall" not in scored([group("c", "Paris")], sampling=GREEDY).metrics


def calling(task_id: str, errors: int, calls: int = 5, **more: object) -> Group:
    """An episode whose first tool calls were answered with an error."""
    made = group(task_id, "Paris", **more)
    made.trajectories[0].turns[0].calls = [CallRecord("x", error="away" if i < errors else None) for i in range(calls)]
    return made


def test_a_result_says_that_its_tool_calls_failed_and_quotes_the_commonest_error_whatever_numbers_it_names() -> None:
    lost = calling("lost", 5, status=EndStatus.FAILED)
    result = scored([calling("a", 1), calling("b", 0), lost], sampling=GREEDY, conditions=["a remark"])
    assert result.conditions == ("a remark", "1 of 10 tool calls ended in errors; 1 of them: x: away")
    assert (result.metrics["tool_errors"].mean, result.metrics["tool_calls"].mean) == (0.5, 5.0)
    few = scored([calling("a", 1), calling("b", 0, 6)], sampling=GREEDY)
    assert (few.conditions, few.metrics["tool_errors"].mean) == ((), 0.5), "below 10 %"
    assert scored([group("a", "Paris")], sampling=GREEDY).conditions == ()
    shared = [f"Error: sql failed: made in thread {140_000 + i},\nused in \x1b[1m{i}" for i in range(3)]
    made = group("a", "Paris")
    made.trajectories[0].turns[0].calls = [CallRecord("sql", error=e) for e in (*shared, "Error: no such table", None)]
    assert scored([made], sampling=GREEDY).conditions == (
        "4 of 5 tool calls ended in errors; 3 of them: sql: Error: sql failed: made in thread #, used in ?[#m#",
    )


def test_main_scores_are_broken_down_by_what_the_tasks_say_of_themselves() -> None:
    groups = [
        searched("a", "X", "Y", hops=2, kind="bridge"),
        searched("b", "Y", hops=2, kind="comparison"),
        searched("c", "X", hops=10, source="wiki"),
        group("d", "Paris"),
    ]
    result = scored(groups, sampling=GREEDY)
    assert {key: list(parts) for key, parts in result.breakdowns.items()} == {
        "hops": ["2", "10", "unknown"],
        "kind": ["bridge", "comparison", "unknown"],
        "source": ["wiki", "unknown"],
    }
    two = result.breakdowns["hops"]["2"]
    assert two["exact_match"] == scored(groups[:2], sampling=GREEDY).metrics["exact_match"]
    assert (two["retrieval_recall"].mean, two["retrieval_recall"].n) == (0.75, 2)
    assert not {"turns", "answered"} & set(two)
    rows = [row[:2] for row in result.breakdown_rows()]
    assert rows[2:5] == [("hops 2", "2"), ("hops 10", "1"), ("hops unknown", "1")]
    assert not any("hops" in name for name in result.to_metrics())
    same = scored(groups[:2], sampling=GREEDY)
    assert [row[0] for row in same.breakdown_rows()] == ["kind bridge", "kind comparison"], "all have two hops"
    lost = scored(groups, sampling=GREEDY, dropped=[failed()])
    assert ("hops unknown", "1 of 2") in [row[:2] for row in lost.breakdown_rows()], "the lost one says none"


def test_a_record_keeps_the_question_as_its_source_asked_it() -> None:
    asked = make_task("a", [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where? " * 999}])
    played = make_trajectory(task=make_task("a", "Title\nText\n\nWhere?"))
    assert EpisodeRecord.of(played, asked).question == ("Where? " * 999)[:LONGEST_QUESTION]
    assert EpisodeRecord.of(played).question == "Title\nText\n\nWhere?"
