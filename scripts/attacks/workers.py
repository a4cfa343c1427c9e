"""Kills the processes of runs on Ray at random moments, and demands every step once, with all its episodes."""

from __future__ import annotations

import itertools
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import psutil
from attacks.kills import ENVIRONMENT, last_words, recorded, started
from attacks.outcome import Outcome, Plan
from two_nodes import CannotMakeNodes, TwoNodes, two_nodes

from agent_r1_core.runs.run import Run

STEPS = 15
EPISODES = 16
"""Of a step."""
PATIENCE = 600.0
"""Seconds that a run may take until the next kill, and after the last one."""
LEFT = 150.0
"""Seconds until all processes of a command that has ended must have ended; two of Ray's own need one minute."""
SETTINGS = (
    *("threads=1", "model.dtype=float32", "tasks.train.size=16", "tasks.eval.size=6"),
    *(f"training.steps={STEPS}", "training.tasks_per_step=4", "training.samples_per_task=4"),
    "evaluation={every: 4, at_start: false}",
    "checkpoint={every: 2, keep: 2, best: eval/exact_match}",
    "distributed={rollout_workers: 2, learner_workers: 2}",
)
ROLLOUT, LEARNER = "ray::RolloutActor", "ray::LearnerActor"
VICTIMS: dict[str, tuple[tuple[str, ...], signal.Signals]] = {
    "rollout worker": ((ROLLOUT,), signal.SIGKILL),
    "learner worker": ((LEARNER,), signal.SIGKILL),
    "command": ((), signal.SIGKILL),
    "one of each": ((ROLLOUT, LEARNER), signal.SIGKILL),
    "all workers": ((ROLLOUT, ROLLOUT, LEARNER, LEARNER), signal.SIGKILL),
    "raylet": (("raylet",), signal.SIGKILL),
    "control store of Ray": (("gcs_server",), signal.SIGKILL),
    "rollout worker, stopped": ((ROLLOUT,), signal.SIGSTOP),
    "learner worker, stopped": ((LEARNER,), signal.SIGSTOP),
}
"""What a kill hits: the classes of its workers, or a program of Ray, none for the command itself; and with which
signal."""
OF_RAY = ("raylet", "control store of Ray")
"""Whose loss ends the command, with a sentence; it is resumed then."""
MACHINE = "machine"
"""What else a kill may hit, where a run is over two."""
NODE_SETTINGS = ("model.device=cpu", "distributed.gpus_per_rollout_worker=0", "distributed.address=auto")
KILLS = 25
EACH = 5
"""Kills of a run."""
OFTEN = ("rollout worker", "learner worker", "command", "one of each")
"""Whom four of five kills hit; the fifth hits one of the others."""
ON_NODES = (MACHINE, "rollout worker", MACHINE, "learner worker", MACHINE)
"""Whom the kills of a run over two nodes hit."""
KILL_TABLE = "| killed | while | s until the next step |\n|---|---|--:|"


@dataclass(frozen=True)
class Kill:
    victim: str
    after: int
    """It comes when this many steps are recorded; 0: as soon as there is a worker."""
    delay: float
    """Seconds after that."""


@dataclass
class Killed:
    """What came of a kill."""

    victim: str
    phase: str
    hit: bool = False
    """Whether somebody was there to be killed."""
    seconds: float | None = None
    """Until the next step was recorded; None: there was none left."""

    def row(self) -> str:
        seconds = "none was left" if self.seconds is None else f"{self.seconds:.1f}"
        return f"| {self.victim} | {self.phase} | {seconds} |"


