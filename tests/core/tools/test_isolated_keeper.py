from __future__ import annotations

import subprocess
import sys

TOO_LATE = """
import os, sys
from agent_r1_core.tools.isolated_keeper import _obey
ended = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-c", ""])
os.waitpid(ended, 0)
_obey(ended, 0.0)
"""


def test_a_process_that_has_ended_by_itself_is_ended_without_a_word() -> None:
    """The order of the training process may come too late."""
    done = subprocess.run([sys.executable, "-c", TOO_LATE], stdin=subprocess.DEVNULL, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
