"""Task, Turn, Segment, Trajectory, Group: the data that rollouts produce and everything else reads.

Plain Python data without torch. A trajectory holds everything that learning, reports and files need; its ids are never
decoded and encoded again (LAW 1).
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate
from typing import Any, Literal, TypedDict

ROUNDING = 1e-6
"""How far sums of rewards may be apart, relative to the larger of them and of 1, and still be the same: float32 holds
each reward to 6e-8, so that sums of the same ones, or of .1 and .2 in place of .3, differ by some 1e-7."""


ObservationSource = Literal["tools", "file"]
"""What a demonstrated episode reads between its actions: what the tools really answer, or what the demonstration says
that they answered then."""


class Message(TypedDict, total=False):
    """One chat message: `role` (system, user, assistant, tool), `content`, and for a tool its `name`.

    Control tokens count in the parts of the content that are `Markup`; all other text is data.
    """

    role: str
    content: str
    name: str
    tool_calls: Sequence[Any]
    """In demonstrations alone: an assistant's calls, as the OpenAI chat format writes them."""


@dataclass(frozen=True)
class Task:
    """One problem instance: what the agent is asked, and what its rewards need to know."""

    id: str
    """Unique and stable within its source: it seeds the requests (LAW 11)."""
    prompt: str | Sequence[Message]
    """The question as text (it becomes one user message), or ready messages."""
    answers: tuple[str, ...] = ()
    """Accepted answers; empty where the environment alone decides."""
    seed: int | None = None
    """For environments that generate their own start; the task source `seeds` gives such tasks."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Anything that a reward, an environment or a report needs; JSON-able."""
    demonstration: Sequence[Message] = ()
    """What followed the prompt when somebody solved it, in the OpenAI chat format: assistant messages with their
    `tool_calls`, and what was answered. For algorithms that learn from demonstrations; no policy reads it."""


def question(prompt: str | Sequence[Message]) -> str:
    """The text of a task's prompt, or what its user said last."""
    if isinstance(prompt, str):
        return prompt
    return next((str(one.get("content", "")) for one in reversed(prompt) if one.get("role") == "user"), "")


class EndStatus(StrEnum):
    """How an episode ended; three different things (LAW 5)."""

    TERMINATED = "terminated"
    """The episode came to its own end."""
    TRUNCATED = "truncated"
    """A budget or a time limit cut it."""
    FAILED = "failed"
    """Infrastructure broke: retried, then dropped and counted; never trained on."""


@dataclass(frozen=True)
class CallRecord:
    """One tool call of an action, as the environment ran it."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    """What went wrong, as the model read it; None: the call succeeded."""
    seconds: float = 0.0


@dataclass
class Turn:
    """One observation and the action that answers it."""

    index: int
    """0, 1, 2, ... within the trajectory."""
    observation: list[Message]
    """The messages that were new to the policy in this turn."""
    text: str
    """The action's text, decoded for environments and people; the ids are the truth."""
    segment: int
    """Which segment holds the action."""
    start: int
    """The action is `segments[segment].ids[start:stop]`."""
    stop: int
    finish: str = "stop"
    """`stop`: the policy closed its action; `length`: a token budget cut it."""
    reward: float = 0.0
    """Sum of the turn's process rewards (weighted) and the environment's own reward."""
    rewards: dict[str, float] = field(default_factory=dict)
    """Each process reward by name, unweighted; a tool's under the tool's name, the environment's own under `env`."""
    notes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What rewards say of their scores, by reward; an outcome reward's is in the last turn. JSON-able; its numbers
    become metrics, `reward/<name>/<key>`."""
    state_key: str | None = None
    """Names the environment's state before the action, for algorithms that compare states."""
    new_context: bool = False
    """The environment began the conversation anew: the policy saw this turn's observation and nothing before it."""
    versions: tuple[tuple[int, int], ...] = ()
    """Which weights sampled the action: runs of (version, number of ids), in order; empty where it is not known."""
    calls: list[CallRecord] = field(default_factory=list)
    """The tool calls of the action that the environment could read."""
    errors: list[str] = field(default_factory=list)
    """What was wrong with the action itself: one sentence per malformed call, or for an action without meaning."""
    success: bool | None = None
    """Whether the goal is reached, as the environment says; None: it does not say."""
    tool_seconds: float = 0.0
    """Wall time of the turn's tools."""
    info: dict[str, Any] = field(default_factory=dict)
    """Other facts from the environment, JSON-able; its numbers become metrics, `env/<key>`."""
    purpose: str = "action"
    """`action`: the environment answered it; `summary`: the policy summed up its context, which then began anew with
    that summary. No environment and no reward sees a summary, yet it is sampled and trained like any action."""

    @property
    def tokens(self) -> int:
        """Length of the action in tokens."""
        return self.stop - self.start