class AttackedRun:
    def __init__(self, run: Path, ahead: int, rng: random.Random) -> None:
        self._run = run
        self._rng = rng
        self._settings = (*SETTINGS, f"training.max_staleness={ahead}")
        self._family = Family()
        self._killed_families: list[Family] = []
        """Those of commands that were killed."""
        self._process: subprocess.Popen[bytes]
        self._recorded = 0
        """The last step in the metrics file."""
        self._open: list[tuple[Killed, float]] = []
        """Kills after which no step has been recorded, and when they came."""
        self._struck: list[str] = []
        """The newest checkpoint at each kill: a run ends at its third loss without a new one."""
        self.killed: list[Killed] = []
        self.faults: list[str] = []

    @property
    def _ancestor(self) -> int:
        """The process below which all others are."""
        return self._process.pid

    def train(self, kills: Sequence[Kill]) -> None:
        """Train to the end, while the kills come."""
        with self._command():
            for kill in kills:
                if not self._await_moment(kill):
                    break
                self._strike(kill.victim)
            self._await(lambda: False)
            status = self._process.poll()
        if status is None:
            self.faults.append(f"it did not end within {PATIENCE:g} seconds, at step {self._recorded}")
        elif status:
            self.faults.append(f"it ended with status {status}: {last_words(self._run)}")
        self._look()
        self._judge_processes()
        self._judge()

    @contextmanager
    def _command(self) -> Iterator[None]:
        self._process = started(self._run, self._settings)
        try:
            yield
        finally:
            self._process.kill()
            self._process.wait()

    def _await_moment(self, kill: Kill) -> bool:
        """Wait for the moment of a kill; False: the run has ended before, or goes on no more."""
        titles = (ROLLOUT, LEARNER) if kill.victim == MACHINE else VICTIMS[kill.victim][0]
        if not self._await(lambda: self._recorded >= kill.after and (kill.after or self._family.named(ROLLOUT))):
            return False
        end = time.monotonic() + kill.delay
        return self._await(
            lambda: (
                time.monotonic() >= end
                and all(map(self._family.named, titles))
                and self._newest_checkpoint() not in self._struck[-2:-1]
            )
        )

    def _newest_checkpoint(self) -> str:
        return max((path.name for path in (self._run / "checkpoints").glob("step_*")), default="")

    def _await(self, happened: Callable[[], object]) -> bool:
        """Wait until something has happened; False: the run has ended before, or goes on no more."""
        deadline = time.monotonic() + PATIENCE
        while not happened():
            if self._process.poll() is not None or time.monotonic() > deadline:
                return False
            self._look()
        return True

    def _strike(self, victim: str) -> None:
        self._struck.append(self._newest_checkpoint())
        titles, signum = VICTIMS[victim]
        killed = Killed(victim, self._phase(), hit=not titles and self._process.poll() is None)
        self.killed.append(killed)
        said = self._run.with_suffix(".log").stat().st_size
        for title in sorted(set(titles)):
            there = list(self._family.named(title))
            for process in self._rng.sample(there, min(titles.count(title), len(there))):
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(signum)
                    killed.hit = True
        self._open.append((self.killed[-1], time.monotonic()))
        if victim in OF_RAY:
            self._await_sentence(said)
        if victim in OF_RAY or not titles:
            self._process.kill()
            self._process.wait()
            self._killed_families.append(self._family)
            self._family = Family()
            self._process = started(self._run, self._settings)

    def _await_sentence(self, said: int) -> None:
        """Wait until the command has ended with a sentence, which follows the first `said` bytes of its log."""
        try:
            status = self._process.wait(LEFT)
        except subprocess.TimeoutExpired:
            self.faults.append(f"without its Ray it did not end within {LEFT:g} seconds")
            return
        if status != 1 or b"continue with --resume" not in self._run.with_suffix(".log").read_bytes()[said:]:
            self.faults.append(f"without its Ray it ended with status {status}: {last_words(self._run)}")

    def _look(self) -> None:
        """Note the steps and processes that are there now."""
        time.sleep(0.05)
        self._family.look(self._ancestor)
        step = recorded(self._run)
        if step > self._recorded:
            now = time.monotonic()
            for killed, when in self._open:
                killed.seconds = now - when
            self._open = []
        self._recorded = step

    def _phase(self) -> str:
        if self._recorded == STEPS:
            return "it ends"
        if not self._recorded and not (self._run / "metrics.jsonl").is_file():
            return "it starts"
        learners = self._family.named(LEARNER).values()
        if not learners or any(title.endswith((".start", ".place", ".__init__")) for title in learners):
            return "it starts" if not self._open else "workers are replaced"
        if any(self._run.glob("checkpoints/.tmp-*")):
            return "a checkpoint is written"
        if any(title.endswith(".update") for title in learners):
            return "it learns"
        if any(self._run.glob(f"trajectories/*{self._recorded + 1:06d}.parquet")):
            return "it evaluates"
        return "it plays"

    def _judge_processes(self) -> None:
        """After a command has ended nothing of it may be left."""
        deadline = time.monotonic() + LEFT
        for family in (*self._killed_families, self._family):
            while family.alive() and time.monotonic() < deadline:
                time.sleep(0.1)
            for process, title in family.alive().items():
                self.faults.append(f"process {title} is left")
                with suppress(psutil.NoSuchProcess):
                    process.kill()

    def _judge(self) -> None:
        """Every step once, and all files agree."""
        try:
            run = Run.open(self._run)
            steps, wanted = [line["step"] for line in run.metrics()], list(range(1, STEPS + 1))
            if steps != wanted:
                self.faults.append(f"its metrics have the steps {steps}")
            if run.trajectory_steps() != wanted:
                self.faults.append(f"it has trajectories of the steps {run.trajectory_steps()}")
            for line in run.metrics():  # those of the episodes in its file, and of no others
                step, episodes = f"step {line['step']:g}", run.read_trajectories(int(line["step"]), dropped=True)
                counted, different = line["rollout/episodes"], len({one.id for one in episodes})
                if not counted == different == len(episodes) == EPISODES:
                    found = f"{counted:g} episodes counted, {len(episodes)} recorded, {different} different"
                    self.faults.append(f"{step}: {found}")
                if not math.isclose(line["reward/mean"], fmean(one.total_reward for one in episodes)):
                    self.faults.append(f"{step} tells another reward than its episodes")
            if not (run.model / "model.safetensors").is_file():
                self.faults.append("it has no final model")
            self.faults += [f"{path.name} is left" for path in self._run.rglob(".tmp-*")]
        except Exception as error:
            self.faults.append(f"it cannot be read: {type(error).__name__}: {error}")


