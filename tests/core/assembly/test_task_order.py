from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from agent_r1_core.assembly.checkpointing import load_task_order
from agent_r1_core.assembly.task_order import TaskOrder, hold_out
from agent_r1_core.errors import RunError
from agent_r1_core.runs.checkpoint import Checkpoint
from agent_r1_core.runs.checkpoints import Checkpoints

FIRST = TaskOrder(10, seed=3, shuffle=True)


def steps_of(order: TaskOrder, *sizes: int) -> tuple[list[list[int]], TaskOrder]:
    """The tasks of several steps."""
    steps = []
    for size in sizes:
        drawn, order = order.draw(size)
        steps.append(drawn)
    return steps, order


@pytest.mark.parametrize(("count", "per_step"), [(10, 1), (10, 3), (10, 4), (10, 7), (10, 10), (17, 16), (1000, 16)])
@pytest.mark.parametrize("shuffle", [True, False])
def test_every_step_is_full_and_every_task_comes_once_an_epoch(count: int, per_step: int, shuffle: bool) -> None:
    steps, _ = steps_of(TaskOrder(count, 3, shuffle), *[per_step] * 2 * count)
    assert all(len(set(step)) == len(step) == per_step for step in steps)
    seen = [task for step in steps for task in step]
    epochs = [seen[start : start + count] for start in range(0, len(seen), count)]
    assert all(sorted(epoch) == list(range(count)) for epoch in epochs)
    assert (epochs[0] != epochs[1]) == shuffle


@pytest.mark.parametrize("seed", range(20))
def test_steps_that_draw_again_repeat_no_task_and_leave_none_out(seed: int) -> None:
    """As resampling does: how many tasks a step plays depends on what they returned."""
    sizes, order = random.Random(seed), TaskOrder(7, seed, shuffle=True)
    seen: list[int] = []
    for _ in range(200):
        step, order = order.draw(sizes.randrange(1, 7))
        while sizes.random() < 0.5:
            more, order = order.draw(sizes.randrange(1, 9), step)
            assert more or len(step) == 7
            step += more
        assert len(set(step)) == len(step)
        seen += step
    epochs = [seen[start : start + 7] for start in range(0, len(seen) - 6, 7)]
    assert all(sorted(epoch) == list(range(7)) for epoch in epochs)


def test_a_step_of_too_few_tasks_has_them_all_once() -> None:
    steps, order = steps_of(FIRST, 16, 16, 4)
    assert [sorted(step) for step in steps[:2]] == [list(range(10))] * 2
    assert steps[0] != steps[1]
    assert order.draw(5, range(10)) == ([], order)


@pytest.mark.parametrize("steps", range(8))
def test_a_place_that_was_kept_goes_on_exactly_there(steps: int) -> None:
    sizes = (3, 5, 9, 2, 10, 1, 7, 4, 8, 3)
    whole, _ = steps_of(FIRST, *sizes)
    _, order = steps_of(FIRST, *sizes[:steps])
    kept = json.loads(json.dumps(order.state()))
    assert FIRST.at(kept) == order
    assert steps_of(FIRST.at(kept), *sizes[steps:])[0] == whole[steps:]


def checkpoint(folder: Path, state: Any) -> Checkpoint:
    """A checkpoint of step 3 with this place in the tasks."""

    def write(folder: Path) -> None:
        (folder / "task_order.json").write_text(json.dumps(state))

    return Checkpoints(folder).save(3, write)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"tasks": 11}, "it counts 11 training tasks, and there are 10"),
        ({"epoch": -1}, "outside the order"),
        ({"drawn": 11}, "outside the order"),
        ({"waiting": [10]}, "outside the order"),
        ({"waiting": ["3"]}, "no whole number"),
        ({"drawn": True}, "no whole number"),
        ({"waiting": 3}, "int"),
    ],
)
def test_a_place_in_other_tasks_is_refused(tmp_path: Path, wrong: dict[str, Any], said: str) -> None:
    saved = checkpoint(tmp_path, FIRST.state() | wrong)
    with pytest.raises(RunError, match=rf"task_order.json does not say where the run stands .*{said}.*; give the run"):
        load_task_order(FIRST, saved)


@pytest.mark.parametrize("state", [[], {}, "3"])
def test_a_place_that_is_none_is_refused(tmp_path: Path, state: Any) -> None:
    with pytest.raises(RunError, match=r"task_order.json does not say"):
        load_task_order(FIRST, checkpoint(tmp_path, state))


def test_another_seed_is_another_order_and_another_held_out_part() -> None:
    assert FIRST.draw(10)[0] != TaskOrder(10, seed=4, shuffle=True).draw(10)[0]
    assert hold_out(range(50), 5, seed=3)[1] != hold_out(range(50), 5, seed=4)[1]


def test_without_shuffling_the_sources_order_stands() -> None:
    assert steps_of(TaskOrder(10, seed=0, shuffle=False), 5, 5)[0] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


def test_the_held_out_part_is_disjoint_and_at_most_a_tenth() -> None:
    tasks = list(range(50))
    train, held = hold_out(tasks, 200, seed=1)
    assert len(held) == 5
    assert sorted(train + held) == tasks
    assert hold_out(tasks, 3, seed=1)[1] == hold_out(tasks, 3, seed=1)[1]
    assert hold_out([1], 10, seed=0) == ([1], [])
