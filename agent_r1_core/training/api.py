"""Training and evaluation from Python; the commands call these functions too.

from agent_r1_core import train
run = train("default", ["training.steps=5"])
print(run.metrics()[-1]["reward/mean"])
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent_r1_core.errors import ComponentLoadError, RunError
from agent_r1_core.runs.directory import lacks_marker, missing
from agent_r1_core.runs.run import Run
from agent_r1_core.training.attempts import Recorder, resume_run, start_run
from agent_r1_core.training.progress import default_listener, showing_work
from agent_r1_core.training.resume import check_plugin_files, finished_run, recorded_plugins
from agent_r1_core.work.running import run_async, termination_interrupts, trim_memory

if TYPE_CHECKING:
    from agent_r1_core.assembly.site import OpenSite, Site
    from agent_r1_core.config import ResolvedConfig
    from agent_r1_core.evaluation.evaluator import Evaluation, EvaluationPlan
    from agent_r1_core.evaluation.listener import Listener
    from agent_r1_core.plugins.trust import Trust


def train(
    recipe: str | Path | None = None,
    overrides: Sequence[str] = (),
    *,
    plugins: Sequence[str | Path] = (),
    disabled: Collection[str] = (),
    resume: bool = False,
    force: bool = False,
    trust: bool = False,
    listener: Listener | None = None,
) -> Run:
    """Train an agent; returns its run, whose `health()` is the verdict of the health monitors.

    In the main thread SIGTERM and SIGHUP then do what Ctrl-C does: the run is saved, and KeyboardInterrupt says how to
    go on.

    Args:
        recipe: a recipe's name or path; with `resume` also a run directory. None: the recipe `default`.
        overrides: `key=value` texts that change the recipe.
        plugins: Python files to load as plugins.
        disabled: names of plugins not to load.
        resume: continue the run after its newest whole checkpoint.
        force: replace a run of the same name; with `resume`, continue even if the plugins differ.
        trust: with `resume`, run the plugin files that the run names, even if they did not run here before.
        listener: receives steps, evaluations and notes; None: a line of progress in terminals and notebooks.

    Raises:
        AgentR1Error: anything expected; see errors.py.
    """
    from agent_r1_core.plugins.trust import Trust

    resolved = resolve(
        recipe, overrides, plugins=plugins, disabled=disabled, resume=resume, force=force, trust=Trust(named=trust)
    )
    listener = listener if listener is not None else default_listener()
    run = train_resolved(resolved, resume=resume, force=force, listener=listener)
    for line in run.health().splitlines():
        listener.note(line)
    return run


def resolve(
    recipe: str | Path | None,
    overrides: Sequence[str],
    *,
    plugins: Sequence[str | Path] = (),
    disabled: Collection[str] = (),
    resume: bool = False,
    force: bool = False,
    training: bool = True,
    dry_run: bool = False,
    trust: Trust | None = None,
) -> ResolvedConfig:
    """The resolved configuration of a recipe, or of a run directory.

    Args:
        recipe, overrides, plugins, disabled: as in `train`; the recipe may be a run directory.
        resume: whether a run is continued.
        force: continue a run even if its plugin files have changed.
        training: False for evaluations and rollouts.
        dry_run: whether the configuration is only looked at.
        trust: which of the plugin files that the recipe or run names may run besides those that ran here before. A
            recipe that is trained may run all of them.

    Raises:
        ConfigError, PluginError: see `load_config`.
        RunError: `recipe` is a run directory but `resume` is False, it is not one and `resume` is True, or a plugin
            file of the run has changed.
    """
    from agent_r1_core.config import load_config
    from agent_r1_core.config.overrides import text_override
    from agent_r1_core.plugins.trust import Trust

    trust = trust or Trust()
    if recipe is not None and resume and not dry_run:
        Run.bring_back(recipe)
    if recipe is not None and lacks_marker(Path(recipe)):
        raise missing(Path(recipe))
    if recipe is not None and Run.is_run(recipe):
        if training and not (resume or dry_run):
            raise RunError(f"{recipe} is a run, not a recipe; continue it with --resume, or name a recipe")
        path = Path(recipe) if Path(recipe).name not in ("", "..") else Path(recipe).resolve()
        named = {text.partition("=")[0].strip() for text in overrides}
        # A resumed run keeps its place; an evaluation gets a new run beside it.
        place = {
            "run.dir": text_override("run.dir", str(path.parent)),
            "run.name": text_override("run.name", path.name) if training else "run.name=null",
        }
        overrides = [*(text for key, text in place.items() if training or key not in named), *overrides]
        if "sources" not in Run.open(path).config():
            raise RunError(f"{path / 'config.yaml'} is damaged: its end is missing; restore the file")
        recorded = recorded_plugins(path)
        if resume and not force:
            check_plugin_files(recorded)
        loaded = load_config(
            path / "config.yaml",
            overrides,
            plugins=plugins,
            disabled=disabled,
            training=training,
            trust=replace(trust, edited=force),
            recorded=recorded,
        )
        return replace(loaded, recipe=path.name, run=path)
    if (resume or dry_run) and recipe is not None and _means_a_run(recipe):
        raise RunError(
            f"{recipe} is not a run, so there is nothing to resume; name a run's directory, or drop --resume"
        )
    # A file of a run, such as its config.yaml, may like the run come from elsewhere.
    own = not (Path(recipe or "").suffix in (".yaml", ".yml") and Run.is_run(Path(recipe or "").parent))
    trust = replace(trust, named=trust.named or (own and training and not dry_run), edited=own)
    return load_config(recipe, overrides, plugins=plugins, disabled=disabled, training=training, trust=trust)


def _means_a_run(recipe: str | Path) -> bool:
    """Whether a missing path was meant as a run, not a recipe."""
    from agent_r1_core.config import recipe_folders, recipe_names

    path = Path(recipe)
    if str(recipe) in recipe_names(recipe_folders()):
        return False
    looks_like_a_path = len(path.parts) > 1 and path.suffix not in (".yaml", ".yml") and not path.is_file()
    return path.is_dir() or looks_like_a_path


@contextmanager
def site_of(
    resolved: ResolvedConfig, note: Callable[[str], None], lost: Callable[[str], None], learning: bool = True
) -> Iterator[Site]:
    """Where the roles of the run are, for as long as the context lasts; `lost` hears why, if it ends the process."""
    from agent_r1_core.assembly.site import HERE

    if not resolved.config.distributed.used:
        yield HERE
        return
    if "distributed" in resolved.unavailable:
        raise ComponentLoadError(resolved.unavailable["distributed"])
    open_site: OpenSite = resolved.registry.function("site", resolved.config.distributed.site)
    with open_site(resolved.config.distributed, note, lost, learning) as site:
        yield site


def train_resolved(resolved: ResolvedConfig, *, resume: bool, force: bool, listener: Listener) -> Run:
    """Train as `train` does, from a resolved configuration."""
    for warning in resolved.warnings:
        listener.note(warning)
    finished = finished_run(resolved, force) if resume else None
    if finished is not None:
        steps = resolved.config.training.steps
        listener.note(f"{finished.path} has completed all its {steps} steps; set training.steps for more")
        return finished
    recorder = Recorder(listener)
    try:
        with (
            termination_interrupts(),
            showing_work(listener),
            site_of(resolved, recorder.note, recorder.fail) as site,
        ):
            begin = resume_run if resume else start_run
            return begin(resolved, force, recorder, site)
    finally:
        trim_memory()


def evaluate(plan: EvaluationPlan, listener: Listener | None = None) -> tuple[Evaluation, Path]:
    """Evaluate a model as planned; returns the evaluation and the file of its result."""
    from agent_r1_core.evaluation.evaluator import run_evaluation

    listener = listener if listener is not None else default_listener()
    for warning in plan.resolved.warnings:
        listener.note(warning)
    with showing_work(listener), site_of(plan.resolved, listener.note, listener.note, learning=False) as site:
        return run_async(run_evaluation(plan, listener, site))
