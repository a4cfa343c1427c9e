"""Checks across keys: combinations that contradict each other, and options without effect (LAW 8).

Only an option that somebody wrote is reported as idle; defaults may be idle.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from agent_r1_core.config.algorithm_checks import check_algorithm
from agent_r1_core.config.distributed_checks import check_distributed
from agent_r1_core.config.dropped_options import say_dropped
from agent_r1_core.config.keys import Key, key_text
from agent_r1_core.config.reward_checks import check_rewards
from agent_r1_core.metrics import declared as metric
from agent_r1_core.metrics.scorers import SCORES

if TYPE_CHECKING:
    from agent_r1_core.config.components import ResolvedBlock
    from agent_r1_core.config.setup import Setup

_OF_TRAINING = (
    *("training.", "algorithm", "checkpoint", "health", "trackers", "model.lora", "model.gradient_checkpointing"),
    *("evaluation.every", "evaluation.at_start", "evaluation.at_end", "recording.learner", "recording.dropped"),
)
"""Prefixes of keys that have no effect when nothing is trained."""


def only_of_training(key: str) -> bool:
    """Whether a key has no effect when nothing is trained."""
    return key.startswith(_OF_TRAINING) and key != "training.max_retries"


CLIPS = ("clip_low", "clip_high", "dual_clip", "value_clip")
"""Options of algorithms that limit how far an update moves from the policy that sampled."""


def check_setup(setup: Setup) -> None:
    """Run every check; collect problems and warnings in the setup."""
    say_dropped(setup)
    _idle_options(setup)
    _availability(setup)
    _duplicates(setup)
    _tools(setup)
    _context(setup)
    _examples(setup)
    check_rewards(setup)
    _evaluation(setup)
    check_task_sets(setup)
    check_distributed(setup)
    if setup.training:
        _sampling(setup)
        check_algorithm(setup)
        _amounts(setup)
        _warn(setup)
    else:
        _untrained(setup)


def _idle_options(setup: Setup) -> None:
    for block in setup.blocks:
        for option, why in block.cls.idle_options(block.config).items():
            setup.idle((*block.key, option), why)


def _availability(setup: Setup) -> None:
    for block in setup.blocks:
        reason, key = block.cls.unavailable(block.config), key_text(block.key)
        if reason is not None:
            source = setup.problems.draft.near((*block.key, "name")).text
            setup.unavailable[key] = f"{key} ({source}) names {block.name}, which cannot be used here: {reason}"
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
        if len(block.key) < 2 or not isinstance(block.key[1], int):
            continue
        first = seen.setdefault((block.kind, block.name), block.key)
        if first != block.key:
            text = f"names the {block.kind} {block.name} again, after {key_text(first)}; keep one"
            setup.problems.add((*block.key, "name"), text)


def _tools(setup: Setup) -> None:
    env = setup.block("env")
    if env is None:
        return
    if setup.config.tools and not env.cls.uses_tools():
        setup.problems.add(("tools",), f"has no effect here: the environment {env.name} uses no tools; set tools=[]")
    for index, block in enumerate(setup.config.tools):
        tool = setup.block("tools", index)
        if tool is not None and "thread" in (block.isolation, block.isolation == "auto" and tool.cls.isolation):
            setup.idle(("tools", index, "limits"), "they hold for isolation: process")


def _context(setup: Setup) -> None:
    """Report options of the context strategy that contradict the environment's budgets."""
    block, env = setup.block("context"), setup.block("env")
    if block is None or env is None:
        return
    for option, why in block.cls.conflicts(block.config, env.config).items():
        setup.problems.add((*block.key, option), why)


def _examples(setup: Setup) -> None:
    if setup.config.env.config.examples is None:
        setup.idle(("env", "max_examples"), "env.examples names no file")


