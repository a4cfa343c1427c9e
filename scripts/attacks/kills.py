"""Kills training runs at random moments, resumes them, and compares what they leave with an undisturbed run."""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from attacks.outcome import EXACT, Outcome, Plan

from agent_r1_cli.guard import INTERRUPTED
from agent_r1_core.runs.events_file import ENDS, STARTS
from agent_r1_core.runs.reading.summary import RunSummary
from agent_r1_core.runs.run import Run
from agent_r1_core.runs.run_reader import RunReader

RUNS = 100
PATIENCE = 300.0
"""Seconds that a command may take."""
STEPS = 5
SETTINGS = (
    *EXACT,
    *("tasks.train.size=16", "tasks.eval.size=6", "evaluation.every=2", "evaluation.at_start=false"),
    *(f"training.steps={STEPS}", "training.tasks_per_step=3", "training.samples_per_task=3"),
    "training.importance_clip=2.0",
    "checkpoint={every: 1, keep: 2, best: eval/exact_match}",
)
COMMAND = (sys.executable, "-c", "from agent_r1_cli.main import main; main()", "train")
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True)
class Attack:
    """One run, and how it is killed."""

    number: int
    signal: signal.Signals
    moments: tuple[float, ...]
    """When each attempt is killed: a share of the run's steps, and the rest in time."""
    aimed: bool
    """Whether to kill it, from that moment on, as soon as it writes a checkpoint."""

    def __str__(self) -> str:
        when = " and ".join(f"{moment:.2f}" for moment in self.moments)
        return f"run {self.number} ({self.signal.name} at {when}{', writing a checkpoint' if self.aimed else ''})"


def kill_runs(plan: Plan) -> Outcome:
    """Every third run is killed twice, every fourth while it writes a checkpoint."""
    rng, outcome = random.Random(plan.seed), Outcome("kills")
    whole = plan.folder / "whole"
    with started(whole) as process:
        _wait_for(lambda: whole.is_dir(), process)
        begun = time.perf_counter()
        status = _status(process)
    if status != 0:
        outcome.faults.append(f"the undisturbed run ended with status {status}")
        return outcome
    seconds, expected = time.perf_counter() - begun, fingerprint(whole)
    attacks = [
        Attack(number, SIGNALS[number % 3], tuple(rng.random() for _ in range(1 + (number % 9 > 5))), number % 4 == 3)
        for number in range(plan.times(RUNS))
    ]
    with ThreadPoolExecutor(plan.workers) as pool:
        results = pool.map(lambda attack: _killed(attack, plan.folder, seconds), attacks)
        for attack, (ends, resumed, run) in zip(attacks, results, strict=True):
            for status in ends:
                killed = status in (-signal.SIGKILL, INTERRUPTED)
                outcome.attack("a run that writes a checkpoint" if attack.aimed else "a run", reached=killed)
                outcome.counts[f"{attack.signal.name}{attack.aimed * ' writing a checkpoint'}"] += killed
            if None in (*ends, resumed):
                outcome.faults.append(f"{attack}: a command did not end within {PATIENCE:g} seconds")
            outcome.counts["resumed"] += resumed == 0
            faults = differences(expected, run)
            if faults:
                outcome.faults.append(f"{attack}: {len(faults)} faults: {', '.join(faults[:3])}")
    return outcome


def fingerprint(run: Path) -> dict[str, Any]:
    """Everything that a run leaves behind, without times and events: every file of model/ and of the checkpoints,
    metrics, trajectories with what the updates knew of their tokens, evaluations with their episodes, its summary."""
    reader = Run.open(run)
    summary = RunSummary.of(reader)
    kept = [path for folder in ("model", "checkpoints") for path in sorted((run / folder).rglob("*")) if path.is_file()]
    return {
        "files": {str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest() for path in kept},
        "metrics": [
            {name: value for name, value in row.items() if not (name.startswith("time/") or "second" in name)}
            for row in reader.metrics()
        ],
        "trajectories": {
            step: [(one.id, one.segments, one.rewards, one.answer) for one in reader.read_trajectories(step)]
            for step in reader.trajectory_steps()
        },
        "numbers of tokens": {step: repr(reader.read_token_numbers(step)) for step in reader.trajectory_steps()},
        "evaluations": {name: result["metrics"] for name, result in reader.evaluations().items()},
        "evaluated episodes": {
            name: [(one.id, one.segments, one.answer) for one in reader.read_evaluation_trajectories(name)]
            for name in reader.evaluations()
        },
        "summary": [getattr(summary, name) for name in ("state", "recipe", "step", "best", "curve", "problem")],
    }


