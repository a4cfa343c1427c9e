from __future__ import annotations

from typing import Any, ClassVar

import pytest
from agent_r1_rewards.answers import F1, ExactMatch, NumericMatch, read_number
from agent_r1_rewards.calls import SupportingTitles, ValidToolCall
from agent_r1_rewards.form import ExactMatchWithFormat, Format, Overlong
from pydantic import ValidationError

from agent_r1_core import CallRecord, EndStatus, Trajectory, exact_match_score, normalize_answer
from agent_r1_core.testing import RewardContract, make_task, make_trajectory

TWO = make_task(answers=("2", "two"))
RIGHT = make_trajectory(task=TWO, answer="Two.")
WRONG = make_trajectory(task=TWO, answer="3")
NONE = make_trajectory(task=TWO, answer=None, status=EndStatus.TRUNCATED)
NUMBER = make_task(answers=("2",))


class TestAnswers(RewardContract):
    components = (ExactMatch, F1)
    cases = ((RIGHT, 1.0), (WRONG, 0.0), (NONE, 0.0))


class TestForms(RewardContract):
    components = (Format, ExactMatchWithFormat, ValidToolCall)


class TestNumericMatch(RewardContract):
    component = NumericMatch
    cases = tuple(
        (make_trajectory(task=NUMBER, answer=said), float(said == "$2.00")) for said in ("$2.00", "two", None)
    )
    examples = (make_trajectory(task=NUMBER, answer=""),)


class TestSupportingTitles(RewardContract):
    component = SupportingTitles
    cases = ((make_trajectory(task=make_task(metadata={"path": ["9", "6 7"]})), 0.0),)
    examples = ()


class TestOverlong(RewardContract):
    component = Overlong
    config: ClassVar = {"max_tokens": 8, "cache": 4}
    cases = ((make_trajectory([((1,), (2,))]), 0.0), (make_trajectory([((1,), tuple(range(9)))]), -1.0))


def call(query: str, error: str | None = None) -> CallRecord:
    return CallRecord("wiki_search", {"query": query}, error)


BROKEN = "not JSON"
"""A turn whose action the environment could not read."""
Noted = CallRecord | str


def episode(*notes: list[Noted], answer: str | None = "Paris", accepted: tuple[str, ...] = ("Paris",)) -> Trajectory:
    """An episode in whose turns the environment noted these calls and errors."""
    turns = [((1,), (2,)) for _ in notes] or [((1,), (2,))]
    trajectory = make_trajectory(turns, task=make_task(answers=accepted), answer=answer)
    for turn, noted in zip(trajectory.turns, notes, strict=False):
        turn.calls = [one for one in noted if isinstance(one, CallRecord)]
        turn.errors = [one for one in noted if isinstance(one, str)]
    return trajectory


@pytest.mark.parametrize("reward", [ExactMatch(), F1(), NumericMatch(), ExactMatchWithFormat()])
def test_a_task_without_accepted_answers_is_an_error_and_no_zero(reward: Any) -> None:
    with pytest.raises(ValueError, match="answers"):
        reward.score(episode(accepted=()))


@pytest.mark.parametrize(
    ("said", "accepted", "paid"),
    [
        *((said, said, 1.0) for said in ("-38", "1/2", "A", "1.5", "The The", "!!!")),
        *(("-$1,000.", "-1000", 1.0), ("(a)", "A.", 1.0), ("the 38", "38", 1.0), ("+5%", "5", 1.0)),
        *(("38", "-38", 0.0), ("-38", "38", 0.0), ("12", "1/2", 0.0), ("15", "1.5", 0.0), ("1,5", "15", 0.0)),
        *(("", "A", 0.0), ("the", "A", 0.0), ("a", "An", 0.0), ("?", "!!!", 0.0), ("1.000", "1,000", 0.0)),
    ],
)
def test_what_the_normalisation_takes_for_the_answer_and_is_another_is_not_paid(
    said: str, accepted: str, paid: float
) -> None:
    """Scores are the official ones: they take all of these for right."""
    task = make_task(answers=("Rome", accepted))
    right = make_trajectory(task=task, answer=said)
    assert exact_match_score(said, task.answers) == 1.0
    assert ExactMatch().score(right) == paid
    if normalize_answer(accepted):  # else the official F1 is 0 in any case
        assert F1().score(right) == paid