@dataclass
class Segment:
    """A sequence of ids that the engine really saw and continued."""

    ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    """Action mask: 1 on ids that the policy sampled, 0 on prompt, environment and closing ids."""
    logprobs: list[float] = field(default_factory=list)
    """The engine's log-probabilities (nats) of sampled ids, NaN of demonstrated ones; 0.0 where the mask is 0."""
    prompt_length: int = 0
    """Ids before the first action of the segment."""

    def append_context(self, ids: Sequence[int]) -> None:
        """Append prompt or environment ids (mask 0)."""
        self.ids.extend(ids)
        self.mask.extend([0] * len(ids))
        self.logprobs.extend([0.0] * len(ids))

    def append_action(self, ids: Sequence[int], logprobs: Sequence[float]) -> tuple[int, int]:
        """Append sampled ids with their log-probs (mask 1); returns the span `(start, stop)`."""
        if len(ids) != len(logprobs):
            raise ValueError(f"an action of {len(ids)} ids came with {len(logprobs)} log-probs")
        if not any(self.mask):
            self.prompt_length = len(self.ids)
        start = len(self.ids)
        self.ids.extend(ids)
        self.mask.extend([1] * len(ids))
        self.logprobs.extend(float(value) for value in logprobs)
        return start, len(self.ids)


