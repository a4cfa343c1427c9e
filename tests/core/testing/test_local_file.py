"""A component of a local plugin file is tested by the file's name and its own."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from agent_r1_core.errors import ComponentLoadError, ConfigError, UnknownComponent
from agent_r1_core.testing import AlgorithmContract, ToolContract

PRESET = """
from agent_r1_core import AlgorithmSpec, Preset, hookimpl
from agent_r1_grpo.grpo import GRPO

AGENT_R1_PLUGIN_API = 1

@hookimpl
def register_algorithms():
    return [AlgorithmSpec("mine", ":GRPO", "an algorithm", presets=(Preset("sharp", {"clip_low": 0.1, "eps": 0.5}),))]
"""


class TestMultiply(ToolContract):
    plugin_file = "my_tool.py"
    name = "multiply"
    arguments: ClassVar = {"a": 6, "b": 7}
    expected = 42


def test_a_preset_brings_its_options_and_the_test_may_change_them(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(PRESET, encoding="utf-8")
    settings = {"plugin_file": path, "name": "sharp", "config": {"eps": 0.1}}
    config = type("Here", (AlgorithmContract,), settings)().make().config
    assert (config.clip_low, config.eps) == (0.1, 0.1)


@pytest.mark.parametrize(
    ("text", "error", "sentence"),
    [
        (None, ConfigError, "does not exist"),
        ("AGENT_R1_PLUGIN_API = 1\nimport no_such_module", ComponentLoadError, "mine.py.*no_such_module"),
        (PRESET, UnknownComponent, "no tool is called 'mine/multiply'"),
    ],
    ids=["no file", "not importable", "another kind"],
)
def test_what_cannot_be_loaded_is_said(tmp_path: Path, text: str | None, error: type, sentence: str) -> None:
    path = tmp_path / "mine.py"
    if text:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(error, match=sentence):
        type("Here", (ToolContract,), {"plugin_file": path, "name": "multiply"})
