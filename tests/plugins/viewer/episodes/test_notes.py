"""What a reward notes of its score stands in the episode's file, and in the turn that it scored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from recorded_run import HOSTILE, episode, record

from agent_r1_core.runs.trajectory_file import read_trajectories, write_trajectories


def test_the_note_of_a_reward_is_shown_in_its_turn(
    open_page: Callable[..., Any], show: Callable[[Path], str], tmp_path: Path
) -> None:
    judged = episode("a", 0, reward=1.0)
    judged.turns[-1].notes = {"judge": {"grades": {"right": 7}, "reply": HOSTILE, "cached": 0.0}}
    file = record(tmp_path) / "trajectories/step_000003.parquet"
    write_trajectories(file, 3, [judged])
    assert read_trajectories(file)[0].turns == judged.turns
    page = open_page("#/runs/small/steps/3/episodes/0", at=show(tmp_path))
    assert page.locator(".turn .notes").count() == 1
    page.locator(".turn .notes summary").click()
    shown = page.locator(".turn .notes").inner_text()
    for part in ("judge", '"right": 7', "<script>"):
        assert part in shown
