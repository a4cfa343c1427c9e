"""Whoever plays or scores with another component reads which options went with the old one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize("command", ["play", "rollout", "eval"])
def test_every_command_says_what_is_dropped(
    succeed: Callable[..., Any], command: str, noise: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("actions.txt").write_text("<answer>2</answer>\n")
    short = ("engine.max_new_tokens=4", "env.max_turns=1", "threads=1", "--model", noise)
    options = {"play": ("--script", "actions.txt"), "rollout": (*short, "-n", 1), "eval": (*short, "evaluation.size=2")}
    done = succeed(command, "calculator", "tasks.eval=miniwiki", *options[command])
    assert 'tasks.eval is now miniwiki; of arithmetic these are dropped: tasks.eval.split="eval" (' in done.stderr
