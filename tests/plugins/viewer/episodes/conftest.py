"""A run with a step, an evaluation and a task that are made for the pages of steps, groups and episodes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from asking import shown
from recorded_run import numbers

from agent_r1_core.runs.trajectory_file import write_trajectories
from agent_r1_core.testing.trajectories import make_task, make_trajectory
from agent_r1_core.trajectory import CallRecord, EndStatus, Task, Trajectory

PLANTED = 2
"""The step whose episodes are made here; the others are recorded."""
TASK = make_task("islands/7", "Where is the treasure?", ("Tortuga", "La Tortuga"))
TALES = [
    ("look at the map", "sail to \U0001f600", "It is on Tortuga."),
    ("look at the map", "sail to \U0001f601 and dig", "It is on Hispaniola."),
    ("look at the map", "sail to \U0001f602", "It is nowhere."),
]
"""The actions of three samples: they part in the second one, in the middle of a surrogate pair."""
GREEDY = (TALES[0][0], "sail to the stars", "It is on Tortuga.")
"""The actions of the baseline, which is compared with none of them."""
RIGHT: dict[str, Any] = {
    "reward": 1.25,
    "rewards": {"exact_match": 1.0, "format": 0.5},
    "answer": "Tortuga",
    "reason": "answer",
}
"""How a sample ends that finds the treasure; the others differ."""
WRONG: dict[str, Any] = {"reward": 0.25, "rewards": {"exact_match": 0.0, "format": 0.5}, "answer": "nowhere"}
LOST: dict[str, Any] = {
    "status": EndStatus.TRUNCATED,
    "reason": "max_turns",
    "answer": None,
    "reward": 0.0,
    "rewards": {"exact_match": 0.0},
}
WHY = "the tool 'sextant' was lost at sea"


def tale(sample: int, task: Task = TASK, texts: Sequence[str] = TALES[0], **more: Any) -> Trajectory:
    """An episode of three turns in two segments, with process rewards in the first two turns."""
    one = make_trajectory(
        [((33, 34, 35), (40, 41)), ((50, 51), (60, 61, 62)), ((70,), (80, 81))],
        task=task,
        sample=sample,
        texts=texts,
        turn_rewards=[0.5, 0.0, 0.0],
        logprobs=[[-0.5, -0.25], [-1.0, -2.0, -0.0625], [-0.125, -3.0]],
        closing=(90, 91),
        new_segment_at={2},
        **(RIGHT | more),
    )
    one.turns[0].rewards, one.turns[1].rewards = {"valid_tool_call": 1.0}, {"valid_tool_call": 0.0}
    one.turns[1].observation = [{"role": "tool", "name": "map", "content": "Islands: Tortuga, Hispaniola."}]
    one.closing = [{"role": "tool", "name": "map", "content": "The end of the map."}]
    one.turns[0].versions, one.turns[1].versions, one.turns[2].versions = ((4, 2),), ((4, 1), (5, 2)), ((5, 2),)
    return one


def stumbling_tale() -> Trajectory:
    """One with a tool's error, two actions that cannot be read, a cut one, and no answer."""
    one = tale(1, texts=TALES[1], **LOST)
    one.turns[1].calls = [CallRecord("map", {"scale": 3, "place": "Tortuga"}, "no ink left", 0.25)]
    one.turns[1].reward, one.turns[1].rewards = -0.25, {"valid_tool_call": -0.5}
    one.turns[0].errors = ["this is no tool call"]
    one.turns[2].errors, one.turns[2].finish = ["a tag is left open"], "length"
    return one


@pytest.fixture(scope="session")
def planted(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the run `planted`: the file of step 1 is half a file, step 2 is made here, step 3 is recorded."""
    run = tmp_path_factory.mktemp("planted") / "planted"
    shutil.copytree(recorded / "grpo", run, ignore=shutil.ignore_patterns("checkpoints"))
    samples = [tale(0), stumbling_tale(), tale(3, texts=TALES[2], **WRONG)]
    twins = [tale(sample, make_task("twins", "Who is who?", ())) for sample in (0, 1)]
    greedy = tale(4, texts=GREEDY, baseline=True)
    dropped = tale(0, make_task("wreck", "Who sank?", ("all",)), status=EndStatus.FAILED, reason=WHY, answer=None)
    trained = [*samples, *twins]
    known = lambda place, logprob: (0.25 * place - 1.5, logprob - 0.001 * place + 0.005, 0.1 * place)
    path = run / f"trajectories/step_{PLANTED:06d}.parquet"
    write_trajectories(path, PLANTED, [*trained, greedy, dropped], numbers(trained, known))
    otherwise = lambda place, logprob: (1.0 - 0.25 * place, logprob, 0.0)
    replayed = run / "replays" / path.name
    replayed.parent.mkdir()
    write_trajectories(replayed, PLANTED, [*trained, greedy], numbers(trained, otherwise))
    replayed.with_suffix(".json").write_text('{"changed": ["algorithm=rloo"]}')
    half = run / "trajectories/step_000001.parquet"
    half.write_bytes(half.read_bytes()[:5000])
    return run


@pytest.fixture(scope="session")
def planted_at(planted: Path) -> Iterator[str]:
    """The address at which it is shown."""
    with shown(planted) as address:
        yield address


@pytest.fixture
def open_planted(open_page: Callable[..., Any], planted_at: str) -> Callable[..., Any]:
    """`open_planted("steps/2/episodes/0?view=tokens")` opens a page of the run `planted`."""

    def open_at(place: str, **options: Any) -> Any:
        return open_page(f"#/runs/planted/{place}", at=planted_at, **options)

    return open_at
