"""ModelFiles: what belongs to a run's model besides weights and configuration: tokenizer, chat template, licence.

The run copies them once from the model that it starts from, and completes every policy that it saves from its copy.
Code is left out: a run never carries any.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from agent_r1_core.errors import RunError
from agent_r1_core.opening import LINES, check_regular
from agent_r1_core.runs.checksums import MODEL_CHECKSUMS
from agent_r1_core.runs.files import write_folder

_WEIGHTS = (
    *(".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".gguf", ".onnx", ".onnx_data", ".npz"),
    *(".npy", ".ot", ".tflite", ".index.json"),
)
_CODE = (".py", ".pyc", ".ipynb", ".so", ".sh", ".pkl", ".pickle", ".joblib")
_TEMPLATES = "additional_chat_templates"
"""The one folder inside a model's folder that transformers reads."""


class ModelFiles:
    """The run's copy."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep(self, model: Path) -> None:
        """Copy the files of the folder `model`, once: what was kept before stays; raises RunError if writing fails."""
        if not self.folder.is_dir():
            write_folder(self.folder, lambda target: _copy(model, target))

    def complete(self, policy: Path) -> None:
        """Copy the files into a folder with weights and configuration, which makes it a plain Hugging Face folder.

        Raises:
            RunError: the run's copy is gone.
            OSError: writing fails.
        """
        if not self.folder.is_dir():
            raise RunError(
                f"{self.folder} is gone, without which a saved policy has no tokenizer; --resume copies it again"
            )
        _copy(self.folder, policy)


def _copy(model: Path, target: Path) -> None:
    for file in (*model.iterdir(), *model.glob(f"{_TEMPLATES}/*")):
        if file.is_file() and _belongs(file.name.lower()):
            copied = target / file.relative_to(model)
            copied.parent.mkdir(exist_ok=True)
            check_regular(file)
            if file.stat().st_size <= LINES:  # what is larger serves no tokenizer
                shutil.copyfile(file, copied)


def _belongs(name: str) -> bool:
    """Whether a file is not hidden, no weights, no code, no checksums and no configuration, which the weights bring."""
    return not (name.startswith(".") or name in ("config.json", MODEL_CHECKSUMS) or name.endswith((*_WEIGHTS, *_CODE)))
