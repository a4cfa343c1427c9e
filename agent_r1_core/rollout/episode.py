"""Episode: one run of a policy in an environment, as a small state machine that a collector drives.

Call `start`, then `request` and `take` in turn until `request` returns None. The trajectory gets the ids as the engine
sampled them. Budgets are enforced here. Any exception means that the episode failed (LAW 5).
"""

from __future__ import annotations

import random
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from agent_r1_core.chat import ChatTokenizer, Conversation, DriftGuard, Sampled
from agent_r1_core.contracts.engine import Generation, Request
from agent_r1_core.contracts.env import Action, EnvServices, Observation, Step
from agent_r1_core.contracts.markup import encodable
from agent_r1_core.errors import EpisodeError, describe_error
from agent_r1_core.rollout.demonstration import BadDemonstration, Demonstration
from agent_r1_core.rollout.episode_context import EpisodeContext
from agent_r1_core.rollout.plan import EpisodePlan
from agent_r1_core.rollout.scoring import Scorer
from agent_r1_core.rollout.settings import RolloutSettings
from agent_r1_core.rollout.world import EpisodeTools, ToolTexts, World
from agent_r1_core.seeds import derive_seed
from agent_r1_core.tools.threads import ThreadPool
from agent_r1_core.trajectory import EndStatus, Message, Task, Trajectory, Turn


class PromptTooLong(EpisodeError):
    """The prompt leaves no room for an action; a retry would not help."""


@dataclass(frozen=True)
class EpisodeServices:
    """What the episodes of one rollout share."""

    settings: RolloutSettings
    tokenizer: ChatTokenizer
    scorer: Scorer
    guard: DriftGuard
    threads: ThreadPool
    tool_texts: ToolTexts
    greedy: bool = False


