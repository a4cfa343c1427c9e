"""LAW 9: what an environment, a strategy or a reward returns becomes plain data in its author's thread and time-out."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from itertools import count, repeat
from typing import Any

import numpy
import pytest
from bad_tools import PATIENCE, RELEASE, SlowText, SlyText
from stage import Stage, questions

from agent_r1_core import Action, ContextStrategy, EnvConfig, Observation, RewardFn, Step, Task, ToolEnv
from agent_r1_core.contracts.env import Outcome, RequestOptions
from agent_r1_core.contracts.token_numbers import TokenNumbers
from agent_r1_core.rollout import RolloutResult, WeightedReward
from agent_r1_core.runs.trajectory_row import row_of
from agent_r1_core.testing import ScriptedPolicy
from agent_r1_core.tools.plain import plain
from agent_r1_core.trajectory import CallRecord

pytestmark = pytest.mark.usefixtures("released")
PATIENT, IMPATIENT = EnvConfig(timeout=PATIENCE / 2), EnvConfig(timeout=0.8)
"""The first one outlasts whatever does not hang, also on a busy machine."""
SEEN = Observation([{"role": "user", "content": "Go on."}])


class World(ToolEnv):
    """A world of two steps that answers task q0 with `bad()` first."""

    def __init__(self, config: Any, services: Any, bad: Callable[[], Any]) -> None:
        super().__init__(config, services)
        self.bad = bad

    def reset(self, task: Task) -> Any:
        self.task, self.turns = task, 0
        return Observation([{"role": "user", "content": str(task.prompt)}])

    def step(self, action: Action) -> Any:
        self.turns += 1
        return self.bad() if self.task.id == "q0" and self.turns == 1 else Step(terminated=True, answer="Tavelo")


class AsyncWorld(World):
    """The same on the event loop."""

    async def step(self, action: Action) -> Any:
        value = super().step(action)
        return await value if asyncio.iscoroutine(value) else value


def raising(error: type[BaseException]) -> Any:
    """An object whose text raises."""

    def text(self: Any) -> str:
        raise error

    return type("Wordless", (), {"__repr__": text})()


class SlowError(Exception):
    """An exception whose text takes until the test is over."""

    __str__ = SlowText.__str__


def fail_slowly() -> Any:
    raise SlowError


class Endless(Mapping[str, Any]):
    """A mapping that never ends."""

    def __getitem__(self, key: str) -> Any:
        return key

    def __iter__(self) -> Iterator[str]:
        return (str(number) for number in count())

    def __len__(self) -> int:
        return 0


class SlowList(list[Any]):
    """A list that hangs whoever looks at it."""

    def __iter__(self) -> Iterator[Any]:
        RELEASE.wait(PATIENCE)
        return super().__iter__()

    __repr__ = SlowText.__str__


class SlyDict(dict[str, Any]):
    """A dictionary that hangs whoever asks it."""

    def items(self) -> Any:
        RELEASE.wait(PATIENCE)
        return super().items()

    __getitem__ = __iter__ = keys = values = get = items  # type: ignore[assignment]


class Twice:
    """An object with a text, once."""

    def __init__(self) -> None:
        self.told = False

    def __str__(self) -> str:
        if self.told:
            raise ValueError("that was all")
        self.told = True
        return "a note"


def config_for(sentence: str) -> EnvConfig:
    """What hangs costs no more than it must."""
    return IMPATIENT if "0.8 seconds" in sentence else PATIENT


def play(
    bad: Callable[[], Any], made: type[World] = World, samples: int = 1, config: EnvConfig = PATIENT, **settings: Any
) -> RolloutResult:
    """Episodes of three tasks, of which those of q0 meet `bad`; the others are answered."""
    given = {"max_retries": 0, "make_timeout": config.timeout} | settings
    stage = Stage(ScriptedPolicy(["go"]), make_env=lambda services: made(config, services, bad), **given)
    result = stage.play(questions(3), samples)
    assert {"q1", "q2"} <= {group.task.id for group in result.groups}
    assert all(one.answer == "Tavelo" for one in result.trajectories)
    return result


def why_dropped(bad: Callable[[], Any], made: type[World] = World, **settings: Any) -> str:
    """The reason why the episode of q0, and no other, was dropped."""
    result = play(bad, made, **settings)
    (dropped,) = result.dropped
    assert (dropped.task.id, result.metrics["rollout/failed"]) == ("q0", 1.0)
    return dropped.reason


def sly_reward(score: Callable[[], Any], asynchronous: bool) -> RewardFn:
    """A reward that gives q0 what `score` gives, and the others 1."""

    class Sly(RewardFn):
        name = "sly"

        def score(self, trajectory: Any) -> Any:
            return self.later(trajectory) if asynchronous else self.now(trajectory)

        async def later(self, trajectory: Any) -> Any:
            return self.now(trajectory)

        def now(self, trajectory: Any) -> Any:
            return score() if trajectory.task.id == "q0" else 1.0

    return Sly()


def asking(request: Any) -> Step:
    return Step(Observation([{"role": "user", "content": "Go on."}], request=request))


def end() -> Step:
    return Step(terminated=True, answer="Tavelo")


BAD_STEPS: dict[str, tuple[Callable[[], Any], str]] = {
    "nothing": (lambda: None, "returned NoneType; return Step"),
    "no number": (lambda: Step(SEEN, reward=float("nan")), "gave the reward nan"),
    "no content": (lambda: Step(Observation([{"role": "tool"}])), "which is not a chat message"),
    "no role": (lambda: Step(Observation([{"role": "im_end", "content": ""}])), "a message of the role 'im_end'; use"),
    "a text": (lambda: Step(Observation("no messages")), "which is no list of chat messages"),  # type: ignore[arg-type]
    "two ends": (lambda: Step(terminated=True, truncated=True), "ended its episode as terminated and as truncated"),
    "state_key": (lambda: Step(Observation(state_key=3)), "gave the state_key 3; use text or None"),  # type: ignore[arg-type]
    "new context": (lambda: Step(Observation(new_context=True)), "began a new context without a message"),
    "continues": (lambda: Step(Observation(continues=-1)), "continues -1; use the number of a turn, or None"),
    "player": (lambda: Step(Observation(player=-1)), "gave the turn to the player -1; use a whole number from 0 on"),
    "request": (lambda: asking({"number": 1}), "gave dict as a request; use RequestOptions"),
    "tools of a request": (lambda: asking(RequestOptions(["search"])), "gave the tools ['search'] with a request"),  # type: ignore[list-item]
    "stop of a request": (lambda: asking(RequestOptions(stop_strings=("",))), "gave the stop strings ('',) with a"),
    "room of a request": (lambda: asking(RequestOptions(max_new_tokens=0)), "gave a request 0 new tokens; use a whole"),
    "number of a request": (lambda: asking(RequestOptions(number=1.5)), "gave a request the number 1.5; use a whole"),  # type: ignore[arg-type]
    "calls": (lambda: Step(SEEN, calls=[{"name": "search"}]), "use a list of CallRecord"),  # type: ignore[list-item]
    "terminated": (lambda: Step(terminated="False"), "gave 'False' as terminated; use True or False"),  # type: ignore[arg-type]
    "others": (lambda: Step(SEEN, others={0: Outcome(1.0)}), "gave player 0, who acted, in others, too"),
    "success": (lambda: Step(success="yes"), "gave the success 'yes'; use True, False or None"),  # type: ignore[arg-type]
    "key": (lambda: Step(info={(1, 2): 3}), "a dictionary with the key (1, 2)"),  # type: ignore[dict-item]
    "endless messages": (lambda: Step(Observation(repeat({}))), "observed 'repeat({})', which is no list of chat"),  # type: ignore[arg-type]
    "endless info": (lambda: Step(SEEN, info={"x": Endless()}), "returned more than 100,000 values"),
    "slow info": (lambda: Step(SEEN, info={"x": SlowText()}), "took longer than 0.8 seconds"),
    "slow error": (fail_slowly, "took longer than 0.8 seconds"),
    "call without a name": (lambda: Step(SEEN, calls=[CallRecord(1)]), "gave a call (1, {})"),  # type: ignore[arg-type]
    "reward beyond floats": (lambda: Step(SEEN, reward=10**400), "gave the reward '1000"),
    "reward beyond use": (lambda: Step(SEEN, reward=1e308), "gave the reward 1e+308; use a number from -1e+18 to 1"),
    **{
        f"text raises {error.__name__}": (lambda error=error: Step(SEEN, reward=raising(error)), error.__name__)
        for error in (ValueError, KeyboardInterrupt, asyncio.CancelledError, SystemExit, GeneratorExit)
    },
}


@pytest.mark.parametrize("made", [World, AsyncWorld])
@pytest.mark.parametrize("kind", list(BAD_STEPS))
def test_what_cannot_become_plain_costs_its_own_episode(kind: str, made: type[World]) -> None:
    bad, sentence = BAD_STEPS[kind]
    reason = why_dropped(bad, made, config=config_for(sentence))
    assert sentence in reason
    assert reason.startswith(f"{made.__name__}.step() ") or kind.startswith("text raises")


@pytest.mark.parametrize("made", [World, AsyncWorld])
def test_of_a_sly_class_the_stored_value_counts(made: type[World]) -> None:
    """Whatever reads a trajectory later runs no author's code."""

    def bad() -> Step:
        text = SlyText("Go on.")
        messages = SlowList([SlyDict(role=SlyText("user"), content=text)])
        info = SlyDict(note=Twice(), text=text, many=SlowList([True, 1.5]), huge=10**400, raw=b"caf\xc3\xa9")
        return Step(Observation(messages), info=info, calls=SlowList([CallRecord(text, SlyDict(x=1))]))

    (one,) = (group.trajectories[0] for group in play(bad, made).groups if group.task.id == "q0")
    first, second = one.turns
    assert second.observation == [{"role": "user", "content": "Go on."}]
    assert first.info == {
        "note": "a note",
        "text": "Go on.",
        "many": [True, 1.5],
        "huge": str(10**400),
        "raw": "caf\u00e9",
    }
    assert first.calls == [CallRecord("Go on.", {"x": 1})]
    row = row_of(1, one, TokenNumbers({}))
    assert '"note": "a note"' in row["turns"]


