"""Checks of the named task sets: weights, the set that chooses checkpoints, and how many tasks are taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_r1_core.config.setup import Setup


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
