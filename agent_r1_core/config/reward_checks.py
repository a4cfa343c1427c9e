"""Checks of a configuration's rewards: options without effect (LAW 8), rewards that repetition could farm, or that ask
the learner while it learns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_r1_core.config.checks import Setup
    from agent_r1_core.contracts.algorithm import Algorithm


@dataclass(frozen=True)
class _Process:
    """A component that gives process rewards."""

    name: str
    best: float
    """The most that one of its rewards counts, weighted."""
    most: float | None
    """The most that they add up to in an episode, weighted; None: no cap bounds them."""
    bound: str
    """The option that would bound them."""


def check_rewards(setup: Setup) -> None:
    """Report caps and weights without effect."""
    turns = setup.config.env.config.max_turns
    for key, block, reward in setup.listed("rewards"):
        if block.cap is None:
            continue
        most = max(map(abs, reward.cls.range)) * turns if reward.cls.cap is None else reward.cls.cap
        if reward.cls.scope != "turn":
            setup.idle((*key, "cap"), f"{reward.name} scores an episode once")
        elif block.cap >= most:
            setup.idle((*key, "cap"), f"{reward.name} never adds up to more than {most:g} in {turns} turns")
    for key, _, tool in setup.listed("tools"):
        if tool.cls.reward_range is None:
            for option in ("reward_weight", "reward_cap"):
                setup.idle((*key, option), f"the tool {tool.name} gives no rewards")


def check_process_rewards(setup: Setup, algorithm: Algorithm, name: str) -> None:
    """Report options for process rewards where there are none; say how they are credited, what could be farmed, and
    whether there is nothing to learn from."""
    process = list(_process_rewards(setup))
    if not setup.block("env").cls.gives_rewards and not process:
        setup.idle(("algorithm", "process_scale"), "nothing gives process rewards")
        if not any(reward.weight for reward in setup.config.rewards) and algorithm.demonstrations() is None:
            setup.warnings.append("no reward has a weight: there is nothing to learn from")
    if setup.config.env.config.max_turns == 1 and "critic" not in algorithm.roles():
        setup.idle(("algorithm", "gamma_turn"), "env.max_turns is 1, so that no turn follows another")
    if process:
        credit = (
            "each to the actions up to its turn" if algorithm.credits_turns() else "the sum of an episode to all of it"
        )
        setup.notes.append(f"process rewards ({', '.join(one.name for one in process)}): {name} credits {credit}")
    _farming(setup, process)


def check_asked_policy(setup: Setup, algorithm: Algorithm) -> None:
    """Check that the learner and its memory are free when rewards ask it, and that nothing is played after it."""
    training = setup.config.training
    more = training.extra_rollouts and (algorithm.asks_for_more() or algorithm.config.filter == "resample")
    for _, _, reward in setup.listed("rewards"):
        if reward.cls.asks_policy:
            for option, given in (("max_staleness", training.max_staleness), ("extra_rollouts", more)):
                if given:
                    text = f"must be 0: the reward {reward.name} asks the policy when all episodes of a step are played"
                    setup.problems.add(("training", option), text)


def _farming(setup: Setup, process: list[_Process]) -> None:
    """Warn about process rewards that pay more by repetition than the best outcome does."""
    turns, outcome = setup.config.env.config.max_turns, 0.0
    for _, block, reward in setup.listed("rewards"):
        if reward.cls.scope != "turn":
            outcome += max(0.0, *(block.weight * bound for bound in reward.cls.range))
    for one in process:
        most = one.best * turns if one.most is None else min(one.best * turns, one.most)
        if most > outcome > 0:
            setup.warnings.append(
                f"farming: {one.name} may pay up to {one.best:g} in each of {turns} turns, {most:g} in all, and the "
                f"best outcome only {outcome:g}; set its `{one.bound}`, or lower its weight"
            )


def _process_rewards(setup: Setup) -> Iterator[_Process]:
    """The components of the recipe that give process rewards; those of the environment are not known."""
    for _, block, reward in setup.listed("rewards"):
        if reward.cls.scope == "turn" and block.weight:
            caps = [cap * abs(block.weight) for cap in (block.cap, reward.cls.cap) if cap is not None]
            best = max(block.weight * bound for bound in reward.cls.range)
            yield _Process(reward.name, best, min(caps, default=None), "cap")
    for _, block, tool in setup.listed("tools"):
        if tool.cls.reward_range is not None and block.reward_weight:
            cap = None if block.reward_cap is None else block.reward_cap * abs(block.reward_weight)
            best = max(block.reward_weight * bound for bound in tool.cls.reward_range)
            yield _Process(tool.name, best, cap, "reward_cap")
