"""`agent-r1 rollout`: plays a few episodes with a model and prints them token by token, with mask and rewards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent_r1_cli.output import check_target, print_json, prints_apart, say
from agent_r1_cli.plugin_options import AsJson, DisabledPlugins, PluginFiles, TrustFiles, trust_as
from agent_r1_cli.recipe_arguments import Arguments, ModelName, resolve_for_model
from agent_r1_core.errors import RunError, TaskError

if TYPE_CHECKING:
    from agent_r1_core.assembly.assembly import Assembly
    from agent_r1_core.config import ResolvedConfig
    from agent_r1_core.evaluation.keeping import Kept
    from agent_r1_core.rollout import RolloutResult
    from agent_r1_core.trajectory import Trajectory

TaskSetName = Annotated[
    str,
    typer.Option("--set", metavar="NAME", help="Tasks and corpus to use: train, eval, or the name of a set."),
]
FirstTask = Annotated[int, typer.Option("--task", min=0, metavar="INDEX", help="The first task, counted from 0.")]
SuccessAt = Annotated[
    float | None,
    typer.Option(
        "--success-at",
        metavar="RETURN",
        help="Least return of a success; without it, what the environment calls one, else 1.",
    ),
]


def rollout(
    arguments: Arguments = None,
    model: ModelName = None,
    tasks: Annotated[int, typer.Option("--tasks", "-n", metavar="N", min=1, help="How many tasks.")] = 2,
    samples: Annotated[int, typer.Option("--samples", "-s", metavar="N", min=1, help="Episodes of each task.")] = 1,
    task: FirstTask = 0,
    task_set: TaskSetName = "eval",
    greedy: Annotated[bool, typer.Option("--greedy", help="Take the likeliest token instead of sampling.")] = False,
    keep_successes: Annotated[
        Path | None,
        typer.Option("--keep-successes", metavar="FILE", help="Write the successes to FILE as conversations instead."),
    ] = None,
    per_task: Annotated[
        int | None,
        typer.Option("--per-task", metavar="N", min=1, help="Most successes of a task to keep (default: 4)."),
    ] = None,
    success_at: SuccessAt = None,
    as_json: AsJson = False,
    plugin: PluginFiles = None,
    disable_plugin: DisabledPlugins = None,
    trust: TrustFiles = False,
) -> None:
    """Play a few episodes with a model and show every token.

    The policy's tokens are in colour, the environment's text is dim.

    \b
    agent-r1 rollout                      the bundled model
    agent-r1 rollout runs/default-1 -n 5  a run's best policy

    With --keep-successes the successes become a file that the task source `conversations` reads and `algorithm: sft`
    learns from: those of a task that differ, each played again from the file first to see that it is the same.
    """
    from agent_r1_cli.display import TrainDisplay

    _check_keeping(keep_successes, per_task, success_at)
    with prints_apart(as_json), TrainDisplay("loading torch and the model, then playing ...") as display:
        from agent_r1_core.contracts.success import PER_TASK
        from agent_r1_core.training.api import run_async
        from agent_r1_core.training.notices import causes_of

        keeping = None if keep_successes is None else (per_task or PER_TASK, success_at)
        resolved = resolve_for_model(arguments, model, plugin, disable_plugin, trust_as(trust, display))
        for warning in resolved.warnings:
            display.note(warning)
        assembly, result, kept = run_async(_play(resolved, task_set, task, tasks, samples, greedy, keeping))
    played = [trajectory for group in result.groups for trajectory in group.trajectories]
    if keep_successes is None or as_json:
        _show(assembly, played + result.dropped, as_json)
    if keep_successes is not None:
        _write(keep_successes, kept, len(played), next(iter(assembly.sets)))
    if result.dropped:
        failed = len(result.dropped)
        say(f"error: {failed} of {len(played) + failed} episodes failed: {causes_of(result.dropped)}")
        raise typer.Exit(1)


async def _play(
    resolved: ResolvedConfig,
    task_set: str,
    first: int,
    count: int,
    samples: int,
    greedy: bool,
    keeping: tuple[int, float | None] | None,
) -> tuple[Assembly, RolloutResult, Kept]:
    from agent_r1_core.assembly.assembly import assemble
    from agent_r1_core.assembly.components import make_tool_format
    from agent_r1_core.assembly.task_sets import set_names
    from agent_r1_core.evaluation.keeping import Kept, keep_successes
    from agent_r1_core.rollout import RolloutRequest
    from agent_r1_core.work import working

    name = set_names(resolved.config, task_set)[0]
    assembly = assemble(resolved, learning=False, task_sets=(name,), note=say)
    tasks = assembly.sets[name].tasks
    chosen = tasks[first : first + count]
    if not chosen:
        raise TaskError(f"there are {len(tasks)} tasks, so none has the index {first}; give a lower --task")
    try:
        await assembly.start()
        with working("playing", len(chosen) * samples, unit="episodes") as work:
            request = RolloutRequest(chosen, samples, "look", greedy, name)
            result = await assembly.rollouts.collect(request, lambda _: work.advance())
        kept = Kept()
        if keeping is not None:
            env: Any = resolved.registry.load("env", resolved.config.env.name).cls
            form = make_tool_format(resolved)
            kept = await keep_successes(assembly.rollouts, result.groups, form, name, *keeping, env.owns_context)
        return assembly, result, kept
    finally:
        await assembly.close()


def _check_keeping(file: Path | None, per_task: int | None, success_at: float | None) -> None:
    """Refuse a file that is there, and options that would do nothing.

    Raises:
        RunError: the file cannot be written, or exists.
    """
    if file is None:
        refuse_alone("--per-task", per_task, "--keep-successes")
        refuse_alone("--success-at", success_at, "--keep-successes")
        return
    check_target(file)
    if file.exists():
        raise RunError(f"{file} exists already; remove it, or choose another name")


def _write(file: Path, kept: Kept, episodes: int, split: str) -> None:
    """Write the conversations, if there are any, and say how many."""
    from agent_r1_core.runs.files import write_text

    if kept.left_out:
        reasons = list(dict.fromkeys(kept.left_out))
        more = f" (and {len(reasons) - 3} other reasons)" if len(reasons) > 3 else ""
        say(f"left out {len(kept.left_out)} of {kept.successes} successes: {'; '.join(reasons[:3])}{more}")
    if not kept.lines:
        say(f"error: {kept.successes} of {episodes} episodes succeeded, none is kept, and {file} is not written")
        raise typer.Exit(1)
    write_text(file, "".join(f"{line}\n" for line in kept.lines))
    say(f"{file}: {len(kept.lines)} conversations, from {kept.successes} successes among {episodes} episodes")
    warn_of_systems(kept.lines)
    if split != "train":
        say(f"its tasks are those of the set {split}, which evaluation asks too; --set train takes training's")


def _show(assembly: Assembly, trajectories: list[Trajectory], as_json: bool) -> None:
    from agent_r1_cli.transcript import Transcript, episode_json

    decode = assembly.tokenizer.decode
    if as_json:
        print_json({"episodes": [episode_json(trajectory, decode) for trajectory in trajectories]})
        return
    transcript = Transcript()
    transcript.legend()
    for trajectory in trajectories:
        transcript.episode(trajectory, decode)


def refuse_alone(option: str, given: object, beside: str) -> None:
    """Refuse an option that does nothing without another."""
    if given is not None:
        raise typer.BadParameter(f"it says what {beside} keeps; give {beside} too", param_hint=option)


def warn_of_systems(lines: list[str]) -> None:
    """Say so where conversations have system messages of their own."""
    from agent_r1_core.rollout.demonstration import task_of

    prompts = [prompt for prompt in (task_of(line).prompt for line in lines) if not isinstance(prompt, str)]
    if any(message["role"] == "system" for prompt in prompts for message in prompt):
        say("the tasks have system messages of their own; read the file with system: true")
