"""Finds the folder of a model by what a recipe calls it: `tiny`, a run, a folder, or a hub name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agent_r1_core.errors import ModelError
from agent_r1_core.runs.run import Run

BUNDLED = Path(__file__).resolve().parent.parent / "bundled"


@dataclass(frozen=True)
class ModelSource:
    """Where a model's weights and tokenizer lie."""

    folder: Path
    origin: str
    """How it was found, for reports: `bundled`, `run`, `folder` or `hub`."""
    run: Path | None = None
    """The run that made it, if one did."""


def find_model(name: str) -> ModelSource:
    """The folder of a model.

    `name` is, in this order: a bundled model, a folder in Hugging Face format, a run directory (its best checkpoint,
    else its final policy, else its newest checkpoint), or a hub name, which is downloaded or found in the hub's cache.

    Raises:
        ModelError: nothing answers to that name.
        RunError: the run holds no policy yet.
    """
    return _on_disk(name) or ModelSource(_from_hub(name), "hub")


def find_local_model(name: str) -> ModelSource | None:
    """The folder of a model as `find_model` finds it, or None where it would have to be downloaded first.

    Raises:
        ModelError, RunError: as `find_model`, for a folder or run.
    """
    found = _on_disk(name)
    if found is not None:
        return found
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return ModelSource(Path(snapshot_download(name, local_files_only=True)), "hub")
    except (LocalEntryNotFoundError, HFValidationError):
        return None


def _on_disk(name: str) -> ModelSource | None:
    """The model that is bundled, a folder or a run; None for what may be a hub name."""
    bundled = BUNDLED / name
    if "/" not in name and (bundled / "config.json").is_file():
        return ModelSource(bundled, "bundled")
    path = Path(name).expanduser()
    if (path / "config.json").is_file():
        return ModelSource(path, "folder")
    if Run.is_run(path):
        return ModelSource(Run.open(path).policy_folder(), "run", path)
    if path.exists() or name.startswith((".", "/", "~")):
        raise ModelError(
            f"model {name!r} is neither a Hugging Face folder (no config.json) nor a run; "
            f"give the folder that holds config.json"
        )
    return None


def _from_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, ignore_patterns=["*.gguf", "*.onnx", "*.pth", "original/*"]))
    except (OSError, ValueError, HFValidationError, HfHubHTTPError, LocalEntryNotFoundError) as error:
        known = ", ".join(sorted(path.name for path in BUNDLED.iterdir() if (path / "config.json").is_file()))
        raise ModelError(
            f"model {name!r} is no folder here and could not be had from the hub ({type(error).__name__}); "
            f"check the name and the network, or use a bundled model ({known})"
        ) from error
