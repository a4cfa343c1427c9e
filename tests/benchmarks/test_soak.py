"""64 tasks of what may leave something behind leave nothing, although one of them hangs."""

from __future__ import annotations

from pathlib import Path

import pytest

NAMES = ("harbor", "judge", "judge_comparison", "mcp/per_episode", "textarena/TicTacToe")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_episodes_leave_nothing_behind(name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    from soak import play
    from soak_worlds import WORLDS

    world = WORLDS[name]
    with world.beside() as address:
        found = play(world.given(address, episodes=64 * world.samples, at_once=32))
    assert (found["why"], found["failed"], found["processes"]) == ([], 0, 0)
    assert found["descriptors"] <= 2
    assert bool(found["hung"]) == bool(world.hangs)
