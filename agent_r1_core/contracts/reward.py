"""RewardFn: scores a turn (process), an episode (outcome), or the episodes of a group against each other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self

from agent_r1_core.contracts.component import Component

if TYPE_CHECKING:
    from agent_r1_core.contracts.engine import Sampling
    from agent_r1_core.trajectory import Message, Trajectory, Turn

SCORE_TIMEOUT = 60.0
"""Seconds for one score, unless the recipe sets another time-out."""
LARGEST = 1e18
"""No reward may be larger: its square must still be a number in float32."""
_SLACK = 1e-6
"""By how much a reward may exceed its range, for rounding."""


class NotedScore(float):
    """A score with what its reward says of it, such as the reply of a judge.

    A run keeps the note with the episode, and the viewer shows it beside the reward. It is JSON-able; its numbers
    become metrics, `reward/<name>/<key>`, which the reward declares in its `metrics` as `<key>`.
    """

    note: dict[str, Any]

    def __new__(cls, score: float, **note: Any) -> Self:
        noted = super().__new__(cls, score)
        noted.note = note
        return noted


@dataclass(frozen=True)
class Reply:
    """What a frozen model of the run says to a reward that asks it."""

    text: str
    prompt_tokens: int
    completion_tokens: int


class Ask(Protocol):
    """Asks a frozen model of the run."""

    def __call__(self, messages: Sequence[Message], sampling: Sampling, begin: str = "") -> Awaitable[Reply]:
        """What it says; `begin` is put into its mouth, and is part of the reply. EngineError: it cannot answer."""


@dataclass(frozen=True)
class SamplingPolicy:
    """The policy that sampled a group, as a reward may ask it."""

    score: Callable[[Sequence[tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]]], Awaitable[list[Any]]]
    """log p(action | prompt), nats, of each family of prompts and actions, both as ids: [families][actions][prompts].
    """
    decode: Callable[[Sequence[int]], str]
    """The text of ids."""


class RewardFn(Component):
    """Scores a turn, an episode or a group; sync or async.

    Class attributes say what it scores and how high:

    - `scope`: `"episode"` (the default) calls `score(trajectory)` once an episode has ended, an outcome reward;
      `"turn"` calls `score_turn(turn, trajectory)` after every turn, a process reward; `"group"` calls
      `score_group(trajectories)` once all episodes of a task have ended, in training alone.
    - `range`: the lowest and the highest score, (0.0, 1.0) where the class does not say otherwise.

    A process reward may have a third, `cap`: the most that its scores may add up to in an episode, up or down. Later
    turns then get what is left. A recipe may set a lower one.

    With `asks_policy` a reward of groups may ask the learner how likely the policy finds actions. Rollouts then neither
    run ahead of the learner nor ask for more tasks, and the engine rests meanwhile.

    A score is a real number or a bool, at most 1e18 up or down; a `NotedScore` says more. Anything else, a value
    outside `range`, NaN or an exception fails the episode, or the group (LAW 5): a broken reward is never trained on as
    a zero. The recipe's `weight` multiplies the score; the unweighted score is logged under the component's name.
    """

    scope: ClassVar[Literal["episode", "turn", "group"]] = "episode"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    cap: ClassVar[float | None] = None
    asks_policy: ClassVar[bool] = False

    @classmethod
    def frozen_model(cls, config: Any) -> str | None:
        """The model that scores of a turn or an episode ask and that never learns: a name as in `model.name`, or
        `start`, the model that the run began with; None: there is none."""
        return None

    def connect_policy(self, policy: SamplingPolicy) -> None:
        """Keep `policy`; it comes before the first score, where `asks_policy` is set."""
        raise TypeError(f"reward {type(self).__name__} asks the policy and defines no connect_policy; add one")

    def connect(self, ask: Ask) -> None:
        """Keep `ask`, which asks the frozen model; it comes before the first score of a run or an evaluation."""
        raise TypeError(f"reward {type(self).__name__} names a frozen_model and defines no connect(ask); add one")

    def score(self, trajectory: Trajectory) -> float | Awaitable[float]:
        """Outcome reward of a finished episode, including one that ran out of budget (its `answer` is then None)."""
        raise TypeError(f"reward {type(self).__name__} has scope 'episode' and defines no score(trajectory); add one")

    def score_turn(self, turn: Turn, trajectory: Trajectory) -> float | Awaitable[float]:
        """Process reward of `turn`, the last of the trajectory so far.

        `trajectory.closing` holds the messages that answered the turn's action, such as the results of its calls.
        """
        raise TypeError(f"reward {type(self).__name__} has scope 'turn' and defines no score_turn; add one")

    def score_group(self, trajectories: Sequence[Trajectory]) -> Sequence[float] | Awaitable[Sequence[float]]:
        """Outcome rewards of finished episodes of one task, one for each, in their order: those that did not fail, with
        the greedy baseline where there is one (LAW 7)."""
        raise TypeError(f"reward {type(self).__name__} has scope 'group' and defines no score_group; add one")


def allowed(bounds: tuple[float, float]) -> tuple[float, float]:
    """The declared range of a reward, as far as a reward may reach at all."""
    return max(bounds[0], -LARGEST), min(bounds[1], LARGEST)


def in_range(reward: float, bounds: tuple[float, float]) -> bool:
    """Whether a reward is, but for rounding, within its declared range."""
    low, high = allowed(bounds)
    return low - _SLACK <= reward <= high + _SLACK


def reward_problem(reward: float, bounds: tuple[float, float] | None) -> str | None:
    """What is wrong with the reward of a tool's call, to follow the tool's name; None if nothing is."""
    if bounds is None:
        return f"gave a reward of {reward:g} but declares no reward_range; declare one" if reward != 0 else None
    if in_range(reward, bounds):
        return None
    low, high = allowed(bounds)
    return f"gave a reward of {reward:g}, outside its reward_range {low:g} to {high:g}; fix one of them"
