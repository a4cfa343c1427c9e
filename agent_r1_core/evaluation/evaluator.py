"""Evaluates a policy: plays its episodes on the evaluation sets and reports its scores, during training, or on its own
with baselines and silenced tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_r1_core.assembly.assembly import Assembly, assemble
from agent_r1_core.assembly.site import HERE, Site
from agent_r1_core.contracts.success import judged
from agent_r1_core.errors import ConfigError, EpisodeError, TaskError
from agent_r1_core.evaluation.baselines import BASELINES, BaselineName, SilentTool, search_and_ask
from agent_r1_core.evaluation.episode_record import EpisodeRecord
from agent_r1_core.evaluation.listener import Listener, episode_counter
from agent_r1_core.evaluation.provenance import provenance, provenance_in_training
from agent_r1_core.evaluation.report import EvaluationResult, combine, report
from agent_r1_core.rollout import Measurer, RolloutRequest
from agent_r1_core.runs.directory import check_writable, make_folders
from agent_r1_core.runs.run import Run
from agent_r1_core.trajectory import EndStatus, Task, Trajectory

if TYPE_CHECKING:
    from agent_r1_core.config import ResolvedConfig
    from agent_r1_core.rollout import Collect

ROUND = -1
"""The rollout round of every evaluation. All evaluations of a run draw the same seeds, so that only the policy differs;
training rounds (from 0) draw others (LAW 11)."""
_SILENCED = f"silenced tools: every call is answered with '{SilentTool.answer}'"


@dataclass(frozen=True)
class EvaluationPlan:
    """What to evaluate, and how."""

    resolved: ResolvedConfig
    """Names the model (`model.name`) and the tasks (`tasks.eval`); `evaluation.greedy` and `evaluation.size` apply."""
    samples: int = 1
    """Episodes per task; several report pass@k and need `evaluation.greedy=false`."""
    baseline: BaselineName | None = None
    """The baseline to play instead of the agent; see BASELINES."""
    silence_tools: bool = False
    """Every tool answers that it found nothing; a policy that still scores is guessing."""

    @property
    def conditions(self) -> list[str]:
        """What a reader of the report must know."""
        if self.baseline is not None:
            return [f"baseline {self.baseline}: {BASELINES[self.baseline].summary}"]
        return [_SILENCED] if self.silence_tools else []


@dataclass(frozen=True)
class Prepared:
    """What an evaluation set asks, with what its report states."""

    tasks: Sequence[Task]
    tools: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """How the tools describe themselves."""
    conditions: Sequence[str] = ()
    """What else a reader of the report must know; sentences about scores that episodes lack follow."""
    provenance: Mapping[str, str] = field(default_factory=dict)
    """What the scores rest on: corpus, checkpoint, held_out."""


@dataclass(frozen=True)
class Evaluation:
    """A result with the episodes behind it."""

    result: EvaluationResult
    sets: Mapping[str, list[Trajectory]]
    """All episodes by the name of their set, which is empty if there is one without a name; the failed ones come
    last."""
    episodes: list[EpisodeRecord]
    """What the result was computed from: a record of each episode."""

    @property
    def trajectories(self) -> list[Trajectory]:
        return [trajectory for episodes in self.sets.values() for trajectory in episodes]


async def evaluate_tasks(
    collect: Collect,
    prepared: Prepared,
    *,
    split: str = "eval",
    samples: int = 1,
    greedy: bool = True,
    sampling: Mapping[str, Any] | None = None,
    asked: Sequence[Task] = (),
    set_name: str = "",
    scores: Measurer | None = None,
    on_episode: Callable[[Trajectory], None] | None = None,
) -> Evaluation:
    """Play episodes and score them; where the policy plays against itself, the scores are player 0's.

    Args:
        collect: Plays a rollout request: the method of a collector or of a run's rollouts.
        split: The split whose tools and corpus the episodes use.
        samples: Episodes per task; with several, `pass@<samples>` is reported.
        greedy: Take the most likely token instead of sampling.
        sampling: Settings to state in the report: temperature, top_p, top_k, max_new_tokens, max_turns, seed, ...
        asked: The tasks as their source gave them, if they are asked in other words; the records keep these.
        set_name: The name of the set, for the records; empty if it has none.
        scores: What to measure besides the scores that every evaluation has; failed episodes are not measured.
        on_episode: Called as each episode ends, failed ones included.

    Raises:
        TaskError: there are no tasks.
        EpisodeError: none of their episodes finished.
    """
    if not prepared.tasks:
        raise TaskError("there are no tasks to evaluate on; set tasks.eval to a source that has some")
    rollout = await collect(RolloutRequest(prepared.tasks, samples, ROUND, greedy, split), on_episode)
    stated = {"greedy": greedy, "samples": samples} | dict(sampling or {}) | ({"temperature": 0.0} if greedy else {})
    scores = scores or Measurer()
    played = rollout.episodes + rollout.dropped
    measured, faults = await scores.measure(played)
    by_id = {task.id: task for task in asked}
    episodes = [
        EpisodeRecord.of(one, by_id.get(one.task.id), set_name, values)
        for one, values in zip(played, measured, strict=True)
    ]
    successes = judged([one.success for one in episodes], [one.status == EndStatus.TRUNCATED for one in episodes])
    episodes = [replace(one, success=success) for one, success in zip(episodes, successes, strict=True)]
    try:
        result = report(
            episodes,
            sampling=stated,
            samples=samples,
            tools=prepared.tools,
            conditions=(*prepared.conditions, *faults),
            provenance=prepared.provenance,
            declared=scores.declared,
        )
    except ValueError as error:
        raise EpisodeError(str(error)) from error
    return Evaluation(result, {set_name: played}, episodes)


def in_training(assembly: Assembly, step: int) -> dict[str, Prepared]:
    """What the evaluation sets ask of a policy that is still trained: their own tasks."""
    return {
        name: Prepared(
            one.tasks, assembly.rollouts.tools(name), assembly.conditions, provenance_in_training(assembly, name, step)
        )
        for name, one in assembly.evaluation.items()
    }


async def evaluate_sets(
    assembly: Assembly, listener: Listener, prepared: Mapping[str, Prepared], samples: int = 1
) -> Evaluation:
    """Evaluate the started assembly's policy on its evaluation sets, one after the other.

    Args:
        assembly: holds the policy, the sets, `evaluation.greedy` and the recipe's `scores`.
        listener: told how many episodes of all sets have ended.
        prepared: what to ask, by set.
        samples: episodes per task.

    Raises:
        TaskError: a set has no tasks.
        EpisodeError: none of the episodes of a set finished.
    """
    config = assembly.config
    total = samples * sum(len(question_set.tasks) for question_set in prepared.values())
    on_episode = episode_counter(listener, total, "evaluation")
    evaluations = {
        name: await evaluate_tasks(
            assembly.rollouts.collect,
            prepared[name],
            split=name,
            samples=samples,
            greedy=config.evaluation.greedy,
            sampling=assembly.sampling,
            asked=one.tasks,
            scores=assembly.scores,
            set_name=name if isinstance(config.tasks.eval, dict) else "",
            on_episode=on_episode,
        )
        for name, one in assembly.evaluation.items()
    }
    if not isinstance(config.tasks.eval, dict):
        return next(iter(evaluations.values()))
    results = {name: evaluation.result for name, evaluation in evaluations.items()}
    sets = {name: trajectories for one in evaluations.values() for name, trajectories in one.sets.items()}
    episodes = [episode for evaluation in evaluations.values() for episode in evaluation.episodes]
    return Evaluation(combine(results, config.evaluation.choose_on), sets, episodes)


async def record_evaluation(
    assembly: Assembly, run: Run, name: str, evaluation: Evaluation, result: Mapping[str, Any], step: int | None = None
) -> Path:
    """Write an evaluation with its episodes, token by token as many as `recording.evaluation_episodes` says; returns
    the file of the result, which is written last: all that it names is on disk.

    Args:
        name: of the evaluation.
        result: what that file says.
        step: the training step of a policy in training.
    """
    most, files = assembly.config.recording.evaluation_episodes, dict[str, str]()
    for set_name, trajectories in evaluation.sets.items() if most else ():
        file = run.evaluation_trajectories_file(name, set_name)
        await assembly.rollouts.write(file, step, trajectories[:most])
        files[set_name] = file.name
    if files:
        await assembly.rollouts.written()
    return run.write_evaluation(name, result, step, [one.to_json() for one in evaluation.episodes], files)


async def run_evaluation(plan: EvaluationPlan, listener: Listener, site: Site = HERE) -> tuple[Evaluation, Path]:
    """Evaluate a policy and record the result in the model's own run, or in a new run directory.

    Raises:
        AgentR1Error: the plan contradicts itself, or a model, task source or tool is not available.
    """
    _check(plan)
    calls_tools = plan.baseline is None or BASELINES[plan.baseline].uses_tools
    assembly = assemble(
        plan.resolved if calls_tools else _without_tools(plan.resolved),
        learning=False,
        task_sets=("eval",),
        wrap_tool=SilentTool if plan.silence_tools else None,
        site=site,
        note=listener.note,
    )
    try:
        own = assembly.model.run
        check_writable(Path(assembly.config.run.dir) if own is None else own / "evaluations")
        await assembly.start()
        prepared = {name: await _prepared(plan, assembly, name) for name in assembly.evaluation}
        evaluation = await evaluate_sets(assembly, listener, prepared, plan.samples)
        return evaluation, await _record(plan, assembly, evaluation)
    finally:
        await assembly.close()


def _check(plan: EvaluationPlan) -> None:
    config, baseline = plan.resolved.config, plan.baseline
    if baseline and plan.silence_tools:
        raise ConfigError(f"tools are silenced for the agent, not for the baseline {baseline}; drop one of the two")
    if plan.silence_tools and not config.tools:
        raise ConfigError("there are no tools to silence, since tools is empty; name some, or drop --silence-tools")
    if plan.samples > 1 and config.evaluation.greedy:
        raise ConfigError("several greedy samples of a task are equal; set evaluation.greedy=false, or samples to 1")
    if baseline == "naive_rag" and not config.tools:
        raise ConfigError("naive_rag searches with the recipe's first tool, but tools is empty; name a search tool")
    if baseline in ("base_tool_call", "react") and not config.tools:
        raise ConfigError(f"{baseline} calls tools, but tools is empty; name some, or take closed_book")
    if baseline in ("base_tool_call", "react") and Run.is_run(config.model.name):
        raise ConfigError(
            f"{baseline} is an untrained model, but the model is the run {config.model.name}; name the run as the "
            f"recipe (agent-r1 eval {config.model.name}), or score it without a baseline"
        )
    if baseline == "react" and getattr(config.env.config, "system_prompt", None) == "":
        raise ConfigError(
            "react asks in a system prompt, but env.system_prompt is empty, as for a model that was trained without "
            "one; take an instruct model and env.system_prompt=null, or base_tool_call"
        )


def _without_tools(resolved: ResolvedConfig) -> ResolvedConfig:
    """Without examples, too, which show how tools are called."""
    resolved = resolved.replace({"env.examples": None, "env.max_examples": None})
    return replace(resolved, config=resolved.config.model_copy(update={"tools": ()}))


async def _prepared(plan: EvaluationPlan, assembly: Assembly, name: str) -> Prepared:
    """What the plan asks of a set, with what its scores rest on."""
    asked = tasks = assembly.sets[name].tasks
    tools: Mapping[str, dict[str, Any]] = assembly.rollouts.tools(name)
    if plan.baseline is not None:
        baseline = BASELINES[plan.baseline]
        if baseline.searches:
            asked, tools = await search_and_ask(baseline, plan.resolved, assembly, name)
        else:
            asked = [baseline.ask(task) for task in tasks]
    conditions = [*plan.conditions, *assembly.conditions, *assembly.model.chosen_among(tasks)]
    return Prepared(asked, tools, conditions, provenance(assembly.model, tasks, tools))


async def _record(plan: EvaluationPlan, assembly: Assembly, evaluation: Evaluation) -> Path:
    result = {
        **evaluation.result.to_json(),
        "model": assembly.config.model.name,
        "policy": assembly.model.to_json(),
        "baseline": plan.baseline,
        "silence_tools": plan.silence_tools,
        "config": assembly.resolved.dump(),
    }
    if assembly.model.run is not None:
        own = Run.open(assembly.model.run)
        make_folders(own.path)
        return await record_evaluation(assembly, own, _free_name(own), evaluation, result)
    settings = assembly.config.run
    with Run.create(
        settings.dir,
        settings.name,
        assembly.resolved.dump(),
        assembly.resolved.registry.to_json(),
        stem=f"eval-{assembly.resolved.recipe}",
        recipe=assembly.resolved.recipe,
    ) as run:
        return await record_evaluation(assembly, run, _free_name(run), evaluation, result)


def _free_name(run: Run) -> str:
    names = set(run.evaluations())
    number = next(index for index in range(1, len(names) + 2) if f"eval_{index}" not in names)
    return f"eval_{number}"