def _evaluation(setup: Setup) -> None:
    evaluation, best = setup.config.evaluation, setup.config.checkpoint.best
    if not setup.training:
        return
    never = not (evaluation.every or evaluation.at_start or evaluation.at_end)
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
    scores = [*(score for score in SCORES if score.chooses), *rewards]
    metrics = [metric.evaluated(score, of) for of in ("", *sets) for score in scores]
    if best not in metrics:
        setup.problems.add(("checkpoint", "best"), f"must be null or one of {', '.join(metrics)}, not {best!r}")
    elif chooser in sets and any(best.startswith(metric.evaluated("", name)) for name in sets if name != chooser):
        text = f"is {best}, but evaluation.choose_on={chooser} lets the set {chooser} choose; name the same set in both"
        setup.problems.add(("checkpoint", "best"), text)


def _rewards(block: ResolvedBlock) -> bool:
    """Whether a component has a reward of its own in the metrics."""
    return block.kind == "reward" or (block.kind == "tool" and block.cls.reward_range is not None)


def _sampling(setup: Setup) -> None:
    """Require unmodified sampling: training needs log-probs of the distribution that was sampled (LAW 2)."""
    engine = setup.config.engine.config
    for option, neutral in (("top_p", 1.0), ("top_k", 0)):
        value = getattr(engine, option)
        if value != neutral:
            text = f"must be {neutral} in training, not {value}: the learner trains the whole distribution"
            setup.problems.add(("engine", option), text)
    if engine.temperature <= 0:
        text = f"must be above 0 in training, not {engine.temperature}: a greedy policy explores nothing"
        setup.problems.add(("engine", "temperature"), text)
    if setup.config.deterministic and setup.config.model.device == "cuda":
        setup.problems.add(("deterministic",), "needs the CPU, and model.device is cuda; set model.device=cpu")


def _untrained(setup: Setup) -> None:
    """Report overrides that only affect training; files may hold them, since they also serve training."""
    for key, source in setup.problems.draft.sources.items():
        if source.override and only_of_training(key_text(key)):
            setup.idle(key, "this command trains nothing")


def _amounts(setup: Setup) -> None:
    training = setup.config.training
    episodes = training.tasks_per_step * training.samples_per_task
    if training.minibatches > episodes:
        text = f"must be at most {episodes}, the episodes of a step, not {training.minibatches}"
        setup.problems.add(("training", "minibatches"), text)
    for option in ("warmup_steps", "critic_warmup"):
        if getattr(training, option) >= training.steps:
            text = (
                f"is {getattr(training, option)} and must be below training.steps={training.steps}; change one of them"
            )
            setup.problems.add(("training", option), text)
            return
    if training.warmup_steps + training.critic_warmup >= training.steps:
        text = (
            f"starts after the critic's warm-up, and {training.warmup_steps} + {training.critic_warmup} steps are not "
            f"below training.steps={training.steps}; change one of them"
        )
        setup.problems.add(("training", "warmup_steps"), text)


def _warn(setup: Setup) -> None:
    training = setup.config.training
    longest = setup.config.env.config.max_tokens
    if longest > training.max_tokens_per_microbatch:
        setup.warnings.append(
            f"an episode may have env.max_tokens={longest} tokens; one that is longer than "
            f"training.max_tokens_per_microbatch={training.max_tokens_per_microbatch} gets a micro-batch of its own"
        )
    evaluation, checkpoint = setup.config.evaluation, setup.config.checkpoint
    if checkpoint.best is not None and evaluation.every % checkpoint.every:
        setup.warnings.append(
            f"evaluation.every={evaluation.every} is not a multiple of checkpoint.every={checkpoint.every}: a step "
            f"without a checkpoint cannot become the best one, even if it is evaluated"
        )
    clips = [name for name in CLIPS if setup.user_set(("algorithm", name))]
    if clips and training.epochs * training.minibatches == 1:
        setup.warnings.append(
            f"algorithm.{clips[0]} never acts: with training.epochs=1 and training.minibatches=1 each rollout is "
            f"learnt from once, by the policy that sampled it"
        )


def check_task_sets(setup: Setup) -> None:
    """Report what contradicts the sets, or has no effect on them."""
    _weights(setup)
    _choosing_set(setup)
    if setup.config.evaluation.size is None:
        setup.idle(("evaluation", "sample"), "evaluation.size is not set, so that every task is taken")


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
