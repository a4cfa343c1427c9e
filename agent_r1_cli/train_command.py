"""`agent-r1 train`: train an agent by a recipe."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent_r1_cli.output import say
from agent_r1_cli.plugin_options import DisabledPlugins, PluginFiles
from agent_r1_cli.recipe_arguments import Arguments, split_arguments

if TYPE_CHECKING:
    from agent_r1_core.config import ResolvedConfig
    from agent_r1_core.runs.run import Run


def train(
    arguments: Arguments = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run: give its directory, or the recipe and run.name=NAME.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a run of that name; with --resume: although plugins changed.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the resolved configuration, its plugins and memory; do nothing.")
    ] = False,
    plugin: PluginFiles = None,
    disable_plugin: DisabledPlugins = None,
) -> None:
    """Train an agent by a recipe.

    \b
    agent-r1 train                           GRPO on the bundled model
    agent-r1 train ppo training.steps=50     another recipe, with a key changed
    agent-r1 train my_recipe.yaml --dry-run  see what a recipe would do
    agent-r1 train runs/default-1 --resume   go on after an interruption
    """
    from agent_r1_cli.display import TrainDisplay

    recipe, overrides = split_arguments(arguments)
    options: dict[str, Any] = {"plugins": plugin or (), "disabled": disable_plugin or ()}
    with TrainDisplay() as display:
        from agent_r1_core.training.api import resolve, train_resolved

        resolved = resolve(recipe, overrides, resume=resume or dry_run, **options)
        if not dry_run:
            run = train_resolved(resolved, resume=resume, force=force, listener=display)
    if dry_run:
        _show(resolved)
    else:
        _finish(run, resolved)


def _show(resolved: ResolvedConfig) -> None:
    """Print what a run would be; stdout is YAML."""
    from agent_r1_core.training.estimate import estimate_memory

    resolved.check_available()
    print(resolved.yaml(), end="")
    for warning in resolved.warnings:
        say(f"note: {warning}")
    used = sorted({plugin.name for plugin in resolved.registry.plugins if plugin.status == "ok"})
    say(f"plugins: {', '.join(used)}")
    for line in estimate_memory(resolved):
        say(line)


def _finish(run: Run, resolved: ResolvedConfig) -> None:
    """The answer: how the run scored before and after, where it lies, what to do next.

    On a terminal the display has said the scores already.
    """
    from agent_r1_core.evaluation.report import EvaluationResult

    if not (sys.stdout.isatty() and sys.stderr.isatty()):
        evaluations = [found for found in run.evaluations().values() if found["step"] is not None]
        for found in (evaluations[0], evaluations[-1]) if len(evaluations) > 1 else evaluations:
            when = "before training" if found["step"] == 0 else f"after step {found['step']}"
            print(f"{when}: {EvaluationResult.from_json(found).headline()}")
    print(f"run: {run.path}")
    print(f"policy: {run.model}")
    say(f"next: {' | '.join(_what_next(run, resolved))}")


def _what_next(run: Run, resolved: ResolvedConfig) -> list[str]:
    """Commands that look at a run."""
    commands: list[str | None] = [f"agent-r1 eval {run.path}", f"agent-r1 rollout {run.path}"]
    for block in resolved.config.trackers:
        try:
            commands.append(resolved.make("tracker", block).how_to_look(str(run.path)))
        except Exception as error:
            say(f"tracker {block.name} does not say how to look at the run ({type(error).__name__}: {error})")
    return [command for command in commands if command]
