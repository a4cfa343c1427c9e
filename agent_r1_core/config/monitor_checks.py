"""Which health monitors have no effect in a configuration, and why (LAW 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_r1_core.health.monitors import MONITORS

if TYPE_CHECKING:
    from agent_r1_core.config.models import RunConfig
    from agent_r1_core.contracts.algorithm import Algorithm
    from agent_r1_core.health.rule import Need

UNWEIGHED = "the algorithm {} compares with the policy that sampled"
"""Why an algorithm, by its name, has no importance weights."""


def idle_monitors(config: RunConfig, name: str, algorithm: Algorithm) -> dict[str, str]:
    """The keys of the section `health` without effect, and why.

    Args:
        name: the algorithm's.
    """
    lacking = _lacking(config, name, algorithm)
    idle = {one.name: lacking[one.needs] for one in MONITORS if one.needs is not None and one.needs in lacking}
    if not algorithm.needs_spread():
        spread = [one.name for one in MONITORS if one.needs in ("groups", "compared groups", "no compared groups")]
        idle |= dict.fromkeys(spread, f"the algorithm {name} learns from equal returns, too")
    if algorithm.demonstrations() is not None:
        idle |= {one.name: f"the algorithm {name} learns from demonstrations" for one in MONITORS if one.of_policy}
    if not any(monitor.severe and monitor.name not in idle for monitor, _ in config.health.rules()):
        idle["early_stop"] = "no severe monitor is on"
    return idle


def _lacking(config: RunConfig, name: str, algorithm: Algorithm) -> dict[Need, str]:
    """What this configuration has not, and why that leaves a monitor without effect."""
    training = config.training
    lacking: dict[Need, str] = {}
    if not config.tools:
        lacking["tools"] = "there are no tools"
    if training.samples_per_task == 1:
        lacking["groups"] = lacking["compared groups"] = "training.samples_per_task=1 gives no groups to compare"
    elif not algorithm.compares_samples():
        lacking["compared groups"] = f"the algorithm {name} does not compare the episodes of a group"
    else:
        lacking["no compared groups"] = "no_spread and groups_without_spread judge groups, which are compared here"
    if "reference" not in algorithm.roles():
        lacking["reference"] = f"the algorithm {name} has no reference here"
    if "critic" in algorithm.roles():
        lacking["no critic"] = f"the algorithm {name} has a critic"
    else:
        lacking["a critic"] = f"the algorithm {name} has no critic"
    if training.epochs * training.minibatches == 1 and algorithm.importance_level() is not None:
        lacking["several passes"] = (
            "with training.epochs=1 and training.minibatches=1 the policy has not moved when the loss is computed"
        )
    if training.max_staleness:
        lacking["one version"] = "training.max_staleness lets the groups mix versions"
    if algorithm.importance_level() is None:
        lacking["importance weights"] = UNWEIGHED.format(name)
    elif training.importance_clip is None and not training.max_staleness:
        lacking["importance weights"] = "training.importance_clip is null"
    if training.mismatch_mask is None:
        lacking["a mismatch mask"] = "training.mismatch_mask is null"
    if config.health.information is None or not config.health.information.every:
        lacking["measurements"] = "health.information.every is 0"
    if config.health.thought_effect is None or not config.health.thought_effect.every:
        lacking["measured thoughts"] = "health.thought_effect.every is 0"
    if not config.evaluation.every:
        lacking["evaluations"] = "evaluation.every is 0"
    return lacking
