from __future__ import annotations

from collections.abc import Mapping

import pytest

from agent_r1_core.contracts.tracker import RunInfo, Tracker
from agent_r1_core.errors import ComponentLoadError
from agent_r1_core.training.notices import Trackers

RUN = RunInfo("run", "nowhere", {})


class Recorder(Tracker):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, dict[str, float]]] = []

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self.seen.append((step, dict(metrics)))


class Broken(Recorder):
    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        super().log(step, metrics)
        raise OSError("disk full")


def test_a_broken_tracker_is_reported_once_and_the_others_go_on() -> None:
    broken, recorder, reports = Broken(), Recorder(), list[str]()
    trackers = Trackers([broken, recorder], reports.append)
    trackers.open(RUN)
    trackers.log(1, {"loss": 1.0}, [])
    trackers.log(2, {"loss": 0.5}, [])
    trackers.close()
    assert [step for step, _ in recorder.seen] == [1, 2]
    assert [step for step, _ in broken.seen] == [1]
    assert len(reports) == 1
    assert "disk full" in reports[0]


def test_a_tracker_that_cannot_be_used_here_stops_the_run_before_it_begins() -> None:
    class Missing(Tracker):
        def open(self, run: RunInfo) -> None:
            raise ComponentLoadError("tracker missing needs a package; install it")

    with pytest.raises(ComponentLoadError, match="install it"):
        Trackers([Missing()], print).open(RUN)
