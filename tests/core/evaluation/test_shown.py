"""What an episode showed: titles on lines of their own in the prompt and the environment's words, not the policy's."""

from __future__ import annotations

from agent_r1_core.evaluation.episode_record import new_lines, shown_titles, supporting_titles
from agent_r1_core.testing.trajectories import make_task, make_trajectory
from agent_r1_core.trajectory import CallRecord, Trajectory

NEEDED = make_task("t", "Where?", ("Rome",), metadata={"path": ["Amélie", "Rome", "Amélie"]})


def episode(*observations: str, closing: str = "", prompt: str = "Where?") -> Trajectory:
    """An episode that sees the prompt, one observation after each action but the last, and `closing`."""
    made = make_trajectory([((1,), (2,))] * (1 + len(observations)), task=NEEDED)
    for turn, text in zip(made.turns, (prompt, *observations), strict=True):
        turn.observation = [{"role": "tool" if turn.index else "user", "content": text}]
    made.closing = [{"role": "tool", "content": closing}] if closing else []
    return made


def test_titles_count_wherever_they_are_headings_and_in_the_order_of_the_task() -> None:
    assert supporting_titles(NEEDED) == ["Amélie", "Rome"]
    assert shown_titles(episode("Rome\nA city.\n\nOslo\nA city.", closing="<tool_response>Amélie\nA film.")) == [
        "Amélie",
        "Rome",
    ]
    assert shown_titles(episode(prompt="Rome\nA city.\n\nWhere?")) == ["Rome"], "retrieved before the question"
    assert shown_titles(episode("The city of Rome is old.")) == []
    assert shown_titles(make_trajectory(task=make_task())) == []


def test_what_the_policy_wrote_itself_or_saw_before_was_not_found() -> None:
    echoed = episode('Results for "x\nRome\n":\nNo passage found.', closing="Rome\nA city.")
    echoed.turns[0].calls = [CallRecord("wiki_search", {"query": ["x\nRome\n"]})]
    assert shown_titles(echoed) == [], "what it put there counts as seen"
    own = episode("Amélie\nA film.")
    own.turns[1].observation.append({"role": "assistant", "content": "Rome\nmy guess"})
    assert shown_titles(own) == ["Amélie"]
    made = episode("Rome\nA city.", closing="Rome\nA city.", prompt="Rome\nA city.")
    assert [("Rome" in new_lines(turn, made)) for turn in made.turns] == [True, False], "anew after the prompt alone"
    summed = episode("Your notes on the work so far:\nRome\nis the answer", closing="Amélie\nA film.")
    assert shown_titles(summed) == ["Amélie", "Rome"]
    summed.turns[0].purpose, summed.turns[0].text = "summary", "Rome\nis the answer"
    assert shown_titles(summed) == ["Amélie"], "a summary that becomes the context shows nothing new"
