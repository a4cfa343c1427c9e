"""Setup, a complete configuration to check, and checks across its keys: contradictions, options without effect (LAW 8).

Only an option that somebody wrote is reported as idle; defaults may be idle.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from agent_r1_core.config.components import ResolvedBlock, is_own_value
from agent_r1_core.config.draft import DEFAULT, Dropped
from agent_r1_core.contracts.toolset import Toolset
from agent_r1_core.errors import PluginError
from agent_r1_core.metrics import declared as metric
from agent_r1_core.metrics.scorers import SCORE, SCORES
from agent_r1_core.plugins.checks import check_component
from agent_r1_core.plugins.validation import Key, key_text
from agent_r1_core.specs import SiteSpec

if TYPE_CHECKING:
    from agent_r1_core.config.models import RunConfig
    from agent_r1_core.config.problems import Problems
    from agent_r1_core.plugins import Registry

_OF_TRAINING = (
    *("training.", "algorithm", "checkpoint", "health", "trackers", "model.lora", "model.gradient_checkpointing"),
    *("evaluation.every", "evaluation.at_start", "evaluation.at_end", "recording.learner", "recording.dropped"),
)
"""Prefixes of keys that have no effect when nothing is trained."""


def only_of_training(key: str) -> bool:
    """Whether a key has no effect when nothing is trained."""
    return key.startswith(_OF_TRAINING) and key != "training.max_retries"


@dataclass
class Setup:
    config: RunConfig
    blocks: list[ResolvedBlock]
    registry: Registry
    problems: Problems
    training: bool
    """False: for evaluations and rollouts, which allow any sampling."""
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What a dry run says besides the warnings."""
    unavailable: dict[str, str] = field(default_factory=dict)
    """Keys of blocks whose components this machine cannot run, and why."""
    missing: list[str] = field(default_factory=list)
    """What names a file or folder to be read that is not there."""

    def block(self, *key: str | int) -> ResolvedBlock:
        """The block at `key`, which the configuration has."""
        return next(block for block in self.blocks if block.key == key)

    def listed(self, place: str) -> Iterator[tuple[Key, Any, ResolvedBlock]]:
        """Of each block in a list: its key, its own options, and its component."""
        for index, block in enumerate(getattr(self.config, place)):
            yield (place, index), block, self.block(place, index)

    def user_set(self, key: Key) -> bool:
        return self.problems.draft.source(key).user

    def idle(self, key: Key, why: str) -> None:
        """Report `key` as idle if somebody wrote it: as a problem, unless it was written for a component that went, or
        for the run whose configuration this is."""
        draft = self.problems.draft
        if self.user_set(key) and (draft.kept_of(key) or draft.source(key).origin):
            self.warnings.append(f"{key_text(key)} ({draft.source(key).text}) has no effect here: {why}")
            draft.sources[key] = DEFAULT
        elif self.user_set(key):
            self.problems.add(key, f"has no effect here: {why}; remove it")


def check_setup(setup: Setup) -> None:
    """Run every check but those of rewards and training; collect problems and warnings in the setup."""
    _dropped_options(setup)
    _blocks(setup)
    _duplicates(setup)
    _tools(setup)
    _env(setup)
    _evaluation(setup)
    _weights(setup)
    _choosing_set(setup)
    if setup.config.evaluation.size is None:
        setup.idle(("evaluation", "sample"), "evaluation.size is not set, so that every task is taken")
    _distributed(setup)
    if not setup.training:
        _untrained(setup)


def _blocks(setup: Setup) -> None:
    """Report options of components without effect, what this machine lacks for them, and contracts that they break."""
    for block in setup.blocks:
        for option, why in block.cls.idle_options(block.config).items():
            if getattr(block.config, option) is not None:  # null takes an option away that a recipe has
                setup.idle((*block.key, option), why)
        reason, key = block.cls.unavailable(block.config), key_text(block.key)
        wrong = [] if reason is not None else check_component(block.kind, block.cls)
        if reason is not None or wrong:
            source = setup.problems.draft.near((*block.key, "name")).text
            why = f": {wrong[0]}" if wrong else f" here: {reason}"
            setup.unavailable[key] = f"{key} ({source}) names {block.name}, which cannot be used{why}"
        for option in block.cls.Config.data_paths():
            _note_missing(setup, (*block.key, option), getattr(block.config, option))
    if setup.training and setup.config.model.lora is not None and find_spec("peft") is None:
        setup.unavailable["model.lora"] = (
            "model.lora needs the package peft; run `pip install 'agent-r1[lora]'`, or set model.lora=null"
        )


