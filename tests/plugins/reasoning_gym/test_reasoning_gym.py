"""reasoning-gym: its questions are the same everywhere, and its scores pay for right answers alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import util
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pytest
from agent_r1_reasoning_gym import source as module
from agent_r1_reasoning_gym.asking import helper
from agent_r1_reasoning_gym.reward import ReasoningGymScore
from agent_r1_reasoning_gym.source import READ_AS_DATA, ReasoningGym

from agent_r1_core import Task, TaskError, train
from agent_r1_core.testing import RewardContract, TaskSourceContract, make_trajectory

LEGS: dict[str, Any] = {"dataset": "leg_counting", "options": {"max_animals": 3}, "size": 20}


@pytest.fixture(scope="module", autouse=True)
def _no_helper_is_left() -> Iterator[None]:
    yield
    helper().close()


def tasks(dataset: str, **options: Any) -> list[Task]:
    return list(ReasoningGym(ReasoningGym.Config(dataset=dataset, **options)).load())


def score(task: Task, answer: str | None, **options: Any) -> float:
    """By default with as much time as there may be."""
    config = ReasoningGymScore.Config(**{"seconds": 20, **options})
    return ReasoningGymScore(config).score(make_trajectory(task=task, answer=answer))


class TestReasoningGym(TaskSourceContract):
    component = ReasoningGym
    config: ClassVar = LEGS


TASK = tasks(**LEGS)[0]


class TestReasoningGymScore(RewardContract):
    component = ReasoningGymScore
    examples: ClassVar = ()
    cases: ClassVar = (
        (make_trajectory(task=TASK, answer=TASK.answers[0]), 1.0),
        (make_trajectory(task=TASK, answer="-1"), 0.0),
        (make_trajectory(task=TASK, answer=None), 0.0),
    )


def test_splits_share_no_question_and_a_mixture_draws_from_its_sets() -> None:
    """The package's own seeds 0 and 1 have all but one question in common."""
    drawn = [tasks(**LEGS, split=split, seed=seed) for split in ("train", "eval") for seed in (0, 1)]
    prompts = [task.prompt for one in drawn for task in one]
    assert len(prompts) == len(set(prompts)) == 80
    parts = [{"name": "leg_counting", "weight": 2, "config": {"max_animals": 3}}, {"name": "coin_flip"}]
    mixed = tasks("composite", options={"datasets": parts}, size=30)
    assert {task.metadata["dataset"] for task in mixed} == {"leg_counting", "coin_flip"}
    assert all(score(task, task.answers[0]) == 1.0 for task in mixed)


def test_exact_scorers_want_each_number_once_and_pay_nothing_else() -> None:
    """The package's scorer of puzzle24 takes any four numbers, and that of countdown pays 0.05 for a wrong value."""
    for dataset in ("countdown", "puzzle24"):
        (task,) = tasks(dataset, size=1, options={"max_numbers": 4} if dataset == "countdown" else {})
        right = task.answers[0]
        assert score(task, right) == score(task, f" ({right}) ") == 1.0
        wrong = ("6*4*1*1", "24", f"{right}+0", f"{right}*{right}", "9**9**9", "", "I do not know", "(" * 90)
        for answer in (*wrong, "__import__('os').getpid()", "1/0", "True", "1e400", "x" * 10_000):
            assert score(task, answer) == 0.0, answer
            assert score(task, answer, partial=True) == 0.0, answer


def test_right_answers_alone_pay_and_partial_credit_begins_at_what_nonsense_gets() -> None:
    """The package pays 1 for any in game_of_life_halting."""
    for task in tasks("game_of_life_halting", size=4):
        (right,) = task.answers
        assert score(task, right) == 1.0
        assert score(task, {"True": "False", "False": "True"}[right]) == score(task, "True or False") == 0.0
    (task,) = tasks("prime_factorization", size=1)
    assert (score(task, task.answers[0]), score(task, "seven")) == (1.0, 0.0)
    (task,) = tasks("spell_backward", size=1, options={"min_word_len": 6})
    almost = task.answers[0][:-1] + "#"
    assert score(task, almost) == 0.0
    assert 0 < score(task, almost, partial=True) < 1
    assert score(task, "I do not know", partial=True) == 0.0


def test_what_cannot_be_scored_is_no_zero_and_sets_whose_scorers_run_answers_are_off() -> None:
    with pytest.raises(ValueError, match="is not of the source reasoning_gym"):
        score(Task("t", "?"), "1")
    made = TASK.metadata["reasoning_gym"]
    other = replace(TASK, metadata={"reasoning_gym": {**made, "digest": 1}})
    with pytest.raises(ValueError, match="makes another question; install the one of the run"):
        score(other, "1")
    for dataset, options in (("n_queens", {}), ("composite", {"datasets": [{"name": "n_queens"}]})):
        with pytest.raises(TaskError, match=f"n_queens off, .* run the answers to {', '.join(READ_AS_DATA)} as Python"):
            tasks(dataset, options=options)


@pytest.mark.parametrize("dataset", READ_AS_DATA)
def test_no_answer_is_run_where_they_are_on(dataset: str, tmp_path: Path) -> None:
    """Their own answers are still right, which an empty reader would not see."""
    (task,) = tasks(dataset, size=1, evaluate_answers=True)
    assert score(task, task.answers[0], seconds=20) == 1.0
    file = tmp_path / "ran"
    attacks = (f"open({str(file)!r}, 'w')", f"[open({str(file)!r}, 'w')]", f"sqrt(open({str(file)!r}, 'w'))")
    assert all(score(task, attack) == 0.0 for attack in attacks)
    assert not file.exists()