class Episode:
    """Plays one task once."""

    def __init__(self, shared: EpisodeServices, plan: EpisodePlan, attempt: int = 1) -> None:
        """Prepare an episode; the seeds of its requests and tool calls are derived from the plan's."""
        self.key = f"{plan.key}/{attempt}"
        """The episode's id for engine and tools, unique among those in flight."""
        self.trajectory = Trajectory(
            task=plan.task,
            sample=plan.sample,
            seed=plan.seed,
            attempts=attempt,
            baseline=plan.baseline,
            demonstrated=plan.demonstrated,
        )
        self.error: Exception | None = None
        """Why it failed."""
        self._shared = shared
        self._settings = shared.settings
        self._demonstration: Demonstration | None = None
        self._started = self._ended = False
        self._sampled: list[Sampled] = []
        self._world = World(shared.settings, shared.threads, self.key)
        self._begun = time.perf_counter()
        runner, seen = shared.settings.tools, _without_answers(plan.task)
        self._tools = EpisodeTools(runner, self.key, seen, plan.seed) if runner is not None else None

    async def start(self) -> None:
        """Make the environment and read its first observation.

        Raises:
            PromptTooLong: it leaves no room for an action.
            BadDemonstration: the task's demonstration is to be played, and there is none that can be read.
        """
        settings, task, shown = self._settings, self.trajectory.task, self.trajectory.demonstrated
        if shown is not None:
            self._demonstration = Demonstration(task, shown, self._shared.tokenizer, settings.tool_format)
        services = EnvServices(
            tools=settings.tools.tools if settings.tools is not None else {},
            tool_format=settings.tool_format,
            call_tools=self._demonstration.answer if self._demonstration and shown == "file" else self._tools,
            decode=self._shared.tokenizer.decode,
            rng=random.Random(derive_seed(self.trajectory.seed, "env")),
        )
        await self._shared.threads.wait_for_room()
        world, tokenizer = self._world, self._shared.tokenizer
        schemas, tools_text = await world.make(services, self._shared.tool_texts)
        self._conversation = Conversation(tokenizer, schemas, tools_text)
        self.trajectory.segments = self._conversation.segments
        describe = self._shared.tool_texts.describe
        self._context = EpisodeContext(
            self._conversation, settings.context, world.max_tokens, world.lane, world.call, describe
        )
        observation = await world.reset(task)
        examples = self._add_examples(observation)
        if not await self._context.show(observation):
            more = f" with {examples} examples before it" if examples else ""
            raise PromptTooLong(
                f"the prompt of task {task.id}{more} does not fit into env.max_tokens={world.max_tokens}; raise it"
            )
        self._started = True

    def request(self) -> Request | None:
        """The next request to the engine; None when the episode is over."""
        if self._ended or not self._started:
            return None
        context, sampling = self._conversation.context, self._settings.sampling
        if self._shared.greedy or self.trajectory.baseline:
            sampling = sampling.greedy()
        summary, room = self._context.summary, self._world.max_tokens - len(context)
        stop_strings, asked = self._world.stop_strings if summary is None else (), self._context.shown.request
        if summary is not None:
            sampling = sampling.model_copy(update={"max_new_tokens": summary.max_tokens})
        elif asked is not None:
            room, stop_strings = min(room, asked.max_new_tokens or room), asked.stop_strings
        return Request(
            ids=tuple(context),
            sampling=sampling.within(room),
            seed=derive_seed(self.trajectory.seed, "turn", len(self.trajectory.turns)),
            stop_ids=self._shared.tokenizer.eos_ids,
            stop_strings=stop_strings,
            episode=self.key,
        )

    @property
    def demonstrates(self) -> bool:
        """Whether `imitate` answers its requests, and no engine."""
        return self.trajectory.demonstrated is not None

    async def imitate(self, request: Request) -> None:
        """Take the action that the demonstration shows; a BadDemonstration where it cannot be played."""
        if self._demonstration is None or self._context.summary is not None:
            task = self.trajectory.task.id
            raise BadDemonstration(f"the demonstration of task {task} sums up no context; set context=append")
        await self.take(request, self._demonstration.act(request))

    async def unless_abandoned(self, generating: Coroutine[Any, Any, Generation]) -> Generation | None:
        """The generation; None where the environment calls the request off before, which cancels it."""
        return await self._world.unless_abandoned(generating)

    async def take(self, request: Request, generation: Generation | None) -> None:
        """Record an action, let the environment answer it, and score the turn; at the end, score the episode too.

        A summary is recorded as an action, but no environment answers it, and nothing scores it. None: the environment
        called the request off, and goes on without an action.
        """
        if not self._started:
            raise EpisodeError(f"episode {self.key} got an action before its start; call start() first")
        if generation is None:
            await self._withdraw(await self._world.step(Action("", abandoned=True)))
        else:
            turn = self._record(request, generation)
            if self._context.summary is None:
                await self._step(turn, request, generation)
            elif not await self._context.go_on_from(self._context.summary, turn):
                await self._end(EndStatus.TRUNCATED, "max_tokens", Observation())
        if self._ended:
            if self._demonstration is not None:
                self._demonstration.check_end(self.trajectory)
            self._shared.guard.check_trajectory(self.trajectory, self._sampled)
            await self._shared.scorer.score_episode(self.trajectory)

    @property
    def added(self) -> list[Message]:
        """What the policy reads next that no environment said: examples, the prompt for a summary, or its summary."""
        return self._context.added

    def fail(self, error: Exception) -> None:
        """Mark the episode as failed, with the exception as the reason."""
        self.error = error
        self.trajectory.status = EndStatus.FAILED
        self.trajectory.reason = str(error) if isinstance(error, EpisodeError) else describe_error(error)
        self.trajectory.answer = None
        self._ended = True

    async def close(self) -> None:
        """Record the episode's time, close the environment, and have the tools release the episode."""
        self.trajectory.seconds = time.perf_counter() - self._begun
        try:
            await self._world.close()
        finally:
            if self._tools is not None:
                await self._tools.release()

    def _add_examples(self, first: Observation) -> int:
        """Put the examples of the run before the task; returns how many there are."""
        examples, trajectory = self._settings.examples, self.trajectory
        if examples is not None:
            chosen = examples.before(trajectory.task, first.messages)
            control = self._shared.tokenizer.control
            self._context.examples = examples.messages(chosen, self._settings.tool_format, control)
            trajectory.examples = len(chosen)
        return trajectory.examples

    async def _step(self, turn: Turn, request: Request, generation: Generation) -> None:
        """Let the environment answer an action, score the turn, and go on or end."""
        action = Action(
            turn.text,
            generation.ids,
            cut=generation.finish == "length",
            protected=self._conversation.spoken,
            logprobs=generation.logprobs,
            prompt_tokens=len(request.ids),
        )
        await self._shared.threads.wait_for_room()
        step = await self._world.step(action)
        if self._tools is not None:
            self._tools.end_turn()
        if step.withdrawn:
            self._sampled.pop(), self.trajectory.turns.pop()
            return await self._withdraw(step)
        turn.reward = turn.rewards["env"] = step.reward
        turn.calls, turn.errors, turn.info = step.calls, step.errors, step.info
        turn.success, turn.tool_seconds = step.success, step.tool_seconds
        self.trajectory.answer = step.answer
        self.trajectory.tool_seconds += turn.tool_seconds
        self.trajectory.closing = _recorded(step.observation.messages)
        await self._shared.scorer.score_turn(turn, self.trajectory)
        await self._advance(step)

    async def _withdraw(self, step: Step) -> None:
        """Go on as if the last observation had not been; what else the step says is of the turn before."""
        self._conversation.withdraw()
        self.trajectory.answer = step.answer
        for turn in self.trajectory.turns[-1:]:
            turn.reward, turn.rewards["env"] = turn.reward + step.reward, turn.rewards["env"] + step.reward
            turn.success = turn.success if step.success is None else step.success
            turn.info |= step.info
        await self._advance(step)

    def _record(self, request: Request, generation: Generation) -> Turn:
        trajectory = self.trajectory
        if not generation.ids:
            raise EpisodeError(f"the engine gave no token in episode {self.key}; check its model")
        versions = () if self.demonstrates else self._versions(generation)
        if versions and not trajectory.turns:
            trajectory.policy_version = versions[0][0]
        segment, start, stop, text = self._conversation.act(generation.ids, generation.logprobs)
        self._sampled.append(Sampled(request.ids, generation.ids, generation.context))
        shown = self._context.shown
        turn = Turn(
            index=len(trajectory.turns),
            observation=_recorded(shown.messages),
            text=text,
            segment=segment,
            start=start,
            stop=stop,
            finish=generation.finish,
            state_key=shown.state_key,
            new_context=shown.new_context,
            versions=versions,
            purpose="action" if self._context.summary is None else "summary",
        )
        trajectory.turns.append(turn)
        if self._tools is not None:
            self._tools.begin_turn(turn)
        return turn

    def _versions(self, generation: Generation) -> tuple[tuple[int, int], ...]:
        """Which weights sampled an action."""
        versions = generation.versions or ((generation.version, len(generation.ids)),)
        versioned = sum(count for _, count in versions)
        if versioned != len(generation.ids):
            raise EpisodeError(
                f"the engine gave versions for {versioned} ids to an action of {len(generation.ids)} in episode "
                f"{self.key}; give every id a version"
            )
        return versions

    async def _advance(self, step: Step) -> None:
        """Continue with the new observation, or end: by the environment, by its outer limit, or by a budget."""
        observation = step.observation
        if step.terminated:
            await self._end(EndStatus.TERMINATED, "answer" if step.answer is not None else "env", observation)
        elif step.truncated:
            await self._end(EndStatus.TRUNCATED, "env", observation, bootstrap=True)
        elif len(self.trajectory.steps) >= self._world.max_turns:
            await self._end(EndStatus.TRUNCATED, "max_turns", observation)
        elif await self._context.show(observation):
            self.trajectory.closing = []
        else:
            await self._end(EndStatus.TRUNCATED, "max_tokens", observation)

    async def _end(self, status: EndStatus, reason: str, last: Observation, bootstrap: bool = False) -> None:
        trajectory = self.trajectory
        trajectory.status, trajectory.reason, trajectory.bootstrap = status, reason, bootstrap
        trajectory.closing = _recorded(last.messages)
        if status is EndStatus.TRUNCATED:
            trajectory.answer = None
        if last.messages or bootstrap:
            await self._context.close_with(last, bootstrap)
        self._ended = True


def _recorded(messages: Sequence[Message]) -> list[Message]:
    """The messages as files and trackers can hold them."""
    return [
        cast(Message, {key: encodable(text) if isinstance(text, str) else text for key, text in message.items()})
        for message in messages
    ]


def _without_answers(task: Task) -> Task:
    """The task as tools may see it: without answers, and without what may reveal them (LAW 12)."""
    return replace(task, answers=(), metadata={}, demonstration=())
