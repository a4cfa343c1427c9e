"""Finds the folder of a model from its name in a recipe: `tiny`, a run, a folder, a GGUF file, or a hub name.

A model is data. One whose configuration names Python code to load it with is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_r1_core.assembly.gguf_model import GgufModel, open_gguf
from agent_r1_core.contracts.toolset import Toolset
from agent_r1_core.errors import ModelError, NotOpened
from agent_r1_core.models import download
from agent_r1_core.opening import check_regular, read_json
from agent_r1_core.runs.checkpoint import RunPolicy
from agent_r1_core.runs.checksums import MODEL_CHECKSUMS, damage_of_model
from agent_r1_core.runs.lock import FileLock
from agent_r1_core.runs.run import Run

if TYPE_CHECKING:
    from agent_r1_core.config import ResolvedConfig
    from agent_r1_core.trajectory import Task

BUNDLED = Path(__file__).resolve().parent.parent / "bundled"
_TOOLS: dict[str, tuple[str, ...]] = {"tiny": ("calculator", "wiki_search"), "tiny-worlds": ()}
"""The tools with which each bundled model was made."""


@dataclass(frozen=True)
class ModelSource:
    folder: Path
    origin: str
    """Where it comes from, for reports: `bundled`, `run`, `folder`, `gguf`, `hub` or `checkpoint` (of the run that goes
    on)."""
    run: Path | None = None
    """The run that trained it, if any."""
    policy: RunPolicy | None = None
    """Which of the run's policies it is."""
    gguf: GgufModel | None = None
    """The GGUF file that the folder was made from, if any."""
    lock: FileLock | None = field(default=None, compare=False, repr=False)
    """Keeps a run that still trains from pruning the checkpoint."""

    def release(self) -> None:
        """Let go of the folder; a second call does nothing."""
        if self.lock is not None:
            self.lock.release()

    @property
    def dtype(self) -> str:
        """The precision with which its run computed; `auto` for a model without a run."""
        if self.run is None:
            return "auto"
        return str(Run.open(self.run).setting("model.dtype"))

    def describe(self) -> str:
        """The weights in words: `best checkpoint of runs/first, step 20, chosen by eval/exact_match among 3`."""
        if self.run is not None and self.policy is not None:
            return self.policy.describe(self.run)
        if self.gguf is not None:
            return f"{self.gguf.file} (gguf, sha256 {self.gguf.sha256})"
        return f"{self.folder} ({self.origin})"

    def to_json(self) -> dict[str, Any]:
        policy = None if self.policy is None else self.policy.to_json()
        about = {"folder": str(self.folder), "origin": self.origin, "run": self.run and str(self.run), "chosen": policy}
        return about if self.gguf is None else {**about, "file": str(self.gguf.file), "sha256": self.gguf.sha256}

    def unknown_tools(self, resolved: ResolvedConfig) -> list[str]:
        """One sentence if a bundled model is given tools with which it was not made: it knows no language in which it
        could read what they are for."""
        loaded = [resolved.registry.load("tool", block.name) for block in resolved.config.tools]
        tools = [tool.record.canonical for tool in loaded if not issubclass(tool.cls, Toolset)]
        known = _TOOLS.get(self.folder.name, ()) if self.origin == "bundled" else tools
        unknown = [tool for tool in tools if tool not in known]
        if not unknown:
            return []
        made_with = f"the tools {' and '.join(known)}" if known else "no tool"
        return [
            f"the bundled model {self.folder.name} was made with {made_with} and knows no other, so it will hardly "
            f"call {', '.join(unknown)}; set model.name to an instruct model for tools of your own"
        ]

    def choosing_tasks(self) -> frozenset[str] | None:
        """The ids of the tasks that chose the policy among several checkpoints; empty where none did; None: the run has
        lost its record of them."""
        if self.run is None or self.policy is None or self.policy.chosen_by is None or self.policy.among < 2:
            return frozenset()
        recorded = Run.open(self.run).evaluation_tasks()
        return None if recorded is None else recorded.behind(self.policy.chosen_by)

    def chosen_among(self, tasks: Sequence[Task]) -> list[str]:
        """One sentence if some of these tasks chose the policy among several checkpoints: its score on them is then
        likely too high, which no confidence interval shows (LAW 12)."""
        choosing = self.choosing_tasks()
        if choosing is None and self.policy is not None:
            return [
                f"the checkpoint was chosen among {self.policy.among}, on tasks that are not known: the run lacks its "
                "evaluation_tasks.json"
            ]
        shared = sum(task.id in (choosing or ()) for task in tasks)
        if self.policy is None or not shared:
            return []
        which = "this very set" if shared == len(tasks) else f"{shared} of these {len(tasks)} tasks"
        return [f"the checkpoint was chosen among {self.policy.among} on {which}: the scores are likely too high"]


