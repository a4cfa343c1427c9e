"""Site: where the roles of a run are made and run; in this process, or elsewhere by a plugin, as `ray`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from agent_r1_core.assembly.hardware import Hardware, choose_hardware
from agent_r1_core.assembly.local_roles import local_roles

if TYPE_CHECKING:
    from agent_r1_core.assembly.blueprint import Blueprint
    from agent_r1_core.assembly.roles import LearnerRole, Rollouts
    from agent_r1_core.config import ResolvedConfig
    from agent_r1_core.config.models import DistributedConfig


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


class OpenSite(Protocol):
    """Opens a site for as long as a context lasts: the target of a `SiteSpec`."""

    def __call__(
        self, settings: DistributedConfig, note: Callable[[str], None], lost: Callable[[str], None], learning: bool
    ) -> AbstractContextManager[Site]:
        """The site that a recipe's section `distributed` asks for.

        Args:
            note: shows a sentence.
            lost: called in a thread, with one sentence, when the site is gone; then the process ends.
            learning: False: nobody learns.

        Raises:
            ConfigError: the site is not there, or is too small.
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
