"""A run carries everything that belongs to its model, by itself, and no code."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_r1_core.errors import RunError
from agent_r1_core.runs.model_files import ModelFiles

KEPT = (
    *("LICENSE", "additional_chat_templates/tools.jinja", "chat_template.jinja", "generation_config.json"),
    "vocab.txt",
)
LEFT = (
    *("config.json", "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "modeling_own.py"),
    *(".gitattributes", "checkpoint-3/tokenizer.json", "checksums.json"),
)


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_what_is_neither_weights_nor_code_is_kept_once_and_completes_every_policy(tmp_path: Path) -> None:
    for name in (*KEPT, *LEFT):
        file = tmp_path / "model" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    files = ModelFiles(tmp_path / "model_files")
    files.keep(tmp_path / "model")
    (tmp_path / "model" / "LICENSE").write_text("another")
    files.keep(tmp_path / "model")
    policy = tmp_path / "policy"
    policy.mkdir()
    (policy / "config.json").write_text("its own")
    files.complete(policy)
    assert names(policy) == sorted([*KEPT, "config.json"])
    assert (policy / "LICENSE").read_text() == "LICENSE"
    assert (policy / "config.json").read_text() == "its own"


def test_a_lost_copy_is_said_and_not_passed_over(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"model_files is gone, .*; --resume copies it again"):
        ModelFiles(tmp_path / "model_files").complete(tmp_path)
