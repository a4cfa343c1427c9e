"""Setup: a complete configuration while it is checked, with what the checks say of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent_r1_core.config.draft import DEFAULT
from agent_r1_core.config.keys import Key, key_text

if TYPE_CHECKING:
    from agent_r1_core.config.components import ResolvedBlock
    from agent_r1_core.config.models import RunConfig
    from agent_r1_core.config.problems import Problems
    from agent_r1_core.plugins import Registry


@dataclass
class Setup:
    """A complete configuration to check."""

    config: RunConfig
    blocks: list[ResolvedBlock]
    registry: Registry
    problems: Problems
    training: bool
    """False: for evaluations and rollouts, which allow any sampling."""
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What a dry run says besides the warnings."""
    unavailable: dict[str, str] = field(default_factory=dict)
    """Keys of blocks whose components this machine cannot run, and why."""
    missing: list[str] = field(default_factory=list)
    """What names a file or folder to be read that is not there."""

    def block(self, *key: str | int) -> ResolvedBlock | None:
        """The resolved block at `key`."""
        return next((block for block in self.blocks if block.key == key), None)

    def user_set(self, key: Key) -> bool:
        """Whether somebody wrote this key."""
        return self.problems.draft.source(key).user

    def idle(self, key: Key, why: str) -> None:
        """Report `key` as idle if somebody wrote it: as a problem, unless it was written for a component that went."""
        draft = self.problems.draft
        if self.user_set(key) and draft.kept(key):
            self.warnings.append(f"{key_text(key)} ({draft.source(key).text}) has no effect here: {why}")
            draft.sources[key] = DEFAULT
        elif self.user_set(key):
            self.problems.add(key, f"has no effect here: {why}; remove it")
