"""Checks of training ahead of the learner: what needs rollouts and updates to take turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_r1_core.config.keys import Key, key_text

if TYPE_CHECKING:
    from agent_r1_core.config.checks import Setup
    from agent_r1_core.contracts.algorithm import Algorithm

_CORRECTION: Key = ("training", "staleness_correction")


def check_staleness(setup: Setup, algorithm: Algorithm, name: str) -> None:
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
