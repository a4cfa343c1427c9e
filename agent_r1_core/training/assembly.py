"""Puts the components of a resolved configuration together: tasks, tools, environment, rewards, engine, learner.

Training and evaluation have a side each: their own tasks, their own tools over their own corpus, one engine between
them. Nothing heavy is opened before `start`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.contracts.engine import Engine, EngineModel
from agent_r1_core.contracts.env import EnvServices, ToolEnv
from agent_r1_core.contracts.tool import Tool, ToolResources
from agent_r1_core.errors import ConfigError, ModelError, TaskError
from agent_r1_core.rollout import Collector, RolloutSettings, ToolRunner, WeightedReward
from agent_r1_core.training.hardware import Hardware, apply, choose_hardware
from agent_r1_core.training.model_source import ModelSource, find_model
from agent_r1_core.training.task_order import hold_out

if TYPE_CHECKING:
    from agent_r1_core.config import ComponentBlock, ResolvedConfig, RunConfig
    from agent_r1_core.contracts.tasks import TaskSource
    from agent_r1_core.contracts.tracker import Tracker
    from agent_r1_core.learning.learner import Learner
    from agent_r1_core.runs.checkpoints import Checkpoint
    from agent_r1_core.trajectory import Task

Note = Callable[[str], None]

_HELD_OUT = 200
"""Tasks held out for evaluation where the recipe names no evaluation source, and a tenth of all at most."""


@dataclass
class Side:
    """Training's or evaluation's own part of a run."""

    name: str
    tasks: Sequence[Task]
    tools: ToolRunner
    resources: ToolResources
    collector: Collector


@dataclass
class Assembly:
    """A run's parts."""

    resolved: ResolvedConfig
    """With hardware choices written in."""
    hardware: Hardware
    model: ModelSource
    tokenizer: ChatTokenizer
    engine: Engine
    sides: dict[str, Side]
    trackers: list[Tracker]
    policy_folder: Path
    _learner: Learner | None = None

    @property
    def config(self) -> RunConfig:
        """The run's configuration."""
        return self.resolved.config

    @property
    def learner(self) -> Learner:
        """The learner; an evaluation has none."""
        if self._learner is None:
            raise ConfigError("this run was assembled for evaluation alone; call assemble(..., learning=True)")
        return self._learner

    @property
    def train(self) -> Side:
        """The side that is trained on."""
        return self.sides["train"]

    @property
    def eval(self) -> Side:
        """The side that is evaluated on."""
        return self.sides["eval"]

    @property
    def sampling(self) -> dict[str, Any]:
        """The sampling settings that a report states (LAW 12)."""
        settings, env = self.eval.collector.settings, self.config.env.options
        return {
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "top_k": settings.top_k,
            "max_new_tokens": settings.max_new_tokens,
            "max_turns": env.get("max_turns"),
            "max_tokens": env.get("max_tokens"),
            "seed": settings.seed,
            "dtype": self.hardware.dtype,
        }

    async def start(self, version: int = 0) -> None:
        """Open tools and start the engine with the policy's weights."""
        for side in self.sides.values():
            await side.tools.start(side.resources)
        await self.engine.start(
            EngineModel(
                folder=str(self.policy_folder),
                dtype=self.hardware.dtype,
                device=self.hardware.device,
                module=None if self._learner is None else self._learner.policy.model,
                tokenizer=self.tokenizer,
                deterministic=self.config.deterministic,
            )
        )
        if self._learner is not None:
            await self.engine.load_weights(self._learner.policy.weights(), version)

    async def close(self) -> None:
        """Release everything, also after a start that failed half-way."""
        await self.engine.close()
        for side in self.sides.values():
            await side.tools.close()
            side.collector.close()


