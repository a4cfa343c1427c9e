"""What a resume needs to know: that configuration and plugins are the run's own, where it goes on, what it has lost.

Steps after the chosen checkpoint are repeated, so nothing of them is lost. What a run has lost before that (a line of
metrics, a file of trajectories) is only reported.
"""

from __future__ import annotations

import copy
import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_r1_core.config.components import find_blocks
from agent_r1_core.errors import PluginError, RunError
from agent_r1_core.opening import DOCUMENT, read_bytes
from agent_r1_core.runs.checksums import damage_of_model
from agent_r1_core.runs.events_file import turning_point
from agent_r1_core.runs.reading.metrics_tail import ranges
from agent_r1_core.runs.run import Run

if TYPE_CHECKING:
    from agent_r1_core.assembly.assembly import Assembly
    from agent_r1_core.assembly.site import Site
    from agent_r1_core.assembly.task_sets import Note
    from agent_r1_core.config import ResolvedConfig
    from agent_r1_core.evaluation.listener import Listener
    from agent_r1_core.plugins import Registry
    from agent_r1_core.rollout.examples import Examples
    from agent_r1_core.runs.checkpoint import Checkpoint

CHANGEABLE = (
    *("training.steps", "checkpoint", "health", "trackers", "recording", "engine.max_episodes", "distributed"),
    *("evaluation.every", "evaluation.greedy", "evaluation.size", "evaluation.sample", "evaluation.at_start"),
    "evaluation.at_end",
)
"""What a resumed run may change: its length, how it is watched and which processes share the work, but not what it
computes or what its scores mean; of components, also where something is (`ComponentConfig.movable`)."""
HARDWARE = ("threads", "model.dtype", "model.device")
"""What the first start chooses where the recipe says `auto`."""
_RECORDED: dict[str, Any] = {
    **dict.fromkeys(("name", "value", "status"), str),
    **dict.fromkeys(("distribution", "version", "file_hash"), str | None),
    "components": list,
}
"""What is read of each plugin in plugins.json, and its type."""


def check_resumable(run: Run, resolved: ResolvedConfig, force: bool) -> None:
    """Refuse to resume with another configuration or other plugins.

    Raises:
        RunError: a setting differs that may not; or a plugin differs, without `force`.
    """
    then, now = (_without_places(tree, resolved.registry) for tree in (run.config(), resolved.dump()))
    changed = _differences(then, now, resolved.sources)
    schedule, steps = now["training"]["schedule"], now["training"]["steps"]
    if schedule != "constant" and steps != run.setting("training.steps"):
        changed.append(f"training.steps (the {schedule} schedule of its learning rate depends on it)")
    newest = run.checkpoints.latest()
    if newest is not None and newest.step > steps:
        raise RunError(
            f"run {run.path} has done {newest.step} steps, and training.steps={steps} asks for fewer; give at least "
            f"{newest.step}, or evaluate an earlier checkpoint: {newest.path.parent}"
        )
    if changed:
        raise RunError(
            f"run {run.path} started with other values of {', '.join(changed)}; "
            f"resume it as it is: agent-r1 train {run.path} --resume"
        )
    if not (run.path / "plugins.json").is_file():
        raise RunError(f"the plugins.json of run {run.path} is missing; restore it from a copy")
    sentences = resolved.registry.check_same(recorded_plugins(run.path))
    if sentences and not force:
        raise RunError(f"{'; '.join(sentences)}; use --force to continue anyway")


def finished_run(resolved: ResolvedConfig, force: bool) -> Run | None:
    """The run that a configuration means, open for reading, if a resume has nothing to do: all its steps are done and
    recorded, its files are whole, and no setting differs from those that it ended with.

    Raises:
        RunError: as `check_resumable`.
    """
    settings = resolved.config.run
    if settings.name is None or not Run.is_run(Path(settings.dir, settings.name)):
        return None
    run = Run.open(Path(settings.dir, settings.name))
    if not _is_done(run, resolved):
        return None
    check_resumable(run, resolved, force)
    return run


def _is_done(run: Run, resolved: ResolvedConfig) -> bool:
    with suppress(RunError):  # the resume itself says what is damaged
        last, newest, steps = turning_point(run.events()), run.checkpoints.latest(), resolved.config.training.steps
        return (
            last is not None
            and last.event == "finished"
            and not _differences(run.config(), resolved.dump(), resolved.sources, ())
            and [line["step"] for line in run.metrics()] == list(range(1, steps + 1))
            and newest is not None
            and newest.step == steps
            and newest.damage() is None
            and run.model.is_dir()
            and damage_of_model(run.model) is None
        )
    return False


