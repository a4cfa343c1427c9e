"""EngineBackend: what an engine does itself; a ThreadedEngine owns the thread, the queue and the futures around it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from agent_r1_core.contracts.engine import EngineModel, Generation, Request
    from agent_r1_core.errors import EngineError


@dataclass(frozen=True)
class EngineLimits:
    """What a request must keep to."""

    vocabulary: int
    """Ids of the model."""
    positions: int | None
    """Ids that a context may have in all, the generated ones included; None: no bound."""


class EngineBackend:
    """Generates. Every method but `check` and `counts` runs in one thread, so that a backend needs no locks.

    An EngineError of `add` or `load_weights` goes to its caller alone. Any other exception stops the engine for good:
    everything that waits or runs fails with it.
    """

    def open(self, model: EngineModel) -> EngineLimits:
        """Load the model and become ready.

        Raises:
            EngineError: it cannot be served; `close` is not called then.
        """
        raise TypeError(f"{type(self).__name__} defines no open(model); add one")

    def check(self, request: Request) -> None:
        """Refuse a request that keeps to the limits but can never run here; the caller's thread calls it.

        Raises:
            EngineError: why, and what to change.
        """

    def add(self, key: int, request: Request) -> None:
        """Queue a request, whose budget is within the positions, under a key that no other has.

        Raises:
            EngineError: the request cannot be served; the others go on.
        """
        raise TypeError(f"{type(self).__name__} defines no add(key, request); add one")

    def step(self) -> Iterable[tuple[int, Generation | EngineError]]:
        """Compute one step; called while added requests have neither ended nor been aborted.

        Returns:
            The requests that ended, by key, each with its result or the reason why it has none.
        """
        raise TypeError(f"{type(self).__name__} defines no step(); add one")

    def abort(self, key: int) -> None:
        """Drop a request that was added and has not ended: its caller was cancelled."""
        raise TypeError(f"{type(self).__name__} defines no abort(key); add one")

    def load_weights(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Serve these weights from the next step on, as `Engine.load_weights` says: a copy, all of it or nothing.

        Raises:
            EngineError: they do not fit the model, which keeps its own.
        """
        raise TypeError(f"{type(self).__name__} defines no load_weights(weights, version); add one")

    def release(self, episode: str) -> None:
        """The episode is over: drop what is kept for it."""

    def sleep(self) -> None:
        """No step comes before the next `load_weights`: free memory for the learner."""

    def counts(self) -> dict[str, int]:
        """Statistics since the start, for logs; any thread may call it."""
        return {}

    def close(self) -> None:
        """Release everything; requests that run are dropped."""
