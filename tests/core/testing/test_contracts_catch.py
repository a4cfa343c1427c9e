"""Each contract class catches what it is there to catch: a fault planted in a sound component makes it fail."""

from __future__ import annotations

import inspect
import itertools
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from agent_r1_calculator.tool import Calculator
from agent_r1_contexts.append import Append
from agent_r1_contexts.window import Window
from agent_r1_grpo.grpo import GRPO
from agent_r1_tool_formats.hermes import Hermes

from agent_r1_core import (
    EnvServices,
    History,
    Markup,
    Message,
    Observation,
    ParsedAction,
    RewardFn,
    Step,
    Task,
    TaskSource,
    ToolCall,
    ToolEnv,
    ToolError,
    ToolResult,
)
from agent_r1_core.testing import (
    AlgorithmContract,
    ContextContract,
    RewardContract,
    TaskSourceContract,
    ToolContract,
    ToolEnvContract,
    ToolFormatContract,
    make_task,
    make_trajectory,
)

COUNTER = itertools.count()


def failures(contract: type, component: type, folder: Path, **settings: Any) -> set[str]:
    """Names of the contract's tests that fail for a component."""
    tests = type("Here", (contract,), {"component": component, **settings})()
    failed = set()
    for name, test in inspect.getmembers(tests, inspect.ismethod):
        if name.startswith("test_"):
            try:
                test(*([folder] if "tmp_path" in inspect.signature(test).parameters else []))
            except Exception:
                failed.add(name.removeprefix("test_"))
    return failed


class SilentRefusal(Calculator):
    """Refuses without a word."""

    def run(self, arguments: Any, context: Any) -> Any:
        raise ToolError("")


class Stateful(Calculator):
    """Counts calls over all episodes."""

    def run(self, arguments: Any, context: Any) -> Any:
        return next(COUNTER)


class Lavish(Calculator):
    """Pays more than it declares."""

    reward_range = (0.0, 1.0)

    def run(self, arguments: Any, context: Any) -> Any:
        context.reward(2.0)
        return "2"


class Undeclared(Lavish):
    """Pays without declaring it."""

    reward_range = None


def test_a_tool_that_pays_what_it_may_not(tmp_path: Path) -> None:
    given = {"arguments": {"expression": "1+1"}, "expected": "2"}
    for tool in (Lavish, Undeclared):
        assert failures(ToolContract, tool, tmp_path, **given) == {"a_call_earns_what_its_range_allows"}
    sound = type("Sound", (Lavish,), {"reward_range": (0.0, 2.0)})
    assert failures(ToolContract, sound, tmp_path, **given, reward=2.0) == set()
    assert failures(ToolContract, sound, tmp_path, **given, reward=1.0) == {"a_call_earns_what_its_range_allows"}


def test_a_tool_that_keeps_state_between_calls(tmp_path: Path) -> None:
    found = failures(ToolContract, Stateful, tmp_path, arguments={"expression": "1+1"}, expected="2")
    assert found == {"a_call_answers_with_something_to_show", "calls_do_not_disturb_one_another"}


class OfOneThread(Calculator):
    """Keeps a connection that serves only the thread that made it."""

    def open(self, resources: Any) -> None:
        self.connection = sqlite3.connect(":memory:")

    def run(self, arguments: Any, context: Any) -> Any:
        return str(self.connection.execute("SELECT 1 + 1").fetchone()[0])

    def close(self) -> None:
        if hasattr(self, "connection"):
            self.connection.close()


def test_a_tool_whose_calls_work_only_in_the_thread_that_opened_it(tmp_path: Path) -> None:
    given: dict[str, Any] = {"arguments": {"expression": "1+1"}, "expected": "2"}
    found = failures(ToolContract, OfOneThread, tmp_path, **given)
    assert found == {"open_its_calls_and_close_may_run_in_different_threads"}
    apart = type("Apart", (OfOneThread,), {"isolation": "process"})
    assert failures(ToolContract, apart, tmp_path, **given) == set()


def test_a_tool_that_refuses_without_a_word(tmp_path: Path) -> None:
    found = failures(ToolContract, SilentRefusal, tmp_path, arguments={"expression": "1"}, refused={"expression": "x"})
    assert "a_refusal_is_a_sentence_for_the_model" in found


class Guess(ToolEnv):
    """Guess the number; sound."""

    def reset(self, task: Task) -> Observation:
        return Observation([{"role": "user", "content": "Guess."}])

    def step(self, action: Any) -> Step:
        if action.text == "7":
            return Step(terminated=True, reward=1.0, answer="7")
        return Step(Observation([{"role": "user", "content": "No."}]))