def _note_missing(setup: Setup, key: Key, path: Any) -> None:
    """Note a file or folder that is to be read and is not there, or each of several."""
    for index, one in enumerate(path if isinstance(path, list | tuple) else ()):
        _note_missing(setup, (*key, index), one)
    if isinstance(path, str) and not os.path.exists(path):
        source = setup.problems.draft.source(key).text
        setup.missing.append(f"{key_text(key)} ({source}) names {path}, where there is nothing; correct the path")


def _duplicates(setup: Setup) -> None:
    seen: dict[tuple[str, str], Key] = {}
    for block in setup.blocks:
        if len(block.key) < 2 or not isinstance(block.key[1], int) or issubclass(block.cls, Toolset):
            continue
        first = seen.setdefault((block.kind, block.name), block.key)
        if first != block.key:
            text = f"names the {block.kind} {block.name} again, after {key_text(first)}; keep one"
            setup.problems.add((*block.key, "name"), text)


def _tools(setup: Setup) -> None:
    env = setup.block("env")
    if setup.config.tools and not env.cls.uses_tools():
        setup.problems.add(("tools",), f"has no effect here: the environment {env.name} uses no tools; set tools=[]")
    for key, block, tool in setup.listed("tools"):
        if "thread" in (block.isolation, block.isolation == "auto" and tool.cls.isolation):
            setup.idle((*key, "limits"), "they hold for isolation: process")
        if issubclass(tool.cls, Toolset) and block.isolation == "process":
            text = f"is not for {tool.name}, whose tools are known once it is open; leave it out"
            setup.problems.add((*key, "isolation"), text)


def _env(setup: Setup) -> None:
    """Report options of the context strategy that contradict the environment's budgets, and examples without a file."""
    block, env = setup.block("context"), setup.block("env")
    for option, why in block.cls.conflicts(block.config, env.config).items():
        setup.problems.add((*block.key, option), why)
    if env.cls.owns_context and block.name.rpartition("/")[2] != "append":
        text = f"has no effect here: the environment {env.name} chooses what is read; set context=append"
        setup.problems.add(("context",), text)
    if setup.config.env.config.examples is None:
        setup.idle(("env", "max_examples"), "env.examples names no file")


def _evaluation(setup: Setup) -> None:
    evaluation, best = setup.config.evaluation, setup.config.checkpoint.best
    if not setup.training:
        return
    never = not evaluation.happens
    if never:
        for option in ("greedy", "size"):
            setup.idle(("evaluation", option), "evaluation.every is 0, at_start and at_end are false")
        setup.idle(("recording", "evaluation_episodes"), "nothing is evaluated")
        if setup.config.tasks.eval is not None:
            setup.idle(("tasks", "eval"), "evaluation.every is 0, at_start and at_end are false")
        setup.idle(("scores",), "nothing is evaluated")
    if best is None or not setup.user_set(("checkpoint", "best")):
        return
    if never:
        setup.idle(("checkpoint", "best"), "nothing is evaluated")
    rewards = [metric.REWARD_MEAN, *(metric.REWARD.of(block.name) for block in setup.blocks if _rewards(block))]
    sets = list(setup.config.tasks.eval) if isinstance(setup.config.tasks.eval, dict) else []
    chooser = evaluation.choose_on
    own = [SCORE.of(one.name) for one in setup.blocks if one.kind == "score" and one.cls.declared.better != "lower"]
    scores = [*(score for score in SCORES if score.chooses), *rewards, *own]
    metrics = [metric.evaluated(score, of) for of in ("", *sets) for score in scores]
    if best not in metrics:
        setup.problems.add(("checkpoint", "best"), f"must be null or one of {', '.join(metrics)}, not {best!r}")
    elif chooser in sets and any(best.startswith(metric.evaluated("", name)) for name in sets if name != chooser):
        text = f"is {best}, but evaluation.choose_on={chooser} lets the set {chooser} choose; name the same set in both"
        setup.problems.add(("checkpoint", "best"), text)


def _rewards(block: ResolvedBlock) -> bool:
    """Whether a component has a reward of its own in evaluations, where no group is scored."""
    if block.kind == "reward":
        return bool(block.cls.scope != "group")
    return bool(block.kind == "tool" and block.cls.reward_range is not None)


def _untrained(setup: Setup) -> None:
    """Report overrides that only affect training; files may hold them, since they also serve training."""
    for key, source in setup.problems.draft.sources.items():
        if source.override and only_of_training(key_text(key)):
            setup.idle(key, "this command trains nothing")


def _weights(setup: Setup) -> None:
    """Report weights of what is not mixed: evaluation sets, and a training set that is alone."""
    alone = len(setup.config.tasks.train_sets) == 1
    for block in setup.blocks:
        if block.key[:2] == ("tasks", "eval"):
            text = "it is the share of one of several training sets, and each evaluation set is scored by itself"
            setup.idle((*block.key, "weight"), text)
        elif block.kind == "tasks" and alone:
            text = "it is the share of one of several training sets, and there is a single one"
            setup.idle((*block.key, "weight"), text)


