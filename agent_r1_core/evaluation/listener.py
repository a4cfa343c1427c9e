"""Listener: receives the progress of a run, to show it in a terminal or a notebook."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agent_r1_core.evaluation.report import EvaluationResult
    from agent_r1_core.trajectory import Trajectory


class Listener(Protocol):
    """Receives the events of a run. Its methods must return at once."""

    def begin(self, done: int, steps: int) -> None:
        """Training starts: `steps` in total, of which an earlier attempt completed `done`."""

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        """A step is complete and recorded."""

    def episodes(self, done: int, total: int, of: str) -> None:
        """`done` episodes of the current rollout or evaluation have ended; `of` says which of the two."""

    def evaluation(self, step: int, result: EvaluationResult) -> None:
        """The evaluation of the policy after `step` is complete and recorded."""

    def note(self, text: str) -> None:
        """One sentence that the user should read."""


def episode_counter(listener: Listener, total: int, of: str) -> Callable[[Trajectory], None]:
    """A callback for each episode that ends; it tells the listener how many of `total` have ended."""
    ended = itertools.count(1)
    return lambda _: listener.episodes(next(ended), total, of)


class Silence:
    """A listener that shows nothing."""

    def begin(self, done: int, steps: int) -> None: ...

    def step(self, step: int, metrics: Mapping[str, float]) -> None: ...

    def episodes(self, done: int, total: int, of: str) -> None: ...

    def evaluation(self, step: int, result: EvaluationResult) -> None: ...

    def note(self, text: str) -> None: ...
