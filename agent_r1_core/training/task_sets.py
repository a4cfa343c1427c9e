"""The tasks that a run trains on and is evaluated on.

Without an evaluation source, some training tasks are held out. The run records which ones, and every later resume or
evaluation uses exactly those; a second draw could pick tasks that were trained on (LAW 12).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent_r1_core.contracts.tool import ToolResources
from agent_r1_core.errors import ConfigError, RunError, TaskError
from agent_r1_core.folders import cache_dir
from agent_r1_core.runs.evaluation_tasks import EvaluationTasks
from agent_r1_core.runs.run import Run
from agent_r1_core.training.task_order import hold_out

if TYPE_CHECKING:
    from agent_r1_core.config import ComponentBlock, EvaluationConfig, ResolvedConfig, RunConfig
    from agent_r1_core.contracts.tasks import TaskSource
    from agent_r1_core.trajectory import Task

Note = Callable[[str], None]

TRAIN = "train"
"""The name of the training tasks; every evaluation set has its own name."""
_HELD_OUT = 200
"""Tasks to hold out if the recipe gives no number; at most a tenth of all."""


@dataclass(frozen=True)
class TaskSet:
    """Tasks, and their source, which has their corpus."""

    tasks: Sequence[Task]
    source: TaskSource
    held_out: tuple[str, ...] | None = None
    """Ids of all tasks that are held out of training; None if the set has its own source."""


def set_names(config: RunConfig, name: str) -> list[str]:
    """The task sets that a name means: `train`, `eval` for every evaluation set, or the name of one set.

    Raises:
        ConfigError: there is no such set.
    """
    sets = list(config.tasks.eval_sets)
    if name == "eval":
        return sets
    if name != TRAIN and name not in sets:
        raise ConfigError(f"there is no task set {name!r}; the sets are {', '.join([TRAIN, *sets])}")
    return [name]


def load_tasks(
    resolved: ResolvedConfig, names: Sequence[str], note: Note, run: Path | None = None
) -> dict[str, TaskSet]:
    """Load task sets by name.

    Args:
        resolved: the configuration.
        names: `train` and names of evaluation sets.
        note: told which tasks are held out.
        run: use the tasks that this run held out; None: draw them.

    Raises:
        RunError: `run` records no held-out tasks.
        TaskError: a source has no tasks, too few to hold some out, two with one id, or not all that `run` held out.
    """
    config = resolved.config
    blocks = {TRAIN: config.tasks.train, **config.tasks.eval_sets}
    sets = {name: _load(resolved, block, _key(config, name)) for name in names if (block := blocks[name]) is not None}
    if config.tasks.eval is None and "eval" in names:
        every = sets.get(TRAIN) or _load(resolved, config.tasks.train, "tasks.train")
        train, held = _held_out(every.tasks, config, note, run)
        sets["eval"] = TaskSet(held, every.source, tuple(task.id for task in held))
        if TRAIN in sets:
            sets[TRAIN] = TaskSet(train, every.source)
    for name, task_set in sets.items():
        if name != TRAIN:
            sets[name] = replace(task_set, tasks=_sampled(task_set.tasks, config.evaluation, config.seed))
    return sets


def tool_resources(resolved: ResolvedConfig, sets: Mapping[str, TaskSet], name: str) -> ToolResources:
    """What the tools of a task set may use: the cache folder, and the corpus of every task source of the run. A corpus
    is loaded when a tool asks for it. For the tools of an evaluation set, `eval` is the corpus of that set."""
    tasks = resolved.config.tasks
    sources: dict[str, TaskSource] = {
        other: sets[other].source if other in sets else resolved.make("tasks", block or tasks.train)
        for other, block in {TRAIN: tasks.train, **tasks.eval_sets}.items()
    }
    split = TRAIN if name == TRAIN else "eval"
    sources[split] = sources[name]
    return ToolResources(str(cache_dir()), {other: source.corpus for other, source in sources.items()}, split)


def record(sets: Mapping[str, TaskSet]) -> EvaluationTasks:
    """The record of the evaluation sets that a run keeps."""
    evaluated = {name: tuple(task.id for task in task_set.tasks) for name, task_set in sets.items() if name != TRAIN}
    held_out = (task_set.held_out for task_set in sets.values() if task_set.held_out is not None)
    return EvaluationTasks(evaluated, next(held_out, None))


def _held_out(
    tasks: Sequence[Task], config: RunConfig, note: Note, run: Path | None
) -> tuple[Sequence[Task], Sequence[Task]]:
    """The tasks to train on, and those held out."""
    if run is None:
        train, held = hold_out(tasks, config.evaluation.size or _HELD_OUT, config.seed)
        if not held:
            raise TaskError("tasks.train has a single task, so none can be held out; set tasks.eval")
        note(f"tasks.eval is not set: {len(held)} of {len(tasks)} training tasks are held out for evaluation")
        return train, held
    recorded = Run.open(run).evaluation_tasks()
    if recorded is None or recorded.held_out is None:
        raise RunError(
            f"run {run} records no held-out tasks, so without tasks.eval it might be scored on tasks that it was "
            f"trained on; set tasks.eval to a source of other tasks"
        )
    ids = set(recorded.held_out)
    held = [task for task in tasks if task.id in ids]
    if len(held) < len(ids):
        raise TaskError(
            f"run {run} held out {len(ids)} tasks, but tasks.train ({config.tasks.train.name}) has only {len(held)} of "
            f"them; give it the data that the run was trained on, or set tasks.eval"
        )
    note(f"tasks.eval is not set: the evaluation uses the {len(held)} tasks that {run} held out of training")
    return [task for task in tasks if task.id not in ids], held


def _sampled(tasks: Sequence[Task], settings: EvaluationConfig, seed: int) -> Sequence[Task]:
    """As many tasks as `evaluation.size` says, in their own order."""
    if settings.size is None or settings.size >= len(tasks):
        return tasks
    if settings.sample == "first":
        return tasks[: settings.size]
    chosen = random.Random(f"{seed}/evaluation").sample(range(len(tasks)), settings.size)
    return [tasks[index] for index in sorted(chosen)]


def _key(config: RunConfig, name: str) -> str:
    return f"tasks.eval.{name}" if isinstance(config.tasks.eval, dict) and name != TRAIN else f"tasks.{name}"


def _load(resolved: ResolvedConfig, block: ComponentBlock, where: str) -> TaskSet:
    source: TaskSource = resolved.make("tasks", block)
    tasks = source.load()
    if not tasks:
        raise TaskError(f"{where} ({block.name}) has no tasks; check its options or its file")
    repeated = next((name for name, times in Counter(task.id for task in tasks).items() if times > 1), None)
    if repeated is not None:
        raise TaskError(
            f"{where} ({block.name}) has several tasks with the id {repeated!r}; give every task its own id, since "
            "seeds and records depend on it"
        )
    return TaskSet(tasks, source)
