"""TaskSource: where the problem instances come from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_r1_core.contracts.component import Component

if TYPE_CHECKING:
    from agent_r1_core.trajectory import Task


@dataclass(frozen=True)
class Passage:
    """One document of a corpus."""

    title: str
    text: str


class TaskSource(Component):
    """A finite, ordered, deterministic collection of tasks; the trainer shuffles, the source never does."""

    def load(self) -> Sequence[Task]:
        """All tasks; the same configuration gives the same tasks in the same order.

        Raises:
            TaskError: a file is missing, malformed or holds no task.
        """
        raise TypeError(f"task source {type(self).__name__} defines no load(); add one")

    def check_data(self) -> None:
        """Raise what `load` would raise, as far as that shows within seconds: read a small file, or the first record
        of a large one, and download nothing. `agent-r1 train --dry-run` calls it.

        Raises:
            TaskError: as `load`.
        """

    def corpus(self) -> Iterable[Passage] | None:
        """Documents that a search tool may index, or None where the source has none."""
        return None
