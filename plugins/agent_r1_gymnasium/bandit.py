"""The environment `bandit`: RAGEN's two-armed bandit (arXiv 2504.20073), whose arms have symbolic names.

One arm pays little and surely, the other much and rarely, and more on average. The names suggest the risk, and say
nothing of the pay: `phoenix` is safe and `dragon` is risky unless `reverse` exchanges them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from pydantic import Field, model_validator

from agent_r1_core import ComponentConfig, EnvServices
from agent_r1_gymnasium.world import Outcome, World, WorldConfig

ARMS = ("phoenix", "dragon")
SAFE, RISKY = 0, 1


class BanditConfig(WorldConfig):
    """Options of `bandit`."""

    safe_pay: float = 0.1
    """What the safe arm pays every time."""
    risky_pay: float = 1.0
    """What the risky arm pays when it pays; else it pays 0."""
    risky_chance: float = Field(0.25, gt=0, le=1)
    """How often the risky arm pays."""
    pulls: int = Field(1, ge=1)
    """Pulls of an episode."""
    reverse: bool = False
    """Make `dragon` the safe arm."""

    @model_validator(mode="after")
    def _one_is_better(self) -> BanditConfig:
        if self.safe_pay == self.risky_pay * self.risky_chance:
            raise ValueError("pays the same with both arms on average; change safe_pay, risky_pay or risky_chance")
        return self


class Bandit(World):
    """Pull an arm; a success is an episode whose last pull was of the arm that pays more on average."""

    Config = BanditConfig

    def __init__(self, config: ComponentConfig | None = None, services: EnvServices | None = None) -> None:
        super().__init__(config, services)
        self._said = ""
        self._pulls = 0

    def begin(self, seed: int) -> None:
        """Draw the order in which the arms are named."""
        first, second = random.Random(seed).sample(ARMS, 2)
        self._said, self._pulls = f"Pull {first} or {second}.", 0
        self._outcome = Outcome(success=False)

    def move(self, action: int) -> Outcome:
        """Pull an arm; chance is the episode's own."""
        config = self.config
        lucky = self.services.rng.random() < config.risky_chance
        pay = config.safe_pay if action == SAFE else config.risky_pay * lucky
        self._pulls += 1
        better = RISKY if config.risky_pay * config.risky_chance > config.safe_pay else SAFE
        self._said = f"It pays {pay:g}. Pull again."
        return Outcome(pay, terminated=self._pulls >= config.pulls, success=action == better)

    def show(self) -> str:
        """The arms at first, then what the last pull paid."""
        return self._said

    def actions(self) -> Mapping[str, int]:
        return dict(zip(ARMS, (RISKY, SAFE) if self.config.reverse else (SAFE, RISKY), strict=True))
