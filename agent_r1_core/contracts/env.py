"""ToolEnv: the orchestrator and interpreter. It shows the policy observations, reads its actions, moves the state and
gives process rewards.

One instance serves one episode; instances share nothing. Everything that an environment may use comes in
`EnvServices`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from agent_r1_core.contracts.component import Component, ComponentConfig, DataPath

if TYPE_CHECKING:
    from agent_r1_core.contracts.tool import Tool
    from agent_r1_core.contracts.tool_format import ToolCall, ToolFormat, ToolResult
    from agent_r1_core.trajectory import CallRecord, Message, Task


class EnvConfig(ComponentConfig):
    """Options that every environment has: the run's own budgets, which truncate without a bootstrap (LAW 5)."""

    max_turns: int = Field(default=5, ge=1)
    """Actions an episode may take."""
    max_tokens: int = Field(default=1024, ge=1)
    """Longest context of the policy in tokens: prompt, actions and observations together. Where the environment or a
    chat template rewrites the context, each segment has this budget."""
    timeout: float = Field(default=300.0, gt=0)
    """Seconds for making the environment, and for one reset or step, tool calls included; an episode fails when its
    environment takes longer."""
    examples: DataPath | None = None
    """A file of conversations, as the task source `conversations` reads it, that stand before every task as turns of
    their own, behind the system message. They are context: never credited, and counted by `max_tokens`. One that asks
    the task itself is left out."""
    max_examples: int | None = Field(default=None, ge=1)
    """Most examples before a task, the first of the file; null: all."""


@dataclass(frozen=True)
class RequestOptions:
    """What holds for one action alone, where the environment answers somebody who asks for it."""

    tools: Sequence[dict[str, Any]] = ()
    """Function schemas in place of `ToolEnv.tool_schemas`; other ones than before open a segment."""
    stop_strings: tuple[str, ...] = ()
    """In place of `ToolEnv.stop_strings`."""
    max_new_tokens: int | None = None
    """Most tokens of the action, within those of the run; None: as the run says."""
    number: int | None = None
    """Its place among all that were asked, from which the seed of its action derives; None: how many actions there
    were before. Whoever defines `ToolEnv.ahead` gives it, so that no seed waits for the actions in between."""


@dataclass
class Observation:
    """What the policy sees next: the messages that are new to it. Their text is data, except for `Markup` in it."""

    messages: list[Message] = field(default_factory=list)
    new_context: bool = False
    """The conversation begins anew: from now on the policy sees only these messages (a summary, for example). Earlier
    actions stay in the trajectory, in a segment of their own, and are trained."""
    state_key: str | None = None
    """Names the state that these messages show, for algorithms that compare states."""
    continues: int | None = None
    """The messages follow the action of this turn, and what stands before it; None: the last one. If others followed
    that action already, a segment begins that repeats the ids up to there, with action mask 0."""
    request: RequestOptions | None = None
    """None: as the environment says for all actions. Where it is given, messages come from outside: those that the chat
    template refuses fail the episode, and not the run."""
    player: int = 0
    """Who acts next, where the policy plays several players. Each has a conversation of its own, which the first
    observation of that player begins, and a trajectory of its own; player 0 must act in every episode."""
    frozen: bool = False
    """The frozen model that `ToolEnv.frozen_model` names plays this player, from the first observation on. It always
    samples; its actions leave no trajectory."""


@dataclass(frozen=True)
class Action:
    """What the policy generated in one turn."""

    text: str
    """Decoded, without the end-of-turn token."""
    ids: tuple[int, ...] = ()
    cut: bool = False
    """True when a token budget cut the action before the policy closed it."""
    protected: str = ""
    """The text once more; control tokens that the policy only spelled, in other ids, are cut in two by U+FDD0."""
    repeated: str = ""
    """The content of an assistant's message that repeats the action in another context; the control tokens that the
    policy sampled are its `Markup`, and a thought that the generation prompt opened is part of it."""
    logprobs: tuple[float, ...] = ()
    """Nats, one per id."""
    prompt_tokens: int = 0
    """Ids that the policy read."""
    opened: str = ""
    """The `<think>` that ends the prompt where the template opens a thought, with the white space behind it."""
    abandoned: bool = False
    """Nothing was generated, since `ToolEnv.abandoned` returned."""

    @property
    def whole(self) -> str:
        """The text with the thought that the prompt opened; what is to be read without thoughts is read from here."""
        return self.opened + self.text


@dataclass(frozen=True)
class Outcome:
    """What a step means for a player who did not act in it."""

    reward: float = 0.0
    """Of the environment, on the player's last action."""
    success: bool | None = None
    """As in `Step`."""
    info: dict[str, Any] = field(default_factory=dict)
    """As in `Step`; it joins that of the player's last turn."""


