"""Files of trajectories that another process writes: one at a time, here if it cannot, and never a lost error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agent_r1_ray import writer as module
from agent_r1_ray.writer import Writer

from agent_r1_core.errors import RunError
from agent_r1_core.runs.trajectory_file import read_trajectories, write_trajectories
from agent_r1_core.testing import make_trajectory


class Reference:
    """What Ray gives for a stored value, or for a call of another process."""

    def __init__(self, value: Callable[[], Any]) -> None:
        self._value = value

    def __await__(self) -> Generator[None, None, Any]:
        yield from asyncio.sleep(0).__await__()
        return self._value()


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The other process; what `does` is raises or writes."""
    process = SimpleNamespace(does=write_trajectories, calls=0)

    def remote(file: Path, step: int, stored: Reference, numbers: Any) -> Reference:
        def call() -> None:
            process.calls += 1
            process.does(file, step, stored._value(), numbers)

        return Reference(call)

    context = SimpleNamespace(get_node_id=lambda: "0" * 56)
    ray = SimpleNamespace(put=lambda value: Reference(lambda: value), get_runtime_context=lambda: context)
    monkeypatch.setattr(module, "ray", ray)
    monkeypatch.setattr(module, "_elsewhere", SimpleNamespace(options=lambda **_: SimpleNamespace(remote=remote)))
    return process


async def test_the_file_of_a_process_that_is_lost_is_written_here(tmp_path: Path, elsewhere: SimpleNamespace) -> None:
    def lost(*_: Any) -> None:
        raise ModuleNotFoundError("the plugin is not there")

    writer = Writer()
    for step, does in enumerate((write_trajectories, lost, write_trajectories)):
        elsewhere.does = does
        await writer.begin(tmp_path / str(step), step, [make_trajectory(sample=step)], None)
        await writer.wait()
    await writer.wait()
    assert elsewhere.calls == 3
    assert [read_trajectories(tmp_path / str(step))[0].sample for step in range(3)] == [0, 1, 2]


async def test_a_file_that_cannot_be_written_is_told_once(tmp_path: Path, elsewhere: SimpleNamespace) -> None:
    writer = Writer()
    await writer.begin(tmp_path / "no_folder" / "file", 1, [make_trajectory()], None)
    with pytest.raises(RunError, match="no_folder"):
        await writer.begin(tmp_path / "file", 2, [make_trajectory()], None)
    await writer.wait()
    await writer.begin(tmp_path / "file", 2, [make_trajectory()], None)
    await writer.wait()
    assert elsewhere.calls == 2
    assert len(read_trajectories(tmp_path / "file")) == 1
