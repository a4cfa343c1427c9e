"""Assembles a run from its resolved configuration: model, tasks, trackers, and the roles that play and learn.

Tools, engine and workers start only in `start`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from agent_r1_core import kernels
from agent_r1_core.assembly.blueprint import Blueprint
from agent_r1_core.assembly.checkpointing import load_task_order
from agent_r1_core.assembly.components import frozen_models, make_examples, make_learner
from agent_r1_core.assembly.hardware import Hardware, apply
from agent_r1_core.assembly.model_source import ModelSource, find_model, refuse_code, too_few_positions
from agent_r1_core.assembly.roles import LearnerRole, Rollouts
from agent_r1_core.assembly.site import HERE, Site
from agent_r1_core.assembly.task_notes import describe_mixture, describe_overlap, describe_shared
from agent_r1_core.assembly.task_order import Order
from agent_r1_core.assembly.task_sets import (
    TRAIN,
    Note,
    TaskSet,
    load_tasks,
    record,
    set_names,
    training_order,
    unused_sets,
)
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.config.components import find_blocks
from agent_r1_core.contracts.tool import Tool
from agent_r1_core.errors import ConfigError, ModelError
from agent_r1_core.rollout import Measurer
from agent_r1_core.runs.run import Run
from agent_r1_core.work import working

if TYPE_CHECKING:
    from agent_r1_core.config import ResolvedConfig, RunConfig
    from agent_r1_core.contracts.tracker import Tracker
    from agent_r1_core.learning.learner import Learner
    from agent_r1_core.rollout.examples import Examples
    from agent_r1_core.runs.checkpoint import Checkpoint
    from agent_r1_core.runs.evaluation_file import EvaluationTasks

T = TypeVar("T")


@dataclass
class Assembly:
    resolved: ResolvedConfig
    """The configuration, with `auto` replaced by what the hardware decided."""
    hardware: Hardware
    model: ModelSource
    tokenizer: ChatTokenizer
    sets: dict[str, TaskSet]
    """`train`, and the evaluation sets by name (`eval` if there is one without a name)."""
    evaluation_tasks: EvaluationTasks
    """The record of the evaluation sets that the run keeps."""
    rollouts: Rollouts
    trackers: list[Tracker]
    examples: Examples | None
    """Shown before every task."""
    scores: Measurer = field(default_factory=Measurer)
    """What evaluations measure besides the scores that every evaluation has."""
    _learner: LearnerRole | None = None
    _task_order: Order | None = None

    @property
    def config(self) -> RunConfig:
        return self.resolved.config

    @property
    def learner(self) -> LearnerRole:
        """The learner; an evaluation has none."""
        return _of_training(self._learner)

    @property
    def task_order(self) -> Order:
        """The place in the order of training tasks from which the run goes on; an evaluation has none."""
        return _of_training(self._task_order)

    @property
    def train(self) -> TaskSet:
        return self.sets[TRAIN]

    @property
    def evaluation(self) -> dict[str, TaskSet]:
        return {name: one for name, one in self.sets.items() if name != TRAIN}

    @property
    def evaluation_basis(self) -> str:
        """What a metric rests on that chooses the best checkpoint: how evaluations decode, and what they ask."""
        best, greedy = self.config.best_metric or "", self.config.evaluation.greedy
        return self.evaluation_tasks.basis(greedy) if best.startswith("eval/") else ""

    @property
    def conditions(self) -> list[str]:
        """What a reader of a score must know."""
        return [] if self.examples is None else [self.examples.describe()]

    @property
    def sampling(self) -> dict[str, Any]:
        """The sampling settings that a report states (LAW 12)."""
        env = self.config.env.config
        return {
            **self.config.engine.config.sampling.model_dump(),
            "max_turns": env.max_turns,
            "max_tokens": env.max_tokens,
            "context": self.config.context.model_dump(),
            **({} if self.examples is None else {"examples": self.examples.to_json()}),
            "seed": self.config.seed,
            "dtype": self.hardware.dtype,
            "deterministic": self.config.deterministic,
        }

    async def start(self, version: int = 0) -> None:
        """Start both roles; the rollouts then serve the policy's weights."""
        with working("starting tools and engine"):
            await self.rollouts.start()
        if self._learner is not None:
            with working("starting the learner"):
                await self._learner.start()
            await self.rollouts.load_weights(await self._learner.snapshot(), version)

    async def close(self) -> None:
        """Release everything, even after a start that failed half-way."""
        try:
            await self.rollouts.close()
        finally:
            self.scores.close()
            self.model.release()
            if self._learner is not None:
                await self._learner.close()