class Generous(Guess):
    """Says that it gives no rewards, and gives one."""

    gives_rewards = False


class Mute(Guess):
    """Answers noise with silence."""

    def step(self, action: Any) -> Step:
        return super().step(action) if action.text == "7" else Step()


class Brittle(Guess):
    """Raises where an action is no number."""

    def step(self, action: Any) -> Step:
        int(action.text)
        return super().step(action)


class EndsTwice(Guess):
    """Cannot decide how its episode ended."""

    def step(self, action: Any) -> Step:
        return Step(super().step(action).observation, terminated=True, truncated=True)


class OtherStart(Guess):
    """Every episode of a task is another problem."""

    def reset(self, task: Task) -> Observation:
        super().reset(task)
        return Observation([{"role": "user", "content": f"Guess a number below {self.services.rng.random()}."}])


class Shared(Guess):
    """All instances count together."""

    tries = 0

    def step(self, action: Any) -> Step:
        type(self).tries += 1
        return Step(Observation([{"role": "user", "content": str(self.tries)}]), terminated=action.text == "7")


class Unseeded(Guess):
    """Draws from a generator of its own."""

    def __init__(self, config: Any = None, services: EnvServices | None = None) -> None:
        super().__init__(config, services)
        self.secret = next(COUNTER)

    def reset(self, task: Task) -> Observation:
        return Observation([{"role": "user", "content": str(self.secret)}])


def test_a_sound_environment_passes(tmp_path: Path) -> None:
    assert failures(ToolEnvContract, Guess, tmp_path, actions=["1", "7"]) == set()


@pytest.mark.parametrize(
    ("env", "fault"),
    [
        (Mute, "noise_is_answered_and_never_raises"),
        (Brittle, "noise_is_answered_and_never_raises"),
        (EndsTwice, "every_observation_and_step_is_well_formed"),
        (Generous, "every_observation_and_step_is_well_formed"),
        (OtherStart, "every_episode_of_a_task_begins_alike"),
        (Shared, "instances_share_nothing"),
        (Unseeded, "the_same_seed_and_actions_give_the_same_episode"),
    ],
)
def test_a_faulty_environment(tmp_path: Path, env: type, fault: str) -> None:
    assert fault in failures(ToolEnvContract, env, tmp_path, actions=["1", "7"])


def test_an_environment_whose_episode_never_ends(tmp_path: Path) -> None:
    assert "an_episode_comes_to_its_end" in failures(ToolEnvContract, Guess, tmp_path, actions=["1"])


class Enthusiast(RewardFn):
    """Scores beyond its range, and marks what it has seen."""

    def score(self, trajectory: Any) -> float:
        trajectory.reason = "seen"
        return 2.0


class Wordy(RewardFn):
    """Scores in text."""

    def score(self, trajectory: Any) -> Any:
        return "1.0"


class Breaks(RewardFn):
    """Forgets that there may be no answer."""

    def score(self, trajectory: Any) -> float:
        return float(len(trajectory.answer) > 0)


def test_faulty_rewards(tmp_path: Path) -> None:
    cases = ((make_trajectory(answer="2"), 1.0),)
    assert failures(RewardContract, Enthusiast, tmp_path, cases=cases) == {
        "every_score_is_a_number_in_its_range",
        "the_cases_get_their_scores",
        "scoring_twice_gives_the_same_and_changes_nothing",
        "no_answer_does_not_beat_the_right_one",
    }
    for reward in (Breaks, Wordy):
        assert "every_score_is_a_number_in_its_range" in failures(RewardContract, reward, tmp_path, cases=cases)


class Shuffled(TaskSource):
    """Other tasks each time, with one id."""

    def load(self) -> list[Task]:
        return [make_task("same", prompt=str(next(COUNTER))) for _ in range(2)]


def test_a_faulty_task_source(tmp_path: Path) -> None:
    assert failures(TaskSourceContract, Shuffled, tmp_path) == {
        "ids_are_unique",
        "the_same_options_give_the_same_tasks",
    }


class Deaf(Hermes):
    """Reads no call."""

    def parse(self, text: str) -> ParsedAction:
        return ParsedAction()


class Impatient(Hermes):
    """Stops in the middle of its own calls."""

    stop_strings = ("arguments",)


class Trusting(Hermes):
    """Marks what tools say as its own."""

    def results(self, results: Sequence[ToolResult]) -> list[Message]:
        return [{"role": "user", "content": Markup(f"<result>{result.text}</result>")} for result in results]


class Wrapping(Hermes):
    """Writes more around a result than it takes off when it reads."""

    def results(self, results: Sequence[ToolResult]) -> list[Message]:
        return [{"role": "tool", "content": f"Result: {result.text}"} for result in results]


