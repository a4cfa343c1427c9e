"""Episodes, one and many, against a scripted policy."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from agent_r1_tool_formats.hermes import Hermes
from bad_tools import hang, lookup
from misbehaving_tools import whoami
from stage import BOTH_MODES, TOKENIZER, Right, Stage, call, questions

from agent_r1_core import Action, EndStatus, EnvConfig, Generation, Observation, Request, Sampling, Step, Task, ToolEnv
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.contracts.reward import RewardFn
from agent_r1_core.rollout import Collector, RolloutRequest, RolloutSettings, WeightedReward
from agent_r1_core.testing import Cue, ScriptedPolicy, tiny_tokenizer

SEARCH = [call("lookup", name="Karimo"), "<answer>Tavelo</answer>"]


class Called(RewardFn):
    """1 for a turn with a call; async."""

    name = "called"
    scope = "turn"

    async def score_turn(self, turn: Any, trajectory: Any) -> float:
        assert trajectory.turns[-1] is turn
        return float(bool(turn.calls))


@BOTH_MODES
def test_a_rollout_brings_groups_of_scored_trajectories(deterministic):
    policy, done, begun = ScriptedPolicy(SEARCH), [], time.monotonic()
    policy.version = 7
    rewards = [WeightedReward(Right(), 2.0), WeightedReward(Called(), 0.5)]
    stage = Stage(policy, [lookup()], rewards=rewards, deterministic=deterministic)
    result = stage.play(questions(3), 2, on_episode=done.append)
    assert 0 < result.seconds < time.monotonic() - begun
    assert [group.task.id for group in result.groups] == ["q0", "q1", "q2"]
    assert [[one.sample for one in group.trajectories] for group in result.groups] == [[0, 1]] * 3
    one = result.groups[1].trajectories[0]
    assert (one.status, one.reason, one.answer, one.policy_version) == (EndStatus.TERMINATED, "answer", "Tavelo", 7)
    assert (one.reward, one.rewards) == (2.0, {"right": 1.0})
    assert [(turn.reward, turn.rewards) for turn in one.turns] == [
        (0.5, {"env": 0.0, "called": 1.0}),
        (0.0, {"env": 0.0, "called": 0.0}),
    ]
    assert one.total_reward == 2.5
    assert one.seconds >= one.tool_seconds == sum(turn.tool_seconds for turn in one.turns) > 0
    assert one.messages()[2]["content"] == "Karimo was born in Tavelo."
    assert len(done) == 6
    assert len(set(policy.released)) == 6
    assert result.metrics["episode/turns"] == 2.0
    assert (result.metrics["tools/calls"], result.metrics["episode/answered"]) == (6.0, 1.0)
    assert not [name for name in result.metrics if name.startswith("baseline/")]


def test_requests_are_sampled_as_the_run_says_or_greedily_and_no_more_are_in_flight_than_allowed():
    said = Sampling(temperature=0.7, top_p=0.9, max_new_tokens=50)
    for greedy, expected in ((False, said), (True, Sampling(temperature=0.0, max_new_tokens=50))):
        policy = ScriptedPolicy(SEARCH)
        Stage(policy, [lookup()], sampling=said).play(questions(1), greedy=greedy)
        assert {request.sampling for request in policy.requests} == {expected}

    live: set[str] = set()
    widest = []

    def script(cue: Cue) -> str:
        live.difference_update(policy.released)
        live.add(cue.request.episode)
        widest.append(len(live))
        return SEARCH[cue.turn]

    policy = ScriptedPolicy(script)
    Stage(policy, [lookup()], max_episodes=2).play(questions(3), 4)
    assert max(widest) == 2


@BOTH_MODES
def test_a_task_that_is_listed_twice_has_a_greedy_baseline_of_its_own_each_time(deterministic):
    policy, (first, second) = ScriptedPolicy(SEARCH), questions(2)
    stage = Stage(policy, [lookup()], rewards=[WeightedReward(Right(), 2.0)], deterministic=deterministic)
    result = stage.play([first, second, first], 2, round=1, greedy_baseline=True)
    assert [one.id for one in result.baselines] == ["q0/greedy", "q1/greedy", "q0/greedy"]
    assert [group.baseline.total_reward for group in result.groups] == [2.0] * 3
    greedy = {request.episode for request in policy.requests if request.sampling.temperature == 0}
    assert greedy == {f"1/q{task}/greedy-{time}/1" for task, time in ((0, 0), (1, 0), (0, 1))}
    assert len({one.seed for one in (*result.trajectories, *result.baselines)}) == 9
    metrics = result.metrics
    assert (metrics["rollout/episodes"], metrics["baseline/greedy_return"], metrics["baseline/failed"]) == (6, 2, 0)


def test_rounds_admit_requests_in_order_and_fill_free_seats_and_an_engine_that_forgets_one_is_named():
    batches = []

    class Admitting(ScriptedPolicy):
        async def generate_batch(self, requests: Sequence[Request]) -> list[Generation]:
            batches.append([request.episode for request in requests])
            return await super().generate_batch(requests)

    policy = Admitting(lambda cue: "<answer>x</answer>" if "Name0" in cue.prompt else SEARCH[cue.turn])
    Stage(policy, [lookup()], deterministic=True, max_episodes=2).play(questions(3), round=1)
    assert batches == [["1/q0/0/1", "1/q1/0/1"], ["1/q1/0/1", "1/q2/0/1"], ["1/q2/0/1"]]

    class Forgetful(ScriptedPolicy):
        async def generate_batch(self, requests: Sequence[Request]) -> list[Generation]:
            return (await super().generate_batch(requests))[1:]

    dropped = Stage(Forgetful(SEARCH[-1]), [], deterministic=True).play(questions(2)).dropped
    assert {one.reason for one in dropped} == {
        "EngineError: Forgetful.generate_batch gave 1 generations for 2 requests; return one for each, in their order"
    }


@pytest.mark.parametrize(
    ("times", "budget", "reason"), [(1, {"max_turns": 2}, "max_turns"), (90, {"max_tokens": 300}, "max_tokens")]
)
def test_the_last_observation_of_an_episode_that_a_budget_ends_is_kept(times, budget, reason):
    always = ScriptedPolicy(['<tool_call>{"name": "lookup", "arguments": {"name": "%s"}}</tool_call>' % ("x" * times)])
    (one,) = Stage(always, [lookup()], env=budget).play(questions(1)).trajectories
    (segment,) = one.segments
    assert (one.status, one.reason, one.bootstrap, one.answer) == (EndStatus.TRUNCATED, reason, False, None)
    assert one.closing[0]["content"].endswith("x was born in Tavelo.")
    if reason == "max_turns":
        assert TOKENIZER.decode(segment.ids).endswith("x was born in Tavelo.\n</tool_response><|im_end|>\n")
        assert segment.mask[-1] == 0
    else:
        assert one.turns[-1].stop == len(segment.ids), "it does not fit"


def test_an_environment_is_told_of_an_action_that_was_cut_and_a_prompt_without_room_fails_at_once():
    stage = Stage(ScriptedPolicy(["y" * 500]), env={"max_tokens": 250}, sampling=Sampling(max_new_tokens=60))
    result = stage.play(questions(1))
    (one,) = result.trajectories
    assert [turn.finish for turn in one.turns] == ["length"] * len(one.turns)
    assert "cut" in one.turns[1].observation[0]["content"]
    assert (result.metrics["episode/cut_actions"], result.metrics["episode/malformed"]) == (1.0, 1.0)

    result = Stage(ScriptedPolicy(SEARCH), [lookup()], env={"max_tokens": 20}).play(questions(1))
    (dropped,) = result.dropped
    assert dropped.attempts == 1
    assert dropped.reason == "the prompt of task q0 has 63 tokens, which do not fit into env.max_tokens=20; raise it"


class World(ToolEnv):
    """A continuing world, sync; it breaks as it is told."""

    broken: ClassVar[set[str]] = set()
    closed: ClassVar[list[str]] = []

    def reset(self, task: Task) -> Observation:
        self.task, self.count = task, 0
        self._break("reset")
        return Observation([{"role": "user", "content": str(task.prompt)}], state_key="s0")

    def step(self, action: Action) -> Any:
        self._break("step")
        self.count += 1
        seen = Observation([{"role": "user", "content": f"tick {self.count}"}], state_key=f"s{self.count}")
        over = self.count == 2
        return Step(seen, reward=0.25, truncated=over, success=over, info={"ticks": self.count})

    def close(self) -> None:
        World.closed.append(self.task.id)

    def _break(self, where: str) -> None:
        if where in World.broken:
            raise RuntimeError(f"the {where} broke")


def stage_of(world: Callable[..., ToolEnv], **settings: Any) -> Stage:
    World.broken, World.closed = set(), []
    return Stage(ScriptedPolicy(["go"]), make_env=lambda services: world(None, services), **settings)


def test_a_limit_outside_the_world_bootstraps_and_what_a_withdrawn_turn_says_is_of_the_turn_before_it():
    result = stage_of(World).play(questions(3))
    one = result.groups[0].trajectories[0]
    assert (one.status, one.reason, one.bootstrap) == (EndStatus.TRUNCATED, "env", True)
    assert [(turn.reward, turn.state_key) for turn in one.turns] == [(0.25, "s0"), (0.25, "s1")]
    assert TOKENIZER.decode(one.segments[0].ids).endswith("tick 2<|im_end|>\n<|im_start|>assistant\n")
    assert sorted(World.closed) == ["q0", "q1", "q2"]
    assert (result.metrics["episode/success"], result.metrics["env/ticks"]) == (1.0, 1.5)

    class Withdrawing(World):
        """The second action is none of the agent's."""

        def step(self, action: Action) -> Step:
            step = super().step(action)
            step.truncated, step.withdrawn, step.terminated = False, self.count == 2, self.count == 3
            return step

    (one,) = stage_of(Withdrawing).play(questions(1)).trajectories
    assert [turn.observation[0]["content"] for turn in one.turns] == ["Where was Name0 born?", "tick 2"]
    assert [(turn.reward, turn.rewards["env"], turn.success) for turn in one.turns] == [
        (0.5, 0.5, True),
        (0.25, 0.25, False),
    ]
    assert [turn.info for turn in one.turns] == [{"ticks": 2}, {"ticks": 3}]
    assert "tick 1" not in TOKENIZER.decode(one.segments[0].ids)


