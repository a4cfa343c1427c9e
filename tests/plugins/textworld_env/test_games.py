"""How games are made, without TextWorld."""

from __future__ import annotations

import os
import select
from pathlib import Path
from typing import Any

import pytest
from agent_r1_textworld.env import TextWorldConfig
from agent_r1_textworld.games import game_file
from pydantic import ValidationError

from agent_r1_core import EpisodeError


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"options": {"third_party": "evil.py"}}, "may not have 'third_party'; the options of games are"),
        ({"options": {"third": "evil.py"}}, "may not have 'third'"),
        ({"options": {"split": "--third-party=evil.py"}}, "as split; give a word"),
        ({"options": {"theme": "../elsewhere"}}, "as theme; give a word"),
        ({"game": "--third-party"}, "pattern"),
    ],
)
def test_a_recipe_makes_tw_make_run_no_file(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        TextWorldConfig(**given)


def test_options_of_games_are_taken_by_either_name() -> None:
    options = {"recipe_seed": 3, "recipe-seed": 3, "open": True, "split": "train"}
    assert TextWorldConfig(game="tw-cooking", options=options).options == options


def test_what_a_late_tw_make_started_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_R1_CACHE", str(tmp_path))
    os.mkfifo(held := tmp_path / "held")
    (tmp_path / "sh").symlink_to("/bin/sh")
    (tmp_path / "tw-make").write_text(f"exec 3> {held}; sleep 60 & sleep 60")
    reader = os.open(held, os.O_RDONLY | os.O_NONBLOCK)
    os.close(os.open(held, os.O_WRONLY))  # from now on the pipe is at its end once nobody writes
    try:
        with pytest.raises(EpisodeError, match=r"did not make the game of seed 3 within 0\.3 seconds"):
            game_file(str(tmp_path / "sh"), "custom", {}, 3, 0.3)
        assert select.select([reader], [], [], 60)[0], "a process still holds the pipe"
    finally:
        os.close(reader)
