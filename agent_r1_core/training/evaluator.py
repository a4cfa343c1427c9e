"""Evaluates a model outside training: the agent itself, its baselines, or the agent with tools that say nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agent_r1_core.errors import ConfigError
from agent_r1_core.evaluation.baselines import SilentTool, closed_book, naive_rag, question
from agent_r1_core.evaluation.evaluate import Evaluation, evaluate_tasks
from agent_r1_core.runs.run import Run
from agent_r1_core.training.assembly import Assembly, assemble
from agent_r1_core.training.parts import make_tools

if TYPE_CHECKING:
    from agent_r1_core.config import ResolvedConfig
    from agent_r1_core.training.listener import Listener
    from agent_r1_core.trajectory import Task, Trajectory

Baseline = Literal["closed_book", "naive_rag"]


@dataclass(frozen=True)
class EvaluationPlan:
    """What is to be evaluated, and how."""

    resolved: ResolvedConfig
    """`model.name` is the model; `tasks.eval` the tasks; `evaluation.greedy` and `evaluation.size` apply."""
    samples: int = 1
    """Episodes per task; several report pass@k, and want `evaluation.greedy=false`."""
    baseline: Baseline | None = None
    """Ask without tools: `closed_book` the bare question, `naive_rag` after one search for its very words."""
    silence_tools: bool = False
    """Let every tool answer that nothing was found: a policy that still scores guesses."""


async def run_evaluation(plan: EvaluationPlan, listener: Listener) -> tuple[Evaluation, Path]:
    """Evaluate and record the result: in the model's own run, or in a new run directory.

    Raises:
        AgentR1Error: the plan contradicts itself, or a model, task source or tool cannot be had.
    """
    _check(plan)
    parts = assemble(
        plan.resolved if plan.baseline is None else _without_tools(plan.resolved),
        learning=False,
        splits=("eval",),
        wrap_tool=SilentTool if plan.silence_tools else None,
        note=listener.note,
    )
    split, config = parts.eval, parts.config
    total, ended = len(split.tasks) * plan.samples, 0

    def count(_: Trajectory) -> None:
        nonlocal ended
        ended += 1
        listener.episodes(ended, total, "evaluation")

    try:
        await parts.start()
        tasks = await _prepared(plan, parts)
        found = await evaluate_tasks(
            split.collector,
            tasks,
            samples=plan.samples,
            greedy=config.evaluation.greedy,
            sampling=parts.sampling,
            on_episode=count,
        )
    finally:
        await parts.close()
    return found, _record(plan, parts, found)


def _check(plan: EvaluationPlan) -> None:
    if plan.baseline and plan.silence_tools:
        raise ConfigError(f"the baseline {plan.baseline} has no tools to silence; drop one of the two")
    if plan.samples > 1 and plan.resolved.config.evaluation.greedy:
        raise ConfigError("several greedy samples of a task are equal; set evaluation.greedy=false, or samples to 1")
    if plan.baseline == "naive_rag" and not plan.resolved.config.tools:
        raise ConfigError("naive_rag searches with the recipe's first tool, and tools is empty; name a search tool")


def _without_tools(resolved: ResolvedConfig) -> ResolvedConfig:
    return replace(resolved, config=resolved.config.model_copy(update={"tools": ()}))


async def _prepared(plan: EvaluationPlan, parts: Assembly) -> Sequence[Task]:
    """The tasks as the plan asks them."""
    tasks = parts.eval.tasks
    if plan.baseline == "closed_book":
        return [closed_book(task) for task in tasks]
    if plan.baseline == "naive_rag":
        return await _with_passages(plan, parts, tasks)
    return tasks


async def _with_passages(plan: EvaluationPlan, parts: Assembly, tasks: Sequence[Task]) -> list[Task]:
    """Each question with what the recipe's search tool finds for its very words."""
    tools = make_tools(plan.resolved, 1)
    await tools.start(parts.eval.resources)
    try:
        tool = next(iter(tools.tools.values()))
        search = getattr(tool, "search", None)
        if search is None:
            raise ConfigError(
                f"naive_rag needs a first tool that can search, and {tool.name} has no search(query); name one in tools"
            )
        return [naive_rag(task, lambda _, task=task: search(question(task))) for task in tasks]  # type: ignore[misc]
    finally:
        await tools.close()


def _record(plan: EvaluationPlan, parts: Assembly, found: Evaluation) -> Path:
    """Write the result, and in a run of its own the episodes too."""
    result = {
        **found.result.to_json(),
        "model": parts.config.model.name,
        "policy": str(parts.policy_folder),
        "baseline": plan.baseline,
        "silence_tools": plan.silence_tools,
        "config": parts.resolved.dump(),
    }
    if parts.model.run is not None:
        return _write(Run.open(parts.model.run), result)
    settings = parts.config.run
    with Run.create(
        settings.dir,
        settings.name,
        parts.resolved.dump(),
        parts.resolved.registry.to_json(),
        stem=f"eval-{parts.resolved.recipe}",
    ) as run:
        run.write_trajectories(0, found.trajectories)
        return _write(run, result)


def _write(run: Run, result: dict[str, object]) -> Path:
    taken = set(run.evaluations())
    number = next(index for index in range(1, len(taken) + 2) if f"eval_{index}" not in taken)
    return run.write_evaluation(f"eval_{number}", result)