def assemble(
    resolved: ResolvedConfig,
    *,
    checkpoint: Checkpoint | None = None,
    learning: bool = True,
    task_sets: Sequence[str] = ("train", "eval"),
    held_out_by: Path | None = None,
    wrap_tool: Callable[[Tool], Tool] | None = None,
    site: Site = HERE,
    note: Note = lambda text: None,
) -> Assembly:
    """Assemble the components of a run.

    Args:
        resolved: the configuration.
        checkpoint: the checkpoint from which a resumed run continues.
        learning: False: without a learner, for evaluations and rollouts.
        task_sets: those to load: `train`, `eval` for every evaluation set, or one set by its name.
        held_out_by: if tasks.eval is null, take the tasks that this run held out. None: with a learner, draw them;
            without one, take those of the model's own run or of the run that is the recipe.
        wrap_tool: wraps every tool.
        site: where rollouts and learner are.
        note: receives sentences for the user.

    Raises:
        AgentR1Error: a model, data set or component is not available.
    """
    config = resolved.config
    names = [name for one in task_sets for name in set_names(config, one)]
    resolved.check_available(() if learning else ("algorithm", "trackers", *unused_sets(config, names)))
    blueprint = _blueprint(resolved, checkpoint, learning, site, note)
    resolved, source = blueprint.resolved, blueprint.model
    for sentence in source.unknown_tools(resolved) if checkpoint is None else ():
        note(sentence)
    if not learning:
        note(f"policy: {source.describe()}")
        held_out_by = held_out_by or source.run or resolved.run
    sets = load_tasks(resolved, names, note, held_out_by)
    if learning:
        _check_demonstrations(resolved, sets[TRAIN])
        for sentence in (*describe_mixture(config, sets[TRAIN]), *describe_shared(resolved, sets)):
            note(sentence)
    for sentence in describe_overlap(config, sets):
        note(sentence)
    order = training_order(config, sets[TRAIN]) if learning else None
    if order is not None and checkpoint is not None:
        order = load_task_order(order, checkpoint)
    examples = make_examples(resolved)
    if examples is not None:
        note(examples.describe())
    rollouts, learner = site.make_roles(
        replace(blueprint, stages=tuple(sets), sets=sets, wrap_tool=wrap_tool, examples=examples)
    )
    return Assembly(
        resolved=resolved,
        hardware=blueprint.hardware,
        model=source,
        tokenizer=blueprint.tokenizer,
        sets=sets,
        rollouts=rollouts,
        evaluation_tasks=record(sets),
        trackers=[resolved.make("tracker", block) for block in config.trackers] if learning else [],
        examples=examples,
        scores=Measurer({resolved.make("score", block): block.timeout for block in config.scores}),
        _learner=learner,
        _task_order=order,
    )


def assemble_learner(
    resolved: ResolvedConfig, checkpoint: Checkpoint | None, critic_anew: bool = False, note: Note = lambda text: None
) -> tuple[Learner, ChatTokenizer]:
    """A run's learner alone, in this process, as it was behind a checkpoint, without tasks, tools and engine; and the
    tokenizer of its model.

    Args:
        checkpoint: None: as it was when the run began.
        critic_anew: the algorithm has a critic and the checkpoint none, or the other way round; a critic then begins as
            a copy of the policy.

    Raises:
        AgentR1Error: the model or the algorithm is not available.
    """
    resolved.check_available({key.partition("[")[0] for key in resolved.unavailable} - {"algorithm"})
    blueprint = _blueprint(resolved, checkpoint, True, HERE, note)
    try:
        return make_learner(blueprint, critic_anew=critic_anew), blueprint.tokenizer
    finally:
        blueprint.model.release()


