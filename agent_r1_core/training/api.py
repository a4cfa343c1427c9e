"""Training and evaluating from Python: what the commands call, and notebooks can.

from agent_r1_core import train
run = train("default", ["training.steps=5"])
print(run.metrics()[-1]["reward/mean"])
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from agent_r1_core.errors import RunError
from agent_r1_core.runs.run import Run
from agent_r1_core.training.listener import Silence

if TYPE_CHECKING:
    from agent_r1_core.config import ResolvedConfig
    from agent_r1_core.evaluation.evaluate import Evaluation
    from agent_r1_core.training.assembly import Assembly
    from agent_r1_core.training.evaluator import EvaluationPlan
    from agent_r1_core.training.listener import Listener

T = TypeVar("T")

CHANGEABLE = ("training.steps", "evaluation", "checkpoint", "health", "trackers", "run", "engine.max_episodes")
"""What a resumed run may change: how long, and how it is watched; not what it computes."""


def train(
    recipe: str | Path | None = None,
    overrides: Sequence[str] = (),
    *,
    plugins: Sequence[str | Path] = (),
    disabled: Collection[str] = (),
    resume: bool = False,
    force: bool = False,
    listener: Listener | None = None,
) -> Run:
    """Train an agent; returns its run.

    Args:
        recipe: a recipe's name or path; with `resume` also a run directory. None: the recipe `default`.
        overrides: `key=value` texts on top of it.
        plugins: Python files to load as plugins.
        disabled: names of plugins not to load.
        resume: go on with the run after its newest checkpoint.
        force: replace a run of the same name; with `resume`, go on although the plugins differ.
        listener: hears steps, evaluations and notes.

    Raises:
        AgentR1Error: anything expected; see errors.py.
    """
    resolved = resolve(recipe, overrides, plugins=plugins, disabled=disabled, resume=resume)
    return train_resolved(resolved, resume=resume, force=force, listener=listener)


def resolve(
    recipe: str | Path | None,
    overrides: Sequence[str],
    *,
    plugins: Sequence[str | Path] = (),
    disabled: Collection[str] = (),
    resume: bool = False,
    training: bool = True,
) -> ResolvedConfig:
    """The resolved configuration of a recipe, or of a run directory.

    Raises:
        ConfigError, PluginError: see `load_config`.
        RunError: `recipe` is a run directory and `resume` was not asked for, or it was, and there is no run.
    """
    from agent_r1_core.config import load_config

    if recipe is not None and Run.is_run(recipe):
        if training and not resume:
            raise RunError(f"{recipe} is a run, not a recipe; go on with it by --resume, or name a recipe")
        path = Path(recipe) if Path(recipe).name not in ("", "..") else Path(recipe).resolve()
        overrides = [f"run.dir={path.parent}", f"run.name={path.name}", *overrides]
        recipe = path / "config.yaml"
    elif resume and recipe is not None and _means_a_run(recipe):
        Run.open(recipe)
    return load_config(recipe, overrides, plugins=plugins, disabled=disabled, training=training)


def _means_a_run(recipe: str | Path) -> bool:
    """Whether what is no run directory was to be one: it is a path, and not that of a recipe."""
    path = Path(recipe)
    return len(path.parts) > 1 and path.suffix not in (".yaml", ".yml") and not path.is_file()


def train_resolved(
    resolved: ResolvedConfig, *, resume: bool = False, force: bool = False, listener: Listener | None = None
) -> Run:
    """Train as `train` does, from a configuration that is resolved already."""
    heard = listener if listener is not None else Silence()
    for warning in resolved.warnings:
        heard.note(warning)
    return _go_on(resolved, force, heard) if resume else _begin(resolved, force, heard)


def _begin(resolved: ResolvedConfig, force: bool, heard: Listener) -> Run:
    """A new run. Its directory is made when everything is at hand, and goes again if the start fails all the same."""
    from agent_r1_core.training.assembly import assemble

    settings, plugins = resolved.config.run, resolved.registry.to_json()
    Run.check_free(settings.dir, settings.name, force=force)
    parts = assemble(resolved, note=heard.note)
    config = parts.resolved.dump()
    with Run.create(settings.dir, settings.name, config, plugins, stem=resolved.recipe, force=force) as run:
        run.write_config(parts.resolved.replace({"run.name": run.name}).dump())
        try:
            _fit(parts, run, heard)
        except Exception:
            run.discard()
            raise
    return run


def _go_on(resolved: ResolvedConfig, force: bool, heard: Listener) -> Run:
    """A run that goes on after its newest checkpoint."""
    from agent_r1_core.training.assembly import assemble

    settings = resolved.config.run
    with Run.create(settings.dir, settings.name, {}, [], resume=True) as run:
        _check_resumable(run, resolved, force)
        checkpoint = run.checkpoints.latest()
        done = checkpoint.step if checkpoint else 0
        run.truncate_after(done)
        parts = assemble(resolved.replace(_choices(run.config())), checkpoint=checkpoint, note=heard.note)
        run.write_config(parts.resolved.replace({"run.name": run.name}).dump())
        steps = parts.config.training.steps
        if done < steps:
            run.remove_model()
            heard.note(f"resuming {run.path} after step {done} of {steps}")
        else:
            heard.note(f"{run.path} has made all its {steps} steps; for more of them set training.steps")
        _fit(parts, run, heard, done, resumed=True)
    return run


def _fit(parts: Assembly, run: Run, heard: Listener, done: int = 0, resumed: bool = False) -> None:
    """Train.

    Raises:
        KeyboardInterrupt: it was interrupted; its text says how to go on.
    """
    from agent_r1_core.training.trainer import Trainer

    heard.begin(done)
    try:
        run_async(Trainer(parts, run, heard, done, resumed).fit())
    except KeyboardInterrupt:
        saved = run.checkpoints.latest()
        raise KeyboardInterrupt(
            f"stopped after step {saved.step if saved else 0} of {parts.config.training.steps}; "
            f"go on with: agent-r1 train {run.path} --resume"
        ) from None


def evaluate(plan: EvaluationPlan, listener: Listener | None = None) -> tuple[Evaluation, Path]:
    """Evaluate a model as the plan says; returns the evaluation and the file that holds its result."""
    from agent_r1_core.training.evaluator import run_evaluation

    return run_async(run_evaluation(plan, listener if listener is not None else Silence()))


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, also where a loop runs already (a notebook): in a thread of its own then."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_interruptible(work))
    return _in_thread(work)


async def _interruptible(work: Coroutine[Any, Any, T]) -> T:
    """Await; a second interruption, which ends some task wherever it is, is not reported as that task's failure."""

    def report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), KeyboardInterrupt):
            loop.default_exception_handler(context)

    asyncio.get_running_loop().set_exception_handler(report)
    return await work