def _choosing_set(setup: Setup) -> None:
    """Require that the choosing set is one of several, and that there is something to choose."""
    config, chooser = setup.config, setup.config.evaluation.choose_on
    if chooser is None:
        return
    key, sets = ("evaluation", "choose_on"), config.tasks.eval
    if not isinstance(sets, dict):
        setup.problems.add(key, "needs several named sets in tasks.eval: {choose: {name: ...}, report: {name: ...}}")
    elif chooser not in sets:
        setup.problems.add(key, f"must be one of the sets {', '.join(sets)} of tasks.eval, not {chooser!r}")
    elif len(sets) == 1:
        setup.problems.add(key, f"leaves nothing to report: {chooser} is the only set of tasks.eval; add another one")
    if config.checkpoint.best is None:
        setup.idle(key, "checkpoint.best is null, so that nothing is chosen")


def _dropped_options(setup: Setup) -> None:
    """Say which options went with a component that somebody replaced."""
    draft = setup.problems.draft
    for block in setup.blocks:
        gone = {key: one for key, one in draft.dropped.items() if key[:-1] == block.key and _is_said(key, one, setup)}
        for old in dict.fromkeys(one.component for one in gone.values()):
            options = ", ".join(
                f"{key_text(key)}={json.dumps(one.value)} ({one.source.text})"
                for key, one in gone.items()
                if one.component == old
            )
            setup.warnings.append(f"{key_text(block.key)} is now {block.name}; of {old} these are dropped: {options}")


def _is_said(key: Key, option: Dropped, setup: Setup) -> bool:
    """Whether a user should know that an option went: nobody has set it anew, and somebody wrote it, or it differs from
    the component's own value (a recipe of the package, and the record of a run, hold defaults too)."""
    if setup.problems.draft.source(key) != DEFAULT:
        return False
    return option.source.user or not is_own_value(setup.registry, key, option.component, option.value)


def _distributed(setup: Setup) -> None:
    """Report workers that miss each other, and options without effect."""
    section = setup.config.distributed
    if section.learner_workers and not section.rollout_workers:
        text = "needs rollout workers beside it; set distributed.rollout_workers to 1 or more"
        setup.problems.add(("distributed", "learner_workers"), text)
    if not section.used:
        for option in ("site", "gpus_per_rollout_worker", "placement", "address"):
            setup.idle(("distributed", option), "distributed.rollout_workers is 0, so that everything is one process")
    else:
        _site(setup)
    _gpus_of_an_engine(setup)
    if not section.learner_workers:
        for option in ("gpus_per_learner_worker", "weights"):
            setup.idle(("distributed", option), "distributed.learner_workers is 0")
    if section.placement == "colocated":
        text = "colocated workers share the GPUs that distributed.gpus_per_learner_worker gives"
        setup.idle(("distributed", "gpus_per_rollout_worker"), text)
    if section.placement == "colocated" and section.rollout_workers != section.learner_workers:
        text = (
            f"is colocated, which pairs every rollout worker with a learner worker, but there are "
            f"{section.rollout_workers} and {section.learner_workers}; set both to the same number"
        )
        setup.problems.add(("distributed", "placement"), text)
    gpus = section.gpus_per_rollout_worker or section.gpus_per_learner_worker
    if section.used and setup.config.deterministic and gpus:
        setup.problems.add(("deterministic",), "needs the CPU, and workers have GPUs; set distributed.gpus_per_*=0")


def _site(setup: Setup) -> None:
    """Check that a plugin offers the site, and that its packages are there."""
    try:
        site = setup.registry.find("site", setup.config.distributed.site).spec
    except PluginError as error:
        setup.problems.add(("distributed", "site"), f"names no site: {error}")
        return
    if isinstance(site, SiteSpec) and (reason := site.unavailable()):
        setup.unavailable["distributed"] = f"distributed.rollout_workers {reason}"


def _gpus_of_an_engine(setup: Setup) -> None:
    """Check that an engine of ours uses all GPUs of its rollout worker."""
    gpus, engine = setup.config.distributed.gpus_per_rollout_worker or 0, setup.config.engine
    uses = 1 if engine.name == "transformers" else getattr(engine.config, "tensor_parallel_size", gpus)
    if gpus > 1 and gpus != uses:
        text = (
            f"is {gpus:g}, but the engine uses {uses}; set engine.name=vllm, engine.processes=separate and "
            f"engine.tensor_parallel_size={gpus:g}, or take more rollout workers with one GPU each"
        )
        setup.problems.add(("distributed", "gpus_per_rollout_worker"), text)
