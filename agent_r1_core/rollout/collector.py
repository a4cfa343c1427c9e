"""Collector: plays many episodes at once and returns them in groups.

Episodes run independently, with no barrier per turn: an episode that waits for a slow tool delays no other. In
deterministic mode they run in rounds instead: the requests of a round are admitted together, in the order of tasks and
samples, and the next round begins when every environment has answered (LAW 11).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.contracts.engine import Engine, Generation, Request
from agent_r1_core.errors import ConfigError, EngineError, ModelError, PluginError, describe_error
from agent_r1_core.rollout.demonstration import BadDemonstration
from agent_r1_core.rollout.episode import Episode, EpisodeServices, PromptTooLong
from agent_r1_core.rollout.plan import EpisodePlan, OnEpisode, OnFinished, RolloutRequest, play_request
from agent_r1_core.rollout.result import RolloutResult
from agent_r1_core.rollout.settings import RolloutSettings
from agent_r1_core.tools.threads import ThreadPool, TooManyLeft, as_ordinary
from agent_r1_core.tools.tool_counts import ToolCounts

_LOG = logging.getLogger(__name__)
_FATAL = (ConfigError, ModelError, PluginError, TooManyLeft)
"""No retry helps against these, so they end the rollout: a wrong configuration, a template that refuses the
conversation, drifted ids (LAW 1), or calls that never end."""


class Collector:
    """Plays episodes with one engine, and with a second one where a frozen model plays along."""

    def __init__(
        self, engine: Engine, tokenizer: ChatTokenizer, settings: RolloutSettings, frozen: Engine | None = None
    ) -> None:
        self.engine = engine
        self.frozen = frozen
        self.tokenizer = tokenizer
        self.settings = settings
        self._threads = ThreadPool(settings.max_episodes * 2)
        self._shared = EpisodeServices.of(settings, tokenizer, self._threads)
        self._told = ToolCounts()
        """The calls that results have reported: where rollouts overlap, one of them counts each call."""
        self._retried: set[type[Exception]] = set()
        """The kinds of failures after which an episode was played again, each told once."""
        self._slots: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None

    async def collect(self, request: RolloutRequest, on_episode: OnEpisode | None = None) -> RolloutResult:
        """Play every task of the request; `on_episode` gets each trajectory as it ends, failed ones included.

        Raises:
            ConfigError, ModelError, PluginError: a problem that no retry can solve, DriftError among them.
        """
        begun = time.perf_counter()
        play = partial(self.play, greedy=request.greedy)
        episodes = await play_request(request, self.settings.seed, play, on_episode)
        told, self._told = self._told, self.counts()
        return RolloutResult.of(request, episodes, time.perf_counter() - begun, self._told - told)

    async def play(self, plans: Sequence[EpisodePlan], on_finished: OnFinished, greedy: bool = False) -> None:
        """Play episodes; `on_finished` gets the trajectory of each as it ends, failed ones included.

        Raises:
            ConfigError, ModelError, PluginError: as `collect`.
        """
        shared = replace(self._shared, greedy=greedy)
        rollout = _Rollout(self.engine, self.frozen, shared, self._free_slots(), plans, on_finished, self._retried)
        await (rollout.play_in_rounds() if self.settings.deterministic else rollout.play_freely())

    def _free_slots(self) -> asyncio.Semaphore:
        """One for each episode in flight; those of another event loop are of no use in this one."""
        loop = asyncio.get_running_loop()
        if self._slots is None or self._slots[0] is not loop:
            self._slots = loop, asyncio.Semaphore(self.settings.max_episodes)
        return self._slots[1]

    def counts(self) -> ToolCounts:
        """Calls of tools so far; what is hung counts those of environments and rewards, too."""
        tools = self.settings.tools.counts
        return replace(tools, hung=tools.hung + self._threads.hung)

    def close(self) -> None:
        """Let idle threads end."""
        self._threads.close()


@dataclass(frozen=True)
class _Rollout:
    """One call of `play`."""

    engine: Engine
    frozen: Engine | None
    shared: EpisodeServices
    slots: asyncio.Semaphore
    """Of the collector: calls that overlap share them."""
    plans: Sequence[EpisodePlan]
    on_finished: OnFinished
    retried: set[type[Exception]]

    async def play_freely(self) -> None:
        """Play every episode in an asyncio task of its own, `max_episodes` at once."""

        async def play(plan: EpisodePlan) -> None:
            async with self.slots:
                attempt: int | None = 1
                while attempt is not None:
                    attempt = await self._play_once(plan, attempt)

        await _run_all([play(plan) for plan in self.plans])

    async def play_in_rounds(self) -> None:
        """Play in rounds of requests, in the order of the plans; waiting episodes start between rounds."""
        waiting = [(plan, 1) for plan in reversed(self.plans)]
        running: list[tuple[EpisodePlan, Episode]] = []
        try:
            while waiting or running:
                started: list[tuple[EpisodePlan, Episode]] = []
                while waiting and len(running) + len(started) < self.shared.settings.max_episodes:
                    plan, attempt = waiting.pop()
                    started.append((plan, Episode(self.shared, plan, attempt)))
                running = sorted(running + started, key=lambda pair: pair[0].index)
                await _run_all([self._fail_on_error(episode, episode.start()) for _, episode in started])
                await self._play_round([episode for _, episode in running])
                unfinished = []
                for plan, episode in running:
                    if episode.error is None and episode.request() is not None:
                        unfinished.append((plan, episode))
                        continue
                    next_attempt = await self._finish(plan, episode)
                    if next_attempt is not None:
                        waiting.append((plan, next_attempt))
                running = unfinished
        except BaseException:
            await _run_all([self._close(episode) for _, episode in running])
            raise

    async def _play_round(self, episodes: list[Episode]) -> None:
        """Play one turn of every episode: their requests are admitted together, then the environments answer."""
        sound = [episode for episode in episodes if episode.error is None]
        requests = [(one, request) for one in sound if (request := one.request()) is not None]
        asked = [(episode, request) for episode, request in requests if not episode.scripted]
        shown = [pair for pair in requests if pair[0].scripted]
        await _run_all([self._fail_on_error(episode, episode.follow_script(request)) for episode, request in shown])
        own = [pair for pair in asked if not pair[0].frozen]
        others = [pair for pair in asked if pair[0].frozen]
        for engine, pairs in ((self.engine, own), (self.frozen, others)):
            if pairs:
                await self._answer(engine, pairs)

    async def _answer(self, engine: Engine | None, asked: Sequence[tuple[Episode, Request]]) -> None:
        """Let an engine answer requests that are admitted together, and then the environments."""
        try:
            generations = await _there(engine).generate_batch([request for _, request in asked])
            if len(generations) != len(asked):
                name = type(engine).__name__
                text = f"{name}.generate_batch gave {len(generations)} generations for {len(asked)} requests"
                raise EngineError(f"{text}; return one for each, in their order")
        except _FATAL:
            raise
        except Exception as error:
            for episode, _ in asked:
                episode.fail(error)
            return
        await _run_all(
            [
                self._fail_on_error(episode, episode.take(request, generation))
                for (episode, request), generation in zip(asked, generations, strict=True)
            ]
        )

    async def _play_once(self, plan: EpisodePlan, attempt: int) -> int | None:
        """Play an episode to its end; returns the number of its next attempt, or None when there is none."""
        episode = Episode(self.shared, plan, attempt)
        try:
            await self._fail_on_error(episode, self._drive(episode))
        except BaseException:
            await self._close(episode)
            raise
        return await self._finish(plan, episode)

    async def _drive(self, episode: Episode) -> None:
        await episode.start()
        ahead = _Ahead(episode)
        try:
            while (request := episode.request()) is not None:
                if episode.scripted:
                    await episode.follow_script(request)
                else:
                    engine = _there(self.frozen) if episode.frozen else self.engine
                    await episode.take(request, await ahead.generation(request, engine.generate))
        finally:
            await ahead.close()

    async def _fail_on_error(self, episode: Episode, coroutine: Coroutine[Any, Any, None]) -> None:
        """Await the coroutine; an exception fails the episode, unless no retry can help against it."""
        try:
            await coroutine
        except (*_FATAL, asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:
            episode.fail(error if isinstance(error, Exception) else as_ordinary(error))

    async def _finish(self, plan: EpisodePlan, episode: Episode) -> int | None:
        """Close an episode; keep its trajectory, or return the number of its next attempt."""
        await self._close(episode)
        attempt = episode.trajectory.attempts
        hopeless = isinstance(episode.error, PromptTooLong | BadDemonstration)
        retries = 0 if hopeless else self.shared.settings.max_retries
        if episode.error is not None and attempt <= retries:
            if type(episode.error) not in self.retried:
                self.retried.add(type(episode.error))
                _LOG.warning(
                    "an episode failed and is played again: %s (rollout/retries counts all such attempts)",
                    episode.trajectory.reason,
                )
            return attempt + 1
        self.on_finished(plan, episode.trajectory)
        return None

    async def _close(self, episode: Episode) -> None:
        engines = [self.engine] if self.frozen is None else [self.engine, self.frozen]
        closing: list[tuple[str, Callable[[], Awaitable[None]]]] = [("environment", episode.close)]
        closing += [("engine", partial(engine.release, key)) for engine in engines for key in episode.keys]
        for what, close in closing:
            try:
                await close()
            except Exception as error:
                _LOG.warning("the %s of episode %s could not be closed: %s", what, episode.key, describe_error(error))


class _Ahead:
    """The generations of one episode, which begin before their turn where the environment knows already what it will
    show.

    Actions are taken one after the other, in the order in which the environment shows its observations, so that a
    trajectory does not depend on which generation ends first. Only their generations overlap: what `ToolEnv.ahead`
    announces is asked of the engine at once, and its generation is used where the very same request comes up.
    """

    def __init__(self, episode: Episode) -> None:
        self._episode = episode
        self._begun: dict[Request, asyncio.Future[Generation]] = {}

    async def generation(
        self, request: Request, generate: Callable[[Request], Coroutine[Any, Any, Generation]]
    ) -> Generation | None:
        """The generation of the request whose turn it is; None where the environment calls it off before, which cancels
        it. Those that are announced meanwhile begin."""
        world = self._episode.world
        if world.only_answers:
            return await generate(request)
        generating = self._begun.pop(request, None) or asyncio.ensure_future(generate(request))
        leaving = asyncio.ensure_future(world.abandoned())
        announced = asyncio.ensure_future(world.ahead())
        try:
            while True:
                waiting: list[asyncio.Future[Any]] = [generating, leaving, announced]
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if generating.done() or leaving.done():
                    return generating.result() if generating.done() else leaving.result()
                following = await self._episode.request_ahead(announced.result())
                if following is not None and following not in self._begun:
                    self._begun[following] = asyncio.ensure_future(generate(following))
                announced = asyncio.ensure_future(world.ahead())
        finally:
            await _cancel((generating, leaving, announced))

    async def close(self) -> None:
        """Cancel what has begun and whose turn did not come."""
        begun, self._begun = self._begun, {}
        await _cancel(begun.values())


async def _cancel(tasks: Iterable[asyncio.Future[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _there(engine: Engine | None) -> Engine:
    if engine is None:
        raise ConfigError("the environment lets a frozen model play, but names none; define its frozen_model(config)")
    return engine


async def _run_all(coroutines: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run all at once; if one raises, or we are cancelled, cancel the others once and await them."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        if tasks:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    if errors:
        raise next((error for error in errors if not isinstance(error, asyncio.CancelledError)), errors[0])
