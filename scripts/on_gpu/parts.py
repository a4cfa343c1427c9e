"""The parts: what each runs, in a process of its own that is ended when its time is over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

from on_gpu.summary import Result

Words = list[str | Path]
_AT_ONCE = 8
"""Tests; each holds a gigabyte of the card."""
LAST_WORDS = 20.0
"""Seconds that an interrupted part has to write its report."""


@dataclass(frozen=True)
class Plan:
    """Where and how large everything runs."""

    root: Path
    """The checkout."""
    home: Path
    """For what is thrown away."""
    device: str
    tiny: bool
    environment: Mapping[str, str]


def _tests(plan: Plan) -> Words:
    """Only the files that have such tests: others may need packages that this machine lacks."""
    files = [path for path in sorted((plan.root / "tests").rglob("test_*.py")) if "mark.gpu" in path.read_text("utf-8")]
    chosen: Words = ["-m", "gpu", *(["-k", "one_kernel and sizes0"] if plan.tiny else [])]
    if find_spec("xdist") is not None and (os.cpu_count() or 1) > 2:  # most of their time they compile
        chosen += ["-n", str(min(os.cpu_count() or 1, _AT_ONCE))]
    found = plan.home / "tests.xml"
    return ["-m", "pytest", "-p", "no:cacheprovider", *chosen, "--device", plan.device, "--junitxml", found, *files]


def _recipe(plan: Plan) -> Words:
    tiny = ["training.steps=1", "training.tasks_per_step=2", "evaluation.every=0", "tasks.eval.size=4"]
    folder = f"run.dir={plan.home / 'run'}"
    options: Words = [f"model.device={plan.device}", folder, *(tiny if plan.tiny else [])]
    return ["-c", "from agent_r1_cli.main import main; main()", "train", "default", *options]


def _benchmark(plan: Plan, part: str) -> Words:
    small = ["--quick"] if plan.tiny else ["--device", plan.device]
    return [plan.root / "benchmarks" / "gpu.py", "--parts", part, *small, "--out", plan.home / f"{part}.json"]


PARTS: dict[str, Callable[[Plan], Words]] = {
    "tests": _tests,
    "recipe": _recipe,
    **{part: partial(_benchmark, part=part) for part in ("learner", "head", "decoding", "step")},
}


def run(name: str, plan: Plan, seconds: float) -> Result:
    """Run a part, for so many seconds at most."""
    if seconds < 1:
        return Result(name, "cut before it began", 0.0, "")
    begun, printed = time.monotonic(), plan.home / f"{name}.txt"
    with printed.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, *map(str, PARTS[name](plan))],
            cwd=plan.root,
            env=dict(plan.environment),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(seconds)
            outcome = f"failed with exit status {status}" if status else "passed"
        except subprocess.TimeoutExpired:
            outcome = f"cut after {seconds:.0f} s"
            with suppress(subprocess.TimeoutExpired):  # an interrupted pytest still writes what it found
                os.killpg(process.pid, signal.SIGINT)
                process.wait(LAST_WORDS)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    text, xml = printed.read_text(encoding="utf-8", errors="replace"), plan.home / "tests.xml"
    told = _tests_told(xml) if name == "tests" and xml.is_file() else None
    return Result(name, outcome, time.monotonic() - begun, text, told)


def _tests_told(path: Path) -> str:
    """Of a file of pytest's `--junitxml`: counts, then every test that failed, and every reason for skipping some."""
    failed, skipped = list[str](), Counter[str]()
    report = ElementTree.parse(path)
    for case in report.iter("testcase"):
        for found in (one for one in case if one.tag in ("failure", "error", "skipped")):
            reason = (found.get("message") or "no reason given").splitlines()[0]
            if found.tag == "skipped":
                skipped[reason] += 1
            else:
                failed.append(f"- FAILED `{case.get('classname')}::{case.get('name')}`: {reason}")
    ended = sum(int(suite.get("tests", 0)) for suite in report.iter("testsuite"))  # an interrupted one is a case, too
    passed = ended - len(failed) - skipped.total()
    counts = f"{passed} passed, {len(failed)} failed, {skipped.total()} skipped"
    return "\n".join([counts, "", *failed, *(f"- skipped {n}: {why}" for why, n in skipped.items())]).strip()