def assemble(
    resolved: ResolvedConfig,
    *,
    checkpoint: Checkpoint | None = None,
    learning: bool = True,
    sides: Sequence[str] = ("train", "eval"),
    wrap_tool: Callable[[Tool], Tool] | None = None,
    note: Note = lambda text: None,
) -> Assembly:
    """Make the parts of a run.

    Args:
        resolved: the configuration.
        checkpoint: where a resumed run goes on.
        learning: False: no learner, for evaluation and for looking at rollouts.
        sides: which of `train` and `eval` are wanted.
        wrap_tool: put around every tool.
        note: hears what the user should know.

    Raises:
        AgentR1Error: a model, data set or component cannot be had.
    """
    config = resolved.config
    source = find_model(config.model.name)
    hardware = choose_hardware(
        config.model.device, config.model.dtype, config.threads, config.deterministic, _hidden_size(source.folder)
    )
    apply(hardware, config.deterministic)
    resolved = resolved.replace(
        {"threads": hardware.threads, "model.dtype": hardware.dtype, "model.device": hardware.device}
    )
    tokenizer = ChatTokenizer.from_folder(source.folder)
    engine = resolved.registry.create("engine", config.engine.component, "engine")
    tasks = load_tasks(resolved, sides, note)
    learner = make_learner(resolved, source, hardware, checkpoint) if learning else None
    return Assembly(
        resolved=resolved,
        hardware=hardware,
        model=source,
        tokenizer=tokenizer,
        engine=engine,
        sides={name: _make_side(name, tasks, resolved, engine, tokenizer, wrap_tool) for name in sides},
        trackers=[
            resolved.registry.create("tracker", block.component, f"trackers[{index}]")
            for index, block in enumerate(config.trackers)
        ]
        if learning
        else [],
        policy_folder=checkpoint.policy if checkpoint is not None else source.folder,
        _learner=learner,
    )


@dataclass(frozen=True)
class TaskSet:
    """The tasks of a side, and the source that has their corpus."""

    tasks: Sequence[Task]
    source: TaskSource


def load_tasks(resolved: ResolvedConfig, sides: Sequence[str], note: Note) -> dict[str, TaskSet]:
    """Load the tasks of each side; without an evaluation source a part of training's is held out, and said so.

    Raises:
        TaskError: a source has no tasks, or too few to hold some out.
    """
    config = resolved.config
    sets: dict[str, TaskSet] = {}
    if "train" in sides or config.tasks.eval is None:
        sets["train"] = _load(resolved, config.tasks.train, "tasks.train")
    if "eval" in sides and config.tasks.eval is not None:
        sets["eval"] = _load(resolved, config.tasks.eval, "tasks.eval")
    elif "eval" in sides:
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
    resolved: ResolvedConfig, source: ModelSource, hardware: Hardware, checkpoint: Checkpoint | None = None
) -> Learner:
    """The policy with its algorithm, and the critic and reference that the algorithm needs.

    Adapters are added to the run's first model and their state is put back; a policy without them is the
    checkpoint's folder.
    """
    from agent_r1_core.learning.learner import Learner
    from agent_r1_core.learning.policy import Policy
    from agent_r1_core.learning.settings import LearnerSettings, LoraOptions
    from agent_r1_core.training.checkpointing import load_trainer_state

    config, training = resolved.config, resolved.config.training
    algorithm = resolved.registry.create("algorithm", config.algorithm.component, "algorithm")
    lora = config.model.lora
    options = None
    if lora is not None:
        modules = () if lora.target_modules == "all-linear" else lora.target_modules
        options = LoraOptions(lora.rank, lora.alpha, lora.dropout, modules)
    place: dict[str, Any] = {"dtype": hardware.dtype, "device": hardware.device}
    begun_from = source.folder if checkpoint is None or options is not None else checkpoint.policy
    policy = Policy.load(begun_from, **place, lora=options, seed=config.seed)
    reference = None
    if "reference" in algorithm.roles():
        reference = Policy.load(source.folder, **place).frozen_copy()
    settings = LearnerSettings(
        **{
            name: getattr(training, name)
            for name in LearnerSettings.__dataclass_fields__
            if name in type(training).model_fields
        }
    )
    temperature = float(config.engine.options.get("temperature", 1.0))
    learner = Learner(policy, algorithm, settings, reference=reference, temperature=temperature, seed=config.seed)
    if checkpoint is not None:
        load_trainer_state(learner, checkpoint)
    return learner


