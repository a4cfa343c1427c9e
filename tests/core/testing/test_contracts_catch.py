"""Each contract class catches what it is there to catch: a fault planted in a sound component makes it fail."""

from __future__ import annotations

import inspect
import itertools
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
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
from agent_r1_core.errors import AlgorithmError
from agent_r1_core.learning.batch import Advantages
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


def failures(contract: type, component: type, folder: Path, **settings: Any) -> dict[str, Exception]:
    """The contract's tests that fail for a component, by their names, and what they raise."""
    tests = type("Here", (contract,), {"component": component, **settings})()
    failed = {}
    for name, test in inspect.getmembers(tests, inspect.ismethod):
        if name.startswith("test_"):
            try:
                test(*([folder] if "tmp_path" in inspect.signature(test).parameters else []))
            except Exception as error:
                failed[name.removeprefix("test_")] = error
    return failed


def faulty(base: type, **members: Any) -> type:
    """The component with these members in place of its own."""
    return type("Faulty", (base,), members)


class SilentRefusal(Calculator):
    """Refuses without a word."""

    def run(self, arguments: Any, context: Any) -> Any:
        raise ToolError("")


class Lavish(Calculator):
    """Pays more than it declares."""

    reward_range = (0.0, 1.0)

    def run(self, arguments: Any, context: Any) -> Any:
        context.reward(2.0)
        return "2"


class OfOneThread(Calculator):
    """Keeps a connection that serves only the thread that made it."""

    def open(self, resources: Any) -> None:
        self.connection = sqlite3.connect(":memory:")

    def run(self, arguments: Any, context: Any) -> Any:
        return str(self.connection.execute("SELECT 1 + 1").fetchone()[0])

    def close(self) -> None:
        if hasattr(self, "connection"):
            self.connection.close()


class Guess(ToolEnv):
    """Guess the number; sound."""

    def reset(self, task: Task) -> Observation:
        return Observation([{"role": "user", "content": "Guess."}])

    def step(self, action: Any) -> Step:
        if action.text == "7":
            return Step(terminated=True, reward=1.0, answer="7")
        return Step(Observation([{"role": "user", "content": "No."}]))


class Brittle(Guess):
    """Raises where an action is no number."""

    def step(self, action: Any) -> Step:
        int(action.text)
        return super().step(action)


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


class Enthusiast(RewardFn):
    """Scores beyond its range, and marks what it has seen."""

    def score(self, trajectory: Any) -> float:
        trajectory.reason = "seen"
        return 2.0


def marked(self: Hermes, results: Sequence[ToolResult]) -> list[Message]:
    """Marks what tools say as its own."""
    return [{"role": "user", "content": Markup(f"<result>{result.text}</result>")} for result in results]


def wrapped(self: Hermes, results: Sequence[ToolResult]) -> list[Message]:
    """Writes more around a result than it takes off when it reads."""
    return [{"role": "tool", "content": f"Result: {result.text}"} for result in results]


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


Stateful = faulty(Calculator, run=lambda self, arguments, context: next(COUNTER))
Generous = faulty(Guess, gives_rewards=False)
Mute = faulty(Guess, step=lambda self, action: Guess.step(self, action) if action.text == "7" else Step())
EndsTwice = faulty(Guess, step=lambda self, action: Step(terminated=True, truncated=True))
Forgetful = faulty(RewardFn, score=lambda self, trajectory: float(len(trajectory.answer) > 0))
Shuffled = faulty(TaskSource, load=lambda self: [make_task("same", str(next(COUNTER))) for _ in range(2)])
Deaf = faulty(Hermes, parse=lambda self, text: ParsedAction())
Impatient = faulty(Hermes, stop_strings=("arguments",))


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


class Marks(GRPO):
    """Writes in the record of an episode what no run trains."""

    def advantages(self, batch: Any) -> Any:
        batch.trajectories[0].rewards["seen"] = 1.0
        return super().advantages(batch)


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


EARNS = "a_call_earns_what_its_range_allows"
ANSWERED = "noise_is_answered_and_never_raises"
IN_RANGE = "every_score_is_a_number_in_its_range"
UNBEATEN = "no_answer_does_not_beat_the_right_one"
STANDS = "advantages_are_finite_constants_and_stand_on_credited_tokens"
OF_LOSSES = {
    "a_good_action_becomes_likelier", "losses_are_sums_over_weighted_tokens_and_metrics_sums_with_their_counts",
    "micro_batches_add_up", "no_trajectory_with_a_gradient_is_skipped", "the_loss_has_a_gradient_where_it_has_a_weight",
}  # fmt: skip
OF_ADVANTAGES = OF_LOSSES | {
    STANDS, "a_rollout_without_rewards_stays_finite", "padding_changes_nothing",
    "values_outside_the_action_mask_change_nothing",
}  # fmt: skip
CALL = {"arguments": {"expression": "1+1"}, "expected": "2"}
REFUSED = {"arguments": {"expression": "1"}, "refused": {"expression": "x"}}
ACTIONS = {"actions": ["1", "7"]}
CASES = {"cases": ((make_trajectory(answer="2"), 1.0),)}
BROKEN = {"malformed": ("<tool_call>{",), "calls": (ToolCall("search", {}),)}
SOUND_PAY = type("SoundPay", (Lavish,), {"reward_range": (0.0, 2.0)})
OF_ONE_PROCESS = type("OfOneProcess", (OfOneThread,), {"isolation": "process"})