def _judge_events(run: RunReader) -> list[str]:
    """Faults in a run's events: it must begin once, each attempt must go on where it says, and one end must be
    the last word."""
    events = run.events()
    faults = [] if [event.time for event in events] == sorted(event.time for event in events) else ["events go back"]
    if any(event.event == "started" for event in events[1:]):
        faults.append("its events begin twice")
    if not events or events[-1].event != "finished":
        faults.append(f"its last event is {events[-1] if events else None}")
    attempts = [at for at, event in enumerate(events) if event.event in STARTS]
    for start, stop in itertools.pairwise([*attempts, len(events)]):
        steps = [event.step for event in events[start:stop]]
        if steps != sorted(steps) or sum(event.event in ENDS for event in events[start:stop]) > 1:
            faults.append(f"an attempt's events are at the steps {steps}")
    return faults


def differences(expected: dict[str, Any], run: Path) -> list[str]:
    """What of the run is not as in the undisturbed one."""
    try:
        found = fingerprint(run)
    except Exception as error:
        return [f"the run cannot be read: {type(error).__name__}: {error}"]
    faults = [f"its {name} differ" for name in expected if name != "files" and found[name] != expected[name]]
    faults += _judge_events(Run.open(run))
    files, whole = found["files"], expected["files"]
    faults += [f"{name} is missing" for name in sorted(whole.keys() - files.keys())]
    faults += [f"{name} is left over" for name in sorted(files.keys() - whole.keys())]
    return faults + [f"{name} differs" for name in sorted(files.keys() & whole.keys()) if files[name] != whole[name]]


def _killed(attack: Attack, folder: Path, seconds: float) -> tuple[list[int | None], int | None, Path]:
    """Start a run, kill it as the attack says, and resume it to its end; returns how the killed commands and the last
    one ended, and the run."""
    run, ends = folder / f"run-{attack.number}", list[int | None]()
    for moment in attack.moments:
        with started(run) as process:
            whole, rest = divmod(moment * STEPS, 1)
            _wait_for(partial(_has_taken, run, whole), process)
            time.sleep(rest * seconds / STEPS)
            if attack.aimed:
                _wait_for(lambda: any(run.glob("checkpoints/.tmp-*")), process)
            process.send_signal(attack.signal)
            ends.append(_status(process))
    with started(run) as process:
        return ends, _status(process), run


def started(
    run: Path, settings: Sequence[str] = SETTINGS, start: Callable[..., Any] = subprocess.Popen
) -> subprocess.Popen[bytes]:
    """The command that begins the run, or continues it if it has begun; started by `start`."""
    command = [*COMMAND, *arguments(run, settings)]
    with run.with_suffix(".log").open("ab") as log:
        process: subprocess.Popen[bytes] = start(command, stdout=log, stderr=log, env={**os.environ, **ENVIRONMENT})
        return process


def arguments(run: Path, settings: Sequence[str]) -> list[str]:
    """What `train` is told so that it begins the run, or continues it."""
    if (run / "config.yaml").is_file():
        return [str(run), "--resume"]
    return ["default", f"run.dir={run.parent}", f"run.name={run.name}", "--force", *settings]


def last_words(run: Path) -> str:
    lines = run.with_suffix(".log").read_text(errors="replace").split("\n")
    return " / ".join(line for line in lines[-4:] if line)


def _status(process: subprocess.Popen[bytes]) -> int | None:
    """How a command ended; None for one that did not, which is killed."""
    try:
        return process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        return None


def _has_taken(run: Path, steps: float) -> bool:
    """Whether a run has begun, taken so many steps, and written them down."""
    return (run / "config.yaml").is_file() and recorded(run) >= steps


def recorded(run: Path) -> int:
    metrics = run / "metrics.jsonl"
    return metrics.read_bytes().count(b"\n") if metrics.is_file() else 0


def _wait_for(happened: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None and not happened():
        time.sleep(0.002)
