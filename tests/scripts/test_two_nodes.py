"""Whatever ends the script, no process of its two nodes goes on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

COMMAND = """
import os, signal, sys
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(7))
print(os.environ["RAY_AUTH_TOKEN_PATH"], flush=True)
signal.pause()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 7), (signal.SIGKILL, -signal.SIGKILL)])
def test_nothing_goes_on_when_the_script_has_ended(root: Path, number: int, status: int) -> None:
    """SIGTERM is the command's, whose status the script gives; SIGKILL leaves a folder alone."""
    command = [sys.executable, str(root / "scripts" / "two_nodes.py"), "--", sys.executable, "-c", COMMAND]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as script:
        token = script.stdout.readline().strip()
        if not token:
            reason = script.stderr.read()
            assert "two nodes cannot be made" in reason
            assert not (os.environ.get("CI") and os.geteuid() == 0), reason
            pytest.skip(reason)
        processes = running_with(token)
        assert len(processes) > 6, "Ray runs on both nodes"
        script.send_signal(number)
        assert script.wait(60) == status
    _, left = psutil.wait_procs(processes, timeout=0 if number == signal.SIGTERM else 60)
    assert not left
    assert Path(token).parent.exists() is (number == signal.SIGKILL)
    shutil.rmtree(Path(token).parent, ignore_errors=True)


def running_with(token: str) -> list[psutil.Process]:
    """Processes that were told of a token."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # it has ended meanwhile
            if process.environ().get("RAY_AUTH_TOKEN_PATH") == token:
                found.append(process)
    return found
