"""LAW 13. What comes from elsewhere is only read: no command that reads a run writes, waits, or takes what it likes.

Every command of the app is tried on a run in which every kind of file that it opens is a pipe, a device, or endless."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import typer
from agent_r1_viewer.reading.episode import read_episode, read_trajectory_rows
from agent_r1_viewer.reading.episode_rows import read_groups, read_places, read_rows
from hostile_files import COMMANDS, DISGUISES, SLOW, WITHOUT_RUNS, WRITING, kinds, write_bomb
from small_run import overrides

from agent_r1_cli.main import build_app
from agent_r1_core import opening, train
from agent_r1_core.assembly.model_source import find_model
from agent_r1_core.errors import ModelError, NotOpened
from agent_r1_core.runs.trajectory_file import read_task_keys, read_trajectories

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    """A trained run with a file of every kind; nobody changes it."""
    changed = {"rewards": "[exact_match]", "checkpoint": "{every: 1, keep: 1, best: eval/exact_match}"}
    given = overrides(folder, 2, recording__evaluation_episodes=2, run__name="x", **changed)
    path = train("default", given).path
    (path / "calls_in_process.txt").touch()  # as a killed training leaves it
    return path


def commands(group: Any, names: tuple[str, ...] = ()) -> Iterator[str]:
    """All commands of the app."""
    if not hasattr(group, "commands"):
        yield " ".join(names)
        return
    for name in group.list_commands(None):
        yield from commands(group.get_command(None, name), (*names, name))


def test_every_command_is_tried_that_takes_a_run() -> None:
    """A new command says in `hostile_files.py` how it takes one, or that it takes none."""
    tried = {command.partition(" -")[0] for command in COMMANDS}
    assert sorted(commands(typer.main.get_command(build_app()))) == sorted([*tried, *WITHOUT_RUNS])


@pytest.mark.parametrize(
    "command", [pytest.param(one, marks=pytest.mark.slow) if one in SLOW else one for one in COMMANDS]
)
def test_no_file_makes_a_command_wait_write_or_fall(run: Path, command: str, warm: Path) -> None:
    tried = subprocess.run([warm, HERE / "hostile_files.py", run, command], capture_output=True, text=True, timeout=900)
    results = [json.loads(line) for line in tried.stdout.splitlines() if line.startswith('{"file"')]
    assert results, tried.stderr
    sound, others, *rest = results
    assert sound["code"] == 0, sound
    assert others["file"] == "what it does not open"
    for result in results:
        assert not result["waited"], result
        assert result["code"] in (0, 1, 2, 3), result
        assert result["raised"] in ("None", f"SystemExit({result['code']})"), result
        assert "unexpected" not in result["said"], result
        assert not result["changed"] or command in WRITING, result
        assert not [one for one in result["amiss"] if command not in WRITING or one.endswith("is opened")], result
    assert rest or command.startswith("reproduce"), "it opens no file of the run"
    assert {result["as"] for result in rest} <= DISGUISES.keys()


def test_kinds_of_files_are_those_of_a_real_run(run: Path) -> None:
    assert {"metrics.jsonl", "config.yaml", ".lock", "trajectories/step_000002.parquet"} < set(kinds(run))
    assert len(kinds(run)) > 30


def test_nothing_is_read_beyond_its_bound(tmp_path: Path) -> None:
    DISGUISES["10 GiB without a block"](tmp_path / "file")
    within = lambda path: opening.open_to_read(path, 2**30)
    for read in (within, opening.read_bytes, opening.read_text, opening.read_json):
        with pytest.raises(NotOpened, match="it has 10737418240 bytes"):
            read(tmp_path / "file")


@pytest.mark.parametrize(
    "read",
    [
        *(read_trajectories, read_task_keys, read_rows, read_places, read_groups),
        *(lambda path: read_episode(path, 0), lambda path: read_trajectory_rows(path, [1000])),
    ],
)
def test_kilobytes_do_not_become_gigabytes(run: Path, read: Callable[[Path], Any], tmp_path: Path) -> None:
    path = tmp_path / "step_000001.parquet"
    path.write_bytes((run / "trajectories" / "step_000001.parquet").read_bytes())
    write_bomb(path)
    assert path.stat().st_size < 100_000
    most = pa.default_memory_pool().max_memory()
    with pytest.raises(NotOpened, match=r"it stands for [0-9,]+ bytes, and at most 536,870,912 are read"):
        read(path)
    assert pa.default_memory_pool().max_memory() - most < 2**27


HUGE = 2**60
START = b"GGUF" + struct.pack("<I", 3)
KEY = struct.pack("<Q", 1) + b"k"
TENSOR = struct.pack("<QcIQIQ", 1, b"t", 1, 16, 0, 0)
HEADERS = {
    "keys": START + struct.pack("<QQ", 0, HUGE),
    "tensors": START + struct.pack("<QQ", HUGE, 0),
    "a text": START + struct.pack("<QQQ", 0, 1, HUGE),
    "an array": START + struct.pack("<QQ", 0, 1) + KEY + struct.pack("<IIQ", 9, 0, HUGE),
    "an array of arrays": START + struct.pack("<QQ", 0, 1) + KEY + struct.pack("<IIQ", 9, 9, 1) * 2,
    "dimensions": START + struct.pack("<QQ", 1, 0) + TENSOR[:9] + struct.pack("<I", 2**31),
    "a tensor": START + struct.pack("<QQ", 1, 0) + TENSOR.replace(struct.pack("<Q", 16), struct.pack("<Q", HUGE)),
    "an offset": START + struct.pack("<QQ", 1, 0) + TENSOR[:-8] + struct.pack("<Q", HUGE),
    "bytes that tensors share": START + struct.pack("<QQ", 3, 0) + TENSOR * 3,
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_no_claim_of_a_header_is_believed(header: bytes, tmp_path: Path) -> None:
    """It is held against the file before anything is read or made by its numbers."""
    file = tmp_path / "hostile.gguf"
    file.write_bytes(header + bytes(64))
    with pytest.raises(ModelError, match=r"hostile\.gguf is (cut off or damaged|damaged|not opened), since its "):
        find_model(str(file))
