"""What a run that died in a tool says about it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

from agent_r1_core.runs.call_log import CallLog, unfinished_calls


def test_the_calls_under_way_are_named_after_the_process_died(tmp_path: Path) -> None:
    died = f"""
import os
from pathlib import Path
from agent_r1_core.runs.call_log import CallLog
log = CallLog(Path({str(tmp_path)!r}))
ended = log.begin("search", "1/q0/0/1", 0)
log.begin("count", "1/q1/0/1", 2)
log.end(ended)
log.begin("search", "1/q2/0/1", 1)
os._exit(9)
"""
    subprocess.run([sys.executable, "-c", died], check=False)
    assert unfinished_calls(tmp_path) == (
        "the process of this run died while calls of tools ran in it: search (episode 1/q2/0/1, turn 1), "
        "count (episode 1/q1/0/1, turn 2); if a tool ended it, give that tool isolation: process"
    )


def test_an_error_that_a_tool_may_have_caused_is_explained_where_tools_ran(tmp_path: Path) -> None:
    log, closed = CallLog(tmp_path), OSError(errno.EBADF, "Bad file descriptor")
    assert log.explain(closed) is None
    log.end(log.begin("search", "1/q0/0/1", 0))
    assert "as when a tool has closed descriptors" in str(log.explain(closed))
    assert "give search isolation: process" in str(log.explain(RecursionError("too deep")))
    assert log.explain(OSError(errno.ENOSPC, "No space left on device")) is None
    log.close()


def test_a_descriptor_that_a_tool_closed_and_another_file_took_is_left_alone(tmp_path: Path) -> None:
    log = CallLog(tmp_path)
    with (tmp_path / "checkpoint").open("w") as checkpoint:
        os.dup2(checkpoint.fileno(), log._file)
        log.begin("search", "1/q0/0/1", 0)
    os.close(log._file)
    assert (tmp_path / "checkpoint").read_text() == ""


def test_a_run_that_ended_in_order_says_nothing(tmp_path: Path) -> None:
    log = CallLog(tmp_path)
    log.begin("search", "1/q0/0/1", 0)
    log.close()
    assert unfinished_calls(tmp_path) is None
    assert list(tmp_path.iterdir()) == []
