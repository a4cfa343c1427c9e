"""What is opened to read is a regular file within a bound, whatever leads to it; what is opened to write is no link."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_r1_core import opening
from agent_r1_core.errors import NotOpened

READERS: dict[str, Callable[[Path], object]] = {
    "open_to_read": opening.open_to_read,
    "handle_to_read": opening.handle_to_read,
    "read_bytes": opening.read_bytes,
    "read_text": opening.read_text,
    "read_json": opening.read_json,
    "check_regular": opening.check_regular,
    "check_folder": lambda path: opening.check_folder(path.parent),
    "check_folder below": lambda path: opening.check_folder(path.parent.parent, path.parent.name),
}


@pytest.fixture(params=["pipe", "socket", "device", "link to a device"])
def special(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "file.json"
    with socket.socket(socket.AF_UNIX) as server:
        if request.param == "pipe":
            os.mkfifo(path)
        elif request.param == "socket":
            server.bind(os.path.relpath(path))  # the whole name may be too long for a socket
        else:
            path.symlink_to("/dev/zero")
        yield path


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_what_is_no_file_is_not_read(read, special):
    with pytest.raises(NotOpened, match=rf"{special} is not opened: it is a (pipe|socket|device), not a file"):
        read(special)


@pytest.mark.parametrize("flags", [os.O_WRONLY | os.O_CREAT, os.O_RDWR, os.O_WRONLY | os.O_APPEND])
def test_nor_written(flags, special):
    with pytest.raises(NotOpened, match="is not opened: it is a"):
        opening.open_to_write(special, flags)


def test_reading_stops_at_a_bound_and_where_the_file_ended(tmp_path):
    file = tmp_path / "lines"
    file.write_bytes(b"ten bytes\n")
    assert opening.read_bytes(file, 10) == b"ten bytes\n"
    with pytest.raises(NotOpened, match="it has 10 bytes, and at most 9 are read"):
        opening.read_bytes(file, 9)
    os.truncate(file, 10 * 2**30)  # without a block on the disk
    with opening.open_to_read(file) as opened:  # whoever reads a part at a time
        assert opened.read(3) == b"ten"


def test_links_are_read_and_never_written(tmp_path):
    """Hubs keep models as links to blobs; a stranger's run may hold a link to anything."""
    theirs, link = tmp_path / "thesis", tmp_path / "run.json"
    theirs.write_text('{"a":\r\n1}')
    link.symlink_to(theirs)
    assert opening.read_json(link) == {"a": 1}
    assert opening.read_text(link) == '{"a":\n1}'
    with pytest.raises(NotOpened, match="it is a link, and nothing is written through links"):
        opening.open_to_write(link, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    link.unlink()
    link.symlink_to(tmp_path / "nothing yet")
    with pytest.raises(NotOpened, match="it is a link"):
        opening.open_to_write(link, os.O_WRONLY | os.O_CREAT)
    link.unlink()
    link.hardlink_to(theirs)
    with pytest.raises(NotOpened, match="the same file has another name"):
        opening.open_to_write(link, os.O_WRONLY | os.O_TRUNC)
    assert theirs.read_text() == '{"a":\n1}'
    assert not (tmp_path / "nothing yet").exists()


def test_a_folder_that_is_written_has_no_way_out(tmp_path):
    folder, outside = tmp_path / "run", tmp_path / "outside"
    for path in (folder / "checkpoints" / "step_000001", outside):
        path.mkdir(parents=True)
    (folder / "newest").symlink_to("checkpoints/step_000001")
    (folder / "checkpoints" / "marker").symlink_to("../run.json")
    named = tmp_path / "named"
    named.symlink_to(folder)  # the user's own way to the folder
    opening.check_links(named)
    opening.check_links(named / "checkpoints", within=named)
    for link in ("trajectories", "checkpoints/step_000002"):
        (folder / link).symlink_to(outside)
        with pytest.raises(NotOpened, match=f"{link} is not opened: it is a link that leads out of {named}"):
            opening.check_links((named / link).parent, within=named)
        with pytest.raises(NotOpened, match="leads out of"):
            opening.check_inside(folder / link / "file", folder)
        (folder / link).unlink()
    opening.check_inside(folder / "missing", outside, folder)


def test_a_library_opens_no_folder_with_a_document_of_any_size_and_missing_files_are_the_systems_errors(tmp_path):
    for read in (opening.open_to_read, opening.check_regular):
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "missing")
        with pytest.raises(IsADirectoryError) as raised:
            read(tmp_path)
        assert raised.value.errno == errno.EISDIR

    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "folder").mkdir()
    (tmp_path / "weights.safetensors").touch()
    os.truncate(tmp_path / "weights.safetensors", 10 * 2**30)
    opening.check_folder(tmp_path, "folder", "missing")
    (tmp_path / "config.json").touch()
    os.truncate(tmp_path / "config.json", 10 * 2**30)
    with pytest.raises(NotOpened, match=r"config\.json is not opened"):
        opening.check_folder(tmp_path)


@pytest.mark.parametrize("content", [b"[" * 200_000, b"\xff", b"{", b""])
def test_what_is_no_json_is_a_value_error(content, tmp_path):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ValueError):
        opening.read_json(tmp_path / "file")
