"""The tool `shell`."""

from __future__ import annotations

import random
from typing import ClassVar

import pytest
from agent_r1_python.shell_tool import ShellTool

from agent_r1_core import ToolContext, ToolResources
from agent_r1_core.errors import ConfigError
from agent_r1_core.sandbox import Bounds, BoxEnded, File, Shell, find_backend
from agent_r1_core.testing import ToolContract, make_task


class TestShell(ToolContract):
    component = ShellTool
    arguments: ClassVar = {"command": "echo 6 > six; cat six"}
    expected = "6"


def test_files_survive_calls_and_processes_do_not() -> None:
    tool = ShellTool(ShellTool.Config(output=1000, disk=1))
    tool.open(ToolResources(""))
    context = ToolContext("one", 0, make_task(), random.Random(0))

    def run(command: str, seconds: float = 60.0) -> str:
        tool.config = ShellTool.Config(seconds=seconds, output=1000, disk=1)
        return str(tool.run(tool.Arguments(command=command), context))

    def killed(command: str, begun: str) -> str:
        """What it said before its time was over, which may be too little of it on a busy machine."""
        seconds = 0.5
        while begun not in (said := run(command, seconds)) and seconds < 60:
            seconds *= 2
        return said

    try:
        assert run("pwd; echo kept > file") == "/work"
        assert run("cat file; diff <(echo a) <(echo a); false") == "kept\n[exit status 1]"
        assert run("sleep 60 & (while true; do date > late; done) & echo began") == "began"
        assert killed("echo before; sleep 60", "before") == "before\n[killed: it took too long]"
        assert run("rm -f late; cat file; ls /proc | grep -c '^[0-9]'; ls") == "kept\n5\nfile"
        flood = killed("yes", "more bytes]")
        assert flood.startswith("y\ny\n")
        assert "more bytes]\n[killed" in flood
        assert "No space left on device" in run("head -c 3000000 /dev/zero > large")
        assert "Resource temporarily unavailable" in killed("for i in $(seq 99); do sleep 9 & done", "unavailable")
        for command in ("echo \0", f": {'é' * 70_000}"):  # no shell can be given these
            assert run(command).startswith("cannot run it: ")
        assert run("rm large; cat file /etc/passwd").startswith("kept\ncat: /etc/passwd: No such file")
    finally:
        tool.release(context)


def test_what_does_not_fit_leaves_no_file() -> None:
    """Whoever is told that all files are gone puts them again, in a sandbox without any."""
    shell = Shell(find_backend(writable=True), Bounds(disk=1, processes=8, folders=("/work",)))
    shell.put("/work", {"kept": File(b"kept")})
    with pytest.raises(BoxEnded, match="No space left on device"):
        shell.put("/work", {"large": File(bytes(1 << 20))})
    assert shell.take("/work") == {}
    shell.close()


@pytest.mark.parametrize("bounds", [{"memory": -5}, {"disk": 0}, {"processes": -1}, {"folders": ()}], ids=str)
def test_a_bound_that_bounds_nothing_is_refused(bounds: dict) -> None:
    with pytest.raises(ConfigError, match=r"give at least|name one"):
        Bounds(**bounds)


def test_a_sandbox_without_a_folder_is_refused() -> None:
    with pytest.raises(ConfigError, match="sandlock: its guests have no folder to write to"):
        ShellTool(ShellTool.Config(sandbox="sandlock")).open(ToolResources(""))
    with pytest.raises(ConfigError, match="no sandbox 'jail'; use auto, bubblewrap or sandlock"):
        find_backend("jail")
