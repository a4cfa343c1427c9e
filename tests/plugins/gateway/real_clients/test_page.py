"""The recipes of docs/programs.md run as they are written."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.installed, pytest.mark.slow]


@pytest.mark.parametrize("recipe", ["mine.yaml", "library.yaml", "coding.yaml"])
def test_a_recipe_plays(recipe: str, page: Path, client_python: Path, client_path: str, warm: Path) -> None:
    path = os.pathsep.join([str(page), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [str(warm), "-m", "agent_r1_cli", "rollout", recipe, "-n", "1", "--trust", "--json"]
    variables = os.environ | {"PATH": client_path, "PYTHONPATH": path}
    done = subprocess.run(command, cwd=page, env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    (episode,) = json.loads(done.stdout)["episodes"]
    assert episode["status"] in ("terminated", "truncated")