@pytest.mark.parametrize(
    ("contract", "component", "settings", "failing"),
    [
        (ToolContract, Lavish, CALL, {EARNS}),
        (ToolContract, SOUND_PAY, CALL | {"reward": 2.0}, set()),
        (ToolContract, SOUND_PAY, CALL | {"reward": 1.0}, {EARNS}),
        (ToolContract, Stateful, CALL, {"a_call_answers_with_something_to_show", "calls_do_not_disturb_one_another"}),
        (ToolContract, OfOneThread, CALL, {"open_its_calls_and_close_may_run_in_different_threads"}),
        (ToolContract, OF_ONE_PROCESS, CALL, set()),
        (ToolContract, SilentRefusal, REFUSED, {
            "a_refusal_is_a_sentence_for_the_model", "a_call_answers_with_something_to_show", EARNS,
            "calls_do_not_disturb_one_another", "open_its_calls_and_close_may_run_in_different_threads",
        }),
        (ToolEnvContract, Guess, ACTIONS, set()),
        (ToolEnvContract, Guess, {"actions": ["1"]}, {"an_episode_comes_to_its_end"}),
        (ToolEnvContract, Mute, ACTIONS, {ANSWERED}),
        (ToolEnvContract, Brittle, ACTIONS, {ANSWERED}),
        (ToolEnvContract, EndsTwice, ACTIONS, {"every_observation_and_step_is_well_formed", ANSWERED}),
        (ToolEnvContract, Generous, ACTIONS, {"every_observation_and_step_is_well_formed"}),
        (ToolEnvContract, OtherStart, ACTIONS, {"every_episode_of_a_task_begins_alike"}),
        (ToolEnvContract, Shared, ACTIONS, {
            "instances_share_nothing", "the_same_seed_and_actions_give_the_same_episode"
        }),
        (RewardContract, Enthusiast, CASES, {
            IN_RANGE, UNBEATEN, "the_cases_get_their_scores", "scoring_twice_gives_the_same_and_changes_nothing"
        }),
        (RewardContract, Forgetful, CASES, {
            IN_RANGE, UNBEATEN, "scoring_twice_gives_the_same_and_changes_nothing"
        }),
        (TaskSourceContract, Shuffled, {}, {"ids_are_unique", "the_same_options_give_the_same_tasks"}),
        (ToolFormatContract, Deaf, BROKEN, {"what_it_writes_it_reads", "a_broken_call_is_an_error_and_no_exception"}),
        (ToolFormatContract, Impatient, {}, {"its_stop_strings_end_what_it_writes"}),
        (ToolFormatContract, faulty(Hermes, results=marked), {}, {"results_are_data"}),
        (ToolFormatContract, faulty(Hermes, results=wrapped), {}, {"results_are_read_as_they_were_written"}),
        (ContextContract, Window, {}, set()),
        (ContextContract, Forgets, {}, {"every_choice_is_well_formed", "episodes_are_played_within_the_budget"}),
        (ContextContract, Parts, {}, {"every_choice_is_well_formed"}),
        (ContextContract, Alternates, {}, {"a_choice_depends_on_the_history_alone"}),
        (ContextContract, Copies, {}, {"an_action_that_stays_is_the_very_object"}),
        (ContextContract, Scribbles, {}, {"the_history_is_left_as_it_is"}),
        (AlgorithmContract, CreditsAll, {}, OF_ADVANTAGES - {"a_rollout_without_rewards_stays_finite"}),
        (AlgorithmContract, Marks, {}, {STANDS}),
        (AlgorithmContract, LooksAside, {}, {"values_outside_the_action_mask_change_nothing"}),
        (AlgorithmContract, OwnNormaliser, {}, OF_LOSSES - {"no_trajectory_with_a_gradient_is_skipped"}),
        (AlgorithmContract, PullsBack, {}, {"no_trajectory_with_a_gradient_is_skipped"}),
        (AlgorithmContract, Ascends, {}, {"a_good_action_becomes_likelier"}),
    ],
)  # fmt: skip
def test_a_contract_catches(
    contract: type, component: type, settings: dict[str, Any], failing: set[str], tmp_path: Path
) -> None:
    assert failures(contract, component, tmp_path, **settings).keys() == failing


@pytest.mark.parametrize(
    ("member", "of", "tests"),
    [
        ("advantages", lambda own, batch: Advantages(own.advantages.sum(1)), OF_ADVANTAGES),
        ("advantages", lambda own, batch: Advantages(own.advantages.long()), OF_ADVANTAGES),
        ("advantages", lambda own, batch: own.advantages, OF_ADVANTAGES),
        ("advantages", lambda own, batch: batch.action_mask.fill_(True), OF_ADVANTAGES),
        ("loss", lambda own, tokens: own.loss, OF_LOSSES),
        ("loss", lambda own, tokens: replace(own, loss=own.loss.detach()), OF_LOSSES),
    ],
)
def test_every_test_of_an_algorithm_says_what_a_run_would_say(member: str, of: Any, tests: set[str]) -> None:
    mine = faulty(GRPO, **{member: lambda self, given: of(getattr(GRPO, member)(self, given), given)})
    failed = failures(AlgorithmContract, mine, Path())
    assert failed.keys() == tests
    assert {type(error) for error in failed.values()} == {AlgorithmError}