def test_a_request_may_be_for_a_single_token() -> None:
    result = play(lambda: asking(RequestOptions(max_new_tokens=1)))
    (one,) = (group.trajectories[0] for group in result.groups if group.task.id == "q0")
    assert [turn.tokens for turn in one.turns] == [3, 1]


def test_no_number_of_an_environment_ends_the_rollout() -> None:
    """The mean of numbers whose sum is infinite is theirs; what no float holds is in no metric."""
    odd = iter([10**400, math.inf, math.nan])
    result = play(lambda: Step(SEEN, info={"large": 1.5e308, "odd": next(odd)}), samples=3)
    assert {name: value for name, value in result.metrics.items() if name.startswith("env/")} == {"env/large": 1.5e308}
    assert not result.dropped


@pytest.mark.parametrize(
    ("method", "bad", "sentence"),
    [
        ("__init__", lambda *_: RELEASE.wait(PATIENCE), "making the environment took longer than 0.8 seconds"),
        ("tool_schemas", lambda *_: RELEASE.wait(PATIENCE), "making the environment took longer than 0.8 seconds"),
        ("tool_schemas", lambda *_: repeat({}), "gave the tool schemas 'repeat({})'; use a list of dictionaries"),
        ("stop_strings", lambda *_: RELEASE.wait(PATIENCE), "stop_strings() took longer than 0.8 seconds"),
        ("stop_strings", lambda *_: "</tool>", "gave the stop strings '</tool>'; use a tuple of texts"),
    ],
)
def test_what_is_asked_before_the_first_action_costs_its_own_episode(method, bad, sentence):
    made: list[World] = []

    class Late(World):
        """Misbehaves in the first episode."""

    def first(self: World, *arguments: Any) -> Any:
        made.append(self)
        return bad(self) if made[0] is self else getattr(World, method)(self, *arguments)

    first.__qualname__ = f"Late.{method}"
    setattr(Late, method, first)
    assert sentence in why_dropped(end, Late, max_episodes=1, config=config_for(sentence))


