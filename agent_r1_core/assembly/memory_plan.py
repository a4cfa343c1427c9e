"""MemoryPlan: which devices hold what, as lines of text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from agent_r1_core.assembly.memory import LearnerLoad, RolloutLoad, Use, peak, total

_GIB = 2**30


@dataclass(frozen=True)
class MemoryPlan:
    """The roles of a run and the devices that they have."""

    learner: LearnerLoad
    worker: RolloutLoad
    workers: int = 1
    """Rollout workers."""
    placement: Literal["together", "separate", "colocated"] = "together"
    """`together`: both roles in one process. Else every learner rank and rollout worker is a process, which has its own
    devices (`separate`), or shares them with the other role (`colocated`)."""
    turns: bool = False
    """Whether the engine sleeps while the learner computes: `engine.sleep_mode`."""

    def lines(self) -> list[str]:
        """The placement, a line per use, in GiB, and one for what each kind of device needs."""
        learner, worker = self.learner.uses(), self.worker.uses()
        both = peak(learner, worker, turns=self.turns)
        how = "at the peak, since engine and learner take turns" if self.turns else "in total"
        if self.placement == "together":
            return [*_lines(learner), *_lines(worker), _line(how, both)]
        ranks, devices = self.learner.ranks, self.workers * self.worker.gpus
        shared = self.placement == "colocated"
        lines = [
            f"placement: {self.placement}, {max(devices, ranks) if shared else devices + ranks} devices: "
            f"{self.workers} rollout workers x {self.worker.gpus}, {ranks} learner workers x 1",
            *_lines(learner, "learner worker: "),
            *_lines(self.learner.kept(), "learner worker, in main memory: "),
            *_lines(worker, "rollout worker's device: "),
        ]
        if shared:
            return [*lines, _line(f"a device with both, {how}", both)]
        return [
            *lines,
            _line("learner worker, in total", total(learner)),
            _line("rollout worker's device, in total", total(worker)),
        ]


def _lines(uses: Iterable[Use], whose: str = "") -> list[str]:
    return [_line(whose + use.what, use.bytes) for use in uses if use.bytes]


def _line(what: str, size: float) -> str:
    return f"memory: {size / _GIB:8.2f} GiB  {what}"
