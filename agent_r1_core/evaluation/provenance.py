"""What a score rests on, in sentences (LAW 12): its corpus, how the checkpoint was chosen, what was held out.

Nothing is assumed. Whether a task was trained on, under whatever id, is looked up in the trajectories of the policy's
run, up to the step of the policy; of a model that no run here trained, it is not known. A run that began with another
run's policy answers for itself alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent_r1_core.assembly.task_notes import asked_in_training
from agent_r1_core.errors import RunError
from agent_r1_core.runs.run import Run
from agent_r1_core.runs.trajectory_file import read_task_keys, task_key

if TYPE_CHECKING:
    from agent_r1_core.assembly.assembly import Assembly
    from agent_r1_core.assembly.model_source import ModelSource
    from agent_r1_core.runs.checkpoint import RunPolicy
    from agent_r1_core.trajectory import Task

TOO_HIGH = "the scores are likely too high"
Tools = Mapping[str, Mapping[str, Any]]


def provenance(model: ModelSource, tasks: Sequence[Task], tools: Tools) -> dict[str, str]:
    """What the scores of a finished policy rest on."""
    return {"corpus": corpus(tools), "checkpoint": _checkpoint(model, tasks), "held_out": _held_out(model, tasks)}


def provenance_in_training(assembly: Assembly, name: str, step: int) -> dict[str, str]:
    """What the scores on an evaluation set rest on, of a policy that is still trained, after `step`."""
    tasks = assembly.sets[name].tasks
    alike = {task_key(task) for task in asked_in_training(tasks, assembly.train)}
    return {
        "corpus": corpus(assembly.rollouts.tools(name)),
        "checkpoint": f"the policy in training, after step {step}; no score chose it",
        "held_out": _shared(tasks, alike, "tasks.train"),
    }


def corpus(tools: Tools) -> str:
    """Which passages the tools search, and how many."""
    searched = [f"{name} searches {_passages(facts)}" for name, facts in tools.items() if "passages" in facts]
    return "; ".join(searched) or "none: no tool searches passages"


def _passages(facts: Mapping[str, Any]) -> str:
    origin = str(facts.get("corpus", "an unnamed corpus"))
    whence = f"that come with the questions ({origin})" if origin.startswith("tasks.") else f"of {origin}"
    return f"{facts['passages']} passages {whence}" + (f", hash {facts['hash']}" if facts.get("hash") else "")


def _checkpoint(model: ModelSource, tasks: Sequence[Task]) -> str:
    if model.run is None or model.policy is None:
        return f"{model.describe()}: no run here trained it, and no score here chose it"
    if model.policy.chosen_by is None:
        return f"{model.describe()}; no score chose it"
    if model.policy.among < 2:
        return f"{model.describe()}; it was the only one"
    choosing = model.choosing_tasks()
    if choosing is None:
        return f"{model.describe()}, on tasks that are not known: the run lacks its evaluation_tasks.json"
    shared = sum(task.id in choosing for task in tasks)
    scored = f"{shared} of them are scored here" if shared else "none of them is scored here"
    return f"{model.describe()}, on {len(choosing)} tasks; {scored}"


def _held_out(model: ModelSource, tasks: Sequence[Task]) -> str:
    if model.run is None or model.policy is None:
        return "not known: no run here trained the model"
    try:
        trained = _trained(Run.open(model.run), model.policy)
    except RunError as error:
        return f"not known: {error}"
    return _shared(tasks, trained, f"{model.run.name}'s training")


def _trained(run: Run, policy: RunPolicy) -> set[str]:
    """The tasks that a policy was trained on; raises a RunError where trajectories of a step are missing or damaged."""
    steps = [step for step in run.trajectory_steps() if 1 <= step <= policy.step]
    if len(steps) < policy.step:
        raise RunError(f"{run.path} keeps the trajectories of {len(steps)} of {policy.step} steps")
    return {key for step in steps for key in read_task_keys(run.trajectory_file(step))}


def _shared(tasks: Sequence[Task], trained: set[str], where: str) -> str:
    shared = sum(task_key(task) in trained for task in tasks)
    if shared:
        return f"{shared} of these {len(tasks)} tasks are in {where}: {TOO_HIGH}"
    return f"none of these {len(tasks)} tasks is in {where}"