@dataclass
class Step:
    """The environment's answer to an action."""

    observation: Observation = field(default_factory=Observation)
    reward: float = 0.0
    """The environment's own process reward for the turn; at most 1e18 up or down."""
    terminated: bool = False
    """The episode came to its own end."""
    truncated: bool = False
    """A limit outside the MDP cut a continuing environment: the critic's value bootstraps it (LAW 5)."""
    answer: str | None = None
    """The final answer, where the action gave one."""
    success: bool | None = None
    """Whether the goal is reached; None: the environment does not say. The last step's value counts for the episode and
    is reported as `success`; it needs no reward."""
    calls: list[CallRecord] = field(default_factory=list)
    """The tool calls that the action made."""
    errors: list[str] = field(default_factory=list)
    """What was wrong with the action itself, one sentence each; a call that fails has its error in `calls`."""
    tool_seconds: float = 0.0
    """Wall time of the tools."""
    info: dict[str, Any] = field(default_factory=dict)
    """Other facts about the turn, JSON-able; numbers become metrics, `env/<key>` (mean over turns). What JSON lacks is
    kept as its text. Infinity, NaN and an integer that no float holds have no part in a metric."""
    withdrawn: bool = False
    """The turn leaves the trajectory, for nobody read the action, or it is none of the agent's: the observation follows
    what stood before. Reward, success and info are then of the turn before."""
    others: dict[int, Outcome] = field(default_factory=dict)
    """What it means for other players, by their numbers; all else is the acting player's, the observation of a last
    step included. A player who has not acted yet has no action that a reward could reach."""


@dataclass
class EnvServices:
    """What an environment may use."""

    tools: dict[str, Tool] = field(default_factory=dict)
    tool_format: ToolFormat | None = None
    call_tools: Callable[[Sequence[ToolCall]], Awaitable[list[ToolResult]]] | None = None
    """Runs calls concurrently, each under its own time-out; errors come back as results (LAW 9)."""
    rng: random.Random = field(default_factory=random.Random)
    """Seeded by run, task and sample (LAW 11), for random events during the episode. Draw the start of an episode from
    `task.seed` instead: the episodes of a group are compared, so they must face the same problem (LAW 7)."""
    decode: Callable[[Sequence[int]], str] = field(default=lambda ids: "")
    """Text of ids, special tokens included."""


class ToolEnv(Component):
    """One episode's world. Methods may be sync or async.

    It is made in the episode's own thread, where sync methods run; async ones run on the event loop, which they must
    not block. What they return is copied as plain data within their time-out, so that it may change later.
    """

    Config = EnvConfig
    gives_rewards: ClassVar[bool] = True
    """Whether its steps may have a reward of their own. If not, and no process reward comes from elsewhere, options for
    process rewards are refused (LAW 8)."""

    owns_context: ClassVar[bool] = False
    """Whether its observations say themselves what the policy reads, by `continues` and `request`; the recipe's
    `context` must then be `append`."""

    overdue: str = ""
    """What has not happened while `reset` or `step` waits, for the sentence about their time-out: "the server did not
    answer" becomes "the server did not answer within 5 seconds"; empty: the sentence names the method."""

    def __init__(self, config: ComponentConfig | None = None, services: EnvServices | None = None) -> None:
        super().__init__(config)
        self.services = services if services is not None else EnvServices()

    def reset(self, task: Task) -> Observation | Awaitable[Observation]:
        """Begin the episode; the observation's messages open the conversation (system message included).

        It may raise anything: the episode is then `failed`, retried a few times and dropped (LAW 5). ConfigError,
        ModelError and PluginError alone end the run, since no retry helps against a mistake of the recipe.

        Args:
            task: whose prompt and metadata are the episode's own copies, which it may change.
        """
        raise TypeError(f"environment {type(self).__name__} defines no reset(task); add one")

    def step(self, action: Action) -> Step | Awaitable[Step]:
        """Answer an action. Malformed actions are the policy's doing: answer them with an observation."""
        raise TypeError(f"environment {type(self).__name__} defines no step(action); add one")

    async def abandoned(self) -> None:
        """Return once nobody waits for the next action any more: its generation is cancelled, and `step` gets an
        `abandoned` one, which is withdrawn. In deterministic mode this is not asked."""
        await asyncio.Event().wait()

    async def ahead(self) -> Observation:
        """Return an observation, with a request of its own, that will follow whatever the policy does now, once one is
        known; each call the next one. Its action is generated at once, beside the one that is awaited, and taken in its
        turn, when `step` has given that observation. In deterministic mode this is not asked."""
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    def close(self) -> Awaitable[None] | None:
        """Release the episode's resources; called once, even after a `reset` or `step` that raised or was cancelled.

        A `reset` or `step` that exceeded its `timeout` may still be running in another thread.
        """
        return None

    def tool_schemas(self) -> list[dict[str, Any]]:
        """Function schemas for the chat template's `tools`; empty: the template gets none."""
        tool_format = self.services.tool_format
        if tool_format is None or not tool_format.template_tools:
            return []
        return [tool.schema() for tool in self.services.tools.values()]

    def instructions(self) -> str:
        """How to act, for a person who plays in the model's place (`agent-r1 play`); empty: the messages say it."""
        return ""

    def stop_strings(self) -> tuple[str, ...]:
        """Strings that end an action, besides the model's end-of-turn token; asked once, after `reset`."""
        return self.services.tool_format.stop_strings if self.services.tool_format else ()

    @classmethod
    def frozen_model(cls, config: Any) -> str | None:
        """The model that plays the players whose observations are `frozen`: a name as in `model.name`, or `start`, the
        model that the run began with; None: there is no such player."""
        return None

    @classmethod
    def uses_tools(cls) -> bool:
        """Whether this environment uses the recipe's `tools:`; if not, setting them is an error (LAW 8)."""
        return True
