"""Episodes, one and many, against a scripted engine."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from agent_r1_tool_calling.env import ToolCalling
from agent_r1_tool_formats.hermes import Hermes

from agent_r1_core import Action, EndStatus, Observation, RewardFn, Sampling, Step, Task, ToolEnv, ToolResources
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.contracts.engine import Generation
from agent_r1_core.rollout import Collector, RolloutRequest, RolloutResult, RolloutSettings, WeightedReward
from agent_r1_core.testing import tiny_tokenizer
from agent_r1_core.tools.tool_runner import ToolRunner

TASKS = [Task(f"q{index}", f"Where was Name{index} born?", ("Tavelo",)) for index in range(3)]


class Correct(RewardFn):
    """1 for the right answer."""

    name = "correct"

    def score(self, trajectory: Any) -> float:
        return float(trajectory.answer in trajectory.task.answers)


class Called(RewardFn):
    """1 for a turn with a call; async."""

    name = "called"
    scope = "turn"

    async def score_turn(self, turn: Any, trajectory: Any) -> float:
        assert trajectory.turns[-1] is turn
        return float(bool(turn.calls))


def searcher(text: str, request: Any) -> str:
    """Look the name up, then answer."""
    if "<tool_response>" in text:
        return "<answer>Tavelo</answer>"
    name = text.rpartition("Where was ")[2].partition(" ")[0]
    return f'<tool_call>\n{{"name": "lookup", "arguments": {{"name": "{name}"}}}}\n</tool_call>'


def play(
    engine: Any,
    tokenizer: Any,
    module: Any = None,
    tasks: list[Task] = TASKS,
    samples: int = 2,
    env: dict[str, Any] | None = None,
    make_env: Callable[[Any], ToolEnv] | None = None,
    greedy: bool = False,
    greedy_baseline: bool = False,
    on_episode: Any = None,
    timeouts: dict[str, float] | None = None,
    **settings: Any,
) -> RolloutResult:
    """One rollout."""
    names = ("lookup", "whoami", "hang") if module is not None else ()
    tools = {name: getattr(module, name)() for name in names}
    runner = ToolRunner(tools, timeouts)
    config = ToolCalling.Config(system_prompt="", **(env or {}))
    chosen = RolloutSettings(
        make_env=make_env or (lambda services: ToolCalling(config, services)),
        **({"tools": runner, "tool_format": Hermes(), "sampling": Sampling(max_new_tokens=200)} | settings),
    )

    async def work() -> RolloutResult:
        await runner.start(ToolResources(""))
        collector = Collector(engine, tokenizer, chosen)
        try:
            request = RolloutRequest(tasks, samples, 1, greedy, greedy_baseline=greedy_baseline)
            return await collector.collect(request, on_episode)
        finally:
            collector.close()
            await runner.close()

    return asyncio.run(work())


@pytest.mark.parametrize("deterministic", [False, True])
def test_a_rollout_brings_groups_of_scored_trajectories(engine, tokenizer, tools, deterministic):
    scripted, done = engine(searcher), []
    result = play(
        scripted,
        tokenizer,
        tools,
        rewards=[WeightedReward(Correct(), 2.0), WeightedReward(Called(), 0.5)],
        deterministic=deterministic,
        on_episode=done.append,
    )
    assert [group.task.id for group in result.groups] == ["q0", "q1", "q2"]
    assert [[one.sample for one in group.trajectories] for group in result.groups] == [[0, 1]] * 3
    one = result.groups[1].trajectories[0]
    assert (one.status, one.reason, one.answer, one.policy_version) == (EndStatus.TERMINATED, "answer", "Tavelo", 7)
    assert (one.reward, one.rewards) == (2.0, {"correct": 1.0})
    assert [(turn.reward, turn.rewards) for turn in one.turns] == [
        (0.5, {"env": 0.0, "called": 1.0}),
        (0.0, {"env": 0.0, "called": 0.0}),
    ]
    assert one.total_reward == 2.5
    assert one.seconds >= one.tool_seconds >= 0
    assert one.messages()[2]["content"] == "Name1 was born in Tavelo."
    assert len(done) == 6
    assert len(set(scripted.released)) == 6
    assert result.metrics["episode/turns"] == 2.0
    assert (result.metrics["tools/calls"], result.metrics["episode/answered"]) == (6.0, 1.0)
    assert result.baselines == []
    assert not [name for name in result.metrics if name.startswith("baseline/")]


@pytest.mark.parametrize(
    ("greedy", "expected"),
    [
        (False, Sampling(temperature=0.7, top_p=0.9, max_new_tokens=50)),
        (True, Sampling(temperature=0.0, max_new_tokens=50)),
    ],
)
def test_requests_are_sampled_as_the_run_says_or_greedily(engine, tokenizer, tools, greedy, expected):
    scripted = engine(searcher)
    play(scripted, tokenizer, tools, greedy=greedy, sampling=Sampling(temperature=0.7, top_p=0.9, max_new_tokens=50))
    assert {request.sampling for request in scripted.requests} == {expected}


@pytest.mark.parametrize("deterministic", [False, True])
def test_each_group_has_a_greedy_baseline_on_request(engine, tokenizer, tools, deterministic):
    scripted, done = engine(searcher), []
    result = play(
        scripted,
        tokenizer,
        tools,
        tasks=[*TASKS[:2], TASKS[0]],
        rewards=[WeightedReward(Correct(), 2.0)],
        greedy_baseline=True,
        deterministic=deterministic,
        on_episode=done.append,
    )
    assert [[one.sample for one in group.trajectories] for group in result.groups] == [[0, 1]] * 3
    assert [one.id for one in result.baselines] == ["q0/greedy", "q1/greedy", "q0/greedy"]
    assert [group.baseline.total_reward for group in result.groups] == [2.0] * 3
    assert all(one.baseline and len(one.turns) == 2 and one.turns[0].calls for one in result.baselines)
    assert not any(one.baseline for one in result.trajectories)
    greedy = {request.episode for request in scripted.requests if request.sampling.temperature == 0}
    assert greedy == {f"1/q{task}/greedy-{time}/1" for task, time in ((0, 0), (1, 0), (0, 1))}
    assert len({one.seed for one in (*result.trajectories, *result.baselines)}) == len(done) == 9
    metrics = result.metrics
    assert (metrics["rollout/episodes"], metrics["baseline/greedy_return"], metrics["baseline/failed"]) == (6, 2, 0)


def test_rounds_admit_requests_in_order_and_fill_free_seats(engine, tokenizer, tools):
    scripted = engine(lambda text, request: "<answer>x</answer>" if "Name0" in text else searcher(text, request))
    play(scripted, tokenizer, tools, deterministic=True, max_episodes=2, samples=1)
    assert scripted.batches == [["1/q0/0/1", "1/q1/0/1"], ["1/q1/0/1", "1/q2/0/1"], ["1/q2/0/1"]]


def test_no_more_episodes_are_in_flight_than_allowed(engine, tokenizer, tools):
    live: set[str] = set()
    widest = []

    def policy(text: str, request: Any) -> str:
        live.difference_update(scripted.released)
        live.add(request.episode)
        widest.append(len(live))
        return searcher(text, request)

    scripted = engine(policy)
    play(scripted, tokenizer, tools, max_episodes=2, samples=4)
    assert max(widest) == 2


def test_running_out_of_turns_is_truncation_without_bootstrap(engine, tokenizer, tools):
    always = '<tool_call>{"name": "lookup", "arguments": {"name": "x"}}</tool_call>'
    result = play(engine(lambda *_: always), tokenizer, tools, env={"max_turns": 2}, samples=1)
    one = result.groups[0].trajectories[0]
    assert (one.status, one.reason, one.bootstrap, one.answer) == (EndStatus.TRUNCATED, "max_turns", False, None)
    assert len(one.turns) == 2
    assert one.closing[0]["content"] == "x was born in Tavelo."
    assert tokenizer.decode(one.segments[0].ids).endswith("x was born in Tavelo.\n</tool_response><|im_end|>\n")
    assert one.segments[0].mask[-1] == 0


def test_an_observation_that_does_not_fit_ends_the_episode(engine, tokenizer, tools):
    long = '<tool_call>{"name": "lookup", "arguments": {"name": "x", "times": 90}}</tool_call>'
    result = play(engine(lambda *_: long), tokenizer, tools, env={"max_tokens": 300}, samples=1)
    one = result.groups[0].trajectories[0]
    assert (one.status, one.reason, one.bootstrap) == (EndStatus.TRUNCATED, "max_tokens", False)
    assert one.turns[-1].stop == len(one.segments[0].ids)
    assert "x was born" in one.closing[0]["content"]


def test_actions_are_cut_by_both_budgets(engine, tokenizer, tools):
    scripted = engine(lambda *_: "y" * 500)
    result = play(
        scripted,
        tokenizer,
        tools,
        env={"max_tokens": 250},
        samples=1,
        tasks=TASKS[:1],
        sampling=Sampling(max_new_tokens=60),
    )
    one = result.groups[0].trajectories[0]
    assert [turn.finish for turn in one.turns] == ["length"] * len(one.turns)
    assert "cut" in one.turns[1].observation[0]["content"], "the environment was not told"
    assert one.turns[0].tokens == 60
    assert one.tokens <= 250
    assert one.reason == "max_tokens"
    assert (result.metrics["episode/cut_actions"], result.metrics["episode/malformed"]) == (1.0, 1.0)


def test_a_prompt_without_room_fails_at_once_and_says_so(engine, tokenizer, tools):
    result = play(engine(searcher), tokenizer, tools, env={"max_tokens": 20}, samples=1, tasks=TASKS[:1])
    (dropped,) = result.dropped
    assert result.groups == []
    assert dropped.attempts == 1
    assert dropped.reason == "the prompt of task q0 does not fit into env.max_tokens=20; raise it"


class World(ToolEnv):
    """A continuing world, sync; it breaks as it is told."""

    broken: ClassVar[set[str]] = set()
    closed: ClassVar[list[str]] = []

    def reset(self, task: Task) -> Observation:
        self.task = task
        self._break("reset")
        return Observation([{"role": "user", "content": str(task.prompt)}], state_key="s0")

    def step(self, action: Action) -> Any:
        self._break("step")
        self.count = getattr(self, "count", 0) + 1
        seen = Observation([{"role": "user", "content": f"tick {self.count}"}])
        seen.state_key = f"s{self.count}"
        over = self.count == 2
        return Step(seen, reward=0.25, truncated=over, success=over, info={"ticks": self.count})

    def close(self) -> None:
        World.closed.append(self.task.id)

    def tool_schemas(self) -> list[dict[str, Any]]:
        return []

    def _break(self, where: str) -> None:
        if where in World.broken:
            raise RuntimeError(f"the {where} broke")


@pytest.fixture
def world():
    World.broken, World.closed = set(), []
    return World


def test_a_limit_outside_the_world_bootstraps_from_where_values_are_read(engine, tokenizer, world):
    result = play(engine(lambda *_: "go"), tokenizer, make_env=lambda services: world(None, services), samples=1)
    one = result.groups[0].trajectories[0]
    assert (one.status, one.reason, one.bootstrap) == (EndStatus.TRUNCATED, "env", True)
    assert [turn.reward for turn in one.turns] == [0.25, 0.25]
    assert [turn.state_key for turn in one.turns] == ["s0", "s1"]
    assert tokenizer.decode(one.segments[0].ids).endswith("tick 2<|im_end|>\n<|im_start|>assistant\n")
    assert sorted(world.closed) == ["q0", "q1", "q2"]
    assert (result.metrics["episode/success"], result.metrics["env/ticks"]) == (1.0, 1.5)


def test_an_environment_gets_the_tools_and_random_numbers_of_its_own_seed(engine, tokenizer, tools, world):
    class Looking(world):
        """A world that shows what it was given."""

        def reset(self, task: Task) -> Observation:
            self.task = task
            shown = f"{sorted(self.services.tools)} {self.services.call_tools is not None} {self.services.rng.random()}"
            return Observation([{"role": "user", "content": shown}])

    def shown(**settings: Any) -> list[str]:
        made = {"make_env": lambda services: Looking(None, services)} | settings
        result = play(engine(lambda *_: "go"), tokenizer, tools, **made)
        return [one.turns[0].observation[0]["content"] for one in result.trajectories]

    first = shown()
    assert all(text.startswith("['hang', 'lookup', 'whoami'] True ") for text in first)
    assert len(set(first)) == 6
    assert first == shown()
    assert not set(first) & set(shown(seed=1))
    assert {text.rpartition(" ")[0] for text in shown(tools=None)} == {"[] False"}


@pytest.mark.parametrize("where", ["reset", "step"])
def test_a_broken_world_is_closed_after_every_attempt(engine, tokenizer, world, where):
    world.broken = {where}
    make = {"make_env": lambda services: world(None, services)}
    result = play(engine(lambda *_: "go"), tokenizer, samples=1, max_retries=1, **make)
    assert re.fullmatch(rf"RuntimeError: the {where} broke \(test_collector.py, line \d+\)", result.dropped[0].reason)
    assert len(world.closed) == 6


def test_a_turn_says_which_weights_sampled_it_and_a_group_whether_it_mixes(engine, tokenizer, tools):
    scripted = engine(searcher)
    honest = scripted.generate

    async def updated(request: Any) -> Generation:
        """New weights arrive while the last action of q1 is sampled."""
        made = await honest(request)
        text = tokenizer.decode(request.ids)
        spans = ((7, 2), (8, len(made.ids) - 2)) if "Name1" in text and "<tool_response>" in text else ()
        return replace(made, versions=spans, version=spans[-1][0] if spans else 7)

    scripted.generate = updated
    result = play(scripted, tokenizer, tools, samples=1)
    assert [group.versions for group in result.groups] == [{7}, {7, 8}, {7}]
    (one,) = result.groups[1].trajectories
    first, second = one.turns
    assert first.versions == ((7, first.tokens),)
    assert second.versions == ((7, 2), (8, second.tokens - 2))
    assert one.policy_version == 7


def test_an_engine_that_loses_count_of_its_versions_fails_the_episode(engine, tokenizer, tools):
    scripted = engine(searcher)
    honest = scripted.generate

    async def careless(request: Any) -> Generation:
        return replace(await honest(request), versions=((7, 1),))

    scripted.generate = careless
    result = play(scripted, tokenizer, tools, tasks=TASKS[:1], samples=1, max_retries=0)
    assert "the engine gave versions for 1 ids" in result.dropped[0].reason


@pytest.mark.parametrize("deterministic", [False, True])
def test_cancellation_closes_every_world(engine, tokenizer, world, deterministic):
    async def work() -> None:
        scripted, asked, all_asked = engine(lambda *_: "go"), list[Any](), asyncio.Event()

        async def never(request: Any) -> Generation:
            asked.append(request)
            if deterministic or len(asked) == 2 * len(TASKS):  # all worlds begin together, or each for itself
                all_asked.set()
            await asyncio.Event().wait()
            raise AssertionError

        scripted.generate = never
        settings = RolloutSettings(make_env=lambda services: world(None, services), deterministic=deterministic)
        task = asyncio.create_task(Collector(scripted, tokenizer, settings).collect(RolloutRequest(TASKS, 2, 1)))
        await all_asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(work())
    assert sorted(world.closed) == sorted([task.id for task in TASKS] * 2)


class Slow(ToolEnv):
    """A world whose reset takes as long as the test wants; it notes what happens in which order."""

    def __init__(self, order: list[str], begun: Callable[[], Any], go: threading.Event) -> None:
        super().__init__()
        self.order, self.begun, self.go = order, begun, go

    def reset(self, task: Task) -> Observation:
        self.begun()
        self.go.wait(60)
        self.order.append("reset")
        return Observation([{"role": "user", "content": "?"}])

    def close(self) -> None:
        self.order.append("close")


class SlowAsync(Slow):
    """The same on the event loop; it takes a moment to obey its cancellation."""

    async def reset(self, task: Task) -> Any:
        self.begun()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.to_thread(self.go.wait, 60)
            self.order.append("reset")


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("slow", [Slow, SlowAsync])
def test_a_world_is_closed_only_when_its_cancelled_reset_has_ended(engine, tokenizer, slow, deterministic):
    order: list[str] = []

    async def work() -> None:
        begun, go, loop = asyncio.Event(), threading.Event(), asyncio.get_running_loop()
        settings = RolloutSettings(
            make_env=lambda services: slow(order, lambda: loop.call_soon_threadsafe(begun.set), go),
            deterministic=deterministic,
        )
        task = asyncio.create_task(
            Collector(engine(searcher), tokenizer, settings).collect(RolloutRequest(TASKS[:1], 1, 1))
        )
        await begun.wait()
        task.cancel()
        ended, _ = await asyncio.wait({task}, timeout=0.2)
        assert not ended, "the world was closed while its reset was under way"
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(work())
    assert order == ["reset", "close"]


def test_tools_know_their_episode_and_keep_its_state(engine, tokenizer, tools):
    def policy(text: str, request: Any) -> str:
        if text.count("<tool_response>") == 2:
            return "<answer>x</answer>"
        return '<tool_call>{"name": "whoami", "arguments": {}}</tool_call>'

    said = [
        [turn.observation[0]["content"] for turn in one.turns[1:]]
        for _ in range(2)
        for one in play(engine(policy), tokenizer, tools, tasks=TASKS[:1]).groups[0].trajectories
    ]
    for first, second in said:
        assert '"turn": 0' in first
        assert '"turn": 1' in second
        assert '"calls": 2' in second
    drawn = [[text.partition('"random": ')[2].partition(",")[0] for text in one] for one in said]
    assert drawn[:2] == drawn[2:], "the same run draws the same numbers (LAW 11)"
    assert len({number for numbers in drawn[:2] for number in numbers}) == 4


@pytest.mark.parametrize(("template_seconds", "letters"), [(0.05, 1), (0.0, 50_000), (0.0, 1)])
def test_what_takes_long_to_render_does_not_hold_up_the_event_loop(
    engine, tools, monkeypatch, template_seconds, letters
):
    tokenizer = ChatTokenizer(tiny_tokenizer(), name="slow")
    render, on_loop = tokenizer.raw.apply_chat_template, []

    def slow_render(*arguments: Any, **options: Any) -> str:
        time.sleep(template_seconds)
        on_loop.append(threading.current_thread() is threading.main_thread())
        return render(*arguments, **options)

    monkeypatch.setattr(tokenizer.raw, "apply_chat_template", slow_render)
    tokenizer.template.render([{"role": "user", "content": "a first one"}])
    tokenizer.template.agrees_with(Hermes())
    on_loop.clear()
    tasks = [Task("long", f"Where was Name0 born? {'x' * letters}", ("Tavelo",))]
    env = {"max_tokens": 200_000, "max_turns": 1}
    play(engine(searcher), tokenizer, tools, tasks, 1, env=env)
    assert on_loop == [template_seconds == 0 and letters == 1] * 2