def find_model(name: str, note: Callable[[str], None] = lambda text: None) -> ModelSource:
    """The folder of a model; a checkpoint of a run stays until the source is released.

    `name` is, in this order: a bundled model, a folder in Hugging Face format, a run directory (its best checkpoint,
    else its final policy, else its newest checkpoint), a file `*.gguf`, or a hub name, which is downloaded or found in
    the hub's cache.

    Args:
        note: receives sentences for the user.

    Raises:
        ModelError: there is no such model, it brings code, or its weights are damaged.
        RunError: the run holds no policy yet, or none that is whole.
    """
    source = _on_disk(name) or ModelSource(_from_hub(name), "hub")
    if source.run is not None:
        source = _whole(source, Run.open(source.run), note)
    refuse_code(source.folder)
    _check_weights(source.folder)
    return source


def find_local_model(name: str) -> ModelSource | None:
    """As `find_model`, but return None instead of downloading, and do not look at the weights.

    Raises:
        ModelError, RunError: as `find_model`, for a folder or run.
    """
    source = _on_disk(name) or _from_cache(name)
    if source is not None:
        refuse_code(source.folder)
    return source


def model_shape(folder: Path) -> dict[str, Any]:
    """The content of a model's config.json; a ModelError where it cannot be read."""
    try:
        return dict(read_json(folder / "config.json"))
    except (OSError, ValueError, TypeError) as error:
        raise ModelError(
            f"{folder / 'config.json'} cannot be read ({error}); give a Hugging Face model folder"
        ) from error


def positions_of(folder: Path) -> int | None:
    """The longest context that a model reads, in ids; None: its config.json, which may raise as in `model_shape`, does
    not say."""
    positions = model_shape(folder).get("max_position_embeddings")
    return positions if isinstance(positions, int) else None


def too_few_positions(model: str, folder: Path, max_tokens: int) -> str | None:
    """A sentence where a token budget exceeds a model's positions: long episodes would fail instead of ending (LAW 5).

    Raises:
        ModelError: the model's config.json cannot be read.
    """
    positions = positions_of(folder)
    if positions is None or max_tokens <= positions:
        return None
    return (
        f"env.max_tokens is {max_tokens}, but the model {model} reads at most {positions} tokens; "
        f"set env.max_tokens={positions} or less"
    )


def refuse_code(folder: Path) -> None:
    """Check that no configuration in a model's folder names code to load the model with (`auto_map`).

    Raises:
        ModelError: one does.
        NotOpened: one cannot be looked through.
    """
    for file in sorted(folder.glob("*config*.json")):
        try:
            values = [(read_json(file), False)]
        except NotOpened:  # what is not read here, a library might
            raise
        except (OSError, ValueError):
            continue  # its reader will say that it is damaged
        while values:
            value, is_code = values.pop()
            if is_code and isinstance(value, str):
                raise ModelError(
                    f"{file} names Python code to load the model with (auto_map: {value}), and agent-r1 never runs a "
                    f"model's own code; use another model, or, if transformers knows this one without, a copy whose "
                    f"auto_map is removed"
                )
            inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
            values += [(item, is_code or key == "auto_map") for key, item in inner]


