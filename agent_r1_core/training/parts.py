"""Makes single parts of a run from its configuration: tasks, learner, rewards, tools, environments."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_r1_core.contracts.env import EnvServices, ToolEnv
from agent_r1_core.contracts.tool import Tool, ToolResources
from agent_r1_core.errors import TaskError
from agent_r1_core.rollout import ToolRunner, WeightedReward
from agent_r1_core.training.task_order import hold_out

if TYPE_CHECKING:
    from agent_r1_core.config import ComponentBlock, ResolvedConfig
    from agent_r1_core.contracts.sampling import Sampling
    from agent_r1_core.contracts.tasks import TaskSource
    from agent_r1_core.contracts.tool_format import ToolFormat
    from agent_r1_core.learning.learner import Learner
    from agent_r1_core.runs.checkpoints import Checkpoint
    from agent_r1_core.training.hardware import Hardware
    from agent_r1_core.training.model_source import ModelSource
    from agent_r1_core.trajectory import Task

Note = Callable[[str], None]

_HELD_OUT = 200
"""Tasks held out for evaluation where the recipe names no evaluation source, and a tenth of all at most."""


@dataclass(frozen=True)
class TaskSet:
    """The tasks of a split, and the source that has their corpus."""

    tasks: Sequence[Task]
    source: TaskSource


def load_tasks(resolved: ResolvedConfig, splits: Sequence[str], note: Note) -> dict[str, TaskSet]:
    """Load the tasks of each split; without an evaluation source a part of training's is held out, and said so.

    Raises:
        TaskError: a source has no tasks, too few to hold some out, or two of one id.
    """
    config = resolved.config
    sets: dict[str, TaskSet] = {}
    if "train" in splits or config.tasks.eval is None:
        sets["train"] = _load(resolved, config.tasks.train, "tasks.train")
    if "eval" in splits and config.tasks.eval is not None:
        sets["eval"] = _load(resolved, config.tasks.eval, "tasks.eval")
    elif "eval" in splits:
        train, held = hold_out(sets["train"].tasks, config.evaluation.size or _HELD_OUT, config.seed)
        if not held:
            raise TaskError("tasks.train holds a single task, so none can be held out; set tasks.eval")
        note(
            f"tasks.eval is not set: {len(held)} of {len(held) + len(train)} training tasks are held out for evaluation"
        )
        sets["eval"] = TaskSet(held, sets["train"].source)
        sets["train"] = TaskSet(train, sets["train"].source)
    size = config.evaluation.size
    if "eval" in sets and size is not None:
        sets["eval"] = TaskSet(sets["eval"].tasks[:size], sets["eval"].source)
    return sets


def make_learner(
    resolved: ResolvedConfig,
    source: ModelSource,
    hardware: Hardware,
    sampling: Sampling,
    checkpoint: Checkpoint | None = None,
) -> Learner:
    """The policy with its algorithm, and the critic and reference that the algorithm needs.

    Adapters are added to the run's first model and their state is put back; a policy without them is the
    checkpoint's folder.
    """
    from agent_r1_core.learning.learner import Learner
    from agent_r1_core.learning.policy import Policy
    from agent_r1_core.training.checkpointing import load_trainer_state

    config = resolved.config
    algorithm = resolved.make("algorithm", config.algorithm)
    lora = config.model.lora
    place: dict[str, Any] = {"dtype": hardware.dtype, "device": hardware.device}
    begun_from = source.folder if checkpoint is None or lora is not None else checkpoint.policy
    policy = Policy.load(
        begun_from, **place, lora=lora, gradient_checkpointing=config.model.gradient_checkpointing, seed=config.seed
    )
    reference = None
    if "reference" in algorithm.roles() and lora is None:
        reference = Policy.load(source.folder, **place).freeze()
    learner = Learner(
        policy, algorithm, config.training, reference=reference, temperature=sampling.temperature, seed=config.seed
    )
    if checkpoint is not None:
        load_trainer_state(learner, checkpoint)
    return learner


def make_rewards(resolved: ResolvedConfig) -> list[WeightedReward]:
    """The recipe's rewards with their weights."""
    return [
        WeightedReward(resolved.make("reward", block), block.weight, block.timeout) for block in resolved.config.rewards
    ]


def make_tools(
    resolved: ResolvedConfig, max_concurrency: int, wrap: Callable[[Tool], Tool] | None = None
) -> ToolRunner:
    """A runner over fresh instances of the recipe's tools; they are opened by its `start`."""
    tools = [(resolved.make("tool", block), block) for block in resolved.config.tools]
    return ToolRunner(
        {tool.name: wrap(tool) if wrap else tool for tool, _ in tools},
        {tool.name: block.timeout for tool, block in tools},
        {tool.name: "thread" if wrap else block.isolation for tool, block in tools},
        max_concurrency,
    )


def make_resources(corpora: dict[str, TaskSource]) -> ToolResources:
    """What tools may draw on: the cache folder, and the corpora of the split's task source, if it has one."""
    return ToolResources(str(cache_dir()), {name: source.corpus for name, source in corpora.items()})


def make_env(resolved: ResolvedConfig) -> Callable[[EnvServices], ToolEnv]:
    """A maker of environments; one instance serves one episode."""
    block = resolved.config.env
    loaded = resolved.registry.load("env", block.name)
    cls: Any = loaded.cls

    def make(services: EnvServices) -> ToolEnv:
        env: ToolEnv = cls(block.config, services=services)
        env.name = loaded.record.canonical
        return env

    return make


def make_tool_format(resolved: ResolvedConfig) -> ToolFormat | None:
    """The tool format that the environment names; None where it names none."""
    block = resolved.config.env.tool_format
    return None if block is None else resolved.make("tool_format", block)


def cache_dir() -> Path:
    """Where indexes are kept: `AGENT_R1_CACHE`, else `~/.cache/agent-r1`."""
    return Path(os.environ.get("AGENT_R1_CACHE") or Path.home() / ".cache" / "agent-r1")


def _load(resolved: ResolvedConfig, block: ComponentBlock, where: str) -> TaskSet:
    source = resolved.make("tasks", block)
    tasks = source.load()
    if not tasks:
        raise TaskError(f"{where} ({block.name}) holds no task; check its options or its file")
    repeated = next((name for name, times in Counter(task.id for task in tasks).items() if times > 1), None)
    if repeated is not None:
        raise TaskError(
            f"{where} ({block.name}) holds several tasks of the id {repeated!r}, by which seeds and records tell them "
            "apart; give each task an id of its own"
        )
    return TaskSet(tasks, source)
