"""Plugins to find: installed ones and local files, written on the spot."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

HEAD = (
    "from __future__ import annotations\n"
    "from agent_r1_core import ComponentConfig, Preset, RewardFn, RewardSpec, Tool, ToolArguments, ToolSpec\n"
    "from agent_r1_core import hookimpl, tool\n"
)


@pytest.fixture
def local_plugin(tmp_path: Path) -> Callable[..., Path]:
    """Writes a plugin file: `local_plugin(body, name="mine")`; the imports and the API number come with it."""

    def write(body: str, name: str = "mine", api: str = "AGENT_R1_PLUGIN_API = 1") -> Path:
        path = tmp_path / f"{name}.py"
        path.write_text(HEAD + api + "\n" + textwrap.dedent(body))
        return path

    return write


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Installs a distribution with a plugin per keyword: `install("some-tools", words="@hookimpl ...")`.

    Returns the folder of its modules, which are named `some_tools_words`.
    """
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))

    def install(distribution: str, **plugins: str) -> Path:
        stem = distribution.replace("-", "_")
        info = site / f"{stem}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        points = "".join(f"{name} = {stem}_{name}\n" for name in plugins)
        (info / "entry_points.txt").write_text(f"[agent_r1]\n{points}")
        for name, body in plugins.items():
            (site / f"{stem}_{name}.py").write_text(HEAD + "AGENT_R1_PLUGIN_API = 1\n" + textwrap.dedent(body))
        return site

    return install
