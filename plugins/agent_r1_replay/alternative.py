"""Derives another update from recorded episodes, and compares it with the run's own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from agent_r1_core.assembly.components import make_rewards
from agent_r1_core.work.running import run_async
from agent_r1_replay.deriving import cosine
from agent_r1_replay.differences import AdvantageDifferences, metric_differences, number_differences
from agent_r1_replay.rescoring import rescored

if TYPE_CHECKING:
    from agent_r1_core.assembly.task_sets import Note
    from agent_r1_core.contracts.token_numbers import TokenNumbers
    from agent_r1_core.trajectory import Trajectory
    from agent_r1_replay.opened import OpenedRun
    from agent_r1_replay.recorded import Numbers


@dataclass(frozen=True)
class Alternative:
    """Two updates from the same episodes."""

    step: int
    trajectories: list[Trajectory]
    recorded: list[Numbers]
    """What the run's update knew of the tokens, by trajectory."""
    derived: list[Numbers]
    known: TokenNumbers
    """Those, as a file takes them."""
    advantages: AdvantageDifferences
    returns: tuple[float, float]
    """Mean return of the sampled episodes, with the run's rewards and with the others."""
    metrics: dict[str, tuple[float, float]]
    """Those of the update that differ."""
    cosine: float | None
    """Of the angle between the gradients; None where one is zero."""

    @property
    def degrees(self) -> float | None:
        return None if self.cosine is None else math.degrees(math.acos(self.cosine))

    def to_json(self) -> dict[str, Any]:
        tokens = [
            {"row": row, "id": one.id, "recorded": then["advantages"], "derived": now["advantages"]}
            for row, (one, then, now) in enumerate(zip(self.trajectories, self.recorded, self.derived, strict=True))
        ]
        return {
            "step": self.step,
            "advantages": asdict(self.advantages) | {"tokens_of": tokens},
            "return": self.returns,
            "metrics": self.metrics,
            "gradients": {"cosine": self.cosine, "degrees": self.degrees},
        }


def derive_otherwise(opened: OpenedRun, steps: Iterable[int], note: Note) -> Iterator[Alternative]:
    """Derive the updates of steps as the run did and as the changed configuration does; both learners go on from one
    step to the next.

    Raises:
        AgentR1Error: nothing can be derived.
    """
    own, other = (opened.deriver(one, note) for one in (opened.own, opened.changed))
    rescores = opened.changed.config.rewards != opened.own.config.rewards
    names = [one.reward.name for one in make_rewards(opened.own)] if rescores else []
    for step in steps:
        recorded = opened.record(step)
        then = now = recorded.trajectories
        if rescores:
            now = run_async(rescored(then, opened.changed, names, other.policy))
        first, second = own.derive(then, step), other.derive(now, step)
        for text in number_differences(recorded.numbers, first.numbers):
            note(f"derived as the run did, step {step} has other {text}")
        yield Alternative(
            step,
            now,
            first.numbers,
            second.numbers,
            second.known,
            AdvantageDifferences.of(now, first.numbers, second.numbers),
            (_mean_return(then), _mean_return(now)),
            metric_differences(first.metrics, second.metrics),
            cosine(first.gradient, second.gradient),
        )


def _mean_return(trajectories: list[Trajectory]) -> float:
    returns = [one.total_reward for one in trajectories if not one.baseline]
    return sum(returns) / len(returns) if returns else math.nan
