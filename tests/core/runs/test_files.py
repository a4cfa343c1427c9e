"""What is on the disk when a line has been written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_r1_core.runs.files import append_line, write_text


def test_the_first_line_of_a_file_is_on_disk_with_the_name_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed, fsync = list[str](), os.fsync

    def watched(handle: int) -> None:
        flushed.append(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", watched)
    file = tmp_path / "events.jsonl"
    append_line(file, "one\n")
    append_line(file, "two\n")
    assert flushed == [str(file), str(tmp_path), str(file)]


def test_a_file_is_written_into_a_folder_that_a_link_names(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    write_text(tmp_path / "link" / "note", "hello")
    assert (tmp_path / "folder" / "note").read_text() == "hello"
