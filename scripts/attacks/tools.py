"""Calls a hostile tool from many episodes at once, with well-formed and malformed calls, and looks for damage."""

from __future__ import annotations

import gc
import os
import random
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from attacks.hostile import DEADLY, QUIET, RETURNS, hostile
from attacks.outcome import Outcome, Plan, traces
from stage import Stage, call

from agent_r1_core import Sampling, Task
from agent_r1_core.rollout import RolloutResult
from agent_r1_core.testing import Cue, ScriptedPolicy

CALLS = 1000
AT_ONCE = 25
"""Episodes of one rollout."""
TIMEOUT = 0.3
"""Seconds."""
MOST_THREADS = 100
"""Threads that may be left behind at any time."""
MALFORMED: tuple[Callable[[str], str], ...] = (
    lambda call: call[: len(call) // 2],
    lambda call: call.replace('"kind"', '"knid"'),
    lambda call: call.replace('"hostile"', '"nobody"'),
    lambda call: call.replace('"hostile"', "1e999"),
    lambda call: call.replace("{", "{{", 1),
    lambda call: call.replace("</tool_call>", ""),
    lambda call: f"<tool_call>{call}</tool_call>",
    lambda call: call.replace('"arguments": {', '"arguments": [', 1),
    lambda call: f"<tool_call>{'[' * 3000}</tool_call>",
    lambda call: f"<tool_call>{'9' * 5000}</tool_call>",
    lambda call: "\x00\x1b[2J" + call,
    lambda call: call * 12,
)
"""What a model may make of a call."""


@dataclass(frozen=True)
class Attack:
    """What a model says first in an episode."""

    kind: str
    action: str
    malformed: bool

    def judge(self, outcome: Outcome, nonce: str, left: Counter[str], said: str) -> None:
        """Note whether it got where it aimed: the tool ran, or the environment had a malformed action to read."""
        if self.malformed:
            outcome.attack("the tool format", said == self.action)
        else:
            outcome.attack(f"the tool ({self.kind})", bool(left[f"{self.kind} {nonce}"]))


def call_in_threads(plan: Plan) -> Outcome:
    environment = dict(os.environ)
    try:
        return _call(Outcome("threads"), plan, [*RETURNS, *QUIET], "thread")
    finally:  # a tool's changes to these stay, and other parts need them
        os.environ.clear()
        os.environ.update(environment)
        gc.enable()


def call_in_processes(plan: Plan) -> Outcome:
    return _call(Outcome("processes"), plan, [*RETURNS, *QUIET, *DEADLY], "process")


def _call(outcome: Outcome, plan: Plan, kinds: Sequence[str], isolation: Any) -> Outcome:
    rng, left = random.Random(f"{plan.seed}/{isolation}"), plan.times(CALLS)
    before, threads = _process_state(), threading.active_count()
    while left > 0:
        count = min(AT_ONCE, left)
        left -= count
        attacks = {f"nonce{left + index}-": _attack(f"nonce{left + index}-", kinds, rng) for index in range(count)}
        try:
            with traces(plan.folder / f"calls-{left}.txt") as found:
                result = _play(attacks, isolation)
        except BaseException as error:
            outcome.faults.append(f"the rollout ended: {type(error).__name__}: {error}")
            continue
        said, left_by = {one.task.id: one.turns[0].text for one in result.trajectories}, found()
        for nonce, attack in attacks.items():
            attack.judge(outcome, nonce, left_by, said.get(nonce, ""))
        _judge(outcome, result)
        outcome.faults += [f"{name} changed" for name, value in _process_state().items() if value != before[name]]
        if threading.active_count() > threads + MOST_THREADS:
            outcome.faults.append(f"{threading.active_count() - threads} threads are left")
        _restore(before)
    return outcome


def _attack(nonce: str, kinds: Sequence[str], rng: random.Random) -> Attack:
    kind, malformed = rng.choice(kinds), rng.random() < 0.25
    said = call("hostile", kind=kind, nonce=nonce)
    return Attack(kind, rng.choice(MALFORMED)(said) if malformed else said, malformed)


def _play(attacks: dict[str, Attack], isolation: Any) -> RolloutResult:
    """One rollout: each episode makes its call, then a harmless one, and answers."""

    def script(cue: Cue) -> str:
        nonce = cue.request.episode.split("/")[1]
        harmless = call("hostile", kind="plain", nonce=nonce)
        return (attacks[nonce].action, harmless, "<answer>done</answer>")[min(cue.turn, 2)]

    how: dict[str, Any] = {"timeouts": {"hostile": TIMEOUT}, "isolation": {"hostile": isolation}}
    how |= {"env": {"max_turns": 4, "max_tokens": 20_000}, "sampling": Sampling(max_new_tokens=8_000)}
    stage = Stage(ScriptedPolicy(script), [hostile()], max_episodes=AT_ONCE, **how)
    return stage.play([Task(nonce, "Go on.") for nonce in attacks])


def _judge(outcome: Outcome, result: RolloutResult) -> None:
    """Count what came of the calls; note episodes that were lost, or that read of another one."""
    for lost in result.dropped:
        outcome.faults.append(f"episode {lost.id} was lost: {lost.reason}")
    for one in result.trajectories:
        read = "".join(message["content"] for turn in one.turns[1:] for message in turn.observation)
        strange = set(re.findall(r"nonce\d+-", read)) - {one.task.id}
        if strange:
            outcome.faults.append(f"episode {one.id} read of {', '.join(sorted(strange))}")
        if one.answer != "done":
            outcome.faults.append(f"episode {one.id} did not come to its answer: {one.reason}")
        calls = [call for turn in one.turns for call in turn.calls]
        outcome.counts["answered with an error"] += sum(call.error is not None for call in calls)
    outcome.counts["given up"] += result.tools.total.timeouts


def _process_state() -> dict[str, Any]:
    """What no tool may leave changed."""
    return {
        "the working directory": os.getcwd(),
        "the default dtype": torch.get_default_dtype(),
        "the recursion limit": sys.getrecursionlimit(),
        "standard output": sys.stdout,
        "standard error": sys.stderr,
    }


def _restore(before: dict[str, Any]) -> None:
    """Put back what can be, so that one fault is reported once."""
    os.chdir(before["the working directory"])
    torch.set_default_dtype(before["the default dtype"])
    sys.setrecursionlimit(before["the recursion limit"])
    sys.stdout, sys.stderr = before["standard output"], before["standard error"]
