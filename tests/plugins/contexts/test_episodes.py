"""Episodes under each context strategy, against a scripted policy: what it read, what is trained, how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest
from agent_r1_contexts.append import Append
from agent_r1_contexts.summary import HEADING, PROMPT, Summary
from agent_r1_contexts.window import Window

from agent_r1_core import Action, EnvConfig, Message, Observation, RewardFn, Sampling, Step, Task, ToolEnv
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.contracts.context import ContextStrategy, History, SummaryRequest
from agent_r1_core.rollout import Collector, RolloutRequest, RolloutResult, RolloutSettings, WeightedReward
from agent_r1_core.testing import ScriptedPolicy, make_task, tiny_tokenizer
from agent_r1_core.trajectory import EndStatus, Trajectory

TOKENIZER = ChatTokenizer(tiny_tokenizer(), name="tiny")


class Walk(ToolEnv):
    """Five steps; the answer to step n is a tool's, and names the state after it."""

    def reset(self, task: Task) -> Observation:
        self.done = 0
        opening: list[Message] = [{"role": "system", "content": "Walk."}, {"role": "user", "content": "Five steps!"}]
        return Observation(opening, state_key="0")

    def step(self, action: Action) -> Step:
        self.done += 1
        seen: Message = {"role": "tool", "name": "ground", "content": f"Stone {self.done}."}
        over = self.done == 5
        return Step(Observation([seen], state_key=str(self.done)), reward=0.5, success=over, terminated=over)


class Counted(RewardFn):
    """1 for every turn."""

    name, scope = "counted", "turn"

    def score_turn(self, turn: Any, trajectory: Trajectory) -> float:
        assert turn.purpose == "action"
        return 1.0


def play(
    strategy: ContextStrategy | None, script: Any, samples: int = 1, world: type[Walk] = Walk, **env: Any
) -> RolloutResult:
    """One task."""
    config = EnvConfig(**({"max_turns": 5, "max_tokens": 2000} | env))
    given: dict[str, Any] = {"rewards": [WeightedReward(Counted())], "sampling": Sampling(max_new_tokens=50)}
    settings = RolloutSettings(lambda services: world(config, services), context=strategy, max_retries=0, **given)

    with closing(Collector(ScriptedPolicy(script, TOKENIZER), TOKENIZER, settings)) as collector:
        return asyncio.run(collector.collect(RolloutRequest([make_task()], samples, 0)))


def episode(strategy: ContextStrategy | None, script: Any, **env: Any) -> Trajectory:
    """The only one."""
    result = play(strategy, script, **env)
    assert not result.dropped, result.dropped[0].reason
    return result.trajectories[0]


def read(one: Trajectory, turn: int) -> str:
    """What the policy read before it acted in this turn."""
    place = one.turns[turn]
    return TOKENIZER.decode(one.segments[place.segment].ids[: place.start])


def words(cue: Any) -> str:
    """Says which turn it is; at the prompt for a summary, which stone was the last."""
    if PROMPT in cue.prompt:
        return f"Seen so far: {cue.prompt.rpartition('Stone ')[2][0]}."
    return f"Step {cue.turn}"


def test_append_is_what_happens_without_a_strategy_and_truncates() -> None:
    assert episode(Append(), words).segments == episode(None, words).segments
    assert len(episode(None, words).segments) == 1
    one = episode(Append(), words, max_tokens=180)
    assert (one.status, one.reason) == (EndStatus.TRUNCATED, "max_tokens")
    assert len(one.turns) < 5


