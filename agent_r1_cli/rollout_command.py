"""`agent-r1 rollout`: plays a few episodes with a model and prints them token by token, with mask and rewards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from agent_r1_cli.output import print_json, say
from agent_r1_cli.plugin_options import AsJson, DisabledPlugins, PluginFiles, TrustFiles, trust_as
from agent_r1_cli.recipe_arguments import Arguments, ModelName, resolve_for_model

if TYPE_CHECKING:
    from agent_r1_core.config import ResolvedConfig
    from agent_r1_core.rollout import RolloutResult
    from agent_r1_core.training.assembly import Assembly
    from agent_r1_core.trajectory import Trajectory

TaskSetName = Annotated[
    str,
    typer.Option("--set", metavar="NAME", help="Tasks and corpus to use: train, eval, or the name of a set."),
]
FirstTask = Annotated[int, typer.Option("--task", min=0, metavar="INDEX", help="The first task, counted from 0.")]


def rollout(
    arguments: Arguments = None,
    model: ModelName = None,
    tasks: Annotated[int, typer.Option("--tasks", "-n", metavar="N", min=1, help="How many tasks.")] = 2,
    samples: Annotated[int, typer.Option("--samples", "-s", metavar="N", min=1, help="Episodes of each task.")] = 1,
    task: FirstTask = 0,
    task_set: TaskSetName = "eval",
    greedy: Annotated[bool, typer.Option("--greedy", help="Take the likeliest token instead of sampling.")] = False,
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
    """
    from agent_r1_cli.display import TrainDisplay

    with TrainDisplay("loading torch and the model, then playing ...") as display:
        from agent_r1_core.training.api import run_async

        resolved = resolve_for_model(arguments, model, plugin, disable_plugin, trust_as(trust, display))
        for warning in resolved.warnings:
            display.note(warning)
        assembly, result = run_async(_play(resolved, task_set, task, tasks, samples, greedy))
    played = [trajectory for group in result.groups for trajectory in group.trajectories]
    _show(assembly, played + result.dropped, as_json)
    if result.dropped:
        failed, reason = len(result.dropped), result.dropped[0].reason
        say(f"error: {failed} of {len(played) + failed} episodes failed: {reason}")
        raise typer.Exit(1)


async def _play(
    resolved: ResolvedConfig, task_set: str, first: int, count: int, samples: int, greedy: bool
) -> tuple[Assembly, RolloutResult]:
    from agent_r1_core.errors import TaskError
    from agent_r1_core.rollout import RolloutRequest
    from agent_r1_core.training.assembly import assemble
    from agent_r1_core.training.task_sets import set_names
    from agent_r1_core.work import working

    name = set_names(resolved.config, task_set)[0]
    assembly = assemble(resolved, learning=False, splits=(name,), note=say)
    split = assembly.splits[name]
    chosen = split.tasks[first : first + count]
    if not chosen:
        raise TaskError(f"there are {len(split.tasks)} tasks, so none has the index {first}; give a lower --task")
    try:
        await assembly.start()
        with working("playing", len(chosen) * samples, unit="episodes") as work:
            request = RolloutRequest(chosen, samples, "look", greedy, name)
            return assembly, await assembly.rollouts.collect(request, lambda _: work.advance())
    finally:
        await assembly.close()


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
