"""Checkpoints are whole or absent at every moment, and the best one stays."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_r1_core.errors import RunError
from agent_r1_core.runs.checkpoints import Checkpoints
from agent_r1_core.runs.run import Run


def writer(step: int) -> Callable[[Path], None]:
    """Writes what a trainer would: a policy folder and a state, both saying the step."""

    def write(folder: Path) -> None:
        (folder / "policy").mkdir()
        (folder / "policy" / "config.json").write_text(str(step))
        (folder / "task_order.json").write_bytes(bytes([step]) * 1000)

    return write


def steps(checkpoints: Checkpoints) -> list[int]:
    return [checkpoint.step for checkpoint in checkpoints.all()]


def test_the_newest_and_the_best_are_kept_with_what_they_scored(tmp_path: Path) -> None:
    checkpoints, best = Checkpoints(tmp_path / "checkpoints"), tmp_path / "checkpoints" / "best.json"
    assert checkpoints.latest() is None
    saved = checkpoints.save(1, writer(1), keep=2, metric="eval/exact_match", value=0.1)
    assert saved.path.name == "step_000001"
    assert saved == checkpoints.latest() == checkpoints.best()
    assert saved.competitors == 1
    assert saved.policy.joinpath("config.json").read_text() == "1"
    assert saved.task_order.read_bytes() == b"\1" * 1000
    for step, value in [(2, 0.9), (3, 0.9), (4, None), (5, 0.3), (6, float("nan"))]:
        checkpoints.save(step, writer(step), keep=2, metric="eval/exact_match", value=value)
    assert steps(checkpoints) == [2, 5, 6]
    assert (checkpoints.best().step, checkpoints.best().value) == (2, 0.9)
    assert checkpoints.latest().competitors == 4, "the deleted ones competed, too; those without a value did not"
    record = {"step": 2, "metric": "eval/exact_match", "value": 0.9, "path": "step_000002"}
    assert json.loads(best.read_text()) == record
    checkpoints.save(7, writer(7), keep=3, metric="eval/exact_match", value=1.0)
    assert json.loads(best.read_text())["step"] == 7
    checkpoints.discard_after(6)
    assert steps(checkpoints) == [5, 6]
    assert json.loads(best.read_text())["step"] == 5


def test_only_values_of_the_metric_in_use_compete_and_what_is_damaged_goes_with_the_next_one(tmp_path: Path) -> None:
    (tmp_path / "step_000009").write_text("notes")
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 2):
        checkpoints.save(step, writer(step), keep=0)
    assert steps(checkpoints) == [2]
    assert checkpoints.best() is None
    assert not (tmp_path / "best.json").exists()
    os.truncate(tmp_path / "step_000002" / "task_order.json", 10)
    checkpoints.clean()
    assert checkpoints.damaged() == {"step_000002": "task_order.json is cut off"}
    checkpoints.save(3, writer(3), keep=9, metric="eval/f1", value=0.9)
    checkpoints.save(4, writer(4), keep=9, metric="eval/exact_match", value=0.2)
    assert checkpoints.best().step == 4
    assert checkpoints.damaged() == {}
    for step, value in ((5, 0.1), (6, 0.05)):
        checkpoints.save(step, writer(step), keep=9, metric="eval/exact_match", value=value, basis="other tasks")
    best, latest = checkpoints.best(), checkpoints.latest()
    assert (best.step, latest.competitors) == (5, 2), "what rests on something else competes no longer"
    with pytest.raises(RunError, match="no whole checkpoint of step 7; it has these: 3, 4, 5, 6"):
        checkpoints.at(7)
    checkpoints.save(7, writer(7), keep=9)
    assert checkpoints.best() is None, "a run that no longer chooses has no chosen checkpoint"
    assert not (tmp_path / "best.json").exists()


def changed(file: str, change: Callable[[str], str]) -> Callable[[Path], object]:
    """Changes the text of a file of a checkpoint."""
    return lambda folder: (folder / file).write_text(change((folder / file).read_text()))


def rewritten(**values: object) -> Callable[[Path], object]:
    """Sets values of a checkpoint's state.json, whose own checksum is then wrong."""
    return changed("state.json", lambda text: json.dumps(json.loads(text) | values | {"state_crc32": None}))


OUTSIDE = "policy/../../../elsewhere"
DAMAGED, OTHER = "state.json is missing or damaged", "has other bytes than were written"


@pytest.mark.parametrize(
    ("hurt", "reason"),
    [
        (rewritten(value=10**400), DAMAGED),
        (rewritten(crc32={OUTSIDE: 0}), DAMAGED),
        (rewritten(crc32={OUTSIDE: 0}, files={OUTSIDE: 7}), DAMAGED),
        (rewritten(crc32=[], files=3), DAMAGED),
        (changed("state.json", lambda text: text.replace("state_crc32", "sum")), DAMAGED),
        (changed("state.json", lambda text: "{"), DAMAGED),
        (changed("state.json", lambda text: text.replace('value": null', 'value": 9')), f"state.json {OTHER}"),
        (changed("task_order.json", lambda text: "x" * 1000), f"task_order.json {OTHER}"),
        (lambda folder: (folder / "policy" / "config.json").unlink(), "policy/config.json is missing"),
        (lambda folder: folder.rename(folder.with_name("step_000004")), "state.json is that of another step"),
    ],
)
def test_the_newest_whole_checkpoint_is_found_behind_a_damaged_one(
    tmp_path: Path, hurt: Callable[[Path], object], reason: str
) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 2, 3):
        checkpoints.save(step, writer(step), keep=3)
    (tmp_path.parent / "elsewhere").write_text("outside")
    hurt(tmp_path / "step_000003")
    found, damaged = checkpoints.newest_whole()
    assert found.step == 2
    assert list(damaged.values()) == [reason]
    checkpoints.discard_after(2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step_000001", "step_000002"]


class Slow:
    """Writes a file, then nothing until somebody lets it go on."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __call__(self, folder: Path) -> None:
        (folder / "weights").write_text("some")
        self.begun.set()
        assert self.go_on.wait(60)


def test_a_checkpoint_is_seen_when_it_is_whole_and_the_next_one_waits_for_it(tmp_path: Path) -> None:
    with Run.create(tmp_path, "run", {}, []) as run:
        first, second = Slow(), Slow()
        run.checkpoint_writer.start(1, first)
        assert first.begun.wait(60)
        assert (run.checkpoint_writer.busy, run.checkpoint_writer.step, steps(run.checkpoints)) == (True, 1, [])
        following = threading.Thread(target=lambda: run.checkpoint_writer.start(2, second, keep=2))
        following.start()
        assert not second.begun.wait(0.2)
        first.go_on.set()
        assert second.begun.wait(60)
        following.join()
        assert steps(run.checkpoints) == [1]
        second.go_on.set()
        run.checkpoint_writer.wait()
        assert steps(run.checkpoints) == [1, 2]
        assert not run.checkpoint_writer.busy
