"""Each contract class catches what it is there to catch: a fault planted in a sound component makes it fail."""

from __future__ import annotations

import inspect
import itertools
import sqlite3
import time
from collections.abc import Callable, Sequence
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


def changed(method: str, of: Callable[..., Any]) -> type:
    """GRPO with another result of a method, made of its own and what the method is given."""
    return faulty(GRPO, **{method: lambda self, given: of(getattr(GRPO, method)(self, given), given)})


def chooses(base: type, choice: Callable[[History], Sequence[Message]]) -> type:
    """A strategy that chooses otherwise."""

    async def next_context(self: Any, history: History) -> Sequence[Message]:
        return choice(history)

    return faulty(base, next_context=next_context)


def refuse(*_: Any) -> Any:
    raise ToolError("")


def said(content: str) -> Observation:
    return Observation([{"role": "user", "content": content}])


class Guess(ToolEnv):
    """Guess the number; sound."""

    def reset(self, task: Task) -> Observation:
        return said("Guess.")

    def step(self, action: Any) -> Step:
        return Step(terminated=True, reward=1.0, answer="7") if action.text == "7" else Step(said("No."))


SilentRefusal = faulty(Calculator, run=refuse)
Lavish = faulty(Calculator, reward_range=(0.0, 1.0), run=lambda self, given, context: context.reward(2.0) or "2")
Stateful = faulty(Calculator, run=lambda self, arguments, context: next(COUNTER))


def mix(self: Any, arguments: Any, context: Any) -> str:
    self.expression = arguments.expression
    time.sleep(0.01)
    return str(eval(self.expression))


Mixed = faulty(Calculator, run=mix)
Unsent = faulty(
    Calculator, isolation="process", run=lambda self, arguments, context: context.state.update(held=object()) or "2"
)
# Its connection serves only the thread that made it.
OfOneThread = faulty(
    Calculator,
    open=lambda self, resources: setattr(self, "connection", sqlite3.connect(":memory:")),
    run=lambda self, arguments, context: str(self.connection.execute("SELECT 1 + 1").fetchone()[0]),
    close=lambda self: hasattr(self, "connection") and self.connection.close(),
)
Brittle = faulty(Guess, step=lambda self, action: (int(action.text), Guess.step(self, action))[1])
OtherStart = faulty(Guess, reset=lambda self, task: said(f"Guess a number below {self.services.rng.random()}."))
Shared = faulty(Guess, step=lambda self, action: Step(said(str(next(COUNTER))), terminated=action.text == "7"))
Generous = faulty(Guess, gives_rewards=False)
Mute = faulty(Guess, step=lambda self, action: Guess.step(self, action) if action.text == "7" else Step())
EndsTwice = faulty(Guess, step=lambda self, action: Step(terminated=True, truncated=True))
Enthusiast = faulty(RewardFn, score=lambda self, trajectory: setattr(trajectory, "reason", "seen") or 2.0)
Forgetful = faulty(RewardFn, score=lambda self, trajectory: float(len(trajectory.answer) > 0))
Shuffled = faulty(TaskSource, load=lambda self: [make_task("same", str(next(COUNTER))) for _ in range(2)])
Deaf = faulty(Hermes, parse=lambda self, text: ParsedAction())
Impatient = faulty(Hermes, stop_strings=("arguments",))
Marked = faulty(
    Hermes,
    results=lambda self, all: [{"role": "user", "content": Markup(f"<result>{one.text}</result>")} for one in all],
)
Wrapped = faulty(Hermes, results=lambda self, all: [{"role": "tool", "content": f"Result: {one.text}"} for one in all])
Forgets = chooses(Window, lambda history: history.messages[-2:])
Parts = chooses(Window, lambda history: [*history.opening, *history.exchanges[-1].answer])
Alternates = chooses(Window, lambda history: history.last(1 + next(COUNTER) % 2))
Copies = chooses(Append, lambda h: [one.copy() if one["role"] == "assistant" else one for one in h.messages])
Scribbles = chooses(
    Append,
    lambda h: ([one.update(content=one["content"][:9]) for one in h.exchanges[-1].answer], h.messages)[1],
)
# It credits tokens of the environment; the next one depends on numbers that stand there.
CreditsAll = changed(
    "advantages",
    lambda own, batch: replace(own, advantages=torch.where(batch.response_mask, 1.0, 0.0) * batch.returns[:, None]),
)
LooksAside = changed(
    "advantages",
    lambda own, batch: replace(own, advantages=own.advantages + batch.action_mask * batch.values.sum(1, keepdim=True)),
)
Marks = changed("advantages", lambda own, batch: batch.trajectories[0].rewards.update(seen=1.0) or own)
OwnNormaliser = changed("loss", lambda own, tokens: replace(own, loss=own.loss / tokens.weights.sum()))
Ascends = changed("loss", lambda own, tokens: replace(own, loss=-own.loss))
Backwards = changed("advantages", lambda own, batch: replace(own, advantages=-own.advantages))
# Each says something else of itself than it does: whether it compares episodes, or credits turns on their own.
ComparesNothing = changed(
    "advantages", lambda own, batch: replace(own, advantages=batch.action_mask * batch.returns[:, None])
)
CreditsTurns = changed(
    "advantages", lambda own, batch: replace(own, advantages=torch.where(batch.action_mask, batch.process_rewards, 0.0))
)
CreditsTurns.compares_samples = lambda self: False
ClaimsTurns = changed("advantages", lambda own, batch: own)
ClaimsTurns.credits_turns = lambda self: True
Undeclared = changed("advantages", lambda own, batch: replace(own, metrics={"spread": 1.0}))
# Every token is pulled to the old policy, and trajectories without advantage may be skipped all the same.
PullsBack = changed(
    "loss",
    lambda own, tokens: replace(
        own, loss=own.loss + 0.01 * ((tokens.logprobs - tokens.old_logprobs) ** 2 * tokens.weights).sum()
    ),
)


