"""Several training sets are mixed by their weights, in every window, and each runs through its own tasks."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agent_r1_core.assembly.checkpointing import load_task_order
from agent_r1_core.assembly.task_order import MixedOrder, TaskOrder, shares
from agent_r1_core.errors import RunError
from agent_r1_core.runs.checkpoint import Checkpoint
from agent_r1_core.runs.checkpoints import Checkpoints

SIZES = {"hotpot": 30, "wiki": 20, "music": 10}


def mixture(weights: dict[str, float], sizes: dict[str, int] | None = None, seed: int = 3) -> MixedOrder:
    sizes = sizes or {name: SIZES[name] for name in weights}
    return MixedOrder({name: TaskOrder(size, f"{seed}/{name}", True) for name, size in sizes.items()}, weights)


def owner(order: MixedOrder, task: int) -> tuple[str, int]:
    """The set of a task, and its number in that set."""
    for name, one in order.orders.items():
        if task < one.tasks:
            return name, task
        task -= one.tasks
    raise AssertionError("no such task")


@pytest.mark.parametrize("seed", range(8))
def test_after_any_number_of_tasks_each_set_is_less_than_one_away_from_its_share(seed: int) -> None:
    numbers = random.Random(seed)
    weights = {f"set{index}": numbers.choice([0.1, 0.3, 1, 1.5, 2, 7]) for index in range(numbers.randrange(2, 6))}
    order = mixture(weights, {name: numbers.randrange(20, 60) for name in weights})
    played, share = Counter[str](), shares(weights)
    for total in range(1, 400):
        (task,), order = order.draw(1)
        played[owner(order, task)[0]] += 1
        assert all(abs(played[name] - share[name] * total) < 1 for name in weights)


def test_each_set_comes_whole_before_any_of_its_tasks_comes_again() -> None:
    order = mixture({"hotpot": 2.0, "wiki": 1.0, "music": 1.0}, {"hotpot": 20, "wiki": 20, "music": 7})
    played: list[int] = []
    for _ in range(40):
        step, order = order.draw(8)
        assert len(set(step)) == 8
        played += step
    for name, size in (("hotpot", 20), ("wiki", 20), ("music", 7)):
        own = [number for task in played for found, number in [owner(order, task)] if found == name]
        epochs = [own[start : start + size] for start in range(0, len(own) - size + 1, size)]
        assert all(sorted(epoch) == list(range(size)) for epoch in epochs)
        assert epochs[0] != epochs[1]


@pytest.mark.parametrize("seed", range(10))
def test_a_kept_place_goes_on_exactly_there_also_among_steps_that_draw_again(seed: int) -> None:
    def steps(order: MixedOrder, sizes: random.Random, count: int) -> tuple[list[list[int]], MixedOrder]:
        found = []
        for _ in range(count):
            step, order = order.draw(sizes.randrange(1, 9))
            while sizes.random() < 0.5:
                more, order = order.draw(sizes.randrange(1, 5), step)
                step = step + more
            assert len(set(step)) == len(step)
            found.append(step)
        return found, order

    first = mixture({"hotpot": 1.0, "wiki": 3.0}, {"hotpot": 11, "wiki": 13}, seed)
    sizes = random.Random(seed)
    _, order = steps(first, sizes, seed)
    again = first.at(json.loads(json.dumps(order.state())))
    assert again == order
    state = sizes.getstate()
    rest, _ = steps(order, sizes, 20)
    sizes.setstate(state)
    assert steps(again, sizes, 20)[0] == rest


def test_a_set_that_is_too_small_for_its_share_gives_all_it_has_to_every_step() -> None:
    order = mixture({"wiki": 1.0, "music": 1.0}, {"wiki": 20, "music": 3})
    for _ in range(5):
        step, order = order.draw(10)
        assert Counter(owner(order, task)[0] for task in step) == {"wiki": 7, "music": 3}
    step, order = order.draw(30)
    assert sorted(step) == list(range(23)), "all tasks there are"
    assert order.draw(4, step) == ([], order)


def checkpoint(folder: Path, state: Any) -> Checkpoint:
    return Checkpoints(folder).save(3, lambda path: (path / "task_order.json").write_text(json.dumps(state)) and None)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (TaskOrder(50, 3, True).state(), "'sets'"),
        ({"sets": 3}, "it tells no sets"),
        ({"sets": {"wiki": TaskOrder(20, 3, True).state()}}, "it is of the sets wiki, and there are hotpot, wiki"),
        (
            mixture({"hotpot": 1, "wiki": 1}, {"hotpot": 30, "wiki": 9}).state(),
            "counts 9 training tasks, and there are 20",
        ),
    ],
)
def test_a_place_in_another_mixture_is_refused(tmp_path: Path, state: Any, said: str) -> None:
    with pytest.raises(RunError, match=rf"task_order.json does not say where the run stands .*{said}.*; give the run"):
        load_task_order(mixture({"hotpot": 1, "wiki": 1}), checkpoint(tmp_path, state))
