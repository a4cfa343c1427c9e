"""Every task comes once an epoch, several sets are mixed by their weights, and a place that was kept goes on there."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agent_r1_core.assembly.checkpointing import load_task_order
from agent_r1_core.assembly.task_order import MixedOrder, Order, TaskOrder, hold_out, shares
from agent_r1_core.errors import RunError
from agent_r1_core.runs.checkpoint import Checkpoint
from agent_r1_core.runs.checkpoints import Checkpoints

FIRST = TaskOrder(10, seed=3, shuffle=True)
SIZES = {"hotpot": 30, "wiki": 20, "music": 10}


def mixture(weights: dict[str, float], sizes: dict[str, int] | None = None) -> MixedOrder:
    sizes = sizes or {name: SIZES[name] for name in weights}
    return MixedOrder({name: TaskOrder(size, f"3/{name}", True) for name, size in sizes.items()}, weights)


def owner(order: MixedOrder, task: int) -> tuple[str, int]:
    """The set of a task, and its number in that set."""
    for name, one in order.orders.items():
        if task < one.tasks:
            return name, task
        task -= one.tasks
    raise AssertionError("no such task")


def steps_of(order: TaskOrder, *sizes: int) -> tuple[list[list[int]], TaskOrder]:
    """The tasks of several steps."""
    steps = []
    for size in sizes:
        drawn, order = order.draw(size)
        steps.append(drawn)
    return steps, order


@pytest.mark.parametrize(("count", "per_step"), [(10, 1), (10, 3), (10, 4), (10, 7), (10, 10), (17, 16), (1000, 16)])
@pytest.mark.parametrize("shuffle", [True, False])
def test_every_step_is_full_and_every_task_comes_once_an_epoch(count, per_step, shuffle):
    steps, _ = steps_of(TaskOrder(count, 3, shuffle), *[per_step] * 2 * count)
    assert all(len(set(step)) == len(step) == per_step for step in steps)
    seen = [task for step in steps for task in step]
    epochs = [seen[start : start + count] for start in range(0, len(seen), count)]
    assert all(sorted(epoch) == list(range(count)) for epoch in epochs)
    assert (epochs[0] != epochs[1]) == shuffle


@pytest.mark.parametrize("seed", range(20))
def test_steps_that_draw_again_repeat_no_task_and_leave_none_out(seed):
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


@pytest.mark.parametrize("seed", range(8))
def test_after_any_number_of_tasks_each_set_is_less_than_one_away_from_its_share(seed):
    numbers = random.Random(seed)
    weights = {f"set{index}": numbers.choice([0.1, 0.3, 1, 1.5, 2, 7]) for index in range(numbers.randrange(2, 6))}
    order = mixture(weights, {name: numbers.randrange(20, 60) for name in weights})
    played, share = Counter[str](), shares(weights)
    for total in range(1, 400):
        (task,), order = order.draw(1)
        played[owner(order, task)[0]] += 1
        assert all(abs(played[name] - share[name] * total) < 1 for name in weights)


def test_a_step_of_too_few_tasks_has_them_all_once_also_those_of_a_set_that_is_too_small_for_its_share():
    order = mixture({"wiki": 1.0, "music": 1.0}, {"wiki": 20, "music": 3})
    for _ in range(5):
        step, order = order.draw(10)
        assert Counter(owner(order, task)[0] for task in step) == {"wiki": 7, "music": 3}
    step, order = order.draw(30)
    assert sorted(step) == list(range(23)), "all tasks there are"
    assert order.draw(4, step) == ([], order)

    steps, order = steps_of(FIRST, 16, 16, 4)
    assert [sorted(step) for step in steps[:2]] == [list(range(10))] * 2
    assert steps[0] != steps[1]
    assert order.draw(5, range(10)) == ([], order)


@pytest.mark.parametrize("first", [FIRST, mixture({"hotpot": 1.0, "wiki": 3.0}, {"hotpot": 11, "wiki": 13})])
@pytest.mark.parametrize("seed", range(10))
def test_a_kept_place_goes_on_exactly_there_also_among_steps_that_draw_again(first, seed):
    def steps(order: Order, sizes: random.Random, count: int) -> tuple[list[list[int]], Order]:
        found = []
        for _ in range(count):
            step, order = order.draw(sizes.randrange(1, 9))
            while sizes.random() < 0.5:
                more, order = order.draw(sizes.randrange(1, 5), step)
                step = step + more
            assert len(set(step)) == len(step)
            found.append(step)
        return found, order

    sizes = random.Random(seed)
    _, order = steps(first, sizes, seed)
    again = first.at(json.loads(json.dumps(order.state())))
    assert again == order
    state = sizes.getstate()
    rest, _ = steps(order, sizes, 20)
    sizes.setstate(state)
    assert steps(again, sizes, 20)[0] == rest


def checkpoint(folder: Path, state: Any) -> Checkpoint:
    """A checkpoint of step 3 with this place in the tasks."""
    return Checkpoints(folder).save(3, lambda path: (path / "task_order.json").write_text(json.dumps(state)) and None)


ONE, TWO = FIRST.state(), mixture({"hotpot": 1, "wiki": 1})


@pytest.mark.parametrize(
    ("order", "state", "said"),
    [
        (FIRST, ONE | {"tasks": 11}, "it counts 11 training tasks, and there are 10"),
        (FIRST, ONE | {"epoch": -1}, "outside the order"),
        (FIRST, ONE | {"waiting": [10]}, "outside the order"),
        (FIRST, ONE | {"waiting": ["3"]}, "no whole number"),
        (FIRST, {}, ""),
        (TWO, TaskOrder(50, 3, True).state(), "'sets'"),
        (TWO, {"sets": 3}, "it tells no sets"),
        (TWO, {"sets": {"wiki": TaskOrder(20, 3, True).state()}}, "it is of the sets wiki, and there are hotpot, wiki"),
        (TWO, mixture(TWO.weights, {"hotpot": 30, "wiki": 9}).state(), "counts 9 training tasks, and there are 20"),
    ],
)
def test_a_place_in_other_tasks_is_refused(tmp_path, order, state, said):
    with pytest.raises(RunError, match=rf"task_order.json does not say where the run stands .*{said}.*; give the run"):
        load_task_order(order, checkpoint(tmp_path, state))


def test_another_seed_is_another_order_and_another_held_out_part_of_at_most_a_tenth():
    assert FIRST.draw(10)[0] != TaskOrder(10, seed=4, shuffle=True).draw(10)[0]
    assert hold_out(range(50), 5, seed=3) != hold_out(range(50), 5, seed=4)
    assert TaskOrder(10, seed=0, shuffle=False).draw(10)[0] == list(range(10))
    tasks = list(range(59))
    held = hold_out(tasks, 200, seed=1)
    assert len(held) == 5
    assert sorted({*held} & {*tasks}) == held
    assert hold_out(tasks, 3, seed=1) == hold_out(tasks, 3, seed=1)
    assert hold_out([1], 10, seed=0) == []
