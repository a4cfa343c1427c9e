"""Parts of a run's configuration, read without the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_r1_core.config.yaml_text import dump
from agent_r1_core.errors import RunError
from agent_r1_core.runs.reading.summary import read_sections

CONFIG = {
    "model": {"name": "tiny", "lora": None},
    "env": {"system_prompt": "First line.\n\ntraining: not a section\n  steps: 3\n", "name": "qa"},
    "tools": [{"name": "wiki_search"}],
    "training": {"steps": 25, "lr": 1e-6},
    "deterministic": False,
    "sources": {"training.steps": "a.yaml, line 3"},
}


@pytest.mark.parametrize("names", [("model",), ("training", "sources"), ("env", "tools"), ("deterministic",), CONFIG])
def test_sections_are_those_of_the_whole(tmp_path: Path, names: tuple[str, ...]) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(dump(CONFIG))
    assert read_sections(path, [*names, "gone"]) == {name: CONFIG[name] for name in names}


@pytest.mark.parametrize("content", [b"training: [", b"\xff", b"- a\n", b""])
def test_damage_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(content)
    with pytest.raises(RunError, match=r"config\.yaml is damaged: it is not what agent-r1 wrote"):
        read_sections(path, ["training"])
