"""Checks of algorithms that learn from demonstrations: what presumes that the policy plays (LAW 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_r1_core.config.checks import Setup
    from agent_r1_core.contracts.algorithm import Algorithm


def check_demonstrations(setup: Setup, algorithm: Algorithm, name: str) -> None:
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
