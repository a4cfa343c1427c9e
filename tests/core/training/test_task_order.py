from __future__ import annotations

import pytest

from agent_r1_core.training.task_order import hold_out, tasks_of_step

TASKS = [f"task-{index}" for index in range(10)]


@pytest.mark.parametrize(("count", "per_step"), [(10, 1), (10, 3), (10, 4), (10, 7), (10, 10), (17, 16), (1000, 16)])
@pytest.mark.parametrize("shuffle", [True, False])
def test_every_step_is_full_and_every_task_comes_once_an_epoch(count: int, per_step: int, shuffle: bool) -> None:
    tasks = list(range(count))
    steps = [tasks_of_step(tasks, step, per_step, seed=3, shuffle=shuffle) for step in range(1, 2 * count + 1)]
    assert all(len(set(step)) == len(step) == per_step for step in steps)
    seen = [task for step in steps for task in step]
    epochs = [seen[start : start + count] for start in range(0, len(seen), count)]
    assert all(sorted(epoch) == tasks for epoch in epochs)
    assert (epochs[0] != epochs[1]) == shuffle


def test_a_step_of_too_few_tasks_has_them_all() -> None:
    assert sorted(tasks_of_step(TASKS, 3, 16, seed=3, shuffle=True)) == TASKS


def test_a_step_does_not_depend_on_the_steps_before_it() -> None:
    in_order = [tasks_of_step(TASKS, step, 4, seed=3, shuffle=True) for step in range(1, 31)]
    assert [tasks_of_step(TASKS, step, 4, seed=3, shuffle=True) for step in range(30, 0, -1)] == in_order[::-1]


def test_another_seed_is_another_order_and_another_held_out_part() -> None:
    first, second = (tasks_of_step(TASKS, 1, 10, seed=seed, shuffle=True) for seed in (3, 4))
    assert first != second
    assert hold_out(range(50), 5, seed=3)[1] != hold_out(range(50), 5, seed=4)[1]


def test_without_shuffling_the_sources_order_stands() -> None:
    assert tasks_of_step(TASKS, 2, 5, seed=0, shuffle=False) == TASKS[5:]


def test_the_held_out_part_is_disjoint_and_at_most_a_tenth() -> None:
    tasks = list(range(50))
    train, held = hold_out(tasks, 200, seed=1)
    assert len(held) == 5
    assert sorted(train + held) == tasks
    assert hold_out(tasks, 3, seed=1)[1] == hold_out(tasks, 3, seed=1)[1]
    assert hold_out([1], 10, seed=0) == ([1], [])
