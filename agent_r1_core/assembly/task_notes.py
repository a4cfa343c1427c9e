"""Sentences about the tasks of a run: their mixture, sets that are small, and questions both trained on and scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from agent_r1_core.assembly.task_order import shares
from agent_r1_core.assembly.task_sets import TRAIN, TaskSet, task_set_key
from agent_r1_core.config.training_checks import shared_tasks
from agent_r1_core.runs.trajectory_file import task_key

if TYPE_CHECKING:
    from agent_r1_core.config import ResolvedConfig, RunConfig
    from agent_r1_core.trajectory import Task


def describe_mixture(config: RunConfig, train: TaskSet) -> list[str]:
    """Sentences about the mixture, and about sets that have fewer tasks than a step takes."""
    per_step, count = config.training.tasks_per_step, len(train.tasks)
    sentences = []
    if isinstance(config.tasks.train, dict) and len(train.sizes) > 1 and config.training.curriculum is None:
        share = shares({name: block.weight for name, block in config.tasks.train_sets.items()})
        parts = [f"{name} ({float(share[name]):.3g} of the tasks played, has {n})" for name, n in train.sizes.items()]
        sentences.append(f"the training tasks are mixed from {', '.join(parts)}")
        sentences += [
            f"training.tasks_per_step is {per_step}, of which {float(share[name] * per_step):.3g} would be of {name}, "
            f"but it has only {n}: every step takes all of them, and more of the others"
            for name, n in train.sizes.items()
            if n < share[name] * per_step and count >= per_step
        ]
    if count < per_step:
        sentences.append(
            f"training.tasks_per_step is {per_step}, but there are only {count} training tasks: every step takes all "
            "of them"
        )
    return sentences


def describe_shared(resolved: ResolvedConfig, sets: Mapping[str, TaskSet]) -> list[str]:
    """Sentences about evaluation sets that ask what is trained on, unless a recipe of the package chose all tasks."""
    tasks = resolved.config.tasks
    if not (resolved.config.evaluation.happens and any(key.startswith("tasks.") for key in resolved.sources)):
        return []
    sentences = []
    for name in [name for name in sets if name != TRAIN]:
        asked = asked_in_training(sets[name].tasks, sets[TRAIN])
        sources = [task.metadata.get("source", "") for task in asked]
        for trained in dict.fromkeys(task_set_key(TRAIN, tasks.train, source) for source in sources):
            if sets[name].held_out is None:
                sentences.append(shared_tasks(task_set_key("eval", tasks.eval, name), trained))
            else:
                sentences.append(
                    f"{trained} has questions more than once, so that some that are held out are trained on, too: the "
                    "scores are likely too high; remove what is repeated, or set tasks.eval"
                )
    return [one for one in sentences if one not in resolved.warnings]


def describe_overlap(config: RunConfig, sets: Mapping[str, TaskSet]) -> list[str]:
    """Sentences about evaluation sets that ask the same."""
    asked = {name: {task_key(task) for task in of.tasks} for name, of in sets.items() if name != TRAIN}
    sentences = []
    for one, other in combinations(asked, 2):
        shared = len(asked[one] & asked[other])
        if config.evaluation.choose_on in (one, other):
            why = "so the checkpoint is chosen on questions that are scored, and the scores are likely too high"
        else:
            why = "so means, intervals and comparisons over both count these twice"
        if shared:
            sentences.append(f"the evaluation sets {one} and {other} share {shared} questions, {why}")
    return sentences


def asked_in_training(tasks: Sequence[Task], train: TaskSet) -> list[Task]:
    """The training tasks that ask the same as one of `tasks`, whatever their ids."""
    prompts, asked = {str(task.prompt) for task in tasks}, {task_key(task) for task in tasks}
    return [task for task in train.tasks if str(task.prompt) in prompts and task_key(task) in asked]