class Family:
    """All processes that were ever seen below some process, and what each was called last."""

    def __init__(self) -> None:
        self._seen: dict[psutil.Process, str] = {}

    def look(self, ancestor: int) -> None:
        with suppress(psutil.Error):
            for process in psutil.Process(ancestor).children(recursive=True):
                with suppress(psutil.Error):
                    self._seen[process] = " ".join(process.cmdline()).strip()

    def alive(self) -> dict[psutil.Process, str]:
        """Those that have not ended, with their titles."""
        return {process: title for process, title in self._seen.items() if _lives(process)}

    def named(self, title: str) -> dict[psutil.Process, str]:
        """Those that live and whose title begins so, or whose program is called so."""
        return {
            process: own
            for process, own in self.alive().items()
            if own.startswith(title) or own.partition(" ")[0].rpartition("/")[2] == title
        }


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    return False


class RunOverNodes(AttackedRun):
    """A run over two nodes, each with a learner worker; its command is never killed."""

    _nodes: TwoNodes

    @property
    def _ancestor(self) -> int:
        return os.getpid()

    @contextmanager
    def _command(self) -> Iterator[None]:
        settings = (*self._settings, *NODE_SETTINGS)
        with two_nodes(gpus=1) as self._nodes:  # Ray deals them out, so that two ranks are on two nodes
            self._nodes.environment |= ENVIRONMENT
            self._process = started(self._run, settings, lambda command, env, **log: self._nodes.start(command, **log))
            yield

    def _strike(self, victim: str) -> None:
        if victim != MACHINE:
            super()._strike(victim)
            return
        self._struck.append(self._newest_checkpoint())
        node = self._nodes.nodes[1]
        self.killed.append(Killed(victim, self._phase(), hit=node.runs))
        self._open.append((self.killed[-1], time.monotonic()))
        node.lose()
        self._nodes.join()


def kill_workers(plan: Plan) -> Outcome:
    """Five kills a run; every second run lets rollouts run ahead, and every fourth is over two nodes where this machine
    lets them be made."""
    rng, outcome = random.Random(plan.seed), Outcome("workers")
    victims = _victims(plan.times(KILLS), rng)
    killed: list[Killed] = []
    for number, first in enumerate(range(0, len(victims), EACH)):
        over_nodes, hit = number % 4 == 1, victims[first : first + EACH]
        part = STEPS // len(hit)  # of the run's steps; each kill comes at a random moment of its own
        kills = [
            Kill(victim, part * k + rng.randrange(part), rng.uniform(0, 4))
            for k, victim in enumerate(ON_NODES[: len(hit)] if over_nodes else hit)
        ]
        attacked = (RunOverNodes if over_nodes else AttackedRun)(plan.folder / f"run-{number}", number % 2, rng)
        try:
            attacked.train(kills)
        except CannotMakeNodes as error:
            print(f"run {number} is left out: {error}", file=sys.stderr)
            continue
        outcome.faults += [f"run {number} ({', '.join(map(str, kills))}): {fault}" for fault in attacked.faults]
        killed += attacked.killed
        print(f"run {number}", *(one.row() for one in attacked.killed), *attacked.faults, sep="\n", file=sys.stderr)
    for one in killed:
        outcome.attack(f"{one.victim} of a run on Ray", one.hit)
    outcome.counts.update(one.victim for one in killed if one.hit)
    outcome.table = "\n".join([KILL_TABLE, *(one.row() for one in killed)])
    return outcome


def _victims(count: int, rng: random.Random) -> list[str]:
    """Whom the kills hit, in a random order."""
    rare, often = itertools.cycle(name for name in VICTIMS if name not in OFTEN), itertools.cycle(OFTEN)
    victims = [next(rare if index % 5 == 4 else often) for index in range(count)]
    rng.shuffle(victims)
    return victims
