"""A resolved configuration is complete: written to a file, it is the same run again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_r1_core.config import load_config
from agent_r1_core.errors import ConfigError

Load = Callable[..., Any]


def test_the_dump_loads_back_to_the_same_configuration(load: Load, tmp_path: Path) -> None:
    first = load("training.lr=1e-6", "algorithm.name=plain_group", "model.lora.rank=4", "tasks.train.path=no")
    file = tmp_path / "config.yaml"
    file.write_text(first.yaml())
    second = load_config(file)
    sources = first.dump()["sources"]
    assert sources["training.lr"] == "override 'training.lr=1e-6'"
    assert sources["tools[0].top_k"].endswith("small.yaml, line 5")
    assert not {"training.steps", "algorithm.horizon"} & sources.keys(), "nobody set them"
    assert second.config == first.config
    assert second.yaml() == first.yaml()


def test_idle_defaults_in_a_dump_are_still_defaults_and_idle_choices_still_errors(load: Load, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(load().yaml())
    assert load_config(file).config.env.config.hint_text == "look"
    with pytest.raises(ConfigError, match=r"env\.hint_text .*has no effect"):
        load_config(file, ["env.hint_text=x"])


def test_what_auto_turned_out_to_be_is_written_back(load: Load, tmp_path: Path) -> None:
    resolved = load().replace({"threads": 1, "model.dtype": "float32", "tools[0].timeout": 3.0})
    assert (resolved.config.threads, resolved.config.model.dtype, resolved.config.tools[0].timeout) == (1, "float32", 3)
    assert resolved.sources["threads"] == "chosen at the start of the run"
    file = tmp_path / "config.yaml"
    file.write_text(resolved.yaml())
    assert load_config(file).config == resolved.config
    with pytest.raises(ConfigError, match=r"training\.lrr .*did you mean training\.lr"):
        resolved.replace({"training.lrr": 1})


def test_options_of_components_are_typed_and_validated_also_when_they_are_replaced(load: Load) -> None:
    resolved = load().replace({"tools[0].top_k": 5, "env.max_tokens": 99})
    tool = resolved.make("tool", resolved.config.tools[0])
    assert (tool.name, tool.config.top_k, resolved.config.env.config.max_tokens) == ("search", 5, 99)
    assert tool.config is resolved.config.tools[0].config
    assert resolved.config.env.config.hint_text == "look"
    with pytest.raises(ConfigError, match=r"tools\[0\]\.top_k .*must be a valid integer, not 'many'"):
        resolved.replace({"tools[0].top_k": "many"})


def test_a_tool_format_has_options_and_keeps_them_in_the_dump(load: Load, tmp_path: Path) -> None:
    assert load().dump()["env"]["format"] == "json"
    resolved = load("env.format={name: tags, tool: dice}")
    tool_format = resolved.make("tool_format", resolved.config.env.tool_format)
    assert (tool_format.name, tool_format.config.tool, tool_format.config.closed) == ("tags", "dice", True)
    assert resolved.dump()["env"]["format"] == {"name": "tags", "tool": "dice", "closed": True, "closing": "end"}
    file = tmp_path / "config.yaml"
    for run in (resolved, load("env.format=json")):
        file.write_text(run.yaml())
        assert load_config(file).dump()["sources"] == run.dump()["sources"]
        assert load_config(file).config == run.config


def test_plugin_files_are_absolute_in_the_dump_and_given_once(load: Load, folder: Path) -> None:
    resolved = load(plugins=[str(folder / "parts.py")])
    assert resolved.dump()["plugins"] == [str(folder / "parts.py")]
    assert resolved.registry.find("tool", "search").plugin == "parts"
