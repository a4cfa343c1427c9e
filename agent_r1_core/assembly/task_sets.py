"""The tasks that a run trains on and is evaluated on.

Several training sets become one, whose tasks know their set. Without an evaluation source, some training
tasks are held out, of several sets by their shares. The run records which ones, and every later resume or
evaluation uses exactly those; a second draw could pick tasks that were trained on (LAW 12).
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_r1_core.assembly.curriculum import Curriculum, Part
from agent_r1_core.assembly.task_order import MixedOrder, Order, TaskOrder, hold_out
from agent_r1_core.contracts.tool import ToolResources
from agent_r1_core.errors import ConfigError, RunError, TaskError, describe_error
from agent_r1_core.folders import cache_dir
from agent_r1_core.runs.evaluation_file import EvaluationTasks
from agent_r1_core.runs.run import Run
from agent_r1_core.runs.trajectory_file import tasks_digest

if TYPE_CHECKING:
    from agent_r1_core.config import EvaluationConfig, ResolvedConfig, RunConfig
    from agent_r1_core.contracts.blocks import ComponentBlock
    from agent_r1_core.contracts.tasks import Passage, TaskSource
    from agent_r1_core.contracts.training import CurriculumConfig
    from agent_r1_core.trajectory import Task

Note = Callable[[str], None]

TRAIN = "train"
"""The name of the training tasks; every evaluation set has its own name."""
_HELD_OUT = 200
"""Tasks to hold out if the recipe gives no number; at most a tenth of all."""
_MOST_PARTS = 64
"""Parts of a curriculum; each has metrics of its own."""


@dataclass(frozen=True)
class TaskSet:
    """Tasks, and their sources, which have their corpora."""

    tasks: Sequence[Task]
    sources: tuple[TaskSource, ...]
    """One, or those of several training sets."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Of several training sets that became one: how many of its tasks are each set's, in the order of the tasks."""
    held_out: tuple[str, ...] | None = None
    """Ids of all tasks that are held out of training; None if the set has its own source."""

    def corpus(self) -> Iterable[Passage] | None:
        """The passages of the sources, one source after the other; None if none of them has any."""
        corpora = [corpus for source in self.sources if (corpus := source.corpus()) is not None]
        return chain.from_iterable(corpora) if corpora else None


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


def unused_sets(config: RunConfig, names: Sequence[str]) -> list[str]:
    """The keys of the task sources that are not read where only these task sets are loaded."""
    tasks = config.tasks
    training = TRAIN in names or (tasks.eval is None and "eval" in names)
    unused = [] if training else [task_set_key(TRAIN, tasks.train, name) for name in tasks.train_sets]
    return unused + [task_set_key("eval", tasks.eval, name) for name in tasks.eval_sets if name not in names]


def load_tasks(
    resolved: ResolvedConfig, names: Sequence[str], note: Note, run: Path | None = None
) -> dict[str, TaskSet]:
    """Load task sets by name.

    Args:
        resolved: the configuration.
        names: `train` and names of evaluation sets.
        note: receives a sentence about the tasks that are held out.
        run: use the tasks that this run held out; None: draw them.

    Raises:
        RunError: `run` records no held-out tasks.
        TaskError: a source has no tasks, too few to hold some out, two with one id, or not all that `run` held out.
    """
    config = resolved.config
    eval_sets = config.tasks.eval_sets
    sets = {
        name: _load(resolved, block, task_set_key("eval", config.tasks.eval, name))
        for name in names
        if name != TRAIN and (block := eval_sets[name]) is not None
    }
    holding_out = config.tasks.eval is None and "eval" in names
    if TRAIN in names or holding_out:
        parts = _training_sets(resolved)
        if holding_out:
            parts, sets["eval"] = _held_out(parts, config, note, run)
        tasks = [task for part in parts.values() for task in part.tasks]
        sizes = {name: len(part.tasks) for name, part in parts.items()}
        sets[TRAIN] = TaskSet(tasks, _sources_of(parts), sizes)
    for name in sets.keys() - {TRAIN}:
        sets[name] = replace(sets[name], tasks=_sampled(sets[name].tasks, config.evaluation, config.seed))
    return {name: sets[name] for name in names}


