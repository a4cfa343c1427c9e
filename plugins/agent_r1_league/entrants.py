"""Who takes part: registered algorithms with their options, each that has a critic with three kinds of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import yaml

from agent_r1_core import Algorithm, AlgorithmConfig
from agent_r1_core.errors import AgentR1Error, ConfigError
from agent_r1_core.plugins import Registry
from agent_r1_league.estimator import CRITICS, Critic, TrueAdvantages

TRUTH = "exact advantages"
"""The row of the truth itself."""


@dataclass(frozen=True)
class Entrant:
    """A row of the league."""

    block: str
    """`NAME`, or `NAME,option=value,...`."""
    critic: Critic | None = None

    @property
    def name(self) -> str:
        return f"{self.block}, {self.critic} critic" if self.critic else self.block

    def algorithm(self, registry: Registry) -> Algorithm:
        """Make its algorithm.

        Raises:
            ConfigError, PluginError: it cannot be made.
        """
        if self.block == TRUTH:
            return TrueAdvantages(AlgorithmConfig())
        name, *options = self.block.split(",")
        pairs = [option.partition("=") for option in options]
        if not all(key and equals for key, equals, _ in pairs):
            raise ConfigError(f"{self.block!r} is no row of the league; write NAME,option=value,...")
        block = {"name": name, **{key: yaml.safe_load(value) for key, _, value in pairs}}
        algorithm: Algorithm = registry.create("algorithm", block)
        return algorithm


def entrants(registry: Registry, rows: Sequence[str]) -> tuple[list[Entrant], dict[str, str]]:
    """The row of the truth, then those that are asked for, or else one of every registered name; and those left out,
    with the reason.

    Raises:
        ConfigError, PluginError: a row that is asked for cannot be made.
    """
    named = dict.fromkeys(one.name for one in registry.components("algorithm") if one.alias_of is None)
    taking_part, left_out = [Entrant(TRUTH)], dict[str, str]()
    for row in rows or named:
        try:
            algorithm = Entrant(row).algorithm(registry)
            other = algorithm.reference_model()
        except AgentR1Error as error:
            if rows:
                raise
            left_out[row] = str(error)
            continue
        strange = algorithm.roles() - {"policy", "critic", "reference"}
        if algorithm.demonstrations() is not None:
            left_out[row] = "it learns from demonstrations, not from what the policy plays"
        elif other is not None:
            left_out[row] = f"it learns from another model, {other}, not from rewards"
        elif algorithm.hint() is not None:
            left_out[row] = "its teacher reads a hint, and the tasks of the league have none"
        elif algorithm.trees():
            left_out[row] = "its episodes branch off from one another, and those of the league do not"
        elif strange:
            left_out[row] = f"it needs a network that the league does not have: {', '.join(sorted(strange))}"
        else:
            critics: tuple[Critic | None, ...] = CRITICS if "critic" in algorithm.roles() else (None,)
            taking_part += [Entrant(row, critic) for critic in critics]
    return taking_part, left_out
