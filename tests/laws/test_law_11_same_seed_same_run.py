"""LAW 11: same seed, same run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from contexts import every_context
from small_run import Notes, fingerprint, rewritten, run_once
from stage import Stage, questions

from agent_r1_core.testing import ScriptedPolicy
from agent_r1_core.trajectory import Task


def test_two_deterministic_runs_are_equal_bit_for_bit(folder: Path) -> None:
    first, second = (fingerprint(run_once(folder, name, 3)) for name in ("one", "two"))
    assert first == second
    assert any(abs(value) > 0 for row in first["advantages"][1] if row for value in row), "nothing was learnt"


@every_context
def test_two_runs_with_a_rewritten_context_are_equal_bit_for_bit(folder: Path, context: str) -> None:
    first, second = (fingerprint(run_once(folder, f"{context}-{n}", 2, **rewritten(context))) for n in (1, 2))
    assert first == second
    assert context == "append" or first["metrics"][0]["episode/segments"] > 1


def test_another_seed_is_another_run(folder: Path) -> None:
    first, second = (fingerprint(run_once(folder, f"seed-{seed}", 1, seed=seed)) for seed in (1, 2))
    assert first["trajectories"] != second["trajectories"]


def test_samples_do_not_depend_on_who_finishes_first(folder: Path) -> None:
    """One episode at a time, or all at once: each request has a seed of its own."""
    options = {"deterministic": "false", "threads": 1, "model__dtype": "float32"}
    runs = (run_once(folder, f"at-once-{most}", 1, engine__max_episodes=most, **options) for most in (128, 1))
    at_once, alone = ([one.segments[0].ids for one in run.read_trajectories(1)] for run in runs)
    assert at_once == alone


@pytest.mark.parametrize("deterministic", [False, True])
def test_a_run_that_will_not_repeat_says_so(folder: Path, deterministic: bool) -> None:
    told, options = Notes(), {"deterministic": str(deterministic).lower(), "evaluation__at_start": "false"}
    run_once(folder, f"told-{deterministic}", 1, listener=told, **options)
    assert any("another run with this seed will differ" in text for text in told.said) is not deterministic


def seeds(tasks: list[Task], round_: int = 1, run: int = 0, **settings: bool | int) -> dict[tuple[str, int], int]:
    """The seed of every request of a rollout of three turns, by its context's task and sample, and its turn."""
    policy, asked, found = ScriptedPolicy(["Let me see"]), Counter[str](), {}
    Stage(policy, env={"max_turns": 3}, seed=run, **settings).play(tasks, 2, round=round_)
    for request in policy.requests:
        _, name = request.episode.split("/", 1)
        found[name, asked[name]] = request.seed
        asked[name] += 1
    return found


def test_every_request_has_a_seed_of_its_own() -> None:
    """By run, step, task, sample and turn; a task that is listed twice is sampled afresh."""
    tasks = [*questions(3), questions(1)[0]]
    rollouts = [seeds(tasks, round_, run) for round_ in (1, 2) for run in (0, 1)]
    assert all(len(rollout) == 4 * 2 * 3 for rollout in rollouts)
    assert len({seed for rollout in rollouts for seed in rollout.values()}) == 4 * 4 * 2 * 3


@pytest.mark.parametrize("settings", [{"deterministic": True}, {"max_episodes": 1}, {"max_episodes": 3}])
def test_a_requests_seed_depends_on_no_order(settings: dict[str, bool | int]) -> None:
    tasks = questions(4)
    assert seeds(tasks[::-1], **settings) == seeds(tasks)
