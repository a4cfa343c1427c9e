"""Lines on the disk: metrics.jsonl has one a step, whatever happens in between."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest

from agent_r1_core.errors import RunError
from agent_r1_core.runs.files import append_line, remove_torn_line, write_text
from agent_r1_core.runs.metrics_file import MetricsFile


@pytest.fixture
def metrics(tmp_path: Path) -> MetricsFile:
    file = MetricsFile(tmp_path / "metrics.jsonl")
    for step in (1, 2, 3):
        file.append(step, {"reward/mean": step / 10})
    return file


def test_a_step_has_one_line_and_later_steps_are_dropped_and_done_again(metrics: MetricsFile, tmp_path: Path) -> None:
    for file in (metrics, MetricsFile(metrics.path)):
        with pytest.raises(RunError, match="already has the metrics of step 3, so those of step 3 cannot be added"):
            file.append(3, {})
    metrics.truncate_after(1)
    metrics.append(2, {"reward/mean": 9.0})
    assert [line["reward/mean"] for line in metrics.read()] == [0.1, 9.0]
    none = MetricsFile(tmp_path / "none.jsonl")
    none.truncate_after(0)
    assert (none.read(), none.last_step()) == ([], -1), "there may be no file yet"


def test_a_torn_line_is_ignored_and_then_removed_and_of_several_lines_of_a_step_the_last_stays(
    metrics: MetricsFile,
) -> None:
    whole = metrics.path.read_bytes()
    metrics.path.write_bytes(whole + b'{"step": 4, "rew')
    assert len(metrics.read()) == 3
    remove_torn_line(metrics.path)
    assert metrics.path.read_bytes() == whole
    lines = metrics.path.read_text().splitlines(keepends=True)
    metrics.path.write_text("".join([lines[2], *lines, lines[1].replace("0.2", "0.9")]))
    metrics.truncate_after(3)
    assert [(line["step"], line["reward/mean"]) for line in metrics.read()] == [(1, 0.1), (2, 0.9), (3, 0.3)]


def test_numbers_that_json_lacks_survive_in_strict_json(metrics: MetricsFile) -> None:
    metrics.append(4, {"loss": math.nan, "ratio": math.inf, "low": -math.inf})

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not strict JSON")

    for line in metrics.path.read_text().splitlines():
        json.loads(line, parse_constant=refuse)
    last = metrics.read()[-1]
    assert math.isnan(last["loss"])
    assert (last["ratio"], last["low"]) == (math.inf, -math.inf)


@pytest.mark.parametrize(
    "line", ["rubbish", "null", *(f'{{"step": 2, "m": {value}}}' for value in ('"x"', "[1]", "null", "9" * 400))]
)
def test_a_broken_line_in_the_middle_is_named(metrics: MetricsFile, line: str) -> None:
    lines = metrics.path.read_text().splitlines()
    metrics.path.write_text("\n".join([lines[0], line, lines[2]]) + "\n")
    with pytest.raises(RunError, match=r"line 2 of .*metrics.jsonl is not the metrics of a step"):
        metrics.read()


def test_the_first_line_of_a_file_is_on_disk_with_its_name_and_a_link_may_name_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed = list[str]()
    monkeypatch.setattr(os, "fsync", lambda handle: flushed.append(os.readlink(f"/proc/self/fd/{handle}")))
    file = tmp_path / "events.jsonl"
    append_line(file, "one\n")
    append_line(file, "two\n")
    assert flushed == [str(file), str(tmp_path), str(file)]
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    write_text(tmp_path / "link" / "note", "hello")
    assert (tmp_path / "folder" / "note").read_text() == "hello"
