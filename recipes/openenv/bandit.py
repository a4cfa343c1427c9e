"""A bandit, as an environment of the package openenv. Pulling the arm that the task names pays 1."""

from __future__ import annotations

import random
from typing import Any

from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from pydantic import Field


class Pull(Action):
    """Pull an arm."""

    arm: str = Field(pattern="^(phoenix|dragon)$", description="phoenix or dragon")


class Seen(Observation):
    said: str = ""


class Bandit(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._state = State(episode_id="", step_count=0)

    def reset(self, seed: int | None = None, episode_id: str | None = None, pays: str = "dragon", **_: Any) -> Seen:
        self._pays = pays
        arms = random.Random(seed).sample(["phoenix", "dragon"], 2)
        return Seen(said=f"Pull {arms[0]} or {arms[1]}.", done=False, reward=0.0)

    def step(self, action: Pull) -> Seen:
        return Seen(said="It is over.", done=True, reward=float(action.arm == self._pays))

    @property
    def state(self) -> State:
        return self._state

    def list_splits(self) -> list[str]:
        return ["train"]

    def list_tasks(self, split: str) -> list[dict[str, str]]:
        return [{"pays": arm} for arm in ("dragon", "phoenix")]

    def num_tasks(self, split: str) -> int:
        return 2


app = create_app(Bandit, Pull, Seen, env_name="bandit", max_concurrent_envs=6)
