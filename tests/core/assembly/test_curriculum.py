"""A curriculum passes over what teaches nothing, draws more of what teaches, and goes on where it was kept."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable

import pytest

from agent_r1_core.assembly.curriculum import Curriculum, Part
from agent_r1_core.assembly.task_order import TaskOrder
from agent_r1_core.assembly.task_sets import TaskSet, training_order
from agent_r1_core.contracts.training import CurriculumConfig
from agent_r1_core.errors import ConfigError, TaskError
from agent_r1_core.metrics import declared as metric
from agent_r1_core.testing import make_task
from agent_r1_core.training.api import resolve
from agent_r1_core.training.supply import curriculum_metrics
from agent_r1_core.trajectory import Task


def curriculum(*sizes: int, **settings: object) -> Curriculum:
    """One of parts a, b, ... with these numbers of tasks."""
    parts, first = {}, 0
    for name, size in zip("abc", sizes, strict=False):
        parts[name] = Part(range(first, first + size), TaskOrder(size, f"7/{name}", True), float(size))
        first += size
    return Curriculum(parts, CurriculumConfig(**settings), seed=7)


def played(order: Curriculum, steps: int, varies: Callable[[int], bool], per_step=4) -> tuple[list[int], Curriculum]:
    """The tasks of so many steps, where the groups of a task have a spread or not."""
    every: list[int] = []
    for _ in range(steps):
        tasks, order = order.draw(per_step)
        more, order = order.draw(1, tasks)  # as resampling does
        assert len({*tasks, *more}) == per_step + 1
        order = order.learn({task: varies(task) for task in tasks + more})
        every += tasks + more
    return every, order


def test_tasks_without_spread_are_passed_over_and_come_back_when_they_teach():
    every, order = played(curriculum(20), 100, lambda task: task < 10)
    counts = Counter(every)
    assert min(counts[task] for task in range(10)) > 4 * max(counts[task] for task in range(10, 20))
    assert all(counts[task] for task in range(20)), "each is still tried at times"
    again, _ = played(order, 200, lambda task: task >= 10)
    late = Counter(again[500:])
    assert min(late[task] for task in range(10, 20)) > 2 * max(late[task] for task in range(10))


def test_a_part_whose_groups_have_a_spread_is_drawn_more_and_the_others_no_less_than_is_set():
    every, order = played(curriculum(50, 50, least=0.2, rest=0), 400, lambda task: task < 50)
    share = sum(task < 50 for task in every[1000:]) / len(every[1000:])
    assert share == pytest.approx(1 / 1.2, abs=0.04)
    found = curriculum_metrics(order)
    assert found[metric.CURRICULUM_SHARE.of("a")] == pytest.approx(1 / 1.2, abs=0.01)
    assert found[metric.CURRICULUM_SPREAD.of("b")] < 0.01
    assert found[metric.CURRICULUM_PASSED] == found[metric.CURRICULUM_RESTING] == 0


def test_as_long_as_every_group_has_a_spread_it_is_the_plain_order_and_there_are_tasks_even_where_all_rest():
    every, _ = played(curriculum(20), 12, lambda task: True)
    plain, _ = TaskOrder(20, "7/a", True).draw(20)
    assert every[:20] == plain
    assert set(Counter(every).values()) == {3}
    every, _ = played(curriculum(6), 50, lambda task: False)
    assert len(every) == 250
    assert sorted(curriculum(3).draw(9)[0]) == [0, 1, 2], "all there are"


@pytest.mark.parametrize("seed", range(5))
def test_a_kept_place_goes_on_exactly_there_whatever_the_order_of_the_groups(seed):
    def varies(task: int) -> bool:
        return random.Random(f"{seed}/{task}").random() < 0.4

    _, order = played(curriculum(9, 14), 10 + seed, varies)
    again = curriculum(9, 14).at(json.loads(json.dumps(order.state())))
    assert again == order
    assert played(again, 30, varies) == played(order, 30, varies)
    tasks, order = order.draw(8)
    forwards = {task: varies(task) for task in tasks}
    assert order.learn(forwards) == order.learn(dict(reversed(forwards.items())))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parts": {}}, "it is of the parts"),
        ({"draws": -1}, "whole number"),
        ({"resting": [[1, 2]]}, "unpack"),
        ({"resting": [[1, 2, 0.5]]}, "whole number"),
    ],
)
def test_a_damaged_place_is_refused(change, message):
    _, order = played(curriculum(9), 3, lambda task: False)
    with pytest.raises((TypeError, ValueError), match=message):
        order.at(order.state() | change)


def tasks_of(levels: list[object]) -> TaskSet:
    return TaskSet([Task(f"t{k}", "?", metadata={"level": level}) for k, level in enumerate(levels)], ())


def test_a_key_of_the_metadata_or_several_training_sets_make_the_parts_if_asked_for():
    config = resolve("calculator", ["training.curriculum={by: level}"]).config
    order = training_order(config, tasks_of(["easy", 3, "easy", "very hard"]))
    assert isinstance(order, Curriculum)
    assert {name: list(part.tasks) for name, part in order.parts.items()} == {
        "3": [1],
        "easy": [0, 2],
        "very_hard": [3],
    }
    with pytest.raises(TaskError, match="has no 'level' in its metadata"):
        training_order(config, TaskSet([make_task("bare")], ()))
    with pytest.raises(TaskError, match="have 65 values under 'level'"):
        training_order(config, tasks_of(list(range(65))))
    sets = "tasks.train={easy: {name: arithmetic, terms: 2}, hard: {name: arithmetic, terms: 4, weight: 3}}"
    config = resolve("calculator", [sets, "training.curriculum={}"]).config
    tasks = [Task(f"t{k}", "?", metadata={"source": name}) for k, name in enumerate(["easy", "hard", "hard"])]
    order = training_order(config, TaskSet(tasks, (), {"easy": 1, "hard": 2}))
    assert isinstance(order, Curriculum)
    assert {name: part.weight for name, part in order.parts.items()} == {"easy": 1, "hard": 3}
    with pytest.raises(ConfigError, match=r"training.curriculum.by .* has no effect here"):
        resolve("calculator", [sets, "training.curriculum={by: level}"])
    assert not isinstance(training_order(resolve("calculator", []).config, tasks_of([1, 2])), Curriculum)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["training.curriculum={}", "training.samples_per_task=1"], "compares the episodes of a group"),
        (["training.curriculum={}", "training.max_staleness=1"], "no step can begin ahead"),
        (["training.curriculum={rest: 0}"], "has nothing to choose"),
        (["training.curriculum={least: .5}"], "all tasks are one part"),
    ],
)
def test_a_curriculum_without_effect_is_refused(given, message):
    with pytest.raises(ConfigError, match=message):
        resolve("calculator", given)
