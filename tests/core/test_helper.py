"""A helper answers from a process of its own, and neither outlives the run nor holds it up."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_r1_core.helper import Helper, HelperError, HelperGone

PROGRAM = """
import json, os, subprocess, sys
for line in sys.stdin:
    asked = json.loads(line)
    match asked["do"]:
        case "pid":
            said = {"value": os.getpid()}
        case "start":
            said = {"value": subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL).pid}
        case "refuse":
            said = {"error": "not that one"}
        case "die":
            os._exit(3)
        case "environment":
            said = {"value": dict(os.environ)}
        case "noise":
            print("no JSON", flush=True)
        case "hang":
            continue
    print(json.dumps({"id": asked["id"], **said}), flush=True)
"""


@pytest.fixture
def helper() -> Iterator[Helper]:
    one = Helper([sys.executable, "-c", PROGRAM], {"GIVEN": "1"})
    yield one
    one.close()


def test_it_is_one_process_that_keeps_our_environment_from_the_package_and_says_what_fails(helper, monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "ours")
    assert helper.ask("pid", 60) == helper.ask("pid", 60)
    seen = helper.ask("environment", 60)
    assert seen["GIVEN"] == "1"
    assert "SECRET_KEY" not in seen
    before = helper.ask("pid", 60)
    with pytest.raises(HelperError, match="not that one"):
        helper.ask("refuse", 60)
    assert helper.ask("pid", 60) == before
    with pytest.raises(HelperGone, match="/nowhere/python cannot be started: No such file or directory"):
        Helper(["/nowhere/python"]).ask("pid", 60)


def test_what_it_has_started_ends_with_it(helper):
    child = os.pidfd_open(helper.ask("start", 60))
    helper.close()
    assert select.select([child], [], [], 60)[0]
    os.close(child)


@pytest.mark.parametrize("how", ["die", "noise"])
def test_one_that_ends_or_talks_nonsense_is_replaced(helper, how):
    before = helper.ask("pid", 60)
    with pytest.raises(HelperGone, match="ended with status"):
        helper.ask(how, 60)
    assert helper.ask("pid", 60) != before


def test_one_that_hangs_is_killed_and_everybody_who_waits_for_it_is_told(helper):
    told: list[str] = []

    def wait() -> None:
        with pytest.raises(HelperGone) as gone:
            helper.ask("hang", 60)
        told.append(str(gone.value))

    before = helper.ask("pid", 60)
    other = threading.Thread(target=wait)
    other.start()
    while not helper._running.asked:  # type: ignore[union-attr]
        threading.Event().wait(0.01)
    with pytest.raises(HelperGone, match="did not answer within"):
        helper.ask("hang", 0.2)
    other.join(60)
    assert len(told) == 1
    assert helper.ask("pid", 60) != before


def test_it_ends_with_the_run(tmp_path):
    """Even with one that is killed."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    code = f"""
import os, sys
from agent_r1_core.helper import Helper
one = Helper([sys.executable, {str(program)!r}])
print(one.ask("pid", 60), flush=True)
os.kill(os.getpid(), 9)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    with contextlib.suppress(ProcessLookupError):
        assert select.select([os.pidfd_open(int(run.stdout))], [], [], 60)[0], "the helper outlives its run"
