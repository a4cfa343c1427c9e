"""Episode: one run of a policy in an environment, as a small state machine that a collector drives.

Call `start`, then `request` and `take` in turn until `request` returns None. The trajectory gets the ids as the engine
sampled them; where the policy plays several players, each has a trajectory. Budgets are enforced here. Any exception
means that the episode failed (LAW 5).
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from agent_r1_core.chat import ChatTokenizer, Conversation, DriftGuard
from agent_r1_core.contracts.context import SummaryRequest
from agent_r1_core.contracts.engine import Generation, Request, context_digest
from agent_r1_core.contracts.env import Action, EnvServices, Observation, Outcome, RequestOptions, Step
from agent_r1_core.errors import EpisodeError, describe_error
from agent_r1_core.rollout.demonstration import BadDemonstration, Demonstration
from agent_r1_core.rollout.episode_context import EpisodeContext
from agent_r1_core.rollout.plan import EpisodePlan
from agent_r1_core.rollout.player import Player
from agent_r1_core.rollout.scoring import Scorer
from agent_r1_core.rollout.settings import RolloutSettings
from agent_r1_core.rollout.world import Described, EpisodeTools, ToolTexts, World, recorded
from agent_r1_core.seeds import derive_seed
from agent_r1_core.tools.threads import ThreadPool
from agent_r1_core.trajectory import EndStatus, Message, Trajectory, Turn


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

    @classmethod
    def of(cls, settings: RolloutSettings, tokenizer: ChatTokenizer, threads: ThreadPool) -> EpisodeServices:
        """What the settings ask for; raises as `Scorer`."""
        scorer = Scorer(settings.rewards, threads, settings.rewarding_tools())
        guard, texts = DriftGuard(settings.model, tokenizer), ToolTexts(tokenizer, settings.tool_format)
        return cls(settings, tokenizer, scorer, guard, threads, texts)


class PromptTooLong(EpisodeError):
    """The prompt leaves no room for an action; a retry would not help."""


class Episode:
    """Plays one task once."""

    def __init__(self, shared: EpisodeServices, plan: EpisodePlan, attempt: int = 1) -> None:
        """Prepare an episode; the seeds of its requests and tool calls are derived from the plan's."""
        self.key = f"{plan.key}/{attempt}"
        """The episode's id for engine and tools, unique among those in flight."""
        self._plan, self._attempt = plan, attempt
        self.trajectory = self._new_trajectory()
        self.error: Exception | None = None
        """Why it failed."""
        self._shared = shared
        self._settings = shared.settings
        self._demonstration: Demonstration | None = None
        self._started = self._ended = False
        self._players: dict[int, Player] = {}
        self._described: Described = [], ""
        self.turn: Turn
        """The last action, whoever took it."""
        self.observation = Observation()
        """What the environment showed last."""
        self.world = World(shared.settings, shared.threads, self.key)
        self._begun = time.perf_counter()
        self._tools = EpisodeTools(shared.settings.tools, self.key, plan.task, plan.seed)

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
            tools=settings.tools.tools,
            tool_format=settings.tool_format,
            call_tools=self._demonstration.answer if self._demonstration and shown == "file" else self._tools,
            decode=self._shared.tokenizer.decode,
            rng=random.Random(derive_seed(self.trajectory.seed, "env")),
        )
        await self._shared.threads.wait_for_room()
        world = self.world
        self._described = await world.make(services, self._shared.tool_texts)
        self.observation = await world.reset(task)
        if not await self._show(self.observation):
            examples, request = self._player.trajectory.examples, self.observation.request
            more = f" with {examples} examples before it" if examples else ""
            what = f"the prompt of task {task.id}{more}" if request is None else "the program's first request"
            raise PromptTooLong(
                f"{what} has {await self._player.context.length(self.observation)} tokens, which do not fit into "
                f"env.max_tokens={world.max_tokens}; raise it"
            )
        self._started = True

    def request(self) -> Request | None:
        """The next request to the engine; None when the episode is over."""
        if self._ended or not self._started:
            return None
        context = self._player.context
        return self._asking(self._player.conversation.context, context.shown.request, context.summary)

    async def request_ahead(self, announced: Observation) -> Request | None:
        """The request that an announced observation will become; None where that is not known."""
        if announced.player not in self._players or self._players[announced.player] is not self._player:
            return None
        context = await self._player.context.preview(announced)
        return None if context is None else self._asking(context, announced.request)

    def _asking(
        self, context: Sequence[int], asked: RequestOptions | None, summary: SummaryRequest | None = None
    ) -> Request:
        player, sampling = self._player, self._settings.sampling
        if (self._shared.greedy or self.trajectory.baseline) and not player.frozen:
            sampling = sampling.greedy()
        own, repeated = self._plan.sampling_seed, self._repeats
        seed = self.trajectory.seed if own is None or repeated else own
        room, number = self.world.max_tokens - len(context), sum(len(one.sampled) for one in self._players.values())
        stop_strings = self.world.stop_strings if summary is None else ()
        if summary is not None:
            sampling = sampling.model_copy(update={"max_new_tokens": summary.max_tokens})
        elif asked is not None:
            room, stop_strings = min(room, asked.max_new_tokens or room), asked.stop_strings
            number = number if asked.number is None else asked.number
        return Request(
            ids=tuple(context),
            sampling=sampling.within(room),
            seed=derive_seed(seed, "turn", number),
            stop_ids=self._shared.tokenizer.eos_ids,
            stop_strings=stop_strings,
            episode=player.key,
        )

    @property
    def keys(self) -> list[str]:
        """Those of its requests: an engine knows each player as an episode of its own."""
        return [player.key for player in self._players.values()]

    @property
    def frozen(self) -> bool:
        """Whether the frozen model answers its request, and not the policy."""
        return self._player.frozen

    @property
    def scripted(self) -> bool:
        """Whether `follow_script` answers its request, and no engine."""
        return self.trajectory.demonstrated is not None or (self._repeats and not self.frozen)

    async def follow_script(self, request: Request) -> None:
        """Take the action that the demonstration shows, or the episode that it branches off from.

        Raises:
            BadDemonstration: the demonstration cannot be played.
            EpisodeError: the policy reads something else than in that episode.
        """
        if self._repeats:
            said = self._plan.script[len(self.trajectory.turns)]
            if context_digest(request.ids) != said.context:
                raise EpisodeError(
                    f"turn {len(self.trajectory.turns)} of task {self.trajectory.task.id} began otherwise when it was "
                    "repeated, so that nothing can branch off behind it; set algorithm.trees=0, or let environment and "
                    "tools answer the same actions alike"
                )
            return await self.take(request, said)
        if self._demonstration is None or self._player.context.summary is not None:
            task = self.trajectory.task.id
            raise BadDemonstration(f"the demonstration of task {task} sums up no context; set context=append")
        await self.take(request, self._demonstration.act(request))

    @property
    def _repeats(self) -> bool:
        """Whether the next action is one that is repeated."""
        return len(self.trajectory.turns) < len(self._plan.script)

    async def take(self, request: Request, generation: Generation | None) -> None:
        """Record an action, let the environment answer it, and score the turn; at the end, score the episode too.

        A summary is recorded as an action, but no environment answers it, and nothing scores it. None: the environment
        called the request off, and goes on without an action.
        """
        if not self._started:
            raise EpisodeError(f"episode {self.key} got an action before its start; call start() first")
        if generation is None:
            await self._withdraw(await self.world.step(Action("", abandoned=True)))
        else:
            context = self._player.context
            self.turn = turn = self._player.record(request, generation)
            self._tools.begin_turn(turn)
            if context.summary is None:
                await self._step(turn, request, generation)
            elif not await context.go_on_from(context.summary, turn):
                await self._end(EndStatus.TRUNCATED, "max_tokens", Observation())
        if self._ended:
            if self._demonstration is not None:
                self._demonstration.check_end(self.trajectory)
            await self._score()

    @property
    def added(self) -> list[Message]:
        """What the policy reads next that no environment said: examples, the prompt for a summary, or its summary."""
        return self._player.context.added

    def fail(self, error: Exception) -> None:
        """Mark the episode as failed, with the exception as the reason."""
        self.error = error
        self.trajectory.status = EndStatus.FAILED
        self.trajectory.reason = str(error) if isinstance(error, EpisodeError) else describe_error(error)
        self.trajectory.answer = None
        self._ended = True

    async def close(self) -> None:
        """Record the episode's time, close the environment, and have the tools release the episode."""
        for trajectory in (self.trajectory, *self.trajectory.others):
            trajectory.seconds = time.perf_counter() - self._begun
        try:
            await self.world.close()
        finally:
            await self._tools.release()

    def _new_trajectory(self, player: int = 0) -> Trajectory:
        plan = self._plan
        return Trajectory(
            task=plan.task,
            sample=plan.sample,
            seed=plan.seed,
            attempts=self._attempt,
            baseline=plan.baseline,
            demonstrated=plan.demonstrated,
            player=player,
            branched_from=plan.branched_from,
            repeated_turns=len(plan.script),
        )

    async def _show(self, observation: Observation) -> bool:
        """Show an observation to its player, who acts next; False where it does not fit."""
        number = observation.player
        self._player = self._players.get(number) or self._join(observation)
        self._players[number] = player = self._player
        if self._plan.hint is not None and not player.trajectory.turns and not player.frozen:
            told = Conversation(self._shared.tokenizer, *self._described)
            player.trajectory.hinted = await player.context.hinted(told, observation, self._plan.hint)
        return await player.context.show(observation)

    def _join(self, first: Observation) -> Player:
        """A player who has not read anything yet; the examples of the run stand before the task."""
        number, settings = first.player, self._settings
        trajectory = self._new_trajectory(number) if number else self.trajectory
        conversation = Conversation(self._shared.tokenizer, *self._described)
        trajectory.segments = conversation.segments
        context = EpisodeContext(conversation, settings.context, self.world, self._shared.tool_texts)
        examples = settings.examples
        if examples is not None:
            chosen = examples.before(trajectory.task, first.messages)
            context.examples = examples.messages(chosen, settings.tool_format, self._shared.tokenizer.control)
            trajectory.examples = len(chosen)
        key = f"{self._plan.key}/player-{number}/{self._attempt}" if number else self.key
        return Player(key, trajectory, conversation, context, first.frozen)

    async def _score(self) -> None:
        """Check and score what each player did, the frozen ones left out."""
        played = sorted((number, one) for number, one in self._players.items() if one.sampled and not one.frozen)
        if not played or played[0][0] != 0:
            raise EpisodeError(f"episode {self.key} ended before player 0 acted; there is nothing to learn from")
        for _, player in played:
            self._shared.guard.check_trajectory(player.trajectory, player.sampled)
            first, hinted = player.trajectory.segments[0], player.trajectory.hinted
            if len(hinted) + len(first.ids) - first.prompt_length > self.world.max_tokens:
                player.trajectory.hinted = []
            await self._shared.scorer.score_episode(player.trajectory)
        self.trajectory.others = tuple(player.trajectory for _, player in played[1:])

    async def _step(self, turn: Turn, request: Request, generation: Generation) -> None:
        """Let the environment answer an action, score the turn, and go on or end."""
        action = Action(
            turn.text,
            generation.ids,
            cut=generation.finish == "length",
            protected=self._player.conversation.spoken,
            repeated=self._player.conversation.repeated,
            opened=self._player.conversation.opened,
            logprobs=generation.logprobs,
            prompt_tokens=len(request.ids),
        )
        await self._shared.threads.wait_for_room()
        step = await self.world.step(action)
        self._tools.end_turn()
        if step.withdrawn:
            self._player.sampled.pop(), self._player.trajectory.turns.pop()
            return await self._withdraw(step)
        if (acted := self.observation.player) in step.others:
            name = type(self.world.env).__name__
            raise EpisodeError(
                f"{name}.step() gave player {acted}, who acted, in others, too; its reward is the step's"
            )
        trajectory = self._player.trajectory
        turn.reward = turn.rewards["env"] = step.reward
        turn.calls, turn.errors, turn.info = step.calls, step.errors, step.info
        turn.success, turn.tool_seconds = step.success, step.tool_seconds
        trajectory.answer = step.answer
        trajectory.tool_seconds += turn.tool_seconds
        trajectory.closing = recorded(step.observation.messages)
        if not self._player.frozen:
            await self._shared.scorer.score_turn(turn, trajectory)
        await self._advance(step)

    async def _withdraw(self, step: Step) -> None:
        """Go on as if the last observation had not been; what else the step says is of the turn before."""
        self._player.conversation.withdraw()
        self._player.trajectory.answer = step.answer
        self._player.credit(Outcome(step.reward, step.success, step.info))
        await self._advance(step)

    async def _advance(self, step: Step) -> None:
        """Continue with the new observation, or end: by the environment, by its outer limit, or by a budget."""
        self.observation = observation = step.observation
        for number, outcome in step.others.items():
            if number in self._players:
                self._players[number].credit(outcome)
        self._player.trajectory.closing = []
        turns = self._players[observation.player].trajectory.steps if observation.player in self._players else []
        if step.terminated:
            await self._end(EndStatus.TERMINATED, "answer" if step.answer is not None else "env", observation)
        elif step.truncated:
            await self._end(EndStatus.TRUNCATED, "env", observation, bootstrap=True)
        elif len(turns) >= self.world.max_turns:
            self._player = self._players[observation.player]
            await self._end(EndStatus.TRUNCATED, "max_turns", observation)
        elif not await self._show(observation):
            await self._end(EndStatus.TRUNCATED, "max_tokens", observation)

    async def _end(self, status: EndStatus, reason: str, last: Observation, bootstrap: bool = False) -> None:
        """End for all; `last` is what the player reads who acted, or who would act next."""
        for player in self._players.values():
            await player.end(status, reason, bootstrap, last if player is self._player else None)
        self._ended = True