def make_rewards(resolved: ResolvedConfig) -> list[WeightedReward]:
    """The recipe's rewards with their weights."""
    return [
        WeightedReward(resolved.registry.create("reward", block.component, f"rewards[{index}]"), block.weight)
        for index, block in enumerate(resolved.config.rewards)
    ]


def make_tools(
    resolved: ResolvedConfig, max_concurrency: int, wrap: Callable[[Tool], Tool] | None = None
) -> ToolRunner:
    """A runner over fresh instances of the recipe's tools; they are opened by its `start`."""
    config = resolved.config
    made = [
        resolved.registry.create("tool", block.component, f"tools[{index}]") for index, block in enumerate(config.tools)
    ]
    names = [tool.name for tool in made]
    return ToolRunner(
        {tool.name: wrap(tool) if wrap else tool for tool in made},
        {name: block.timeout for name, block in zip(names, config.tools, strict=True)},
        {name: block.isolation for name, block in zip(names, config.tools, strict=True)},
        max_concurrency,
    )


def make_resources(corpora: dict[str, TaskSource]) -> ToolResources:
    """What tools may draw on: the cache folder, and the corpora of the side's task source, if it has one."""
    return ToolResources(str(cache_dir()), {name: source.corpus for name, source in corpora.items()})


def make_env(resolved: ResolvedConfig) -> Callable[[EnvServices], ToolEnv]:
    """A maker of environments; one instance serves one episode."""
    loaded, config = resolved.registry.configure("env", resolved.config.env.component, "env")
    cls: Any = loaded.cls

    def make(services: EnvServices) -> ToolEnv:
        env: ToolEnv = cls(config, services=services)
        env.name = loaded.record.canonical
        return env

    return make


def cache_dir() -> Path:
    """Where indexes are kept: `AGENT_R1_CACHE`, else `~/.cache/agent-r1`."""
    return Path(os.environ.get("AGENT_R1_CACHE") or Path.home() / ".cache" / "agent-r1")


def _make_side(
    name: str,
    tasks: dict[str, TaskSet],
    resolved: ResolvedConfig,
    engine: Engine,
    tokenizer: ChatTokenizer,
    wrap_tool: Callable[[Tool], Tool] | None,
) -> Side:
    config, options = resolved.config, engine.config
    tools = make_tools(resolved, options.max_episodes, wrap_tool)
    tool_format = config.env.options.get("format")
    settings = RolloutSettings(
        make_env=make_env(resolved),
        tools=tools,
        tool_format=resolved.registry.create("tool_format", tool_format, "env.format") if tool_format else None,
        rewards=make_rewards(resolved),
        max_episodes=options.max_episodes,
        max_new_tokens=options.max_new_tokens,
        temperature=options.temperature,
        top_p=options.top_p,
        top_k=options.top_k,
        max_retries=config.training.max_retries,
        seed=config.seed,
        deterministic=config.deterministic,
        model=config.model.name,
    )
    own = tasks[name]
    return Side(name, own.tasks, tools, make_resources({name: own.source}), Collector(engine, tokenizer, settings))


def _load(resolved: ResolvedConfig, block: ComponentBlock, where: str) -> TaskSet:
    source = resolved.registry.create("tasks", block.component, where)
    tasks = source.load()
    if not tasks:
        raise TaskError(f"{where} ({block.name}) holds no task; check its options or its file")
    return TaskSet(tasks, source)


def _hidden_size(folder: Path) -> int:
    import json

    try:
        size = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("hidden_size", 1024)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{folder / 'config.json'} cannot be read ({error}); give a Hugging Face model folder"
        ) from error
    return int(size)
