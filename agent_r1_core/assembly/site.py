"""Site: where the roles of a run are made and run; in this process, or elsewhere by the room `distributed`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from agent_r1_core.assembly.hardware import Hardware, choose_hardware
from agent_r1_core.assembly.local_roles import local_roles

if TYPE_CHECKING:
    from agent_r1_core.assembly.blueprint import Blueprint
    from agent_r1_core.assembly.roles import LearnerRole, Rollouts
    from agent_r1_core.config import ResolvedConfig


class Site(Protocol):
    """Where the roles of a run are."""

    def hardware(self, resolved: ResolvedConfig, dtype: str, folder: Path) -> Hardware:
        """Device, precision and threads for the model in `folder`.

        Args:
            dtype: `auto`, `float32` or `bfloat16`.

        Raises:
            ConfigError: what the configuration asks for is not there.
        """

    def make_roles(self, blueprint: Blueprint) -> tuple[Rollouts, LearnerRole | None]:
        """Rollouts and learner; None where the blueprint has no learner.

        Raises:
            AgentR1Error: a component cannot be made, or the model cannot be loaded.
        """


class LocalSite:
    """This process."""

    def hardware(self, resolved: ResolvedConfig, dtype: str, folder: Path) -> Hardware:
        """What is fastest on this machine."""
        config = resolved.config
        return choose_hardware(config.model.device, dtype, config.threads, config.deterministic, folder)

    def make_roles(self, blueprint: Blueprint) -> tuple[Rollouts, LearnerRole | None]:
        """Both roles in this process."""
        return local_roles(blueprint)


HERE = LocalSite()