def _on_disk(name: str) -> ModelSource | None:
    """A bundled model, a folder, a run or a GGUF file; None for what may be a hub name."""
    bundled = BUNDLED / name
    if "/" not in name and (bundled / "config.json").is_file():
        return ModelSource(bundled, "bundled")
    path = Path(os.path.expanduser(name))  # as Path.expanduser, which raises where there is no such user
    if (path / "config.json").is_file():
        return _folder(path)
    if Run.is_run(path):
        return _of_run(path, Run.open(path).policy())
    if path.suffix.lower() == ".gguf" and not path.is_dir():
        gguf = open_gguf(path)
        return ModelSource(gguf.folder, "gguf", gguf=gguf)
    if path.exists() or name.startswith((".", "/", "~")):
        raise ModelError(
            f"model {name!r} is neither a Hugging Face folder (no config.json) nor a run nor a GGUF file; "
            f"give the folder that holds config.json"
        )
    return None


def _folder(path: Path) -> ModelSource:
    """A model folder, with its run if it is a run's final policy or checkpoint."""
    for run in path.absolute().parents[:3]:
        policy = Run.open(run).policy_at(path) if Run.is_run(run) else None
        if policy is not None:
            return ModelSource(path, "run", run, policy)
    return ModelSource(path, "folder")


def _whole(source: ModelSource, run: Run, note: Callable[[str], None]) -> ModelSource:
    """The policy of a run with its checkpoint locked and read; what else represents the run where that is damaged.

    Raises:
        ModelError: the damaged checkpoint itself was named, or the final policy is damaged.
        RunError: no policy of the run is whole.
    """
    named = source.policy is not None and source.policy.kind == "checkpoint"
    damaged: dict[Path, str] = {}
    while source.policy is not None and source.policy.kind != "final policy":
        checkpoint = run.checkpoint_of(source.folder)
        lock, damage = None if checkpoint is None else checkpoint.lock(), None
        if checkpoint is not None and lock is not None:
            damage = checkpoint.damage("policy/")
            if damage is None:
                source = replace(source, lock=lock)
                break
            lock.release()
            damaged[checkpoint.path] = damage
        if named:
            reason = damage or "it was deleted just now"
            raise ModelError(f"the policy in {source.folder} cannot be used ({reason}); name the run instead")
        source = _of_run(run.path, run.policy(damaged))
    passed_over = run.checkpoints.damaged() | {path.name: reason for path, reason in damaged.items()}
    if passed_over and not named:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in passed_over.items())
        note(f"damaged checkpoints of {run.path} are passed over ({reasons})")
    if source.policy is not None and source.policy.kind == "final policy":
        damage = damage_of_model(source.folder)
        if damage is not None:
            raise ModelError(
                f"the final policy in {source.folder} cannot be used ({damage}); restore it from a copy, name a "
                f"checkpoint of the run, or delete {source.folder / MODEL_CHECKSUMS} to use it as it is"
            )
    return source


def _of_run(path: Path, policy: RunPolicy) -> ModelSource:
    return ModelSource(policy.folder, "run", path, policy)


def _check_weights(folder: Path) -> None:
    """Read the headers of the weight files, which state how long these must be; refuse files that are not."""
    for file in sorted(folder.glob("*.safetensors")):
        with open_weights(file):
            pass


def open_weights(file: Path) -> Any:
    """A safetensors file, opened; a context manager. Only its header is read.

    Raises:
        ModelError: it is damaged, or shorter than its header says.
    """
    from safetensors import SafetensorError, safe_open

    try:
        check_regular(file)
        return safe_open(str(file), "np")
    except (SafetensorError, OSError) as error:
        raise ModelError(f"the weights in {file} are damaged or cut off ({error}); copy the file again") from error


def _from_cache(name: str) -> ModelSource | None:
    """A model of the hub that is on this machine."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(name, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        return None
    return ModelSource(folder, "hub") if (folder / "config.json").is_file() else None  # a part may be cached alone


def _from_hub(name: str) -> Path:
    try:
        return download(name)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        known = ", ".join(sorted(path.name for path in BUNDLED.iterdir() if (path / "config.json").is_file()))
        raise ModelError(
            f"model {name!r} is not a folder here and could not be downloaded from the hub ({reason}); "
            f"check the name and the network, or use a bundled model ({known})"
        ) from error
