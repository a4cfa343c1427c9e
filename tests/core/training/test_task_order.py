from __future__ import annotations

from agent_r1_core.training.task_order import hold_out, tasks_of_step

TASKS = [f"task-{index}" for index in range(10)]


def test_every_task_comes_once_an_epoch_whatever_the_step_size() -> None:
    for per_step in (1, 3, 4, 10, 16):
        chunks = -(-len(TASKS) // per_step)
        steps = [tasks_of_step(TASKS, step, per_step, seed=3, shuffle=True) for step in range(1, 2 * chunks + 1)]
        seen = [task for step in steps for task in step]
        assert sorted(seen[:10]) == TASKS
        assert sorted(seen[10:]) == TASKS
        assert seen[:10] != seen[10:]
        assert all(len(set(step)) == len(step) <= per_step for step in steps)
        assert max(map(len, steps)) - min(map(len, steps)) <= 1


def test_a_step_does_not_depend_on_the_steps_before_it() -> None:
    late = tasks_of_step(TASKS, 7, 4, seed=3, shuffle=True)
    for step in (1, 2, 30):
        tasks_of_step(TASKS, step, 4, seed=3, shuffle=True)
    assert tasks_of_step(TASKS, 7, 4, seed=3, shuffle=True) == late


def test_without_shuffling_the_sources_order_stands() -> None:
    assert tasks_of_step(TASKS, 2, 5, seed=0, shuffle=False) == TASKS[5:]


def test_the_held_out_part_is_disjoint_and_at_most_a_tenth() -> None:
    tasks = list(range(50))
    train, held = hold_out(tasks, 200, seed=1)
    assert len(held) == 5
    assert sorted(train + held) == tasks
    assert hold_out(tasks, 3, seed=1)[1] == hold_out(tasks, 3, seed=1)[1]
    assert hold_out([1], 10, seed=0) == ([1], [])