def test_faulty_tool_formats(tmp_path: Path) -> None:
    found = failures(ToolFormatContract, Deaf, tmp_path, malformed=("<tool_call>{",), calls=(ToolCall("search", {}),))
    assert found == {"what_it_writes_it_reads", "a_broken_call_is_an_error_and_no_exception"}
    assert failures(ToolFormatContract, Impatient, tmp_path) == {"its_stop_strings_end_what_it_writes"}
    assert failures(ToolFormatContract, Trusting, tmp_path) == {"results_are_data"}
    assert failures(ToolFormatContract, Wrapping, tmp_path) == {"results_are_read_as_they_were_written"}


class Forgets(Window):
    """Loses the task with the turns."""

    async def next_context(self, history: History) -> Sequence[Message]:
        return history.messages[-2:]


class Parts(Window):
    """Keeps answers without the actions that asked for them."""

    async def next_context(self, history: History) -> Sequence[Message]:
        return [*history.opening, *history.exchanges[-1].answer]


class Alternates(Window):
    """Keeps a turn more at every second call."""

    async def next_context(self, history: History) -> Sequence[Message]:
        return history.last(1 + next(COUNTER) % 2)


class Copies(Append):
    """Returns copies of actions."""

    async def next_context(self, history: History) -> Sequence[Message]:
        return [one.copy() if one["role"] == "assistant" else one for one in history.messages]


class Scribbles(Append):
    """Shortens the environment's words where they stand."""

    async def next_context(self, history: History) -> Sequence[Message]:
        for message in history.exchanges[-1].answer:
            message["content"] = message["content"][:9]
        return history.messages


def test_faulty_context_strategies(tmp_path: Path) -> None:
    malformed = {"every_choice_is_well_formed", "episodes_are_played_within_the_budget"}
    assert failures(ContextContract, Forgets, tmp_path) == malformed
    assert failures(ContextContract, Parts, tmp_path) == {"every_choice_is_well_formed"}
    assert failures(ContextContract, Alternates, tmp_path) == {"a_choice_depends_on_the_history_alone"}
    assert failures(ContextContract, Copies, tmp_path) == {"an_action_that_stays_is_the_very_object"}
    assert failures(ContextContract, Scribbles, tmp_path) == {"the_history_is_left_as_it_is"}
    assert failures(ContextContract, Window, tmp_path) == set()


class CreditsAll(GRPO):
    """Credits environment tokens."""

    def advantages(self, batch: Any) -> Any:
        made = super().advantages(batch)
        made.advantages = torch.where(batch.response_mask, 1.0, 0.0) * batch.returns[:, None]
        return made


class LooksAside(GRPO):
    """Its advantages depend on numbers at environment tokens."""

    def advantages(self, batch: Any) -> Any:
        made = super().advantages(batch)
        made.advantages = made.advantages + batch.action_mask * batch.values.sum(1, keepdim=True)
        return made


class OwnNormaliser(GRPO):
    """Divides by the micro-batch's own number of tokens."""

    def loss(self, tokens: Any) -> Any:
        terms = super().loss(tokens)
        return type(terms)(terms.loss / tokens.weights.sum(), terms.value_loss, terms.metrics)


class PullsBack(GRPO):
    """Pulls every token to the old policy, and lets trajectories without advantage be skipped all the same."""

    def loss(self, tokens: Any) -> Any:
        terms = super().loss(tokens)
        moved = ((tokens.logprobs - tokens.old_logprobs) ** 2 * tokens.weights).sum()
        return type(terms)(terms.loss + 0.01 * moved, terms.value_loss, terms.metrics)


class Ascends(GRPO):
    """Has the sign wrong."""

    def loss(self, tokens: Any) -> Any:
        terms = super().loss(tokens)
        return type(terms)(-terms.loss, terms.value_loss, terms.metrics)


@pytest.mark.parametrize(
    ("algorithm", "fault"),
    [
        (CreditsAll, "advantages_are_finite_constants_and_stand_on_credited_tokens"),
        (LooksAside, "values_outside_the_action_mask_change_nothing"),
        (OwnNormaliser, "losses_are_sums_over_weighted_tokens_and_metrics_sums_with_their_counts"),
        (OwnNormaliser, "micro_batches_add_up"),
        (PullsBack, "no_trajectory_with_a_gradient_is_skipped"),
        (Ascends, "a_good_action_becomes_likelier"),
    ],
)
def test_a_faulty_algorithm(tmp_path: Path, algorithm: type, fault: str) -> None:
    assert fault in failures(AlgorithmContract, algorithm, tmp_path)