def test_a_world_that_hangs_is_counted():
    release = threading.Event()

    class Hangs(World):
        def step(self, action: Action) -> Any:
            release.wait(20)

    config = EnvConfig(timeout=0.2)
    stage = Stage(ScriptedPolicy(["go"]), make_env=lambda services: Hangs(config, services), max_retries=0)
    result = stage.play(questions(2))
    release.set()
    assert result.metrics["rollout/hung"] == 2


def test_an_environment_gets_the_tools_a_decoder_and_random_numbers_of_its_own_seed():
    class Looking(World):
        """A world that shows what it was given."""

        def reset(self, task: Task) -> Observation:
            self.task, self.count = task, 0
            called, read = self.services.call_tools is not None, self.services.decode(TOKENIZER.encode("é<answer>"))
            shown = f"{sorted(self.services.tools)} {called} {read} {self.services.rng.random()}"
            return Observation([{"role": "user", "content": shown}])

    def shown(**settings: Any) -> list[str]:
        result = stage_of(Looking, tools=[lookup(), hang()], **settings).play(questions(3), 2)
        return [one.turns[0].observation[0]["content"] for one in result.trajectories]

    first = shown()
    assert all(text.startswith("['hang', 'lookup'] True é<answer> 0.") for text in first)
    assert len(set(first)) == 6
    assert first == shown()
    assert not set(first) & set(shown(seed=1))


