"""Row: one request on its way through the engine, and what the engine really fed to the model for it."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Literal

from agent_r1_core import Generation, Request
from agent_r1_core.contracts.engine import context_digest
from agent_r1_core.errors import EngineError


@dataclass(eq=False)
class Row:
    """A request that waits or runs."""

    request: Request
    future: Future[Generation]
    limit: int
    """Tokens that it may sample: its own budget, or what the model's positions leave."""
    fed: list[int] = field(default_factory=list)
    """Ids that the model has read for this row, in order: the engine's own record, which `context` is made of."""
    sampled: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    stop_ids: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self.stop_ids = frozenset(self.request.stop_ids)

    @property
    def longest(self) -> int:
        """Ids that it has at most, sampled ones included."""
        return len(self.request.ids) + self.limit

    def unread(self) -> list[int]:
        """Ids that the model has to read before the next one can be sampled; never empty."""
        return [*self.request.ids, *self.sampled][len(self.fed) :]

    @property
    def next_id(self) -> int:
        """The id to read in the next step."""
        return self.sampled[-1] if self.sampled else self.request.ids[-1]

    def succeed(self, finish: Literal["stop", "length"], version: int) -> None:
        """Hand the result over; its context is the digest of what was fed before the first sampled id."""
        context = context_digest(self.fed[: len(self.fed) - len(self.sampled) + 1])
        if self.future.set_running_or_notify_cancel():
            self.future.set_result(
                Generation(tuple(self.sampled), tuple(self.logprobs), finish, context, version),
            )

    def fail(self, error: EngineError) -> None:
        """Hand an error over."""
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)
