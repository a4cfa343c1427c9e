"""Says which options went with the component that they were written for, where another one is named in its place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from agent_r1_core.config.components import is_own_value
from agent_r1_core.config.draft import DEFAULT
from agent_r1_core.config.keys import key_text

if TYPE_CHECKING:
    from agent_r1_core.config.draft import Dropped
    from agent_r1_core.config.keys import Key
    from agent_r1_core.config.setup import Setup


def say_dropped(setup: Setup) -> None:
    """Say which options went with a component that somebody replaced."""
    draft = setup.problems.draft
    for block in setup.blocks:
        gone = {key: one for key, one in draft.dropped.items() if key[:-1] == block.key and _is_said(key, one, setup)}
        for old in dict.fromkeys(one.component for one in gone.values()):
            options = ", ".join(
                f"{key_text(key)}={json.dumps(one.value)} ({one.source.text})"
                for key, one in gone.items()
                if one.component == old
            )
            setup.warnings.append(f"{key_text(block.key)} is now {block.name}; of {old} these are dropped: {options}")


def _is_said(key: Key, option: Dropped, setup: Setup) -> bool:
    """Whether a user should know that an option went: nobody has set it anew, and somebody wrote it, or it differs from
    the component's own value (a recipe of the package, and the record of a run, hold defaults too)."""
    if setup.problems.draft.source(key) != DEFAULT:
        return False
    return option.source.user or not is_own_value(setup.registry, key, option.component, option.value)
