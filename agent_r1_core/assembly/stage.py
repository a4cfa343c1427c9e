"""Stage: where the episodes of a task set are played: its tools over their corpus, its environments and rewards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_r1_core.assembly.components import (
    make_context,
    make_env,
    make_rewards,
    make_tool_format,
    make_tool_rewards,
    make_tools,
)
from agent_r1_core.assembly.task_sets import tool_resources
from agent_r1_core.contracts.tool import Tool, ToolResources
from agent_r1_core.rollout import Collector, RolloutSettings
from agent_r1_core.tools.tool_runner import ToolRunner

if TYPE_CHECKING:
    from agent_r1_core.assembly.mixture import TaskSet
    from agent_r1_core.chat import ChatTokenizer
    from agent_r1_core.config import ResolvedConfig
    from agent_r1_core.contracts.engine import Engine
    from agent_r1_core.rollout.examples import Examples


@dataclass
class Stage:
    """Everything that plays the tasks of a set except the engine, which all stages share."""

    tools: ToolRunner
    resources: ToolResources
    collector: Collector


def make_stage(
    name: str,
    sets: Mapping[str, TaskSet],
    resolved: ResolvedConfig,
    engine: Engine,
    tokenizer: ChatTokenizer,
    wrap_tool: Callable[[Tool], Tool] | None,
    examples: Examples | None,
) -> Stage:
    """The stage of the task set `name`, with a collector over the shared engine.

    Args:
        sets: the task sets that are loaded; the sources of others are made where a tool needs their corpus.
    """
    config, options = resolved.config, resolved.config.engine.config
    tools = make_tools(resolved, options.max_episodes, wrap_tool)
    settings = RolloutSettings(
        make_env=make_env(resolved),
        make_timeout=config.env.config.timeout,
        tools=tools,
        tool_format=make_tool_format(resolved),
        context=make_context(resolved),
        examples=examples,
        rewards=make_rewards(resolved),
        tool_rewards=make_tool_rewards(resolved),
        max_episodes=options.max_episodes,
        sampling=options.sampling,
        max_retries=config.training.max_retries,
        seed=config.seed,
        deterministic=config.deterministic,
        model=config.model.name,
    )
    resources = tool_resources(resolved, sets, name, tokenizer.name)
    return Stage(tools, resources, Collector(engine, tokenizer, settings))