def tool_resources(
    resolved: ResolvedConfig, sets: Mapping[str, TaskSet], name: str, tokenizer: str | None
) -> ToolResources:
    """What the tools of a task set may use: the cache folder, the corpus of every task source of the run, and the
    policy's tokenizer. A corpus is loaded when a tool asks for it; that of several training sets is their union. For
    the tools of an evaluation set, `eval` is the corpus of that set."""
    tasks = resolved.config.tasks
    training = list(tasks.train_sets.values())
    blocks = {TRAIN: training, **{other: [block] if block else training for other, block in tasks.eval_sets.items()}}
    corpora = {
        other: (sets.get(other) or TaskSet((), tuple(resolved.make("tasks", one) for one in used))).corpus
        for other, used in blocks.items()
    }
    split = TRAIN if name == TRAIN else "eval"
    corpora[split] = corpora[name]
    return ToolResources(str(cache_dir()), corpora, split, tokenizer)


def record(sets: Mapping[str, TaskSet]) -> EvaluationTasks:
    """The record of the task sets that a run keeps."""
    evaluated = {name: tuple(task.id for task in task_set.tasks) for name, task_set in sets.items() if name != TRAIN}
    held_out = (task_set.held_out for task_set in sets.values() if task_set.held_out is not None)
    digests = {name: tasks_digest(task_set.tasks) for name, task_set in sets.items()}
    return EvaluationTasks(evaluated, next(held_out, None), digests)


def training_order(config: RunConfig, train: TaskSet) -> Order:
    """The place before a run's first task.

    Raises:
        TaskError: the curriculum finds no parts, or too many.
    """
    shuffle, curriculum = config.training.shuffle, config.training.curriculum
    if curriculum is not None:
        return _curriculum(config, curriculum, train)
    if not isinstance(config.tasks.train, dict):
        return TaskOrder(len(train.tasks), config.seed, shuffle)
    orders = {name: TaskOrder(size, f"{config.seed}/{name}", shuffle) for name, size in train.sizes.items()}
    return MixedOrder(orders, {name: block.weight for name, block in config.tasks.train_sets.items()})


def _curriculum(config: RunConfig, settings: CurriculumConfig, train: TaskSet) -> Curriculum:
    """The place before a run's first task, of a curriculum whose parts are the training sets, or what has one value
    under a key of the metadata."""
    sets, key = config.tasks.train_sets, "source" if len(config.tasks.train_sets) > 1 else settings.by
    parts: dict[str, list[int]] = {}
    for number, task in enumerate(train.tasks):
        if key is not None and key not in task.metadata:
            raise TaskError(f"task {task.id} has no {key!r} in its metadata, which training.curriculum.by names")
        value = TRAIN if key is None else str(task.metadata[key])
        parts.setdefault(re.sub(r"\W", "_", value) or "_", []).append(number)
    if len(parts) > _MOST_PARTS:
        raise TaskError(
            f"the tasks have {len(parts)} values under {key!r}, which training.curriculum.by names; name a key with at "
            f"most {_MOST_PARTS}"
        )

    def part(name: str, tasks: list[int]) -> Part:
        order = TaskOrder(len(tasks), f"{config.seed}/{name}", config.training.shuffle)
        return Part(tasks, order, sets[name].weight if len(sets) > 1 else len(tasks))

    return Curriculum({name: part(name, parts[name]) for name in sorted(parts)}, settings, config.seed)


def _training_sets(resolved: ResolvedConfig) -> dict[str, TaskSet]:
    """The training sets by name; the tasks of several have the names of their sets in their metadata."""
    tasks = resolved.config.tasks
    loaded = {
        name: _load(resolved, block, task_set_key(TRAIN, tasks.train, name)) for name, block in tasks.train_sets.items()
    }
    owners: dict[str, str] = {}
    for name, part in loaded.items():
        for task in part.tasks:
            other = owners.setdefault(task.id, name)
            if other != name:
                raise TaskError(
                    f"tasks.train.{other} and tasks.train.{name} both have a task with the id {task.id!r}; choose "
                    "other tasks in one of them, or rename its file if the ids are places in it"
                )
    if not isinstance(tasks.train, dict):
        return loaded
    return {
        name: replace(part, tasks=[replace(task, metadata={**task.metadata, "source": name}) for task in part.tasks])
        for name, part in loaded.items()
    }