@pytest.mark.parametrize("where", ["reset", "step"])
def test_a_broken_world_is_closed_after_every_attempt(where):
    stage = stage_of(World, max_retries=1)
    World.broken = {where}
    result = stage.play(questions(3))
    assert re.fullmatch(rf"RuntimeError: the {where} broke \(test_collector.py, line \d+\)", result.dropped[0].reason)
    assert len(World.closed) == 6


def test_a_turn_says_which_weights_sampled_it_and_a_group_whether_it_mixes():
    class Updated(ScriptedPolicy):
        """New weights arrive while the last action of q1 is sampled; in q2 it loses count."""

        async def generate(self, request: Request) -> Generation:
            made, (_, task, *_) = await super().generate(request), request.episode.split("/")
            spans = {"q1": ((7, 2), (8, len(made.ids) - 2)), "q2": ((7, 1),)}.get(task, ())
            last = "<tool_response>" in TOKENIZER.decode(request.ids)
            return replace(made, version=7, versions=spans if last else ())

    result = Stage(Updated(SEARCH), [lookup()], max_retries=0).play(questions(3))
    assert [group.versions for group in result.groups] == [{7}, {7, 8}]
    assert result.metrics["rollout/mixed_groups"] == 1
    (one,) = result.groups[1].trajectories
    first, second = one.turns
    assert first.versions == ((7, first.tokens),)
    assert second.versions == ((7, 2), (8, second.tokens - 2))
    assert one.policy_version == 7
    assert "the engine gave versions for 1 ids" in result.dropped[0].reason


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