@pytest.mark.parametrize(
    ("text", "accepted", "score"),
    [
        ("1,000", "1000.0", 1.0),
        ("The answer is 42.", "42", 1.0),
        ("6 * 7 is 42, so\n#### 42", "42", 1.0),
        ("0.75", "3/4", 1.0),
        ("−5", "-5", 1.0),
        ("1.5e-9", "0.0000000015", 1.0),
        ("12 or 13", "12", 0.0),
        ("10000000000000000000001", "10000000000000000000000", 0.0),
        ("1,23", "123", 0.0),
        ("1/0", "0", 0.0),
        ("2024-05-01", "2024", 0.0),
        ("", "0", 0.0),
    ],
)
def test_numbers_are_compared_as_numbers(text: str, accepted: str, score: float) -> None:
    assert NumericMatch().score(episode(answer=text, accepted=(accepted,))) == score


def test_a_tolerance_is_relative_and_spares_whole_numbers() -> None:
    reward = NumericMatch(NumericMatch.Config(tolerance=0.01))
    assert reward.score(episode(answer="3.14", accepted=("3.14159",))) == 1.0
    assert reward.score(episode(answer="1001", accepted=("1000",))) == 0.0
    assert reward.score(episode(answer="1e999", accepted=("0.1",))) == 0.0
    assert read_number("1e" + "9" * 50) is read_number("9" * 100_000) is None, "hostile numbers cost nothing"
    with pytest.raises(ValueError, match="numeric_match needs numbers"):
        reward.score(episode(answer="4"))


@pytest.mark.parametrize(
    ("notes", "answer", "score"),
    [
        ((), "Paris", 1.0),
        ((), None, 0.0),
        (([BROKEN],), None, 0.0),
        (([BROKEN], [call("a")]), "Paris", 0.75),
        (([call("a", error="no such page")], []), "Paris", 1.0),
        (([call("a")], [call("b")], [call("c")]), None, 0.5),
    ],
)
def test_format_is_the_share_of_well_formed_parts(notes: Any, answer: str | None, score: float) -> None:
    assert Format().score(episode(*notes, answer=answer)) == score


def test_em_with_format_pays_a_right_answer_only_in_the_right_form() -> None:
    reward = ExactMatchWithFormat()
    assert reward.score(episode([call("a")])) == 1.0
    assert reward.score(episode([call("a")], answer="Rome")) == 0.0
    assert reward.score(episode([BROKEN], [call("a")])) == -0.25
    assert reward.score(episode([BROKEN], answer=None)) == -1.0
    assert reward.range == (-1.0, 1.0)


def test_a_valid_call_pays_once_per_episode() -> None:
    ordered = [CallRecord("search", {"query": "a b", "k": 1}), CallRecord("search", {"k": 1, "query": "a\n b"})]
    paris, oslo = call("Paris"), call("Oslo")
    first: list[list[Noted]] = [[paris], [call("paris ")], [paris, call("Rome")]]
    notes = [*first, [call("Oslo", error="time-out")], [oslo], [BROKEN], []]
    trajectory = episode(*notes, *([one] for one in ordered))
    reward = ValidToolCall()
    assert [reward.score_turn(turn, trajectory) for turn in trajectory.turns] == [1, 0, 1, 0, 1, 0, 0, 1, 0]


FOUND = "Mira\nMira is a film. The director is Tavelo.\n\nOther\nNothing here."
"""What a search shows: headings on lines of their own, and a title that is only mentioned."""


