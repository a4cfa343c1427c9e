"""Collector: plays many episodes at once and returns them in groups.

Episodes go on independently, with no barrier per turn: one that waits for a slow tool holds up nobody. In
deterministic mode they go in rounds instead: the requests of a round are admitted together, in the order of tasks and
samples, and the next round begins when every environment has answered (LAW 11).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from agent_r1_core.chat import ChatTokenizer, DriftGuard
from agent_r1_core.contracts.engine import Engine, Request
from agent_r1_core.errors import ConfigError, ModelError, PluginError
from agent_r1_core.rollout.episode import Episode, EpisodeServices, PromptTooLong
from agent_r1_core.rollout.request import RolloutRequest
from agent_r1_core.rollout.result import OnEpisode, RolloutResult
from agent_r1_core.rollout.scoring import Scorer
from agent_r1_core.rollout.settings import RolloutSettings
from agent_r1_core.rollout.threads import ThreadPool
from agent_r1_core.rollout.tool_counts import ToolCounts
from agent_r1_core.rollout.wording import describe_error
from agent_r1_core.seeds import derive_seed
from agent_r1_core.trajectory import EndStatus, Group, Task, Trajectory

_LOG = logging.getLogger(__name__)
_FATAL = (ConfigError, ModelError, PluginError)
"""What no retry can mend ends the rollout: a wrong configuration, a template that refuses, drifted ids (LAW 1)."""


@dataclass(frozen=True)
class _Place:
    """One episode to be played."""

    index: int
    task: Task
    sample: int
    seed: int
    key: str


class Collector:
    """Plays episodes with one engine."""

    def __init__(self, engine: Engine, tokenizer: ChatTokenizer, settings: RolloutSettings) -> None:
        self.engine = engine
        self.tokenizer = tokenizer
        self.settings = settings
        self._threads = ThreadPool(settings.max_episodes * 2)
        self._scorer = Scorer(settings.rewards, self._threads)
        self._guard = DriftGuard(settings.model, tokenizer)

    async def collect(self, request: RolloutRequest, on_episode: OnEpisode | None = None) -> RolloutResult:
        """Play every task of the request; `on_episode` gets each trajectory when it is done, failed ones included.

        Raises:
            ConfigError, ModelError, PluginError: what no retry can mend; DriftError among them.
        """
        begun = time.perf_counter()
        before, hung = self._tool_counts(), self._threads.hung
        shared = EpisodeServices(
            self.settings, self.tokenizer, self._scorer, self._guard, self._threads, request.greedy
        )
        rollout = _Rollout(self.engine, shared, _places(request, self.settings.seed), on_episode)
        await (rollout.play_in_rounds() if self.settings.deterministic else rollout.play_freely())
        episodes = [rollout.done[place.index] for place in rollout.places]
        return RolloutResult(
            _groups(request, episodes),
            [episode for episode in episodes if episode.status is EndStatus.FAILED],
            time.perf_counter() - begun,
            self._tool_counts() - before,
            self._threads.hung - hung,
        )

    def close(self) -> None:
        """Let idle threads end."""
        self._threads.close()

    def _tool_counts(self) -> ToolCounts:
        return self.settings.tools.counts if self.settings.tools is not None else ToolCounts()


class _Rollout:
    """One call of `collect`."""

    def __init__(
        self, engine: Engine, shared: EpisodeServices, places: list[_Place], on_episode: OnEpisode | None
    ) -> None:
        self.places = places
        self.done: dict[int, Trajectory] = {}
        self._engine = engine
        self._shared = shared
        self._on_episode = on_episode

    async def play_freely(self) -> None:
        """Every episode in a task of its own, `max_episodes` at once."""
        slots = asyncio.Semaphore(self._shared.settings.max_episodes)

        async def play(place: _Place) -> None:
            async with slots:
                attempt: int | None = 1
                while attempt is not None:
                    attempt = await self._play_once(place, attempt)

        await _all([play(place) for place in self.places])

    async def play_in_rounds(self) -> None:
        """Rounds of requests in the order of the places; freed seats are taken at the border of a round."""
        waiting = [(place, 1) for place in reversed(self.places)]
        live: list[tuple[_Place, Episode]] = []
        try:
            while waiting or live:
                fresh: list[tuple[_Place, Episode]] = []
                while waiting and len(live) + len(fresh) < self._shared.settings.max_episodes:
                    place, attempt = waiting.pop()
                    fresh.append((place, self._begin(place, attempt)))
                live = sorted(live + fresh, key=lambda seat: seat[0].index)
                await _all([self._safely(episode, episode.start()) for _, episode in fresh])
                await self._round([episode for _, episode in live])
                going = []
                for place, episode in live:
                    if episode.error is None and episode.request() is not None:
                        going.append((place, episode))
                        continue
                    again = await self._finish(place, episode)
                    if again is not None:
                        waiting.append((place, again))
                live = going
        except BaseException:
            await _all([self._close(episode) for _, episode in live])
            raise

    async def _round(self, episodes: list[Episode]) -> None:
        """One request per episode, admitted together; then every environment's answer."""
        asking: list[tuple[Episode, Request]] = []
        for episode in episodes:
            request = episode.request() if episode.error is None else None
            if request is not None:
                asking.append((episode, request))
        if not asking:
            return
        try:
            generations = await self._engine.generate_batch([request for _, request in asking])
        except _FATAL:
            raise
        except Exception as error:
            for episode, _ in asking:
                episode.fail(error)
            return
        await _all(
            [
                self._safely(episode, episode.take(request, generation))
                for (episode, request), generation in zip(asking, generations, strict=True)
            ]
        )

    async def _play_once(self, place: _Place, attempt: int) -> int | None:
        """Play an episode to its end; returns the number of its next attempt, or None when it is done."""
        episode = self._begin(place, attempt)
        try:
            await self._safely(episode, self._drive(episode))
        except BaseException:
            await self._close(episode)
            raise
        return await self._finish(place, episode)

    async def _drive(self, episode: Episode) -> None:
        await episode.start()
        while (request := episode.request()) is not None:
            await episode.take(request, await self._engine.generate(request))

    def _begin(self, place: _Place, attempt: int) -> Episode:
        return Episode(self._shared, place.task, place.sample, place.seed, f"{place.key}/{attempt}", attempt)

    async def _safely(self, episode: Episode, work: Coroutine[Any, Any, None]) -> None:
        """Let the episode fail by whatever its work raises, except by what no retry can mend."""
        try:
            await work
        except _FATAL:
            raise
        except Exception as error:
            episode.fail(error)

    async def _finish(self, place: _Place, episode: Episode) -> int | None:
        """Close an episode and keep its trajectory, or return the number of its next attempt."""
        await self._close(episode)
        attempt = episode.trajectory.attempts
        retries = 0 if isinstance(episode.error, PromptTooLong) else self._shared.settings.max_retries
        if episode.error is not None and attempt <= retries:
            return attempt + 1
        self.done[place.index] = episode.trajectory
        if self._on_episode is not None:
            self._on_episode(episode.trajectory)
        return None

    async def _close(self, episode: Episode) -> None:
        for what, work in (("environment", episode.close), ("engine", partial(self._engine.release, episode.key))):
            try:
                await work()
            except Exception as error:
                _LOG.warning("the %s of episode %s could not be closed: %s", what, episode.key, describe_error(error))


