"""The package as a user gets it: what is in it, and that it works where no checkout is."""

from __future__ import annotations

import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from agent_r1_cli.new_command import KINDS

pytestmark = [pytest.mark.installed, pytest.mark.slow]


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("RECORD")}


def test_the_wheel_holds_all_that_runs_and_nothing_else(built: dict[str, Path], root: Path) -> None:
    names = set(contents(built["wheel"]))
    tops = {name.split("/")[0] for name in names}
    assert tops == {"agent_r1_core", "agent_r1_cli", *(path.name for path in (root / "plugins").glob("agent_r1_*"))} | {
        name for name in tops if name.endswith(".dist-info")
    }
    for model in ("tiny", "tiny-worlds"):
        for file in ("config.json", "model.safetensors", "tokenizer.json"):
            assert f"agent_r1_core/bundled/{model}/{file}" in names
    recipes = {path.relative_to(root).as_posix() for path in (root / "recipes").rglob("*.yaml")}
    assert {f"agent_r1_cli/_{path}" for path in recipes} <= names
    for kind in KINDS:
        assert f"agent_r1_cli/_templates/{kind}/src/{{{{package}}}}/plugin.py" in names
    assert {"agent_r1_cli/_templates/common/.gitignore", "agent_r1_core/kernels/kernels.cpp"} <= names


def test_the_sdist_holds_what_tests_it_and_makes_the_same_wheel(built: dict[str, Path]) -> None:
    assert contents(built["wheel"]) == contents(built["direct"])
    with tarfile.open(built["sdist"]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "LICENSE", "tests/conftest.py", "templates/common/pyproject.toml"} <= names


@pytest.mark.parametrize("editable", [False, True])
def test_an_installed_package_works(built: dict[str, Path], root: Path, without_agent_r1: Any, editable: bool) -> None:
    """A wheel without the checkout, and an editable install, which reads it."""
    without_agent_r1.install(*(["--editable", root] if editable else [built["wheel"]]))
    answer = json.loads(without_agent_r1.agent_r1("plugins", "list", "--json"))
    assert {plugin["status"] for plugin in answer["plugins"]} == {"ok"}
    shown = json.loads(without_agent_r1.agent_r1("plugins", "show", "calculator", "--json"))
    assert Path(shown["source"]).is_relative_to(root if editable else without_agent_r1.folder)
    without_agent_r1.agent_r1("new", "tool", "letters_of_nobody")
    assert (without_agent_r1.folder / "agent-r1-letters-of-nobody" / "pyproject.toml").is_file()
    assert "miniwiki" in without_agent_r1.agent_r1("train", "--dry-run")
