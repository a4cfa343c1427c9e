"""Contract tests of a Tracker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent_r1_core.contracts.tracker import RunInfo, Tracker
from agent_r1_core.testing.contracts.base import ComponentContract
from agent_r1_core.testing.trajectories import make_trajectory


class TrackerContract(ComponentContract):
    """Set `component`; override `check` to look at what it wrote."""

    kind = "tracker"

    def check(self, directory: Path) -> None:
        """Look at what was written for a run of steps 1 to 3 with the metric `reward/mean`."""

    def test_it_follows_a_run(self, tmp_path: Path) -> None:
        self._track(tmp_path, range(1, 4))
        self.check(tmp_path)

    def test_it_goes_on_with_a_resumed_run(self, tmp_path: Path) -> None:
        self._track(tmp_path, range(1, 3))
        self._track(tmp_path, range(2, 4), resumed_at=1)
        self.check(tmp_path)

    def test_it_takes_a_step_without_metrics_and_trajectories(self, tmp_path: Path) -> None:
        with self._opened(tmp_path) as tracker:
            tracker.log(1, {})
            tracker.log_trajectories(1, [])

    def _track(self, directory: Path, steps: range, **more: Any) -> None:
        with self._opened(directory, **more) as tracker:
            for step in steps:
                tracker.log(step, {"reward/mean": step / 10, "time/step": 0.5})
                tracker.log_trajectories(step, [make_trajectory(answer="2", rewards={"exact_match": 1.0})])

    @contextmanager
    def _opened(self, directory: Path, **more: Any) -> Iterator[Tracker]:
        tracker = self.make()
        tracker.open(RunInfo("a-run", str(directory), {"seed": 0, "algorithm": {"name": "grpo"}}, **more))
        try:
            yield tracker
        finally:
            tracker.close()
