"""The worlds: finite and without loops, so that all that can happen in them can be enumerated.

An action is a word of letters, and each letter is one token of the policy. In most words the first letter decides and
the second changes nothing, so that credit within a turn can be right or wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """One way in which an action may turn out."""

    probability: float
    reward: float = 0.0
    """An outcome reward where the episode ends, else the turn's process reward."""
    state: str | None = None
    """What follows; None: the episode ends."""


Outcomes = tuple[Outcome, ...]


@dataclass(frozen=True)
class State:
    """A moment in which the policy acts."""

    observation: int
    """Tokens that the policy reads before it acts; the first of them tells the state from others."""
    actions: Mapping[str, Outcomes]
    """By word; no word is the beginning of another."""


@dataclass(frozen=True)
class World:
    """A world and its tasks."""

    name: str
    about: str
    starts: Mapping[str, float]
    """How likely each task is, by the state in which it begins."""
    states: Mapping[str, State]


def bifurcation(turns: int = 4) -> World:
    """The first action decides; those after it change nothing."""
    states = {"fork": State(3, _words(l=_to("left1"), r=_to("right1")))}
    for side, chance in (("left", 0.8), ("right", 0.2)):
        for turn in range(1, turns + 1):
            after = _to(f"{side}{turn + 1}") if turn < turns else _luck(chance)
            states[f"{side}{turn}"] = State(2, _words(l=after, r=after))
    return World("bifurcation", "the first of five actions decides", {"fork": 1.0}, states)


def corridor(turns: int = 8) -> World:
    """A long walk whose steps may fail, with rewards on the way that are nothing but noise."""
    goal, states = (turns + 2) // 2, dict[str, State]()
    for turn in range(turns):
        for place in range(turn + 1):
            walks = {letter: _walk(turn, place, chance, turns, goal) for letter, chance in (("f", 0.8), ("s", 0.4))}
            states[f"{turn}.{place}"] = State(2, _words(**walks))
    return World("corridor", f"{turns} steps that may fail, and noise on the way", {"0.0": 1.0}, states)


def key(rooms: int = 4) -> World:
    """A key, for which a small reward has to be left, opens a door much later."""
    states = {"hall": State(3, _words(t=_to("key1"), l=_to("none1", 0.2)))}
    for held, prize in (("key", 1.0), ("none", 0.0)):
        for room in range(1, rooms + 1):
            after = f"{held}{room + 1}" if room < rooms else f"{held}-door"
            states[f"{held}{room}"] = State(3, _words(c=_to(after, 0.1), p=_to(after)))
        states[f"{held}-door"] = State(3, _words(o=(Outcome(1.0, prize),), x=(Outcome(1.0, 0.3),)))
    return World("key", f"a key is used {rooms + 1} turns later", {"hall": 1.0}, states)


def tool(calls: int = 3) -> World:
    """A tool that pays half of the time, with long answers; one of two tasks can be guessed."""
    states = {"known": State(12, _words(a=_luck(1.0)))}
    for task, guess in (("easy", 0.6), ("hard", 0.1)):
        for call in range(calls):
            called = (Outcome(0.5, -0.05, "known"), Outcome(0.5, -0.05, f"{task}{call + 1}"))
            states[f"{task}{call}"] = State(12 if call else 3, _words(a=_luck(guess), c=called))
        states[f"{task}{calls}"] = State(12, _words(a=_luck(guess)))
    return World("tool", "a tool pays half of the time", {"easy0": 0.5, "hard0": 0.5}, states)


def search() -> World:
    """Two hops: the second query finds something only after the right first one. Both letters of that one count."""
    states = {
        "found": State(12, _words(y=_luck(1.0), n=_luck(0.1))),
        "lost": State(12, _words(y=_luck(0.1), n=_luck(0.1))),
    }
    for task, first, second in (("film", "yn", "n"), ("person", "ny", "y")):
        states[task] = State(3, _query(first, f"{task}-bridge", f"{task}-nothing"))
        asked = {letter: _to("found" if letter == second else "lost") for letter in "yn"}
        states[f"{task}-bridge"] = State(12, _words(**asked))
        states[f"{task}-nothing"] = State(12, _words(y=_to("lost"), n=_to("lost")))
    return World("search", "two queries, the second rests on the first", {"film": 0.5, "person": 0.5}, states)


def _words(**outcomes: Outcomes) -> dict[str, Outcomes]:
    """Words of two letters: the first one decides."""
    return {letter + second: after for letter, after in outcomes.items() for second in "mn"}


def _query(right: str, found: str, missed: str) -> dict[str, Outcomes]:
    return {first + second: _to(found if first + second == right else missed) for first in "yn" for second in "yn"}


def _to(state: str, reward: float = 0.0) -> Outcomes:
    return (Outcome(1.0, reward, state),)


def _luck(chance: float) -> Outcomes:
    """The episode ends, with 1 or with 0."""
    certain = (Outcome(1.0, float(chance > 0.5)),)
    return certain if chance in (0.0, 1.0) else (Outcome(chance, 1.0), Outcome(1 - chance, 0.0))


def _walk(turn: int, place: int, chance: float, turns: int, goal: int) -> Outcomes:
    moved = ((place + 1, chance), (place, 1 - chance))
    if turn == turns - 1:
        return tuple(Outcome(probability, float(now >= goal)) for now, probability in moved)
    noise = (-0.25, 0.25)
    return tuple(Outcome(p / 2, reward, f"{turn + 1}.{now}") for now, p in moved for reward in noise)


WORLDS = {world.name: world for world in (bifurcation(), corridor(), key(), tool(), search())}
