"""Checks of the algorithm against the options of training: what it does not use, and what contradicts it (LAW 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_r1_core.config.idle_monitors import idle_monitors
from agent_r1_core.config.keys import Key, key_text
from agent_r1_core.config.reward_checks import check_process_rewards

if TYPE_CHECKING:
    from agent_r1_core.config.setup import Setup
    from agent_r1_core.contracts.algorithm import Algorithm

_CORRECTION: Key = ("training", "staleness_correction")


def check_algorithm(setup: Setup) -> None:
    """Report training options that this algorithm does not use, and those that contradict it."""
    block, training = setup.block("algorithm"), setup.config.training
    if block is None:
        return
    algorithm = block.cls(block.config)
    if "critic" not in algorithm.roles():
        for option in ("critic_lr", "critic_warmup"):
            setup.idle(("training", option), f"the algorithm {block.name} has no critic")
    if not algorithm.uses_old_logprobs(training.epochs, training.minibatches):
        text = (
            "with training.epochs=1 and training.minibatches=1 each rollout gets a single optimiser step, and the "
            f"algorithm {block.name} needs no log-probs from before it"
        )
        setup.idle(("training", "old_logprobs"), text)
    elif training.old_logprobs == "engine" and training.importance_clip is not None:
        text = "training.old_logprobs=engine takes the sampler's own log-probs, so that every importance weight is 1"
        setup.idle(("training", "importance_clip"), text)
    if not algorithm.asks_for_more() and algorithm.config.filter != "resample":
        text = f"the algorithm {block.name} never asks for more episodes, and algorithm.filter is not resample"
        setup.idle(("training", "extra_rollouts"), text)
    if algorithm.config.filter != "none" and training.samples_per_task == 1:
        text = f"is {algorithm.config.filter}, which keeps no group of one; set training.samples_per_task to 2 or more"
        setup.problems.add(("algorithm", "filter"), text)
    if training.samples_per_task == 1 and algorithm.compares_samples():
        setup.warnings.append(
            f"training.samples_per_task=1: the algorithm {block.name} compares the episodes of a group and learns "
            "nothing from groups of one"
        )
    if algorithm.needs_every_trajectory():
        text = f"the algorithm {block.name} with these options has a gradient on every episode"
        setup.idle(("training", "skip_without_gradient"), text)
    idle = idle_monitors(setup.config, block.name, algorithm)
    for key in list(setup.problems.draft.sources):
        if len(key) > 1 and key[0] == "health" and key[1] in idle and key[2:] != ("every",):
            setup.idle(key, idle[str(key[1])])
    check_process_rewards(setup, algorithm, block.name)
    _staleness(setup, algorithm, block.name)
    _demonstrations(setup, algorithm, block.name)


def _staleness(setup: Setup, algorithm: Algorithm, name: str) -> None:
    """Check training.max_staleness and what depends on it."""
    training = setup.config.training
    if not training.max_staleness:
        setup.idle(_CORRECTION, "training.max_staleness is 0")
        return
    if training.epochs * training.minibatches == 1:
        text = (
            "with training.epochs=1 and training.minibatches=1 each rollout gets a single optimiser step, whose policy "
            "is the one before the update, so that decoupled and truncated are the same"
        )
        source = setup.problems.draft.source(_CORRECTION)
        if source.origin:  # of a run from when this was no error: it can be resumed
            setup.warnings.append(f"{key_text(_CORRECTION)} ({source.text}) has no effect here: {text}")
        else:
            setup.idle(_CORRECTION, text)
    key = ("training", "max_staleness")
    if setup.config.deterministic:
        setup.problems.add(("deterministic",), "repeats no run whose rollouts overlap; set training.max_staleness=0")
    if setup.config.distributed.placement == "colocated":
        setup.problems.add(key, "needs rollouts and updates on different devices; set distributed.placement=separate")
    if algorithm.asks_for_more() or algorithm.config.filter == "resample":
        asks = f"the algorithm {name}" if algorithm.asks_for_more() else "algorithm.filter=resample"
        text = f"draws the tasks of later steps ahead, and {asks} may ask for more within a step; set it to 0"
        setup.problems.add(key, text)
    if training.staleness_correction == "truncated":
        setup.idle(("training", "old_logprobs"), "training.staleness_correction=truncated needs none")
    elif training.old_logprobs == "engine":
        text = "takes the stale policy for the one before the update; set training.old_logprobs=learner"
        setup.problems.add(("training", "old_logprobs"), text)


def _demonstrations(setup: Setup, algorithm: Algorithm, name: str) -> None:
    """Refuse what needs log-probs or returns of the policy's own episodes; say where observations come from."""
    observations, training = algorithm.demonstrations(), setup.config.training
    if observations is None:
        return
    problems = setup.problems
    if training.samples_per_task != 1:
        text = f"must be 1, not {training.samples_per_task}: the algorithm {name} plays the one demonstration of a task"
        problems.add(("training", "samples_per_task"), text)
    if training.max_staleness:
        text = f"must be 0: the algorithm {name} learns from demonstrations, which no version of the policy sampled"
        problems.add(("training", "max_staleness"), text)
    if training.importance_clip is not None:
        text = "weighs tokens by what the engine said of them, and it sampled none of a demonstration; set it to null"
        problems.add(("training", "importance_clip"), text)
    if training.old_logprobs == "engine":
        text = "names log-probs that demonstrations have not; set training.old_logprobs=learner"
        problems.add(("training", "old_logprobs"), text)
    whence = "the run's own tools" if observations == "tools" else "the demonstrations"
    setup.notes.append(f"{name} learns from demonstrations; what tools answer in them comes from {whence}")
