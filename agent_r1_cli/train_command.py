"""`agent-r1 train`: trains an agent with a recipe."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent_r1_cli.output import say, show
from agent_r1_cli.plugin_options import DisabledPlugins, PluginFiles, TrustFiles, trust_as
from agent_r1_cli.recipe_arguments import Arguments, split_arguments

if TYPE_CHECKING:
    from agent_r1_core.config import ResolvedConfig
    from agent_r1_core.runs.run import Run


def train(
    arguments: Arguments = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a run: its directory, or the recipe and run.name=NAME.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace a run of that name; with --resume: accept changed plugins."),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Only print the resolved configuration, its plugins and an estimate of memory, "
            "and see that packages and data files are there and how these read.",
        ),
    ] = False,
    plugin: PluginFiles = None,
    disable_plugin: DisabledPlugins = None,
    trust: TrustFiles = False,
) -> None:
    """Train an agent with a recipe.

    \b
    agent-r1 train                           GRPO on the bundled model
    agent-r1 train ppo training.steps=50     another recipe, with a key changed
    agent-r1 train my_recipe.yaml --dry-run  see what a recipe would do
    agent-r1 train runs/default-1 --resume   continue after an interruption
    """
    from agent_r1_cli.display import TrainDisplay

    recipe, overrides = split_arguments(arguments)
    options: dict[str, Any] = {"plugins": plugin or (), "disabled": disable_plugin or ()}
    with TrainDisplay() as display:
        from agent_r1_core.training.api import resolve, train_resolved

        options["trust"] = trust_as(trust, display)
        resolved = resolve(recipe, overrides, resume=resume, force=force, dry_run=dry_run, **options)
        if resume and not dry_run:
            display.recall(_earlier_metrics(resolved))
        if not dry_run:
            run = train_resolved(resolved, resume=resume, force=force, listener=display)
    if dry_run:
        if resume and resolved.run is not None:
            from agent_r1_core.runs.run import Run
            from agent_r1_core.training.resume import check_resumable

            check_resumable(Run.open(resolved.run), resolved, force)
        _show(resolved)
    else:
        _finish(run, resolved)


def _earlier_metrics(resolved: ResolvedConfig) -> list[dict[str, Any]]:
    """The metrics that the run's earlier attempts recorded.

    Raises:
        RunError: they are damaged.
    """
    from agent_r1_core.runs.run import Run

    settings = resolved.config.run
    path = None if settings.name is None else Path(settings.dir, settings.name)
    return Run.open(path).metrics() if path is not None and Run.is_run(path) else []


def _show(resolved: ResolvedConfig) -> None:
    """Print the configuration of a run; stdout is YAML."""
    from agent_r1_core.assembly.memory import estimate_memory
    from agent_r1_core.terminal import shown

    unavailable = resolved.unavailable.get("distributed")  # a cluster may be planned where there is none
    resolved.check_available(unused=("distributed",))
    resolved.check_data()
    memory = estimate_memory(resolved)
    text = resolved.yaml()
    print(shown(text) if sys.stdout.isatty() else text, end="")  # files and pipes get it exactly
    for note in (*resolved.warnings, *resolved.notes, *filter(None, [unavailable]), *_about_model(resolved)):
        say(f"note: {note}")
    used = sorted({plugin.name for plugin in resolved.registry.plugins if plugin.status == "ok"})
    say(f"plugins: {', '.join(used)}")
    for line in memory:
        say(line)


def _about_model(resolved: ResolvedConfig) -> list[str]:
    """What training would say of the model, where that is on this machine: why it refuses it, what it hardly does."""
    from agent_r1_core.assembly.model_size import ModelSize
    from agent_r1_core.assembly.model_source import find_local_model, too_few_positions

    name, lora = resolved.config.model.name, resolved.config.model.lora
    source = find_local_model(name)
    if source is None:
        return []
    problem = too_few_positions(name, source.folder, resolved.config.env.config.max_tokens)
    size = ModelSize.of_folder(source.folder) if lora is not None else None
    strange = size.unknown_targets(lora) if size is not None and lora is not None else []
    return [
        *([f"training will refuse this: {problem}"] if problem else []),
        *(
            f"model.lora.target_modules names {one!r}, which no matrix in {source.folder} is called; training refuses "
            "a name that fits no layer"
            for one in strange
        ),
        *source.unknown_tools(resolved),
    ]


def _finish(run: Run, resolved: ResolvedConfig) -> None:
    """Print how the run scored before and after, its health, where it is, and what to do next.

    On a terminal the display has already shown the scores.
    """
    from agent_r1_core.evaluation.report import EvaluationResult

    if not (sys.stdout.isatty() and sys.stderr.isatty()):
        evaluations = [record for record in run.evaluations().values() if record["step"] is not None]
        for record in (evaluations[0], evaluations[-1]) if len(evaluations) > 1 else evaluations:
            when = "before training" if record["step"] == 0 else f"after step {record['step']}"
            show(f"{when}: {EvaluationResult.from_json(record).headline()}")
    for line in run.health().splitlines():
        show(line)
    show(f"run: {run.path}")
    show(f"policy: {run.model}")
    say(f"next: {' | '.join(_what_next(run, resolved))}")


def _what_next(run: Run, resolved: ResolvedConfig) -> list[str]:
    """Commands that show a run."""
    commands: list[str | None] = [f"agent-r1 {command} {run.path}" for command in ("view", "eval", "rollout")]
    for block in resolved.config.trackers:
        try:
            commands.append(resolved.make("tracker", block).how_to_look(str(run.path)))
        except Exception as error:
            say(f"tracker {block.name} failed to say how to look at the run ({type(error).__name__}: {error})")
    return [command for command in commands if command]