def recorded_plugins(path: Path) -> list[dict[str, Any]]:
    """The plugins of the run at `path`; empty for one that was stopped before it recorded them.

    Raises:
        RunError: the record is damaged.
    """
    if not (path / "plugins.json").is_file():
        return []
    plugins = Run.open(path).plugins()
    items = {"kind": str, "name": str}
    if not all(_has(one, _RECORDED) and all(_has(item, items) for item in one["components"]) for one in plugins):
        raise RunError(f"{path / 'plugins.json'} is damaged, which lists the plugins of the run; restore the file")
    return plugins


def _has(value: Any, types: Mapping[str, Any]) -> bool:
    """Whether a value is a dictionary with these keys, whose values have these types."""
    return isinstance(value, dict) and all(key in value and isinstance(value[key], types[key]) for key in types)


def check_plugin_files(recorded: Sequence[Mapping[str, Any]]) -> None:
    """Refuse to resume with local plugin files that have changed, before any of them is imported.

    Raises:
        RunError: a file has another content than when the run began.
    """
    for plugin in recorded:
        if plugin["file_hash"] is None:
            continue
        file = Path(plugin["value"])
        try:
            now = hashlib.sha256(read_bytes(file, DOCUMENT)).hexdigest()
        except OSError:
            continue  # a file that is gone is reported where the configuration names it
        if now != plugin["file_hash"]:
            raise RunError(
                f"plugin {plugin['name']!r} has changed since the run began: file hash {plugin['file_hash']} became "
                f"{now}; use --force to continue anyway"
            )


def choose_checkpoint(run: Run, every: int, note: Note) -> Checkpoint | None:
    """The checkpoint after which a run goes on: the newest without damage; None if the run has none yet.

    If the metrics end before that checkpoint, the run goes back to a checkpoint before their end, at most `every` steps
    older, and repeats the steps that lack a line; if there is none, a note names these steps.

    Raises:
        RunError: there are checkpoints, and all of them are damaged; or there were some, and they are gone.
    """
    checkpoint, damaged = run.checkpoints.newest_whole()
    reasons = "; ".join(f"{name}: {reason}" for name, reason in damaged.items())
    if checkpoint is None:
        if damaged:
            raise RunError(
                f"no checkpoint of {run.path} is whole ({reasons}); restore one from a copy, "
                "or start the run again with --force"
            )
        _refuse_lost_checkpoints(run)
        return None
    if damaged:
        note(f"damaged checkpoints are passed over ({reasons}): the run goes on from {checkpoint.path.name}")
    last = max((line["step"] for line in run.metrics()), default=0)
    if last < checkpoint.step:
        earlier, _ = run.checkpoints.newest_whole(up_to=last)
        if earlier is not None and last - earlier.step < every:
            note(
                f"metrics.jsonl ends with step {last}, before {checkpoint.path.name}: the run goes on from "
                f"{earlier.path.name} and repeats what has no record"
            )
            return earlier
    return checkpoint


def _refuse_lost_checkpoints(run: Run) -> None:
    """Refuse, by a RunError, to begin anew where a run has recorded more than it does without a checkpoint: a final
    policy, or steps beyond the second checkpoint, for which it waits until the first one is on disk."""
    last = run.last_step()
    if (last and run.model.is_dir()) or last > 2 * int(run.setting("checkpoint.every")):
        raise RunError(
            f"run {run.path} has recorded {last} steps, but all its checkpoints are gone; restore one from a copy, or "
            "start the run again with --force"
        )


def reassemble(run: Run, resolved: ResolvedConfig, listener: Listener, site: Site) -> tuple[Assembly, int]:
    """The components as they were at the newest whole checkpoint of a run, and its step; what the run recorded after
    it is gone then."""
    checkpoint = choose_checkpoint(run, resolved.config.checkpoint.every, listener.note)
    done = checkpoint.step if checkpoint else 0
    tell_irregularities(run, done, listener.note)
    assembly = assemble_behind(run, resolved, checkpoint, done, site, listener.note)
    if checkpoint is not None:
        tell_other_choice(checkpoint, assembly.config.best_metric, assembly.evaluation_basis, listener.note)
    tell_repeated(run, done, listener.note)
    run.truncate_after(done)  # only now is it sure that the checkpoint can be used
    return assembly, done


def tell_other_choice(checkpoint: Checkpoint, metric: str | None, basis: str, note: Note) -> None:
    """Say where the best checkpoint is chosen otherwise from now on than up to this checkpoint."""
    to_come = "the best checkpoint is chosen among those to come"
    if metric is None and checkpoint.metric is not None:
        note("checkpoint.best is null now: no checkpoint is kept as the best one any more")
    elif metric != checkpoint.metric:
        note(f"checkpoint.best is {metric} now, and was {checkpoint.metric or 'null'}: {to_come}")
    elif checkpoint.basis not in ("", basis):
        note(f"evaluations ask other tasks than before, or decode otherwise: {to_come}")


