"""The lock of a run lasts as long as its holder, whatever else happens to its file."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
from pathlib import Path

import pytest

from agent_r1_core.errors import RunError
from agent_r1_core.runs.lock import NAME, FileLock, RunLock, is_held, lock_for_deleting, lock_for_reading


def trainer_with_an_orphan(folder: Path, ready: int, wait: tuple[int, int]) -> int:
    """Fork a process that locks the folder, opens and closes the lock's file, and forks a child that outlives it."""
    trainer = os.fork()
    if trainer == 0:
        os.close(wait[1])
        held = RunLock(folder)
        (folder / NAME).read_bytes()
        if os.fork() == 0:
            held.release()  # as the end of a `with` in the child would
        else:
            os.write(ready, b".")
        os.read(wait[0], 1)
        os._exit(0)
    return trainer


def test_a_lock_survives_other_uses_of_its_file_but_not_the_trainer(tmp_path: Path) -> None:
    (told, ready), wait = os.pipe(), os.pipe()
    trainer = trainer_with_an_orphan(tmp_path, ready, wait)
    try:
        os.read(told, 1)
        with pytest.raises(RunError, match=f"is being written by process {trainer}; wait for it or stop it"):
            RunLock(tmp_path)
    finally:
        os.kill(trainer, signal.SIGKILL)
        os.waitpid(trainer, 0)
    RunLock(tmp_path).release()
    for handle in (told, ready, *wait):
        os.close(handle)


def test_a_lock_that_nobody_holds_any_more_is_released_and_readers_keep_a_file_from_its_deleter(tmp_path: Path) -> None:
    held = RunLock(tmp_path)
    with pytest.raises(RunError, match="is already open for writing in this process"):
        RunLock(tmp_path)
    del held
    RunLock(tmp_path).release()
    file = tmp_path / "file"
    file.touch()
    first, second = lock_for_reading(file), lock_for_reading(file)
    first.release()
    assert lock_for_deleting(file) is None
    second.release()
    deleter = lock_for_deleting(file)
    file.unlink()
    deleter.release()
    assert lock_for_reading(file) is None


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "replaced"])
def test_a_lock_on_a_folder_that_goes_while_it_is_taken_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    folder, flock = tmp_path / "run", fcntl.flock
    folder.mkdir()

    def late(handle: int, operation: int) -> None:
        shutil.rmtree(folder)
        if again:
            folder.mkdir()
            (folder / NAME).touch()
        flock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(RunError, match="was deleted or replaced just now"):
        RunLock(folder)


def test_whoever_asks_whether_a_run_is_written_keeps_no_trainer_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trainer comes while a reader holds the lock for its instant, and tries again."""
    assert not is_held(tmp_path)
    assert not (tmp_path / NAME).exists()
    RunLock(tmp_path).release()
    assert not is_held(tmp_path)
    reader, waited = FileLock(tmp_path / NAME, os.O_RDONLY), list[float]()
    reader.take(fcntl.LOCK_SH)
    monkeypatch.setattr("agent_r1_core.runs.lock.time.sleep", lambda s: (waited.append(s), reader.release()))
    held = RunLock(tmp_path)
    assert len(waited) == 1
    assert is_held(tmp_path)
    held.release()
    assert not is_held(tmp_path)
