"""How many episodes a second plays each environment, tool and judge, 64 at once, and what is left behind after 1,024?

    python benchmarks/soak.py
    python benchmarks/soak.py --only shell python/sandlock

Each is played in a process of its own, by its recipe and an engine that follows a script; what it needs beside it, as a
server, runs outside that process. Where something can hang, it does in one episode of 64. The table has

- `failed`: episodes that failed, beyond those that hung; `hung`: those, the slowest of them, and the time-out that
  should have ended it (its episode starts a sandbox or waits for a place, too);
- `processes` and `descriptors`: how many more there are after the last episode than after the first quarter of them,
  in the process and all that it has started; `left`: what still runs when the process has ended;
- memory that is no file's, of the process and all that it has started: after a quarter of the episodes, after all, and
  what an episode of the last three quarters has added.

verifiers and textworld get a Python of their own, in the folder that AGENT_R1_TEST_CLIENTS names, else in
benchmarks/results, which takes a minute each; the games of textworld are made in the first quarter, once.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import json
import os
import time
from contextlib import suppress
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import report
from agent_r1_ray.left_behind import below
from soak_worlds import WORLDS

report.keep_calm()

if TYPE_CHECKING:
    from agent_r1_core.assembly.assembly import Assembly
    from agent_r1_core.rollout.result import RolloutResult
    from agent_r1_core.trajectory import Group, Trajectory

QUARTERS = 4
ADOPT = 36
"""PR_SET_CHILD_SUBREAPER: what outlives its parent becomes a child of this process."""
COLUMNS: tuple[str, ...] = ("what", "episodes/s", "slowest s", "failed", "hung", "slowest hung s", "time-out s")
COLUMNS += ("processes", "descriptors", "left", "MB, a quarter", "MB, all", "KB/episode")


def arguments() -> argparse.Namespace:
    options = report.parser(__doc__, "soak")
    options.add_argument("--only", nargs="+", choices=sorted(WORLDS), metavar="NAME", help=", ".join(sorted(WORLDS)))
    options.add_argument("--episodes", type=int, default=1024)
    options.add_argument("--at-once", type=int, default=64)
    chosen = report.chosen(options, episodes=64, at_once=16)
    chosen.only = chosen.only or [name for name, world in WORLDS.items() if world.cheap or not chosen.quick]
    return chosen


async def settled() -> dict[str, float]:
    """What this process and those below it have, once what was told to end has ended, or after some two seconds."""
    gc.collect()
    now = held()
    for _ in range(10):
        before = now
        await asyncio.sleep(0.2)
        now = held()
        if (before["processes"], before["descriptors"]) == (now["processes"], now["descriptors"]):
            break
    return now


def held() -> dict[str, float]:
    """What this process and those below it have: their number, descriptors, and MB of memory that is no file's."""
    own = {"processes": 0.0, "descriptors": 0.0, "MB": 0.0}
    for pid in (os.getpid(), *below(os.getpid())):
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            own["MB"] += next(int(line.split()[1]) for line in lines if line.startswith("Pss_Anon:")) / 1024
            own["descriptors"] += len(os.listdir(f"/proc/{pid}/fd"))
            own["processes"] += 1
    return own


async def soak(assembly: Assembly, episodes: int, samples: int) -> dict[str, Any]:
    """Play quarter by quarter, and look at what there is after each."""
    from scripted_engine import is_rare

    from agent_r1_core.assembly.components import make_rewards
    from agent_r1_core.rollout import RolloutRequest
    from agent_r1_core.rollout.scoring import GroupScorer
    from agent_r1_core.work.running import trim_memory

    hung, seconds, failed, marks = list[float](), list[float](), list[str](), list[dict[str, float]]()
    config: Any = assembly.config.engine.config
    groups = GroupScorer(make_rewards(assembly.resolved))

    def note(one: Trajectory, ranking: float) -> None:
        rare = is_rare(one.task.id) and bool(config.rare)
        (hung if rare else seconds).append(one.seconds + ranking)
        if not rare and one.status == "failed":
            failed.append(one.reason)

    async def ranked(rollout: RolloutResult, group: Group) -> None:
        """Compare a group, as training does behind its episodes."""
        begun = time.perf_counter()
        await groups.score(replace(rollout, groups=[group], dropped=[]))
        for one in group.trajectories:
            note(one, time.perf_counter() - begun)

    endless = cycle(assembly.train.tasks)
    tasks = [replace(next(endless), id=str(number)) for number in range(episodes // samples)]
    each, took = len(tasks) // QUARTERS, 0.0
    await assembly.start()
    try:
        for number in range(QUARTERS):
            begun = time.perf_counter()
            request = RolloutRequest(tasks[number * each : (number + 1) * each], samples, number)
            rollout = await assembly.rollouts.collect(request)
            await asyncio.gather(*(ranked(rollout, group) for group in rollout.groups))
            for one in rollout.dropped:
                note(one, 0.0)
            took += time.perf_counter() - begun
            del rollout
            trim_memory()
            marks.append(await settled())
    finally:
        groups.close()
        await assembly.close()
    first, last = marks[0], marks[-1]
    return {
        "episodes/s": each * QUARTERS * samples / took,
        "slowest s": max(seconds),
        "failed": len(failed),
        "why": sorted(set(failed))[:3],
        "hung": len(hung) or None,
        "slowest hung s": max(hung, default=None),
        "processes": int(last["processes"] - first["processes"]),
        "descriptors": int(last["descriptors"] - first["descriptors"]),
        "MB, a quarter": first["MB"],
        "MB, all": last["MB"],
        "KB/episode": 1024 * (last["MB"] - first["MB"]) / (each * (QUARTERS - 1) * samples),
    }


def play(given: dict[str, Any]) -> dict[str, Any]:
    import scripted_engine

    from agent_r1_core.assembly.assembly import assemble
    from agent_r1_core.plugins.trust import Trust
    from agent_r1_core.training.api import resolve

    engine = {"name": "scripted", "max_episodes": given["at_once"], "max_new_tokens": 200, **given["script"]}
    overrides = ["training.max_retries=0", f"engine={json.dumps(engine)}", *given["overrides"]]
    plugins, trust = [scripted_engine.__file__], Trust(named=True)
    resolved = resolve(given["recipe"], overrides, plugins=plugins, training=False, trust=trust)
    assembly = assemble(resolved, learning=False, task_sets=("train",))
    return asyncio.run(soak(assembly, given["episodes"], given["samples"]))


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """A row of the table, from a fresh process beside what it needs."""
    world = WORLDS[name]
    with world.beside() as address:
        before = below(os.getpid()).keys()
        found = report.afresh(play, world.given(address, options.episodes, options.at_once))
        time.sleep(1)
        with suppress(ChildProcessError):  # as init does for those that have ended after their parents
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        found |= {"what": name, "left": len(below(os.getpid()).keys() - before)}
    if found["hung"]:
        found["time-out s"] = world.timeout
    for reason in found["why"]:
        print(f"{name}: {reason}", flush=True)
    return {column: found.get(column) for column in COLUMNS}


def main() -> None:
    options = arguments()
    ctypes.CDLL(None).prctl(ADOPT, 1, 0, 0, 0)
    rows = []
    for name in options.only:
        rows.append(measure(name, options))
        report.show(name, rows[-1:])
    report.show(f"{options.episodes:,} episodes, {options.at_once} at once", rows)
    report.save(options.out, options, {"rows": rows})


if __name__ == "__main__":
    main()
