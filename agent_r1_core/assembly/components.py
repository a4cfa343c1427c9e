"""Makes single components of a run from its configuration: learner, rewards, tools, environments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from agent_r1_core.contracts.env import EnvServices, ToolEnv
from agent_r1_core.errors import ConfigError, TaskError
from agent_r1_core.rollout import RolloutSettings, ToolReward, WeightedReward
from agent_r1_core.rollout.examples import Examples
from agent_r1_core.tools.tool_runner import ToolRunner

if TYPE_CHECKING:
    from agent_r1_core.assembly.blueprint import Blueprint
    from agent_r1_core.config import ResolvedConfig
    from agent_r1_core.contracts.blocks import ToolBlock
    from agent_r1_core.contracts.tool import Tool
    from agent_r1_core.contracts.tool_format import ToolFormat
    from agent_r1_core.learning.learner import Learner
    from agent_r1_core.learning.ranks import Ranks


def make_learner(blueprint: Blueprint, ranks: Ranks | None = None, critic_anew: bool = False) -> Learner:
    """The learner: the policy, its algorithm, and the critic and reference that the algorithm needs.

    A resumed policy is loaded from the checkpoint's folder. With LoRA it is the initial model, and the checkpoint
    restores the adapters.

    Args:
        ranks: the processes that learn together, each with a learner of its own; None: this one alone.
        critic_anew: as in `load_trainer_state`.
    """
    from agent_r1_core.assembly.checkpointing import load_trainer_state
    from agent_r1_core.learning.learner import Learner
    from agent_r1_core.learning.policy import Policy
    from agent_r1_core.learning.ranks import ONE_RANK

    resolved, checkpoint, hardware = blueprint.resolved, blueprint.checkpoint, blueprint.hardware
    config, source = resolved.config, blueprint.model.folder
    algorithm = resolved.make("algorithm", config.algorithm)
    lora, ranks = config.model.lora, ranks or ONE_RANK
    # Of several ranks the first loads whole networks one after the other, in main memory, and all take their shares.
    device = "cpu" if ranks.share else hardware.device
    precision: dict[str, Any] = {"dtype": hardware.dtype, "device": device, "ranks": ranks}
    reference = None
    if "reference" in algorithm.roles():
        other = algorithm.reference_model()
        if other is not None or lora is None:
            first = source if other is None else blueprint.with_same_ids(other)
            reference = Policy.load(first, **precision).freeze().shard(ranks)
    folder = source if lora is not None else blueprint.policy_folder
    policy = Policy.load(
        folder, **precision, lora=lora, gradient_checkpointing=config.model.gradient_checkpointing, seed=config.seed
    )
    temperature = config.engine.config.temperature
    learner = Learner(
        policy,
        algorithm,
        config.training,
        reference=reference,
        temperature=temperature,
        seed=config.seed,
        ranks=ranks,
        records=config.recording.learner,
        reward_weights=reward_weights(resolved),
    )
    if checkpoint is not None:
        load_trainer_state(learner, checkpoint, critic_anew)
    return learner


def frozen_models(resolved: ResolvedConfig) -> set[str]:
    """The names of the models that play or judge and never learn."""
    named = [("env", resolved.config.env), *(("reward", one) for one in resolved.config.rewards)]
    classes: list[tuple[Any, Any]] = [(resolved.registry.load(kind, one.name).cls, one.config) for kind, one in named]
    return {name for cls, config in classes if (name := cls.frozen_model(config)) is not None}


def make_rewards(resolved: ResolvedConfig) -> list[WeightedReward]:
    return [
        WeightedReward(resolved.make("reward", block), block.weight, block.timeout, block.cap)
        for block in resolved.config.rewards
    ]


def make_tool_rewards(resolved: ResolvedConfig) -> dict[str, ToolReward]:
    """What the rewards of the recipe's tools count, by tool."""
    loaded = [(resolved.registry.load("tool", block.name), block) for block in resolved.config.tools]
    return {tool.record.canonical: ToolReward(block.reward_weight, block.reward_cap) for tool, block in loaded}


def reward_weights(resolved: ResolvedConfig) -> dict[str, float]:
    """What the recipe multiplies rewards with, those of tools too, by the names under which episodes record them."""
    named = {resolved.registry.load("reward", one.name).record.canonical: one.weight for one in resolved.config.rewards}
    return named | {name: tool.weight for name, tool in make_tool_rewards(resolved).items()}


def make_tools(
    resolved: ResolvedConfig,
    max_concurrency: int,
    wrap: Callable[[Tool], Tool] | None = None,
    in_process: bool = False,
) -> ToolRunner:
    """A runner of new instances of the recipe's tools; its `start` opens them.

    Args:
        resolved: the configuration.
        max_concurrency: episodes at once.
        wrap: wraps every tool; wrapped tools run in this process.
        in_process: run every tool in this process, whatever its isolation, for a caller that uses the tool itself.
    """
    entries: dict[str, tuple[Tool, ToolBlock]] = {}
    for block in resolved.config.tools:
        tool: Tool = resolved.make("tool", block)
        again = f"{tool.name}-{len(entries) + 1}"  # of toolsets alone
        entries[again if tool.name in entries else tool.name] = tool, block
    asked = {name: block.isolation for name, (_, block) in entries.items() if block.isolation != "auto"}
    return ToolRunner(
        {name: tool for name, (tool, _) in entries.items()},
        {name: block.timeout for name, (_, block) in entries.items()},
        dict.fromkeys(entries, "thread") if in_process or wrap is not None else asked,
        max_concurrency,
        {name: block.limits for name, (_, block) in entries.items()},
        wrap,
    )


def make_env(resolved: ResolvedConfig) -> Callable[[EnvServices], ToolEnv]:
    """A function that makes environments; one instance serves one episode."""
    block = resolved.config.env
    loaded = resolved.registry.load("env", block.name)
    cls: Any = loaded.cls

    def make(services: EnvServices) -> ToolEnv:
        env: ToolEnv = cls(block.config, services=services)
        env.name = loaded.record.canonical
        return env

    return make


def make_tool_format(resolved: ResolvedConfig) -> ToolFormat | None:
    """The tool format that the environment names; None if it names none."""
    block = resolved.config.env.tool_format
    return None if block is None else resolved.make("tool_format", block)


def make_rollout_settings(
    resolved: ResolvedConfig, tools: ToolRunner, rewards: Sequence[WeightedReward], examples: Examples | None
) -> RolloutSettings:
    """How the recipe lets episodes be played, with these components of it."""
    config = resolved.config
    return RolloutSettings(
        make_env=make_env(resolved),
        make_timeout=config.env.config.timeout,
        tools=tools,
        tool_format=make_tool_format(resolved),
        context=resolved.make("context", config.context),
        examples=examples,
        rewards=rewards,
        tool_rewards=make_tool_rewards(resolved),
        max_episodes=config.engine.config.max_episodes,
        sampling=config.engine.config.sampling,
        max_retries=config.training.max_retries,
        seed=config.seed,
        deterministic=config.deterministic,
        model=config.model.name,
    )


def make_examples(resolved: ResolvedConfig) -> Examples | None:
    """The examples that `env.examples` names; None if it names none.

    Raises:
        ConfigError: the file cannot be read as conversations.
    """
    env = resolved.config.env.config
    if env.examples is None:
        return None
    conversations: Any = resolved.registry.load("tasks", "conversations").cls
    try:
        tasks = conversations(conversations.Config(path=env.examples)).load()
    except TaskError as error:
        raise ConfigError(f"env.examples cannot be read: {error}") from None
    return Examples(env.examples, tuple(tasks), env.max_examples)
