"""Projects of `agent-r1 new`, built and installed as their authors would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from warm_python import SITE

from agent_r1_cli.new_command import KINDS, write_project

pytestmark = [pytest.mark.installed, pytest.mark.slow]


def succeed(*call: object, cwd: Path, **environment: str) -> None:
    words, variables = [str(part) for part in call], os.environ | environment
    done = subprocess.run(words, cwd=cwd, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, f"{call} exited with {done.returncode}:\n{done.stdout}\n{done.stderr}"


def test_every_kind_is_built_installed_and_found(tmp_path: Path, with_agent_r1: Any) -> None:
    for kind in KINDS:
        write_project(kind, f"my_{kind}", tmp_path / kind)
        succeed(sys.executable, "-m", "build", "--no-isolation", "--wheel", ".", cwd=tmp_path / kind)
    with_agent_r1.install(*(next((tmp_path / kind / "dist").glob("*.whl")) for kind in KINDS))
    answer = json.loads(with_agent_r1.agent_r1("plugins", "list", "--json"))
    found = {(component["kind"], component["qualified"]) for component in answer["components"]}
    assert {("env" if kind == "agent" else kind, f"my_{kind}/my_{kind}") for kind in KINDS} <= found


def test_an_editable_project_passes_its_tests_and_the_doctor(tmp_path: Path, with_agent_r1: Any, warm: Path) -> None:
    for kind in KINDS:
        write_project(kind, f"my_{kind}", tmp_path / kind)
    with_agent_r1.install(*(part for kind in KINDS for part in ("--editable", tmp_path / kind)))
    for kind in KINDS:
        call = (warm, "-P", "-m", "pytest", "-q", "-o", "pythonpath=", "-p", "no:cacheprovider")
        succeed(*call, cwd=tmp_path / kind, **{SITE: str(with_agent_r1.site_packages)})
    report = json.loads(with_agent_r1.agent_r1("plugins", "doctor", "--json"))
    findings = {plugin["name"]: plugin["problems"] for plugin in report["plugins"]}
    assert {f"my_{kind}": [] for kind in KINDS}.items() <= findings.items()
