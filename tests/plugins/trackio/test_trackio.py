"""The tracker `trackio` writes into the run and asks no server."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_r1_trackio.tracker import Trackio

from agent_r1_core import ComponentLoadError, RunInfo
from agent_r1_core.testing import TrackerContract, make_trajectory


class TestTrackio(TrackerContract):
    component = Trackio


def track(run: Path, *steps: tuple[int, float], resumed_at: int | None = None, **options: Any) -> None:
    """Write a curve."""
    opened = tracker(run, resumed_at, **options)
    for step, value in steps:
        opened.log(step, {"reward/mean": value})
    opened.close()


def tracker(run: Path, resumed_at: int | None = None, **options: Any) -> Trackio:
    opened = Trackio(Trackio.Config(**options))
    opened.open(RunInfo("run-1", str(run), {"seed": 7}, resumed_at))
    return opened


def rows(database: Path, query: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(database)) as connection:
        return connection.execute(query).fetchall()


def curve(database: Path) -> list[tuple[int, float]]:
    found = [(step, json.loads(text)) for step, text in rows(database, "SELECT step, metrics FROM metrics")]
    return sorted((step, metrics["reward/mean"]) for step, metrics in found if "reward/mean" in metrics)


def test_metrics_and_traces_lie_in_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    opened = tracker(tmp_path)
    opened.log(1, {"reward/mean": 0.5})
    said = {"texts": ["search Lyon", "Paris"], "answer": "Paris", "reward": 1.0, "rewards": {"exact_match": 1.0}}
    opened.log_trajectories(1, [make_trajectory(**said), make_trajectory(sample=1)])
    opened.close()
    database = tmp_path / "trackio" / "agent-r1.db"
    assert curve(database) == [(1, 0.5)]
    traces = rows(database, "SELECT step, messages, metadata FROM traces ORDER BY trace_index")
    assert [step for step, _, _ in traces] == [1, 1]
    assert [message["content"] for message in json.loads(traces[0][1])] == ["1 2 3", "search Lyon", "6 7", "Paris"]
    metadata = json.loads(traces[0][2])
    assert (metadata["reward"], metadata["rewards"], metadata["answer"]) == (1.0, {"exact_match": 1.0}, "Paris")
    assert capsys.readouterr().out == ""


def test_a_resumed_run_replaces_what_it_redoes(tmp_path: Path) -> None:
    track(tmp_path, (1, 0.0), (2, 0.0), (3, 0.0))
    track(tmp_path, (3, 1.0), resumed_at=2)
    database = tmp_path / "trackio" / "agent-r1.db"
    assert curve(database) == [(1, 0.0), (2, 0.0), (3, 1.0)]
    assert len(rows(database, "SELECT DISTINCT run_id FROM metrics")) == 1


def test_runs_keep_to_their_own_folders_or_to_a_shared_one_and_ask_no_server(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_SPACE_ID", "someone/space")
    monkeypatch.setenv("TRACKIO_SERVER_URL", "http://127.0.0.1:9")
    track(tmp_path / "a", (1, 1.0))
    track(tmp_path / "b", (1, 2.0))
    track(tmp_path / "run", (1, 3.0), directory=str(tmp_path / "shared"), project="mine")
    databases = (tmp_path / "a/trackio/agent-r1.db", tmp_path / "b/trackio/agent-r1.db", tmp_path / "shared/mine.db")
    assert [curve(database) for database in databases] == [[(1, 1.0)], [(1, 2.0)], [(1, 3.0)]]
    assert os.environ["TRACKIO_SPACE_ID"] == "someone/space"
    assert "TRACKIO_DIR" not in os.environ


def test_a_missing_package_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "trackio"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "trackio", None)
    with pytest.raises(ComponentLoadError, match=r"agent-r1\[trackio\]"):
        tracker(tmp_path)
    assert "agent-r1[trackio]" in str(Trackio.unavailable(Trackio.Config()))
    Trackio().close()  # though it has not opened


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every attempt to reach a server fails the test."""
    if not os.environ.get("CI"):
        pytest.importorskip("trackio")

    def refuse(*arguments: Any, **_: Any) -> None:
        raise AssertionError(f"trackio reached for the network: {arguments[1:]}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