def _in_thread(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread; an interruption of this one is passed on, and waits for the work to end."""
    outcome: dict[str, Any] = {}
    ended = threading.Event()  # an interrupted `Thread.join` takes a thread that goes on for one that ended

    async def watched() -> T:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        outcome["cancel"] = lambda: loop.call_soon_threadsafe(task.cancel) if task is not None else None
        return await work

    def target() -> None:
        try:
            outcome["value"] = asyncio.run(watched())
        except BaseException as error:
            outcome["error"] = error
        finally:
            ended.set()

    threading.Thread(target=target, name="agent-r1-run").start()
    interrupted = False
    while not ended.is_set():
        try:
            ended.wait()
        except KeyboardInterrupt:
            interrupted = True
            outcome.get("cancel", lambda: None)()
    if interrupted:
        raise KeyboardInterrupt
    if "error" in outcome:
        raise outcome["error"]
    value: T = outcome["value"]
    return value


def _check_resumable(run: Run, resolved: ResolvedConfig, force: bool) -> None:
    """Refuse to go on with another configuration or other plugins than the run began with."""
    then, now = run.config(), resolved.dump()
    changed = _differences(then, now)
    if now["tasks"]["eval"] is None and then["evaluation"]["size"] != now["evaluation"]["size"]:
        changed.append("evaluation.size (it decides how many tasks are held out of training)")
    schedule, steps = now["training"]["schedule"], now["training"]["steps"]
    if schedule != "constant" and steps != then["training"]["steps"]:
        changed.append(f"training.steps (the {schedule} schedule of its learning rate depends on it)")
    if changed:
        raise RunError(
            f"run {run.path} was begun with other values of {', '.join(changed)}; "
            f"resume it as it is: agent-r1 train {run.path} --resume"
        )
    sentences = resolved.registry.check_same(run.plugins())
    if sentences and not force:
        raise RunError(f"{'; '.join(sentences)}; go on all the same with --force")


def _choices(saved: dict[str, Any]) -> dict[str, Any]:
    """Hardware choices that the run made when it began; measuring again might choose otherwise."""
    return {
        "threads": saved["threads"],
        "model.dtype": saved["model"]["dtype"],
        "model.device": saved["model"]["device"],
    }


def _differences(then: dict[str, Any], now: dict[str, Any], prefix: str = "") -> list[str]:
    """Keys whose values differ, beside those that may."""
    found = []
    for key in sorted(then.keys() | now.keys()):
        name = f"{prefix}{key}"
        if name in CHANGEABLE or name == "sources" or _chosen(name, now.get(key)):
            continue
        old, new = then.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            found += _differences(old, new, f"{name}.")
        elif old != new:
            found.append(name)
    return found


def _chosen(name: str, value: Any) -> bool:
    """Whether the run's own choice (threads, precision, device) stands in for `auto`."""
    return value == "auto" and name in ("threads", "model.dtype", "model.device")
