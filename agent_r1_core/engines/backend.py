"""EngineBackend: the part of an engine that computes; a ThreadedEngine owns the thread, the queue and the futures."""

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
    """Limits on every request."""

    vocabulary: int
    """Number of ids that the model knows."""
    positions: int | None
    """Longest context in ids, generated ones included; None: no limit."""


class EngineBackend:
    """Generates. Every method but `check` and `counts` runs in one thread, so a backend needs no locks.

    An EngineError raised by `add` or `load_weights` goes to its caller alone. Any other exception stops the engine for
    good, and all waiting and running requests fail with it.
    """

    def open(self, model: EngineModel) -> EngineLimits:
        """Load the model and become ready.

        Raises:
            EngineError: it cannot be served; `close` is then not called.
        """
        raise TypeError(f"{type(self).__name__} defines no open(model); add one")

    def check(self, request: Request) -> None:
        """Refuse a request that is within the limits but can never run here; the caller's thread calls this.

        Raises:
            EngineError: why, and what to change.
        """

    def add(self, key: int, request: Request) -> None:
        """Queue a request under a unique key; its budget fits within the positions.

        Raises:
            EngineError: the request cannot be served; the others continue.
        """
        raise TypeError(f"{type(self).__name__} defines no add(key, request); add one")

    def step(self) -> Iterable[tuple[int, Generation | EngineError]]:
        """Compute one step; called as long as some requests have neither ended nor been aborted.

        Returns:
            The requests that ended, by key, each with its result or its error. A result whose log-probs are not all
            finite reaches its caller as an error.
        """
        raise TypeError(f"{type(self).__name__} defines no step(); add one")

    def abort(self, key: int) -> None:
        """Drop a request that was added and has not ended: its caller was cancelled."""
        raise TypeError(f"{type(self).__name__} defines no abort(key); add one")

    def load_weights(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Serve these weights from the next step on, as in `Engine.load_weights`: copy all of them or none.

        Raises:
            EngineError: they do not fit the model; the engine keeps the old ones.
        """
        raise TypeError(f"{type(self).__name__} defines no load_weights(weights, version); add one")

    def release(self, episode: str) -> None:
        """The episode is over: drop what is kept for it."""

    def sleep(self) -> None:
        """No steps until the next `load_weights`: free memory for the learner."""

    def counts(self) -> dict[str, int]:
        """Statistics since the start, for logs; any thread may call it."""
        return {}

    def close(self) -> None:
        """Release everything; drop running requests."""