def assemble_behind(
    run: Run,
    resolved: ResolvedConfig,
    checkpoint: Checkpoint | None,
    done: int,
    site: Site,
    note: Note,
) -> Assembly:
    """The components of a run as they were after step `done`, that of the checkpoint, if there is one.

    Raises:
        AgentR1Error: a component is not available, or is another one than the run had.
    """
    from agent_r1_core.assembly.assembly import assemble

    assembly = assemble(
        resolved.replace(hardware_choices(run)),
        checkpoint=checkpoint,
        held_out_by=held_out_by(run, done),
        site=site,
        note=note,
    )
    check_examples(run, assembly.examples, done)
    recorded = run.evaluation_tasks()
    for name in recorded.changed_in(assembly.evaluation_tasks) if recorded is not None else ():
        note(f"the tasks of {name} have other questions or answers than those that the run has recorded")
    return assembly


def check_examples(run: Run, examples: Examples | None, done: int) -> None:
    """Refuse, by a RunError, to go on after step `done` with other examples than before."""
    recorded = run.examples() if done else None
    if examples is not None and done and recorded != examples.to_json():
        raise RunError(
            f"{examples.file} (env.examples) holds other conversations than when run {run.path} began, as its "
            "examples.json says; restore the file"
        )


def tell_irregularities(run: Run, done: int, note: Note) -> None:
    """Name the lines of metrics and the files of trajectories that are missing, doubled or surplus after a run of
    `done` steps."""
    lines, files = Counter(line["step"] for line in run.metrics()), set(run.trajectory_steps())
    expected = set(range(1, done + 1))
    doubled = [step for step, count in lines.items() if count > 1]
    if doubled:
        note(f"metrics.jsonl has several lines of step {ranges(doubled)}: the last one of each counts")
    for lack, there in (("metrics.jsonl has no line", set(lines)), ("trajectories/ has no file", files)):
        if missing := expected - there:
            note(f"{lack} of step {ranges(missing)}, and nothing can bring it back: the run goes on without")
    # A kill may leave the file of the step after the last line: that is no irregularity.
    surplus = {step for step in files if step > done} - set(lines) - {max(lines, default=0) + 1}
    if surplus:
        note(f"trajectories/ has files of step {ranges(surplus)} without lines in metrics.jsonl: they are deleted")


def tell_repeated(run: Run, done: int, note: Note) -> None:
    """Say which recorded steps came after step `done`, that of the checkpoint, and are repeated for it."""
    last = run.last_step()
    if last > done:
        steps = "step {} is" if last == done + 1 else "steps {} to {} are"
        newest = f"the newest checkpoint is of step {done}" if done else "no checkpoint was written before"
        note(f"{steps.format(done + 1, last)} repeated: {newest}")


def held_out_by(run: Run, done: int) -> Path | None:
    """The run itself if it recorded its held-out tasks; None if it may still draw them, since none of its steps stays.

    Raises:
        RunError: the run goes on after step `done` but has no record.
    """
    if run.evaluation_tasks() is not None:
        return run.path
    if done:
        raise RunError(
            f"run {run.path} has lost its evaluation_tasks.json, which lists its held-out tasks; restore the file"
        )
    return None


def hardware_choices(run: Run) -> dict[str, Any]:
    """The hardware choices of the first start; measuring again might choose differently.

    Raises:
        RunError: the run's configuration lacks one.
    """
    return {key: run.setting(key) for key in HARDWARE}


def _without_places(tree: dict[str, Any], registry: Registry) -> dict[str, Any]:
    """A configuration without the options that only say where something is."""
    tree = copy.deepcopy(tree)
    for _, kind, block in find_blocks(tree):
        with suppress(PluginError):  # whatever is not installed now has its own sentence
            for option in registry.load(kind, block["name"]).cls.Config.movable:
                block.pop(option, None)
    return tree


def _differences(
    then: dict[str, Any],
    now: dict[str, Any],
    set_now: Collection[str],
    changeable: Collection[str] = CHANGEABLE,
    prefix: str = "",
) -> list[str]:
    """Keys whose values differ, except those that may and the run's place. A key that the run's record lacks, since
    agent-r1 had no such option then, differs only where somebody sets it now."""
    different = []
    for key in sorted(then.keys() | now.keys()):
        name = f"{prefix}{key}"
        if name in changeable or name in ("sources", "run"):
            continue
        if name in HARDWARE and now.get(key) == "auto":  # it stands for the choice that the run has made
            continue
        if key not in then and not any(one == name or one.startswith(f"{name}.") for one in set_now):
            continue
        old, new = then.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            different += _differences(old, new, set_now, changeable, f"{name}.")
        elif old != new:
            different.append(name)
    return different
