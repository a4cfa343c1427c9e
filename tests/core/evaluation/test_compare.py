"""Policies are compared question by question, on the same questions or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_r1_core import ConfigError, EndStatus
from agent_r1_core.evaluation.arm import Arm
from agent_r1_core.evaluation.compare import compare, holm
from agent_r1_core.evaluation.episode_record import EpisodeRecord
from agent_r1_core.evaluation.intervals import wilson
from agent_r1_core.evaluation.report import combine, report
from agent_r1_core.evaluation.result_file import ResultFile
from agent_r1_core.testing.trajectories import make_task, make_trajectory


def episode(task: str, right: bool, set_name: str = "", **more: Any) -> EpisodeRecord:
    asked = make_task(task, more.pop("question", f"Where is {task}?"), more.pop("answers", ("Rome",)))
    return EpisodeRecord.of(make_trajectory(task=asked, answer="Rome" if right else "Oslo", **more), set_name=set_name)


def result(*sets: Sequence[EpisodeRecord], path: str = "eval.json", **stated: Any) -> ResultFile:
    facts = {"sampling": {"greedy": True}} | stated
    results = {part[0].set: report(part, **facts) for part in sets}
    whole = results[""] if "" in results else combine(results, "choose" if "choose" in results else None)
    return ResultFile(Path(path), whole, [one for part in sets for one in part])


def arm(name: str, *seeds: Sequence[bool], **stated: Any) -> Arm:
    """A policy that answers these questions rightly, one sequence per seed."""
    files = [result([episode(f"q{i}", right) for i, right in enumerate(rights)], **stated) for rights in seeds]
    return Arm(name, files)


def first(right: int, n: int = 100) -> list[bool]:
    return [index < right for index in range(n)]


def test_a_pair_is_told_apart_by_its_questions_not_by_its_intervals() -> None:
    """Each interval holds the other's mean, but whatever the second answers, the first answers, too."""
    found = compare([arm("a", first(60)), arm("b", first(52))])
    (pair,) = found.differences
    assert (found.score, pair.first, pair.second, pair.n) == ("exact_match", "a", "b", 100)
    assert pair.mean == pytest.approx(0.08)
    assert (found.means["a"].low, found.means["a"].high) == wilson(0.6, 100)
    assert found.means["a"].low < found.means["b"].mean
    assert pair.low > 0.015
    assert pair.p == pair.p_holm == 2 / 2**8, "the sign test of 8 wins to 0"


def test_equal_policies_do_not_differ_one_question_has_no_interval_and_several_pairs_are_corrected() -> None:
    (pair,) = compare([arm("a", first(50)), arm("b", first(50))]).differences
    assert (pair.mean, pair.p) == (0.0, 1.0)
    assert pair.low == -pair.high < 0.0, "equal on 100 questions is not equal on all"
    (single,) = compare([arm("a", first(1, 1)), arm("b", first(0, 1))]).differences
    assert (single.low, single.p, single.p_holm) == (None, None, None)
    assert single.row() == ("a - b", "+1.000", "", "", "", "1")
    found = compare([arm("a", first(90)), arm("b", first(80)), arm("c", first(78))])
    assert [(one.first, one.second) for one in found.differences] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert found.differences[0].p_holm == pytest.approx(3 * found.differences[0].p, rel=0.5)
    assert holm([0.01, 0.04, 0.03, None]) == pytest.approx([0.03, 0.06, 0.06, None])
    assert holm([0.6, 0.9]) == [1.0, 1.0]


def test_seeds_that_differ_hide_what_one_seed_would_show() -> None:
    alone = compare([arm("a", first(60)), arm("b", first(50))]).differences[0]
    several = compare([arm("a", first(60), first(75), first(45)), arm("b", first(50), first(35), first(65))])
    (pair,) = several.differences
    assert pair.mean == pytest.approx(alone.mean) == pytest.approx(0.1)
    assert alone.p < 0.01
    assert pair.p > 0.1
    # Each side's seeds have a standard error of 0.087 and two degrees of freedom: t's quantile is 4.3, not 1.96.
    assert 0.8 < pair.high - pair.low < 1.2
    best = compare([arm("a", first(100), first(100), first(20))]).means["a"]
    assert best.high == 1.0, "a share"
    assert several.means["a"].method == "3 seeds (t), 100 tasks (wilson)"


@pytest.mark.parametrize("score", ["exact_match", "f1", "reward/right", "reward/mean"])
def test_no_interval_leaves_the_range_of_its_score_but_a_return_has_none(score: str) -> None:
    """Two seeds that differ reach far: t(1) is 12.7."""

    def played(name: str, *rights: int) -> Arm:
        def one(index: int, right: bool) -> EpisodeRecord:
            own = {"rewards": {"right": float(right)}, "answers": ("Rome is great",) if score == "f1" else ("Rome",)}
            return episode(f"q{index}", right, reward=float(right), **own)

        return Arm(name, [result([one(index, index < right) for index in range(20)]) for right in rights])

    found = compare([played("a", 19, 12), played("b", 2, 9)], score)
    if score == "reward/mean":
        assert found.means["a"].low < 0.0 < 1.0 < found.means["a"].high
        assert found.differences[0].high > 1.0
        return
    assert found.means["a"].high == 1.0
    for value in found.means.values():
        assert 0.0 <= value.low < value.mean < value.high <= 1.0
    assert -1.0 <= found.differences[0].low < found.differences[0].mean < found.differences[0].high <= 1.0


