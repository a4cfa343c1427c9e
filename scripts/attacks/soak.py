"""Trains for many steps with a tool that often hangs or fails, and demands that nothing grows.

The bundled model calls the one tool that it was made with, `wiki_search`; the moody one takes its place.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping

import psutil
from attacks.outcome import EXACT, Outcome, Plan, traces

from agent_r1_core import train
from agent_r1_core.evaluation.listener import Silence

STEPS = 500
NAME = "wiki_search"
FATES = ("hung", "failed", "answered")
TOOL = '''
"""Hangs, fails or answers, as its random numbers say."""

import time

from agent_r1_core import ToolContext, ToolSpec, hookimpl, tool
from attacks.outcome import leave_trace

AGENT_R1_PLUGIN_API = 1


@tool
def wiki_search(query: str, context: ToolContext) -> str:
    """Search for a title.

    Args:
        query: what to look for.
    """
    fate = context.rng.random()
    leave_trace("hung" if fate < 0.3 else "failed" if fate < 0.6 else "answered")
    if fate < 0.3:
        time.sleep(0.5)
    if fate < 0.6:
        raise ValueError("no such page")
    return query * 20


@hookimpl
def register_tools():
    return [ToolSpec("NAME", ":wiki_search", "hangs, fails or answers")]
'''.replace("NAME", NAME)
SETTINGS = (
    *EXACT,
    *("tasks.train.size=32", "tasks.eval.size=4", f"tools=[{{name: {NAME}, timeout: 0.05}}]"),
    *("training.tasks_per_step=2", "training.samples_per_task=2"),
    "evaluation={every: 100, at_start: false, at_end: false}",
    "checkpoint={every: 50, keep: 2, best: null}",
)


class Watch(Silence):
    """Counts the calls of every step, and measures the process after every tenth of them."""

    def __init__(self, outcome: Outcome, left: Callable[[], Counter[str]], every: int) -> None:
        self._outcome, self._left, self._every, self._calls = outcome, left, every, 0
        self.measured: list[dict[str, float]] = []

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        before, self._calls = self._calls, self._left().total()
        self._outcome.attack("the tool", reached=self._calls > before)
        if step % self._every == 0:
            process = psutil.Process()
            counts = {"threads": threading.active_count(), "descriptors": process.num_fds()}
            self.measured.append(counts | {"MiB": process.memory_info().rss / 2**20})


def soak(plan: Plan) -> Outcome:
    """One run; the last measurement is compared with that of the second tenth, when everything is warm."""
    steps, outcome = max(20, plan.times(STEPS)), Outcome("soak")
    tool = plan.folder / "moody.py"
    tool.write_text(TOOL)
    with traces(plan.folder / "calls.txt") as left:
        watch = Watch(outcome, left, max(1, steps // 10))
        settings = [*SETTINGS, f"training.steps={steps}", f"run.dir={plan.folder}", "run.name=run"]
        train("default", settings, plugins=[tool], disabled=["wiki_search"], listener=watch)
    for fate in FATES:
        outcome.counts[f"calls that {fate}"] = left()[fate]
        if not left()[fate]:
            outcome.faults.append(f"no call {fate}")
    warm, last = watch.measured[1], watch.measured[-1]
    for name, room in (("threads", 12), ("descriptors", 8), ("MiB", 0.1 * warm["MiB"])):
        outcome.counts[f"{name} at the end"] = round(last[name])
        outcome.counts[f"{name} when warm"] = round(warm[name])
        if last[name] > warm[name] + room:
            outcome.faults.append(f"{name} grew from {warm[name]:.0f} to {last[name]:.0f}")
    return outcome
