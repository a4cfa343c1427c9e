"""Plugins to find: the broken ones of tests/fixtures, and local files written on the spot."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_r1_core.plugins import PluginRecord, Registry


@pytest.fixture
def broken(root: Path, monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str | None], PluginRecord]:
    """Records of the broken plugins by name and distribution, after a discovery that disables `switched_off`."""
    monkeypatch.syspath_prepend(str(root / "tests" / "fixtures" / "broken_plugins"))
    registry = Registry.discover(disabled=["switched_off"])
    return {(plugin.name, plugin.distribution): plugin for plugin in registry.plugins}


@pytest.fixture
def local_plugin(tmp_path: Path) -> Callable[..., Path]:
    """Writes a plugin file: `local_plugin(body, name="mine")`; the imports and the API number come with it."""

    def write(body: str, name: str = "mine", api: str = "AGENT_R1_PLUGIN_API = 1") -> Path:
        head = (
            "from __future__ import annotations\n"
            "from agent_r1_core import ComponentConfig, Preset, RewardFn, RewardSpec, Tool, ToolArguments, ToolSpec\n"
            "from agent_r1_core import hookimpl, tool\n"
        )
        path = tmp_path / f"{name}.py"
        path.write_text(head + api + "\n" + textwrap.dedent(body))
        return path

    return write
