"""TokenNumbers: what an update knows of each token of its trajectories, for files and reports.

The numbers of all trajectories lie end to end in arrays: a controller that passes those of thousands of episodes on
from one process to another handles a few objects, whose bytes Ray neither pickles nor copies when they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class TokenNumbers:
    """Numbers of an update, float32; NaN at tokens of which one is not known."""

    spans: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By the trajectory's id where its numbers begin and end: one for each id of all its segments. Failed trajectories
    have none."""
    advantages: NDArray[Any] | None = None
    """None: there is no trajectory."""
    learner_logprobs: NDArray[Any] | None = None
    """log pi of sampled ids under the learner's weights before the update, nats; None: they are not recorded."""
    values: NDArray[Any] | None = None
    """V of the state before the token; None: there is no critic, or they are not recorded."""

    def of(self, trajectory: str) -> dict[str, NDArray[Any] | None]:
        """The numbers of a trajectory, given its id, by the names of the fields; None where none is known."""
        kinds = {"advantages": self.advantages, "learner_logprobs": self.learner_logprobs, "values": self.values}
        start, stop = self.spans.get(trajectory, (0, 0))
        own = {name: None if numbers is None else numbers[start:stop] for name, numbers in kinds.items()}
        return {name: one if one is not None and (one == one).any() else None for name, one in own.items()}

    def only(self, trajectories: Iterable[str]) -> TokenNumbers:
        """The numbers of these trajectories, given their ids, and of what lies between them."""
        spans = {one: self.spans[one] for one in trajectories if one in self.spans}
        first = min((start for start, _ in spans.values()), default=0)
        last = max((stop for _, stop in spans.values()), default=0)
        arrays = self.advantages, self.learner_logprobs, self.values
        return TokenNumbers(
            {one: (start - first, stop - first) for one, (start, stop) in spans.items()},
            *(None if numbers is None else numbers[first:last] for numbers in arrays),
        )