@pytest.mark.parametrize(
    ("chosen", "sentence"),
    [
        (lambda told: repeat({}), "returned repeat; return messages or a SummaryRequest"),
        (lambda told: [*told, {"role": "user", "content": SlowText()}], "took longer than 0.8 seconds"),
        (lambda told: [*told, {"role": "user", "x": raising(KeyboardInterrupt)}], "KeyboardInterrupt was raised"),
    ],
)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_context_strategy_costs_its_own_episode(chosen, sentence: str, asynchronous: bool) -> None:
    class Sly(ContextStrategy):
        def next_context(self, history: Any) -> Any:
            return self.later(history) if asynchronous else chosen(history.messages)

        async def later(self, history: Any) -> Any:
            return chosen(history.messages)

    assert sentence in why_dropped(lambda: Step(SEEN), context=Sly(), config=config_for(sentence))


@pytest.mark.parametrize(
    ("score", "sentence"),
    [
        (10**400, "reward sly of episode q0/0 is '1000"),
        (raising(KeyboardInterrupt), "reward sly of episode q0/0 failed with RuntimeError: KeyboardInterrupt"),
        (SlowText(), "reward sly of episode q0/0 took longer than 0.8 seconds; make it faster, or raise its timeout"),
    ],
)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_reward_that_is_no_number_costs_its_own_episode(score: Any, sentence: str, asynchronous: bool) -> None:
    sly = sly_reward(lambda: score, asynchronous)
    rewards = [WeightedReward(sly, timeout=config_for(sentence).timeout)]
    assert why_dropped(end, rewards=rewards).startswith(sentence)


def test_a_number_that_is_no_builtin_is_one_and_what_no_float_holds_is_text() -> None:
    assert plain([Fraction(1, 2), numpy.int64(3), numpy.float32(0.5), True]) == [0.5, 3, 0.5, True]
    assert [type(one) for one in plain([Fraction(1, 2), numpy.int64(3)])] == [float, int]
    assert plain(10**400) == f"1{'0' * 400}"
    assert plain(2**20_000) == "an integer of 20,001 bits"
