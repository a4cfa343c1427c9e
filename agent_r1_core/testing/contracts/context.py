"""Contract tests of a ContextStrategy."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, ClassVar

from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.contracts.context import Exchange, History
from agent_r1_core.contracts.engine import Sampling
from agent_r1_core.contracts.env import Action, EnvConfig, Observation, Step, ToolEnv
from agent_r1_core.rollout import Collector, RolloutRequest, RolloutSettings
from agent_r1_core.rollout.episode_context import choice_of
from agent_r1_core.testing.contracts.base import ComponentContract, run
from agent_r1_core.testing.model import tiny_tokenizer
from agent_r1_core.testing.scripted import ScriptedPolicy
from agent_r1_core.testing.trajectories import make_task
from agent_r1_core.tools.plain import Unfit
from agent_r1_core.trajectory import Message, Task, Trajectory

LONGEST = 8
"""Turns of the longest history that is shown to the strategy."""


class ContextContract(ComponentContract):
    """Set `component`."""

    kind = "context"
    max_tokens: ClassVar[int] = 800
    """`env.max_tokens` of the histories and of the episodes, in which a token is a byte."""

    def test_every_choice_is_well_formed(self) -> None:
        for history in _histories(self.max_tokens):
            chosen = run(self.make().next_context(history))
            try:
                choice_of(chosen, history)
            except Unfit as unfit:
                raise AssertionError(f"after {len(history.exchanges)} turn(s) next_context() {unfit}") from None

    def test_a_choice_depends_on_the_history_alone(self) -> None:
        strategy, histories = self.make(), _histories(self.max_tokens)
        once = [run(strategy.next_context(history)) for history in histories]
        again = [run(strategy.next_context(history)) for history in reversed(histories)]
        assert once == again[::-1], (
            "a history met twice got two answers; one instance serves all episodes: keep no state"
        )

    def test_the_history_is_left_as_it_is(self) -> None:
        for history in _histories(self.max_tokens):
            before = copy.deepcopy(history.messages)
            run(self.make().next_context(history))
            assert history.messages == before, "next_context() changed a message of the history; return a new one"

    def test_an_action_that_stays_is_the_very_object(self) -> None:
        for history in _histories(self.max_tokens):
            chosen = run(self.make().next_context(history))
            own = {id(message) for message in history.messages}
            for message in chosen if isinstance(chosen, Sequence) else ():
                copied = message["role"] == "assistant" and message in history.messages and id(message) not in own
                assert not copied, "an action came back as a copy, which loses its control tokens; return history's own"

    def test_episodes_are_played_within_the_budget(self) -> None:
        (one,) = run(_play(self.make(), self.max_tokens))
        assert str(one.status) != "failed", one.reason
        for segment in one.segments:
            assert len(segment.ids) <= self.max_tokens
        assert sum(turn.tokens for turn in one.turns) == one.action_tokens, "every action is trained once"


class _Counting(ToolEnv):
    """Twelve turns of small talk, more than the budget holds."""

    def reset(self, task: Task) -> Observation:
        self._turns = 0
        return Observation([{"role": "system", "content": "Be brief."}, {"role": "user", "content": str(task.prompt)}])

    def step(self, action: Action) -> Step:
        self._turns += 1
        said: Message = {"role": "user", "content": f"That was number {self._turns}. " + "Go on. " * 4}
        return Step(Observation([said]), terminated=self._turns == 12)


def _histories(max_tokens: int) -> list[History]:
    """Conversations with a tool of 1 to `LONGEST` turns, with and without an earlier summary."""
    return [_history(turns, noted, max_tokens) for turns in range(1, LONGEST + 1) for noted in (False, True)]


def _history(turns: int, noted: bool, max_tokens: int) -> History:
    opening: tuple[Message, ...] = (
        {"role": "system", "content": "Use the tool."},
        {"role": "user", "content": "Where?"},
    )
    notes: tuple[Message, ...] = ({"role": "user", "content": "So far: nothing."},) if noted else ()
    exchanges = tuple(
        Exchange(
            {"role": "assistant", "content": f"Look up number {turn}."},
            ({"role": "tool", "name": "lookup", "content": f"Number {turn} is " + "a place " * 20},),
        )
        for turn in range(turns)
    )
    return History(opening, notes, exchanges, max_tokens, _words)


async def _words(messages: Sequence[Message]) -> int:
    return sum(len(message["content"].split()) + 4 for message in messages)


async def _play(strategy: Any, max_tokens: int) -> list[Trajectory]:
    config = EnvConfig(max_turns=20, max_tokens=max_tokens, timeout=60)
    settings = RolloutSettings(
        make_env=lambda services: _Counting(config, services),
        context=strategy,
        sampling=Sampling(max_new_tokens=60),
        max_retries=0,
    )
    tokenizer = ChatTokenizer(tiny_tokenizer(), name="tiny")
    collector = Collector(ScriptedPolicy(["I count on."], tokenizer), tokenizer, settings)
    try:
        result = await collector.collect(RolloutRequest([make_task()], 1, 0))
    finally:
        collector.close()
    return [*result.trajectories, *result.dropped]