def _blueprint(
    resolved: ResolvedConfig, checkpoint: Checkpoint | None, learning: bool, site: Site, note: Note
) -> Blueprint:
    """What both roles are made from, still without task sets; its configuration has `auto` replaced."""
    config = resolved.config
    source = _first_model(resolved, checkpoint, note)
    if problem := too_few_positions(config.model.name, source.folder, config.env.config.max_tokens):
        raise ConfigError(problem)
    dtype = source.dtype if config.model.dtype == "auto" and not learning else config.model.dtype
    kernels.switch(config.kernels)
    hardware = site.hardware(resolved, dtype, source.folder)
    apply(hardware, config.deterministic)
    if (hardware.device, hardware.dtype) == ("cpu", "float32"):
        note(kernels.describe())
    elif hardware.device == "cpu" and dtype == "auto":
        note("model.dtype=auto chose bfloat16, which was more than 1.5 times as fast here; float32 is more exact")
    chosen: dict[str, Any] = {
        "threads": hardware.threads,
        "model.dtype": hardware.dtype,
        "model.device": hardware.device,
    }
    if learning and source.run is not None:
        chosen["model.name"] = str(source.folder)
    if learning:
        chosen |= _frozen_policies(resolved)
    tokenizer = ChatTokenizer.from_folder(source.folder)
    return Blueprint(resolved.replace(chosen), hardware, source, tokenizer, (), learning, checkpoint)


def _frozen_policies(resolved: ResolvedConfig) -> dict[str, str]:
    """The options that name a run for a model that never learns here, such as a teacher, with the folder of its policy:
    the run may get a better one later."""
    names = frozen_models(resolved) | {resolved.make("algorithm", resolved.config.algorithm).reference_model()}
    runs = {name: str(find_model(name).folder.absolute()) for name in filter(None, names) if Run.is_run(name)}
    return {
        ".".join(map(str, (*key, option))): runs[value]
        for key, _, block in (find_blocks(resolved.dump()) if runs else ())
        for option, value in block.items()
        if isinstance(value, str) and option != "name" and value in runs
    }


def _of_training(part: T | None) -> T:
    """A part that an evaluation lacks; raises a ConfigError if this is one."""
    if part is None:
        raise ConfigError("this run was assembled for evaluation alone; call assemble(..., learning=True)")
    return part


def _check_demonstrations(resolved: ResolvedConfig, train: TaskSet) -> None:
    """Refuse tasks without the demonstrations from which the algorithm learns."""
    block = resolved.config.algorithm
    bare = next((task for task in train.tasks if not task.demonstration), None)
    if resolved.make("algorithm", block).demonstrations() is not None and bare is not None:
        raise ConfigError(
            f"the algorithm {block.name} learns from demonstrations, and task {bare.id} of tasks.train has none; "
            "name a task source that has them, such as conversations"
        )


def _first_model(resolved: ResolvedConfig, checkpoint: Checkpoint | None, note: Note) -> ModelSource:
    """The model that the run starts from. A resumed run that computes nothing with it any more can do without.

    Raises:
        ModelError, RunError: as `find_model`; or the checkpoint brings code.
    """
    config = resolved.config
    if checkpoint is None:
        return find_model(config.model.name, note)
    refuse_code(checkpoint.policy)
    try:
        return find_model(config.model.name, note)
    except ModelError:
        if config.model.lora is not None or "reference" in resolved.make("algorithm", config.algorithm).roles():
            raise
        note(
            f"the model {config.model.name} is gone: the run goes on with the tokenizer and the shape of its checkpoint"
        )
        return ModelSource(checkpoint.policy, "checkpoint")
