"""Row: one request inside the engine, with the ids that the engine really fed to the model for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from agent_r1_core import Generation, Request
from agent_r1_core.contracts.engine import context_digest


@dataclass(eq=False)
class Row:
    """A request that waits or runs."""

    key: int
    """The request's key in the engine's worker."""
    request: Request
    fed: list[int] = field(default_factory=list)
    """Ids that the model has read for this row, in order: the engine's own record, from which `context` is computed."""
    sampled: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[tuple[int, int]] = field(default_factory=list)
    """Runs of ids that older weights sampled: (version, number of ids)."""
    stop_ids: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self.stop_ids = frozenset(self.request.stop_ids)

    @property
    def limit(self) -> int:
        """Most ids that it may sample."""
        return self.request.sampling.max_new_tokens

    @property
    def longest(self) -> int:
        """Most ids that it can have, sampled ones included."""
        return len(self.request.ids) + self.limit

    def unread(self) -> list[int]:
        """Ids that the model must read before it can sample the next one; never empty."""
        return [*self.request.ids, *self.sampled][len(self.fed) :]

    @property
    def next_id(self) -> int:
        """The id to read in the next step."""
        return self.sampled[-1] if self.sampled else self.request.ids[-1]

    def close_run(self, version: int) -> None:
        """Record that weights of `version` sampled the ids since the last change of weights."""
        count = len(self.sampled) - sum(length for _, length in self.versions)
        if count:
            self.versions.append((version, count))

    def generation(self, finish: Literal["stop", "length"], version: int) -> Generation:
        """The result; its context is the digest of what was fed before the first sampled id."""
        context = context_digest(self.fed[: len(self.fed) - len(self.sampled) + 1])
        if self.versions:
            self.close_run(version)
        versions = tuple(self.versions) if len(self.versions) > 1 else ()
        return Generation(tuple(self.sampled), tuple(self.logprobs), finish, context, version, versions)
