"""Grades what an agent left: its files as plain data, in a place where it never was, beside tests that it never saw."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from agent_r1_core import EpisodeError
from agent_r1_core.sandbox import BoxEnded, BoxTimeout, File
from agent_r1_harbor.folder import HarborTask
from agent_r1_harbor.places import Place

LOGS = "/logs/verifier"
_OUTPUT = 2000


def grade(task: HarborTask, files: Mapping[str, File], open_place: Callable[[], Place]) -> float:
    """The reward that `tests/test.sh` writes.

    Raises:
        EpisodeError: it writes none, takes too long, or its place is gone: that is no reward of 0.
    """
    place = open_place()
    try:
        place.run(f"find {shlex.quote(task.workdir)} -mindepth 1 -delete", 60.0, 0)
        place.put(task.workdir, files)
        place.put("/tests", task.files("tests"))
        variables = {**task.environment, **task.verifier_environment}
        command = f"mkdir -p {LOGS}; bash /tests/test.sh"
        outcome = place.run(command, task.verifier_seconds, _OUTPUT, variables)
        written = place.take(LOGS)
    except (BoxEnded, BoxTimeout) as error:
        raise EpisodeError(f"the tests of task {task.folder.name} lost their sandbox ({error})") from error
    finally:
        place.close()
    if outcome.code is None:
        raise EpisodeError(f"the tests of task {task.folder.name} took longer than {task.verifier_seconds:g} seconds")
    reward = read_reward(written)
    if reward is None:
        found = next((name for name in ("reward.json", "reward.txt") if name in written), None)
        if found is not None:
            text = f"{written[found].content[:100]!r} to {LOGS}/{found}, which is no reward"
            raise EpisodeError(
                f"the tests of task {task.folder.name} wrote {text}; write a finite number, or an object with one by "
                "the name reward"
            )
        said = outcome.text[-300:]
        raise EpisodeError(f"the tests of task {task.folder.name} wrote no reward to {LOGS}; they printed {said!r}")
    return reward


def read_reward(files: Mapping[str, File]) -> float | None:
    """`reward.json`: a number, or one by the name `reward`, or a single one; else the number in `reward.txt`."""
    try:
        if "reward.json" in files:
            value: Any = json.loads(files["reward.json"].content)
            if isinstance(value, dict):
                value = value["reward"] if "reward" in value or len(value) != 1 else next(iter(value.values()))
        else:
            value = float(files["reward.txt"].content.decode())
        reward = float(value) if isinstance(value, int | float) else math.nan
    except (KeyError, ValueError, OverflowError):
        return None
    return reward if abs(reward) <= 1e18 else None