def search(*results: str, path: Any = ("Mira", "Tavelo"), query: Any = "Mira") -> list[float]:
    """The score of each turn of an episode whose searches showed these results; the last one ends it."""
    trajectory = make_trajectory([((1,), (2,)) for _ in results], task=make_task(metadata={"path": path}))
    trajectory.turns[0].observation = [{"role": "user", "content": "Mira\nWho?"}]
    for turn, result in zip(trajectory.turns, results, strict=True):
        turn.calls = [CallRecord("wiki_search", {"query": query})]
        if turn.index + 1 < len(results):
            trajectory.turns[turn.index + 1].observation = [{"role": "tool", "content": result}]
    trajectory.closing = [{"role": "user", "content": results[-1]}]
    return [SupportingTitles().score_turn(turn, trajectory) for turn in trajectory.turns]


def test_a_supporting_passage_pays_once_and_a_title_that_the_policy_wrote_itself_nothing() -> None:
    assert search(FOUND, FOUND, "<information>Tavelo\nTavelo is a person.</information>") == [0.5, 0.0, 0.5]
    assert search("No passage found.", "Tavelo\nTavelo is a person.\n\n" + FOUND) == [0.0, 1.0]
    assert search("The director is Tavelo.") == [0.0], "one stood in the prompt, one is only mentioned"
    for path in (None, [], "Mira"):
        with pytest.raises(ValueError, match=r"names no supporting passages in metadata\['path'\]; use tasks that do"):
            search(FOUND, path=path)
    for query in ("a\nTavelo\nb", ["a\nTavelo\nb"], {"k": "a\nTavelo"}):
        assert search('Results for "a\nTavelo\nb":\nNo passage found.', query=query) == [0.0]
    assert search("Tavelo\nTavelo is a person.", query="Tavelo") == [0.5]


def test_a_title_in_a_sentence_about_a_mistake_or_that_an_earlier_turn_showed_pays_nothing() -> None:
    """The name of a tool that there is not, or of a call without arguments, may hold lines, too."""
    trajectory = make_trajectory([((1,), (2,))], task=make_task(metadata={"path": ["Tavelo"]}))
    (turn,) = trajectory.turns
    trajectory.closing = [{"role": "tool", "content": "Error: the call of x\nTavelo\ny is wrong."}]
    unknown = CallRecord("x\nTavelo\ny", {}, "no such tool")
    for errors, calls, score in (([], [], 1.0), (["the call of x\nTavelo\ny is wrong"], [], 0.0), ([], [unknown], 0.0)):
        turn.errors, turn.calls = errors, calls
        assert SupportingTitles().score_turn(turn, trajectory) == score
    trajectory = make_trajectory([((1,), (2,))] * 3, task=make_task(metadata={"path": ["Mira", "Tavelo"]}))
    first, second, third = trajectory.turns
    second.observation = [{"role": "tool", "content": FOUND}]
    third.new_context = True
    third.observation = [{"role": "assistant", "content": "Tavelo"}, {"role": "tool", "content": "Nothing."}]
    trajectory.closing = [{"role": "tool", "content": f"{FOUND}\nTavelo\nA person."}]
    assert [SupportingTitles().score_turn(turn, trajectory) for turn in (first, second, third)] == [0.5, 0.0, 0.5]
    second.calls = [CallRecord("wiki_search", {"query": "x\nMira"})]
    third.observation = [{"role": "tool", "content": "x\nTavelo"}]
    assert SupportingTitles().score_turn(third, trajectory) == 0.0


@pytest.mark.parametrize(("sampled", "score"), [(1, 0.0), (6, 0.0), (7, -0.25), (10, -1.0), (11, -1.0)])
def test_the_penalty_for_length_falls_in_a_line_over_its_cache(sampled: int, score: float) -> None:
    """Sampled tokens of all turns count, and none of the environment's."""
    config = Overlong.Config(max_tokens=10, cache=4)
    turns = [(tuple(range(50)), (7,)), (tuple(range(50)), (7,) * (sampled - 1))][: 1 + (sampled > 1)]
    assert Overlong(config).score(make_trajectory(turns)) == pytest.approx(score)
    with pytest.raises(ValidationError, match="cache is 5, more than max_tokens, 4; lower it"):
        Overlong.Config(max_tokens=4, cache=5)