def test_a_window_leaves_whole_turns_and_fewer_where_the_budget_is_small() -> None:
    one = episode(Window(Window.Config(turns=2)), words)
    assert [turn.segment for turn in one.turns] == [0, 0, 0, 1, 2]
    assert all("Walk." in read(one, turn) and "Five steps!" in read(one, turn) for turn in range(5))
    for turn, kept in ((2, (0, 1)), (3, (1, 2)), (4, (2, 3))):
        text = read(one, turn)
        assert [f"Step {index}" in text for index in range(turn)] == [index in kept for index in range(turn)]
        assert [f"Stone {index + 1}." in text for index in range(turn)] == [index in kept for index in range(turn)]
    assert sum(map(sum, (segment.mask for segment in one.segments))) == sum(turn.tokens for turn in one.turns)
    assert [turn.state_key for turn in one.turns] == ["0", "1", "2", "3", "4"]
    wide = episode(Window(Window.Config(turns=4)), words, max_tokens=180)
    assert wide.status is EndStatus.TERMINATED
    last = read(wide, 4)
    assert "Step 3" in last
    assert "Step 0" not in last
    narrow = episode(Window(Window.Config(turns=4)), words, max_tokens=75)
    assert (narrow.status, narrow.reason) == (EndStatus.TRUNCATED, "max_tokens"), "one turn always stays"


def test_a_summary_is_an_action_that_no_environment_sees_and_with_the_task_begins_the_next_segment() -> None:
    one = episode(Summary(Summary.Config(turns=2)), words)
    purposes = " ".join(turn.purpose for turn in one.turns)
    assert purposes == "action action summary action action summary action"
    assert (one.status, len(one.steps), one.success) == (EndStatus.TERMINATED, 5, True)
    for turn in one.turns:
        segment = one.segments[turn.segment]
        assert segment.mask[turn.start : turn.stop] == [1] * turn.tokens
        assert all(value < 0 for value in segment.logprobs[turn.start : turn.stop])
        assert turn.rewards == ({} if turn.purpose == "summary" else {"env": 0.5, "counted": 1.0})
    assert one.total_reward == 7.5
    assert [turn.segment for turn in one.turns] == [0, 0, 0, 1, 1, 1, 2]
    assert [turn.state_key for turn in one.turns] == ["0", "1", None, "2", "3", None, "4"]
    assert "Stone 2.\n</tool_response>" in read(one, 2), "the newest answer is in what is summed up"
    assert one.turns[2].text == "Seen so far: 2."
    summed = {"role": "user", "content": f"{HEADING}\nSeen so far: 2."}
    opening = [{"role": "system", "content": "Walk."}, {"role": "user", "content": "Five steps!"}]
    assert read(one, 3) == TOKENIZER.template.render([*opening, summed])
    assert one.turns[3].observation == [summed]
    assert one.turns[2].observation[-1] == {"role": "user", "content": PROMPT}
    assert "Seen so far: 2." in read(one, 5)
    assert "Seen so far: 4." in read(one, 6)
    assert "Seen so far: 2." not in read(one, 6), "the second summary takes the place of the first"


def test_what_ends_an_action_does_not_end_a_summary() -> None:
    class Stopped(Walk):
        def stop_strings(self) -> Sequence[str]:
            return ("</go>",)

    asked: list[tuple[bool, Sequence[str]]] = []

    def script(cue: Any) -> str:
        asked.append((PROMPT in cue.prompt, cue.request.stop_strings))
        return words(cue)

    episode(Summary(Summary.Config(turns=2)), script, world=Stopped)
    assert asked == [(False, ("</go>",))] * 2 + [(True, ()), (False, ("</go>",)), (False, ("</go>",))] + asked[5:]


def test_a_long_context_is_summed_up_in_time_and_an_episode_without_room_for_its_summary_truncated() -> None:
    one = episode(Summary(Summary.Config(max_tokens=200, summary_tokens=60)), words, max_tokens=600)
    assert one.status is EndStatus.TERMINATED
    for turn in one.turns:
        if turn.purpose == "action":
            assert turn.start <= 200
    assert any(turn.purpose == "summary" for turn in one.turns)
    no_prompt = episode(Summary(Summary.Config(turns=2, prompt="Sum up! " * 60)), words, max_tokens=400)
    assert (no_prompt.status, no_prompt.reason) == (EndStatus.TRUNCATED, "max_tokens")
    assert no_prompt.turns[-1].purpose == "action"
    long = Summary(Summary.Config(turns=2, prompt="Now.", heading="Notes: " * 40))
    no_notes = episode(long, words, max_tokens=300)
    assert (no_notes.status, no_notes.reason) == (EndStatus.TRUNCATED, "max_tokens")
    assert no_notes.turns[-1].purpose == "summary"
    assert no_notes.success is False, "the environment's last word"


