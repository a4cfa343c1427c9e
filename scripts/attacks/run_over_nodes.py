"""RunOverNodes: a run under attack over two nodes, of which one may be lost; another one takes its place at once."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from two_nodes import TwoNodes, two_nodes

from attacks.attacked_run import MACHINE, AttackedRun, Killed
from attacks.kills import ENVIRONMENT, started

ON_NODES = ("model.device=cpu", "distributed.gpus_per_rollout_worker=0", "distributed.address=auto")


class RunOverNodes(AttackedRun):
    """A run over two nodes, each with a learner worker; its command is never killed."""

    _nodes: TwoNodes

    @property
    def _ancestor(self) -> int:
        return os.getpid()

    @contextmanager
    def _command(self) -> Iterator[None]:
        settings = (*self._settings, *ON_NODES)
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