def test_different_questions_are_refused_or_left_out_on_request() -> None:
    arms = [arm("a", first(10, 30)), arm("b", first(10, 20))]
    told = r"^10 of the 30 questions of a were not asked in every other result; give .* --common to compare on the 20 "
    with pytest.raises(ConfigError, match=told):
        compare(arms)
    found = compare(arms, common=True)
    assert found.differences[0].n == 20
    assert found.notes == ["a: 10 of 30 questions are left out: others lack them"]
    seeds = arm("s", first(10, 30), first(10, 20))
    with pytest.raises(ConfigError, match=r"^10 of the 30 questions of s \(eval.json\) were not asked in every other"):
        compare([seeds])
    assert compare([seeds], common=True).notes == ["s (eval.json): 10 of 30 questions are left out: others lack them"]
    reworded = [result([episode("q0", True, question=text)]) for text in ("Where?", "Who?")]
    with pytest.raises(ConfigError, match=r"the task 'q0' asks 'Where\?' in s \(eval.json\) and 'Who\?' in s"):
        compare([Arm("s", reworded)])
    for common in (False, True):
        with pytest.raises(ConfigError, match="a and c share no question; compare results of one"):
            compare([arms[0], Arm("c", [result([episode("z", True)])])], common=common)
    for changed in ({"question": "Who is q1?"}, {"answers": ("Rome", "Roma")}):
        other = Arm("b", [result([episode("q0", True), episode("q1", True, **changed)])])
        with pytest.raises(ConfigError, match=r"the task 'q1' asks 'Where is q1.' in a and .* or accepts other answ"):
            compare([arm("a", first(1, 2)), other])


def test_questions_whose_episode_failed_are_left_out_and_what_else_was_different_is_said() -> None:
    lost = [episode("q0", True), episode("q1", True, status=EndStatus.FAILED, reason="gone"), episode("q2", True)]
    found = compare([arm("a", first(1, 3)), Arm("b", [result(lost)])])
    assert found.differences[0].n == 2
    assert found.notes == ["b: 1 of 3 questions are left out, since an episode failed: gone"]
    assert found.means["a"].count == found.means["b"].count == "2 of 3"
    sampled = {"greedy": False, "temperature": 1.0, "context": {"name": "window"}, "seed": 7}
    silent = arm("b", first(5, 9), conditions=["silenced tools"], sampling=sampled)
    found = compare([arm("a", first(5, 9), tools={"wiki_search": {"passages": 3}}), silent])
    assert found.notes == [
        "b: silenced tools",
        "different greedy: a True, b False",
        "different temperature: a None, b 1.0",
        "different context: a None, b {'name': 'window'}",
        "different tools: a wiki_search (passages 3), b none",
    ]
    old = arm("b", first(5, 9))
    old.files[0].recorded.scorers["exact_match"] = "letters"
    anew = compare([arm("a", first(5, 9)), old])
    assert anew.means["b"] == anew.means["a"]
    assert anew.notes == ["b: eval.json was recorded with another scorer of exact_match, and is scored anew here"]


def test_sets_weigh_the_same_and_the_one_that_chooses_does_not_count() -> None:
    def played(name: str, many: int, few: int, corpus_of_few: str = "y") -> Arm:
        sets = [("many", many, 40), ("few", few, 10), ("choose", 5, 5)]
        file = result(*([episode(f"q{i}", i < right, of) for i in range(n)] for of, right, n in sets))
        corpora = {"many": "x", "few": corpus_of_few, "choose": name}
        parts = {of: replace(one, tools={"search": {"corpus": corpora[of]}}) for of, one in file.recorded.sets.items()}
        parts["choose"] = replace(parts["choose"], conditions=("chosen here",))
        return Arm(name, [ResultFile(file.path, combine(parts, "choose"), file.episodes)])

    found = compare([played("a", 40, 5), played("b", 20, 5)])
    assert found.means["a"].mean == pytest.approx(0.75)
    assert (found.differences[0].mean, found.differences[0].n) == (pytest.approx(0.25), 50)
    assert found.notes == [], "each set is held against itself"
    other = "different tools in few: a search (corpus y), b search (corpus all of Wikipedia)"
    assert compare([played("a", 40, 5), played("b", 20, 5, "all of Wikipedia")]).notes == [other]


def test_what_cannot_be_compared_is_refused_and_a_score_that_not_all_have_with_those_that_they_have() -> None:
    one, other = arm("a", first(1, 3)), arm("b", first(2, 4))
    for unknown in ("success", "em"):
        with pytest.raises(ConfigError, match=f"a has no score '{unknown}'; compare by .*: exact_match, f1, .*turns"):
            compare([one, other], unknown)
    partly = [episode("q0", True), episode("q1", True), episode("q2", True, answers=())]
    with pytest.raises(ConfigError, match=r"has f1 for 2 of 3 tasks; compare by a score that all have: reward/mean, "):
        compare([Arm(name, [result(partly)]) for name in "pq"], "f1")
    played = [Arm(n, [result([episode("q", True, answers=(), reward=r)])]) for n, r in (("a", 0.5), ("b", 0.25))]
    found = compare(played)
    assert (found.score, found.differences[0].mean) == ("reward/mean", 0.25)
    for arms, told in (([one], "needs two results at least"), ([one, one], "have the same name; write NAME=RESULT")):
        with pytest.raises(ConfigError, match=told):
            compare(arms)
