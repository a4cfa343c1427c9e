"""Tags and a note stay beside a run: not in it, with it where it moves, and gone when they are taken back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from asking import OWN_PAGE, client, told, tree

from agent_r1_core.folders import state_dir


def test_what_a_reader_keeps_beside_a_run_is_not_in_it_and_moves_with_it(copied: Path, tmp_path: Path) -> None:
    before = tree(copied.parent)
    with client(copied.parent) as asked:
        sent = {"tags": [" paper ", "paper", "", "seed  7"], "note": "It forgets.\n"}
        kept = asked.post("/api/runs/small/remark", json=sent, headers=OWN_PAGE)
        assert kept.json() == {"tags": ["paper", "seed 7"], "note": "It forgets."}
        assert told(asked, "runs")["runs"][0]["remark"] == kept.json()
        for bad, status in ((b"[", 422), (b'{"tags": 1}', 422), (json.dumps(sent | {"note": "x" * 10_001}), 422),
                            (b"x" * 70_000, 413)):  # fmt: skip
            assert asked.post("/api/runs/small/remark", content=bad, headers=OWN_PAGE).status_code == status
        assert asked.post("/api/runs/other/remark", json=sent, headers=OWN_PAGE).status_code == 404
        assert tree(copied.parent) == before
    moved = tmp_path / "elsewhere" / "small"
    shutil.move(copied, moved)
    with client(moved.parent) as asked:
        assert told(asked, "runs", "small")["summary"]["remark"] == kept.json()
        moved.rename(moved.with_name("renamed"))
        assert told(asked, "runs", "renamed")["summary"]["remark"] == {"tags": [], "note": ""}
        moved.with_name("renamed").rename(moved)
        asked.post("/api/runs/small/remark", json={"tags": [], "note": ""}, headers=OWN_PAGE)
        assert told(asked, "runs", "small")["summary"]["remark"] == {"tags": [], "note": ""}
    assert not list((state_dir() / "remarks").iterdir())