@dataclass
class Trajectory:
    """The record of an episode."""

    task: Task
    sample: int
    """Which of the group's samples this is, from 0; a greedy baseline comes after the last one."""
    segments: list[Segment] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    status: EndStatus = EndStatus.TERMINATED
    reason: str = ""
    """Why it ended, in a few words: `answer`, `max_turns`, `max_tokens`, `env`, or the failure's sentence."""
    bootstrap: bool = False
    """True when a limit outside the MDP cut it, so that the critic's value continues it (LAW 5)."""
    closing: list[Message] = field(default_factory=list)
    """Messages that followed the last action (an episode may end on a tool's answer); their ids have mask 0. While a
    turn is scored, those that answered it, whether or not the episode goes on."""
    answer: str | None = None
    """The final answer; None: the episode gave none."""
    reward: float = 0.0
    """Weighted sum of the outcome rewards; process rewards are in the turns."""
    rewards: dict[str, float] = field(default_factory=dict)
    """Each outcome reward by name, unweighted."""
    seed: int = 0
    policy_version: int = 0
    """Version of the weights that sampled the first id; the turns have all versions."""
    attempts: int = 1
    """How often the episode was started (failed ones are retried within a bound)."""
    seconds: float = 0.0
    tool_seconds: float = 0.0
    baseline: bool = False
    """The greedy baseline of its group: the others are compared with it, and it is never trained on."""
    demonstrated: ObservationSource | None = None
    """Its actions are those of the task's demonstration: nobody sampled them, so that they have no log-probs and no
    version. It says where the observations came from. None: the policy sampled the actions."""
    examples: int = 0
    """How many examples stood before the task. Their ids are context; no turn's observation has them."""
    player: int = 0
    """Whose part of the episode it is, where the policy plays against itself."""
    branched_from: int | None = None
    """The sample of its group whose first actions it repeats before it goes on by itself; None: it begins anew."""
    repeated_turns: int = 0
    """How many of its turns are those of the sample that it branched off from."""
    hinted: list[int] = field(default_factory=list)
    """The ids before the first action as a teacher reads them who knows a hint; empty: it reads what the policy did."""
    others: tuple[Trajectory, ...] = ()
    """Of player 0 in a finished episode: the parts of the other players, in order."""

    @property
    def id(self) -> str:
        """Unique within one rollout: `task/sample`, or `task/greedy`; of another player than 0 its number follows."""
        sample = "greedy" if self.baseline else self.sample
        return f"{self.task.id}/{sample}" + (f"/player-{self.player}" if self.player else "")

    @property
    def total_reward(self) -> float:
        """The trajectory's return R: outcome plus all process rewards, undiscounted."""
        return self.reward + sum(turn.reward for turn in self.turns)

    @property
    def steps(self) -> list[Turn]:
        """The turns whose actions the environment answered: all but the summaries."""
        return [turn for turn in self.turns if turn.purpose == "action"]

    @property
    def success(self) -> bool | None:
        """What the environment said about its goal in its last step."""
        steps = self.steps
        return steps[-1].success if steps else None

    @property
    def versions(self) -> set[int]:
        """Versions of all weights that sampled its ids, as far as they are known."""
        return set(self.tokens_by_version)

    @property
    def tokens_by_version(self) -> dict[int, int]:
        """Sampled tokens by the version of the weights, as far as it is known."""
        tokens: dict[int, int] = {}
        for turn in self.turns:
            for version, count in turn.versions:
                tokens[version] = tokens.get(version, 0) + count
        return tokens

    @property
    def action_tokens(self) -> int:
        """Tokens that the policy sampled."""
        return sum(sum(segment.mask) for segment in self.segments)

    @property
    def repeated_tokens(self) -> int:
        """Those of its action tokens that were sampled for the episode that it branched off from."""
        return sum(turn.tokens for turn in self.turns[: self.repeated_turns]) if self.repeated_turns else 0

    @property
    def tokens(self) -> int:
        """All tokens of all segments."""
        return sum(len(segment.ids) for segment in self.segments)

    @property
    def starts(self) -> list[int]:
        """Where each segment begins among the ids of all, and where the last one ends."""
        return [0, *accumulate(len(segment.ids) for segment in self.segments)]

    def messages(self) -> list[Message]:
        """Observations and actions in order, summaries and what asked for them included; where a segment begins, the
        policy read what the segment holds, and not all that stands before."""
        out: list[Message] = []
        for turn in self.turns:
            out.extend(turn.observation)
            out.append({"role": "assistant", "content": turn.text})
        return out + self.closing


@dataclass
class Group:
    """The trajectories of one task, and of one player in it, under one policy version (LAW 7): the unit that group
    baselines compare."""

    task: Task
    trajectories: list[Trajectory] = field(default_factory=list)
    baseline: Trajectory | None = None
    """The same task played greedily under the same policy, for algorithms that ask for it; None: there is none, or it
    failed."""
    player: int = 0

    @property
    def returns(self) -> list[float]:
        """The return R of each trajectory that did not fail (LAW 5)."""
        return [one.total_reward for one in self.trajectories if one.status is not EndStatus.FAILED]

    @property
    def std(self) -> float:
        """Standard deviation of the returns, with n - 1; 0 without spread."""
        return statistics.stdev(self.returns) if self.varies else 0.0

    @property
    def versions(self) -> set[int]:
        """Versions of all weights that sampled its trajectories and its baseline; more than one: the group mixes
        policies (LAW 7)."""
        every = [*self.trajectories, *([self.baseline] if self.baseline else [])]
        return {version for trajectory in every for version in trajectory.versions}

    @property
    def varies(self) -> bool:
        """Whether returns differ by more than rounding."""
        returns = self.returns
        if len(returns) < 2:
            return False
        return differ(min(returns), max(returns))


def differ(low: float, high: float) -> bool:
    """Whether two sums of rewards, the smaller one first, are apart by more than rounding; NaN is apart from all."""
    return not high - low <= ROUNDING * max(1.0, abs(low), abs(high))