@BOTH_MODES
@pytest.mark.parametrize("slow", [Slow, SlowAsync])
async def test_a_world_is_closed_only_when_its_cancelled_reset_has_ended(slow, deterministic):
    order: list[str] = []

    begun, go, loop = asyncio.Event(), threading.Event(), asyncio.get_running_loop()
    settings = RolloutSettings(
        make_env=lambda services: slow(order, lambda: loop.call_soon_threadsafe(begun.set), go),
        deterministic=deterministic,
    )
    collector = Collector(ScriptedPolicy(SEARCH), TOKENIZER, settings)
    task = asyncio.create_task(collector.collect(RolloutRequest(questions(1))))
    await begun.wait()
    task.cancel()
    ended, _ = await asyncio.wait({task}, timeout=0.2)
    assert not ended, "the world was closed while its reset was under way"
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert order == ["reset", "close"]


def test_tools_know_their_episode_and_keep_its_state():
    script = [call("whoami"), call("whoami"), "<answer>x</answer>"]
    said = [
        [turn.observation[0]["content"] for turn in one.turns[1:]]
        for _ in range(2)
        for one in Stage(ScriptedPolicy(script), [whoami()]).play(questions(1), 2).trajectories
    ]
    for first, second in said:
        assert '"turn": 0' in first
        assert '"turn": 1' in second
        assert '"calls": 2' in second
    drawn = [[text.partition('"random": ')[2] for text in one] for one in said]
    assert drawn[:2] == drawn[2:], "the same run draws the same numbers (LAW 11)"
    assert len({number for numbers in drawn[:2] for number in numbers}) == 4


@pytest.mark.parametrize(("template_seconds", "letters"), [(0.05, 1), (0.0, 50_000), (0.0, 1)])
def test_what_takes_long_to_render_does_not_hold_up_the_event_loop(monkeypatch, template_seconds, letters):
    if not template_seconds:  # on a busy machine even a quick one may take its time
        monkeypatch.setattr("agent_r1_core.chat.template._QUICK_SECONDS", 60.0)
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
    task = Task("long", f"Where was Name0 born? {'x' * letters}", ("Tavelo",))
    stage = Stage(ScriptedPolicy(SEARCH), [lookup()], tokenizer=tokenizer, env={"max_tokens": 200_000, "max_turns": 1})
    stage.play([task])
    assert on_loop == [template_seconds == 0 and letters == 1] * 2
