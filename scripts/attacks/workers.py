"""Kills the processes of runs on Ray at random moments, and demands every step once, with all its episodes."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from attacks.attacked_run import MACHINE, STEPS, VICTIMS, AttackedRun, Kill, Killed
from attacks.kills import ENVIRONMENT, started
from attacks.outcome import Outcome, Plan
from two_nodes import CannotMakeNodes, TwoNodes, two_nodes

NODE_SETTINGS = ("model.device=cpu", "distributed.gpus_per_rollout_worker=0", "distributed.address=auto")
KILLS = 25
EACH = 5
"""Kills of a run."""
OFTEN = ("rollout worker", "learner worker", "command", "one of each")
"""Whom four of five kills hit; the fifth hits one of the others."""
ON_NODES = (MACHINE, "rollout worker", MACHINE, "learner worker", MACHINE)
"""Whom the kills of a run over two nodes hit."""
KILL_TABLE = "| killed | while | s until the next step |\n|---|---|--:|"


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
        attacked = (RunOverNodes if over_nodes else AttackedRun)(
            plan.folder / f"run-{number}", ahead=number % 2, rng=rng
        )
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
    rare = [name for name in VICTIMS if name not in OFTEN]
    victims = [
        rare[(index // 5) % len(rare)] if index % 5 == 4 else OFTEN[(index - index // 5) % len(OFTEN)]
        for index in range(count)
    ]
    rng.shuffle(victims)
    return victims
