"""The simulated step: virtual time, what counts as the controller's, and every episode played once."""

from __future__ import annotations

import asyncio
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def module(name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    return __import__(name)


@pytest.fixture
def virtual_time(root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return module("virtual_time", root, monkeypatch)


@pytest.fixture
def simulated_step(root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return module("simulated_step", root, monkeypatch)


@pytest.fixture
def controller(root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return module("controller", root, monkeypatch)


def compute(milliseconds: int) -> None:
    """Keep this thread busy for some processor time."""
    until = time.thread_time() + milliseconds / 1000
    while time.thread_time() < until:
        pass


def test_virtual_time_jumps_over_waiting_and_passes_with_computing_but_not_with_the_simulation(
    virtual_time: ModuleType,
) -> None:
    meter = virtual_time.Meter(rest="loop")

    async def work() -> list[tuple[str, float]]:
        loop, seen = asyncio.get_running_loop(), list[tuple[str, float]]()

        async def wakes(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            seen.append((name, loop.time()))

        await asyncio.gather(wakes("late", 5000), wakes("early", 1000))
        before = loop.time()
        with meter.part(virtual_time.SIMULATION):
            compute(200)
        seen.append(("simulated", loop.time() - before))
        with meter.part("outer"):
            compute(30)
            with meter.part("inner"):
                compute(60)
        seen.append(("computed", loop.time() - before))
        return seen

    seen = virtual_time.run(meter, work())
    assert [name for name, _ in seen] == ["early", "late", "simulated", "computed"]
    early, late, simulated, computed = (moment for _, moment in seen)
    assert 1000 <= early < 1001
    assert 5000 <= late < 5001
    assert simulated < 0.1 < 0.2 <= meter.seconds[virtual_time.SIMULATION]
    assert computed >= 0.09
    assert meter.seconds["inner"] >= 0.06
    assert 0.03 <= meter.seconds["outer"] < 0.06


def test_a_simulation_in_which_nothing_can_happen_says_so(virtual_time: ModuleType) -> None:
    async def waits_for_ever() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(RuntimeError, match="every coroutine waits for another one"):
        virtual_time.run(virtual_time.Meter(rest="loop"), waits_for_ever())


def test_a_simulated_step_plays_every_episode_and_takes_as_long_as_the_slowest(
    simulated_step: ModuleType, controller: ModuleType
) -> None:
    load = controller.LOADS["3B"]
    simulation = simulated_step.Simulation(load, workers=3, episodes=48, capacity=16)
    row = simulation.run(steps=2)
    assert row["in flight"] == 48
    assert load.seconds[0] + load.update < row["s/step"] - row["rollout s"] + load.seconds[0] < row["s/step"]
    assert load.seconds[0] < row["rollout s"] < load.seconds[-1] + 5
    assert 0 < row["reports/episode"] < 2
    assert all(
        each["ms/episode"] == pytest.approx(sum(each[one] for one in simulated_step.PARTS.values()))
        for each in simulation.rows
    )
    assert all(row[part] > 0 for part in simulated_step.PARTS.values())
    assert row["KB to learner"] > 10, "trajectories of this length weigh more"
    queued = simulated_step.Simulation(load, workers=2, episodes=48, capacity=8).run(steps=1)
    assert 16 <= queued["in flight"] < 48, "a worker gets a task more where it has room for a part of it"
    assert queued["rollout s"] > row["rollout s"]


def test_episodes_of_one_report_weigh_as_much_as_alone(
    simulated_step: ModuleType, controller: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = controller.LOADS["default"]
    alone = simulated_step.Simulation(load, workers=1, episodes=256, capacity=256).run(steps=1)
    monkeypatch.setattr(sys.modules["simulated"], "TRIP", 20.0)
    together = simulated_step.Simulation(load, workers=1, episodes=256, capacity=256).run(steps=1)
    assert together["reports/episode"] < 0.1 < alone["reports/episode"]
    assert together["KB to learner"] == pytest.approx(alone["KB to learner"], rel=0.1), "they share their task alone"


def test_the_limit_is_where_the_share_of_a_step_reaches_the_budget(controller: ModuleType) -> None:
    parts = dict.fromkeys(controller.PARTS.values(), 0.1) | {"event loop": 0.4}
    rows = [
        # A controller of 1 ms for each of 128 episodes, beside 12.8 s that grow with nothing.
        {"load": "one", "workers": n, "share %": 100 * n / (100 + n), "ms/episode": 1.0, "peak MB": 10.0 * n}
        | {"in flight": 128.0 * n, **parts}
        for n in (1, 4, 16)
    ]
    (row,) = controller.limits(rows)
    assert row["episodes/s"] == pytest.approx(1000)
    assert row["workers at 5 %"] == pytest.approx(100 * 0.05 / 0.95)
    assert row["largest part"] == "event loop"
    assert row["KB in memory of an episode"] == pytest.approx(10000 / 128)


@pytest.mark.slow
def test_the_benchmark_prints_its_tables_and_draws_them(root: Path, tmp_path: Path) -> None:
    code = os.pathsep.join([str(root), str(root / "plugins")])
    out, picture = tmp_path / "results.json", tmp_path / "controller.png"
    script: list[Any] = [root / "benchmarks" / "controller.py", "--quick", "--out", out, "--picture", picture]
    done = subprocess.run(
        [sys.executable, *script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": code},
    )
    assert done.returncode == 0, done.stderr
    assert "|---" in done.stdout
    assert picture.stat().st_size > 10_000
    written = json.loads(out.read_text())
    assert [(row["load"], row["workers"]) for row in written["rows"]][:3] == [
        ("default", 1),
        ("default", 2),
        ("slow-tool", 1),
    ]
    numbers = [
        value for row in written["rows"] + written["limits"] for value in row.values() if isinstance(value, float)
    ]
    assert numbers
    assert all(math.isfinite(value) for value in numbers)
