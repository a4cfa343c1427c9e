"""The recipe of docs/worlds.md for an environment of gymnasium: its budgets let a policy that plays well succeed."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from pathlib import Path

import gymnasium

from agent_r1_core.assembly.components import make_context, make_env, make_tool_format
from agent_r1_core.assembly.model_source import find_model
from agent_r1_core.assembly.task_sets import load_tasks
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.config import ResolvedConfig, load_config
from agent_r1_core.rollout import Collector, RolloutRequest, RolloutSettings
from agent_r1_core.testing import ScriptedPolicy
from agent_r1_core.trajectory import Trajectory

NAMES = ("up", "right", "down", "left")


def shortest_way(name: str) -> list[str]:
    """The fewest actions to the end of a world of which every action's outcome is certain."""
    world = gymnasium.make(name).unwrapped
    start, _ = world.reset(seed=0)
    ways, open_ends = {int(start): list[str]()}, deque([int(start)])
    while open_ends:
        at = open_ends.popleft()
        for number, action in enumerate(NAMES):
            ((_, there, reward, over),) = world.P[at][number]
            if over and reward == -1:
                return [*ways[at], action]
            if int(there) not in ways:
                ways[int(there)] = [*ways[at], action]
                open_ends.append(int(there))
    raise AssertionError("there is no way")


def test_the_best_policy_reaches_the_goal_of_the_cliff_within_the_budgets(root: Path, tmp_path: Path) -> None:
    found = re.search(
        r"<!-- file: cliff\.yaml -->\n```yaml\n(.*?)```",
        (root / "docs/worlds.md").read_text(encoding="utf-8"),
        re.DOTALL,
    )
    assert found is not None
    (tmp_path / "cliff.yaml").write_text(found[1])
    resolved = load_config(tmp_path / "cliff.yaml", ["tasks.eval.size=2"])
    config = resolved.config
    way = shortest_way(config.env.config.id)
    assert len(way) == 13
    assert [(one.status.value, one.success, len(one.steps)) for one in played(resolved, way)] == [
        ("terminated", True, 13)
    ] * 2
    dawdling = ["up", "down"] * 10
    assert [(one.status.value, one.reason, len(one.steps)) for one in played(resolved, dawdling)] == [
        ("truncated", "max_turns", 20)
    ] * 2, "the turns end before the tokens do"


def played(resolved: ResolvedConfig, actions: list[str]) -> list[Trajectory]:
    """The evaluation's episodes, each with these actions."""
    config = resolved.config
    tokenizer = ChatTokenizer.from_folder(find_model(config.model.name).folder)
    settings = RolloutSettings(
        make_env=make_env(resolved),
        tool_format=make_tool_format(resolved),
        context=make_context(resolved),
        sampling=config.engine.config.sampling,
    )
    policy = ScriptedPolicy([f"<answer>{action}</answer>" for action in actions], tokenizer)
    collector = Collector(policy, tokenizer, settings)
    tasks = load_tasks(resolved, ["eval"], lambda text: None)["eval"].tasks
    try:
        return asyncio.run(collector.collect(RolloutRequest(tasks, 1, 0))).trajectories
    finally:
        collector.close()