def _places(request: RolloutRequest, seed: int) -> list[_Place]:
    """The episodes in their order; a task that is listed again gets seeds of its own."""
    places: list[_Place] = []
    seen: Counter[str] = Counter()
    for task in request.tasks:
        for sample in range(request.samples):
            number = seen[task.id] * request.samples + sample
            sample_seed = derive_seed(seed, request.round, task.id, number)
            places.append(_Place(len(places), task, sample, sample_seed, f"{request.round}/{task.id}/{number}"))
        seen[task.id] += 1
    return places


def _groups(request: RolloutRequest, episodes: Sequence[Trajectory]) -> list[Group]:
    """The episodes of each task that did not fail; a task without any has no group."""
    groups = []
    for index, task in enumerate(request.tasks):
        of_task = episodes[index * request.samples : (index + 1) * request.samples]
        finished = [episode for episode in of_task if episode.status is not EndStatus.FAILED]
        if finished:
            groups.append(Group(task, finished))
    return groups


async def _all(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run everything at once; when one raises, or we are cancelled, the others are cancelled, once, and awaited."""
    running = [asyncio.create_task(one) for one in work]
    try:
        if running:
            await asyncio.wait(running, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for one in running:
            one.cancel()
        ended = await asyncio.gather(*running, return_exceptions=True)
    problems = [one for one in ended if isinstance(one, BaseException)]
    if problems:
        raise next((one for one in problems if not isinstance(one, asyncio.CancelledError)), problems[0])