def test_an_answer_that_takes_for_ever_costs_its_own_time_and_is_wrong() -> None:
    """The others are scored meanwhile, by as many forks as before."""
    slow = tasks("simple_integration", size=1, evaluate_answers=True)[0]
    with ThreadPoolExecutor(20) as threads:
        hung = [threads.submit(score, slow, "9**9**9**9*x", seconds=2) for _ in range(3)]
        others = [threads.submit(score, task, task.answers[0]) for task in tasks(**LEGS)]
        assert all(one.result() == 1.0 for one in others)
        assert [one.result() for one in hung] == [0.0] * 3


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"dataset": "legs"}, r"cannot make legs: there is no such data set; there are ab, acre, .*zebra_puzzles"),
        ({"options": {"max_animals": 1}}, r"leg_counting: it refuses its options: max_animals must be >= min_animals"),
        ({"options": {"colour": 1}}, r"refuses its options: .* unexpected keyword argument 'colour'"),
        ({"options": {"seed": 1}}, r"seed is an option of the source; move it out of options"),
        ({"options": {"min_animals": 1, "max_animals": 1, "max_instances": 1}}, r"finds 2\d different questions"),
    ],
)
def test_what_cannot_be_made_is_one_sentence(config: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TaskError, match=sentence):
        tasks(**{"dataset": "leg_counting", **config})
    if "questions" not in sentence:
        with pytest.raises(TaskError, match=sentence):  # a dry run sees it, too
            ReasoningGym(ReasoningGym.Config(**{"dataset": "leg_counting", **config})).check_data()


def test_an_option_without_effect_is_refused_and_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "evaluate_answers" in ReasoningGym.idle_options(ReasoningGym.Config(**LEGS))
    assert not ReasoningGym.idle_options(ReasoningGym.Config(dataset="n_queens"))
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == "reasoning_gym" else util.find_spec(name))
    with pytest.raises(TaskError, match=r"is missing; run `pip install 'agent-r1\[reasoning_gym\]'`"):
        tasks(**LEGS)


def test_sources_leave_each_others_and_our_random_numbers_alone() -> None:
    """Alone or between others, whatever was drawn here before: the same questions."""
    alone = tasks("word_ladder", size=3, split="all")
    module._KEPT.clear()
    helper().close()
    random.seed(1)
    state = random.getstate()
    tasks("knights_knaves", size=3)
    (first,) = tasks("word_ladder", size=1, split="all")
    tasks("rearc", size=2)
    assert [first, *tasks("word_ladder", size=3, split="all")[1:]] == [alone[0], *alone[1:]]
    assert random.getstate() == state


@pytest.mark.slow
def test_another_process_draws_the_same_questions(printed_everywhere: Callable[[str], str]) -> None:
    """Of sets that draw in the order of hashes, too, whatever our own seed of hashes (knight_swap is too slow here)."""
    told = printed_everywhere("""
import json
from agent_r1_reasoning_gym.source import ReasoningGym
for name in ("isomorphic_strings", "polynomial_multiplication", "ransom_note", "word_ladder"):
    config = ReasoningGym.Config(dataset=name, size=2, split="all", evaluate_answers=name.startswith("poly"))
    print(json.dumps([(task.prompt, task.answers) for task in ReasoningGym(config).load()]))
""")
    assert len(told.splitlines()) == 4


@pytest.mark.slow
def test_a_thousand_answers_leave_nothing_behind() -> None:
    """64 at once; some raise and some take for ever."""
    asked = tasks("prime_factorization", size=50, split="all")
    slow = tasks("simple_integration", size=1, evaluate_answers=True)[0]
    assert score(asked[0], asked[0].answers[0]) == 1.0
    this = psutil.Process()
    descriptors = this.num_fds()
    with ThreadPoolExecutor(64) as threads:
        hung = [threads.submit(score, slow, "9**9**9**9*x", seconds=1) for _ in range(6)]
        each = [(task, answer) for task in asked for answer in (task.answers[0], "seven")]
        told = [threads.submit(score, *one) for one in each * 10]
        assert [one.result() for one in told] == [1.0, 0.0] * 500
        assert [one.result() for one in hung] == [0.0] * 6
    assert this.num_fds() <= descriptors
    (ours,) = (one for one in this.children() if "agent_r1_reasoning_gym/helper" in " ".join(one.cmdline()))
    assert len(ours.children()) <= 8


@pytest.mark.slow
def test_the_recipes_train(tmp_path: Path) -> None:
    """Shown sums, then reinforcement learning from there: for two steps it answers some right."""
    few = ["tasks.train.size=60", "tasks.eval.size=20", "evaluation.every=0", f"run.dir={tmp_path}"]
    few.append("model.dtype=float32")  # what a busy machine measures as faster may answer otherwise
    shown = train("reasoning_gym/sums-shown", ["training.steps=4", *few[1:]])
    few += [f"model.name={shown.path}", "training.steps=2", "training.tasks_per_step=4"]
    run = train("reasoning_gym-sums", few)
    assert [step["rollout/failed"] for step in run.metrics()] == [0, 0]
    assert any(step["reward/reasoning_gym"] > 0 for step in run.metrics())