EARNS = "a_call_earns_what_its_range_allows"
ANSWERED = "noise_is_answered_and_never_raises"
IN_RANGE = "every_score_is_a_number_in_its_range"
UNBEATEN = "no_answer_does_not_beat_the_right_one"
STANDS = "advantages_are_finite_constants_and_stand_on_credited_tokens"
UNCOMPARED = "rewards_change_nothing_where_there_is_no_comparison_if_groups_are_compared"
BETTER = "the_better_episode_is_credited_with_more_if_groups_are_compared"
OF_LOSSES = {
    "its_metrics_are_declared", "a_good_action_becomes_likelier",
    "losses_are_sums_over_weighted_tokens_and_metrics_sums_with_their_counts",
    "micro_batches_add_up", "no_trajectory_with_a_gradient_is_skipped", "the_loss_has_a_gradient_where_it_has_a_weight",
}  # fmt: skip
OF_ADVANTAGES = OF_LOSSES | {
    STANDS, UNCOMPARED, BETTER, "it_says_whether_it_credits_turns",
    "a_rollout_without_rewards_stays_finite", "padding_changes_nothing",
    "values_outside_the_action_mask_change_nothing",
}  # fmt: skip
CALL = {"arguments": {"expression": "1+1"}, "expected": "2"}
REFUSED = {"arguments": {"expression": "1"}, "refused": {"expression": "x"}}
ACTIONS = {"actions": ["1", "7"]}
CASES = {"cases": ((make_trajectory(answer="2"), 1.0),)}
BROKEN = {"malformed": ("<tool_call>{",), "calls": (ToolCall("search", {}),)}
SOUND_PAY = faulty(Lavish, reward_range=(0.0, 2.0))
OF_ONE_PROCESS = faulty(OfOneThread, isolation="process")


@pytest.mark.parametrize(
    ("contract", "component", "settings", "failing"),
    [
        (ToolContract, Lavish, CALL, {EARNS}),
        (ToolContract, SOUND_PAY, CALL | {"reward": 2.0}, set()),
        (ToolContract, SOUND_PAY, CALL | {"reward": 1.0}, {EARNS}),
        (ToolContract, Stateful, CALL, {"a_call_answers_with_something_to_show", "calls_do_not_disturb_one_another"}),
        (ToolContract, OfOneThread, CALL, {"open_its_calls_and_close_may_run_in_different_threads"}),
        (ToolContract, OF_ONE_PROCESS, CALL, set()),
        (ToolContract, Mixed, CALL, set()),
        (ToolContract, Mixed, CALL | {"other": {"expression": "2+2"}}, {"calls_do_not_disturb_one_another"}),
        (ToolContract, Unsent, CALL, {"a_call_answers_with_something_to_show"}),
        (ToolContract, SilentRefusal, REFUSED, {
            "a_refusal_is_a_sentence_for_the_model", "a_call_answers_with_something_to_show", EARNS,
            "calls_do_not_disturb_one_another", "open_its_calls_and_close_may_run_in_different_threads",
        }),
        (ToolEnvContract, Guess, ACTIONS, set()),
        (ToolEnvContract, Guess, {"actions": ["1"]}, {"an_episode_comes_to_its_end"}),
        (ToolEnvContract, Mute, ACTIONS, {"every_observation_and_step_is_well_formed", ANSWERED}),
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
        (ToolFormatContract, Marked, {}, {"results_are_data"}),
        (ToolFormatContract, Wrapped, {}, {"results_are_read_as_they_were_written"}),
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
        (AlgorithmContract, ComparesNothing, {}, {UNCOMPARED}),
        (AlgorithmContract, CreditsTurns, {}, {"it_says_whether_it_credits_turns"}),
        (AlgorithmContract, ClaimsTurns, {}, {"it_says_whether_it_credits_turns"}),
        (AlgorithmContract, Undeclared, {}, {"its_metrics_are_declared"}),
        (AlgorithmContract, Ascends, {}, {"a_good_action_becomes_likelier"}),
        (AlgorithmContract, Backwards, {}, {BETTER}),
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
    failed = failures(AlgorithmContract, changed(member, of), Path())
    assert failed.keys() == tests
    assert {type(error) for error in failed.values()} == {AlgorithmError}
