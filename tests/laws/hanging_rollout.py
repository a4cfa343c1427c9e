"""A program that hangs in a tool, an environment and a reward, says what became of them, and must end by itself."""

from __future__ import annotations

import threading
import time
from typing import Any

import bad_tools
from bad_tools import RELEASE, hang, hang_async
from stage import Stage, call, questions
from test_law_09_values_become_plain import IMPATIENT, World, sly_reward

from agent_r1_core.rollout import RolloutResult, WeightedReward
from agent_r1_core.testing import ScriptedPolicy


def main() -> None:
    """Hang four times."""
    bad_tools.PATIENCE = 1e6
    script = ["\n".join([call("hang"), call("hang"), call("hang_async")]), "<answer>x</answer>"]
    timeouts = {"hang": 0.05, "hang_async": 0.05}
    stage = Stage(ScriptedPolicy(script), [hang(), hang_async()], timeouts=timeouts)
    stage.play(questions(1))
    stuck: dict[str, Any] = {"make_env": lambda services: World(IMPATIENT, services, RELEASE.wait)}
    undecided: dict[str, Any] = {"rewards": [WeightedReward(sly_reward(RELEASE.wait, False), timeout=0.05)]}
    dropped = [one for setting in (stuck, undecided) for one in played(setting).dropped]
    calling = [thread for thread in threading.enumerate() if thread.name == "agent-r1-call"]
    late = time.monotonic() + 60
    while (hung := sum(thread.is_alive() for thread in calling)) > 4 and time.monotonic() < late:
        time.sleep(0.01)  # idle ones have been told to end
    print("tools", stage.counts.hung, "dropped", len(dropped), "threads", hung)


def played(settings: dict[str, Any]) -> RolloutResult:
    return Stage(ScriptedPolicy(["<answer>x</answer>"]), max_retries=0, **settings).play(questions(1))


if __name__ == "__main__":
    main()