@pytest.mark.parametrize(
    ("said", "keep_thinking", "cut", "empty", "left"),
    [
        ("word " * 30, False, True, False, "word " * 7 + "word"),
        ("", False, False, True, "(nothing)"),
        ("<think>Hm.</think>", False, False, True, "(nothing)"),
        ("<think>Hm.</think>", True, False, False, "<think>Hm.</think>"),
        ("<think>What was it that I wanted to say?", False, True, True, "(nothing)"),
    ],
)
def test_a_cut_or_empty_summary_is_used_as_it_is_and_counted(said, keep_thinking, cut, empty, left):
    strategy = Summary(Summary.Config(turns=2, summary_tokens=40, keep_thinking=keep_thinking))
    result = play(strategy, lambda cue: said if PROMPT in cue.prompt else "On.")
    (one,) = result.trajectories
    summary = one.turns[2]
    assert (summary.finish, bool(summary.errors)) == ("length" if cut else "stop", empty)
    assert summary.tokens <= 40
    assert one.turns[3].observation[0]["content"] == f"{HEADING}\n{left}"
    metrics = result.metrics
    assert (metrics["episode/turns"], metrics["episode/summaries"]) == (5.0, 2.0)
    assert (metrics["episode/cut_summaries"], metrics["episode/empty_summaries"]) == (cut, empty)
    assert (metrics["episode/cut_actions"], metrics["episode/malformed"]) == (0.0, 0.0)


class Faulty(ContextStrategy):
    """Chooses what it is told to."""

    def __init__(self, choose: Any) -> None:
        super().__init__()
        self._choose = choose

    async def next_context(self, history: History) -> Sequence[Message] | SummaryRequest:
        return self._choose(history)


@pytest.mark.parametrize(
    ("choose", "said"),
    [
        (lambda history: None, "returned NoneType; return messages or a SummaryRequest"),
        (lambda history: history.messages[1:], "dropped the opening"),
        (lambda history: history.messages[:-1], "ended with an action"),
        (lambda history: [*history.opening, *history.exchanges[-1].answer], "kept a tool's answer without the action"),
        (lambda history: [*history.opening, {"role": "boss", "content": "Go!"}], "chose a message of the role 'boss'"),
        (lambda history: SummaryRequest("", "", 5), "asked for a summary with ''"),
        (lambda history: SummaryRequest("Sum up.", "", 0), "gave the summary 0 tokens"),
        (lambda history: 1 / 0, "division by zero"),
    ],
)
def test_a_faulty_strategy_fails_its_episode_and_no_other(choose: Any, said: str) -> None:
    (one,) = play(Faulty(choose), words).dropped
    assert one.status is EndStatus.FAILED
    assert said in one.reason


def test_a_new_context_of_the_environment_is_the_opening_from_then_on() -> None:
    class Chapters(Walk):
        def step(self, action: Action) -> Step:
            step = super().step(action)
            if self.done == 2:
                step.observation = Observation([{"role": "user", "content": "Chapter two."}], new_context=True)
            return step

    one = episode(Window(Window.Config(turns=1)), words, world=Chapters)
    assert [turn.new_context for turn in one.turns] == [False, False, True, False, False]
    last = read(one, 4)
    assert "Chapter two." in last
    assert "Step 3" in last
    assert "Step 2" not in last
    assert "Walk." not in last