def _held_out(
    parts: Mapping[str, TaskSet], config: RunConfig, note: Note, run: Path | None
) -> tuple[dict[str, TaskSet], TaskSet]:
    """The sets to train on, and the tasks held out of them."""
    sources = _sources_of(parts)
    weights = {name: block.weight for name, block in config.tasks.train_sets.items()}
    if run is None:
        train, held = _hold_out(parts, weights, config.evaluation.size or _HELD_OUT, config.seed)
        if not held:
            raise TaskError("tasks.train has a single task, so none can be held out; set tasks.eval")
        count = sum(len(part.tasks) for part in parts.values())
        each = {name: len(part.tasks) - len(train[name].tasks) for name, part in parts.items()}
        of_sets = f" ({', '.join(f'{name} {number}' for name, number in each.items())})" if len(each) > 1 else ""
        note(f"tasks.eval is not set: {len(held)} of {count} training tasks are held out for evaluation{of_sets}")
        return train, TaskSet(held, sources, held_out=tuple(task.id for task in held))
    recorded = Run.open(run).evaluation_tasks()
    if recorded is None or recorded.held_out is None:
        raise RunError(
            f"run {run} records no held-out tasks, so without tasks.eval it might be scored on tasks that it was "
            f"trained on; set tasks.eval to a source of other tasks"
        )
    every = {task.id: task for part in parts.values() for task in part.tasks}
    held = [every[one] for one in recorded.held_out if one in every]
    if len(held) < len(recorded.held_out):
        names = ", ".join(block.name for block in config.tasks.train_sets.values())
        raise TaskError(
            f"run {run} held out {len(recorded.held_out)} tasks, but tasks.train ({names}) has only {len(held)} of "
            f"them; give it the data that the run was trained on, or set tasks.eval"
        )
    note(f"tasks.eval is not set: the evaluation uses the {len(held)} tasks that {run} held out of training")
    return _without(parts, recorded.held_out), TaskSet(held, sources, held_out=recorded.held_out)


def _hold_out(
    parts: Mapping[str, TaskSet], weights: Mapping[str, float], size: int, seed: int
) -> tuple[dict[str, TaskSet], list[Task]]:
    """The sets without the tasks that the seed chooses to hold out, and these, by the sets' shares and mixed by them.

    Args:
        parts: the training sets.
        weights: the weight of each.
        size: how many to hold out of all sets together; of each at least one, if it has two, and at most a tenth.
        seed: the run's.
    """
    order = MixedOrder({name: TaskOrder(size, seed, shuffle=False) for name in parts}, weights)
    share = order.counts(order.draw(size)[0])
    seeds = {name: f"{seed}/{name}" if len(parts) > 1 else seed for name in parts}
    held = {name: hold_out(part.tasks, share[name], seeds[name]) for name, part in parts.items()}
    mixed = MixedOrder({name: TaskOrder(len(tasks), seed, shuffle=False) for name, tasks in held.items()}, weights)
    every = [task for tasks in held.values() for task in tasks]
    chosen = [every[index] for index in mixed.draw(len(every))[0]]
    return _without(parts, [task.id for task in chosen]), chosen


def _without(parts: Mapping[str, TaskSet], ids: Collection[str]) -> dict[str, TaskSet]:
    """The sets without these tasks."""
    gone = frozenset(ids)
    return {
        name: replace(part, tasks=[task for task in part.tasks if task.id not in gone]) for name, part in parts.items()
    }


def _sampled(tasks: Sequence[Task], settings: EvaluationConfig, seed: int) -> Sequence[Task]:
    """As many tasks as `evaluation.size` says, in their own order."""
    if settings.size is None or settings.size >= len(tasks):
        return tasks
    if settings.sample == "first":
        return tasks[: settings.size]
    chosen = random.Random(f"{seed}/evaluation").sample(range(len(tasks)), settings.size)
    return [tasks[index] for index in sorted(chosen)]


def task_set_key(place: str, sources: Any, name: str) -> str:
    """Where the recipe names a task set: `tasks.train`, or `tasks.train.<name>` where `sources` has names."""
    return f"tasks.{place}.{name}" if isinstance(sources, dict) else f"tasks.{place}"


def _sources_of(parts: Mapping[str, TaskSet]) -> tuple[TaskSource, ...]:
    return tuple(source for part in parts.values() for source in part.sources)


def _load(resolved: ResolvedConfig, block: ComponentBlock, where: str) -> TaskSet:
    source: TaskSource = resolved.make("tasks", block)
    try:
        tasks = source.load()
        ids = Counter(task.id for task in tasks)
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:  # it would end the command without a word
        raise TaskError(
            f"{where} ({block.name}) gave no tasks: {describe_error(error)}; raise TaskError there"
        ) from None
    if not tasks:
        raise TaskError(f"{where} ({block.name}) has no tasks; check its options or its file")
    repeated = next((name for name, times in ids.items() if times > 1), None)
    if repeated is not None:
        raise TaskError(
            f"{where} ({block.name}) has several tasks with the id {repeated!r}; give every task its own id, since "
            "seeds and records depend on it"
        )
    return TaskSet(tasks, (source,))
