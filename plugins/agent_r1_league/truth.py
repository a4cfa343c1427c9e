"""What is true of a policy in a world: exact values, advantages and policy gradient, by dynamic programming.

The policy is tabular: a softmax over letters at every place, which is a state and the letters written there so far.
Rewards are not discounted. Tensors are float64; P counts places and V tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from agent_r1_core.learning.batch import Batch
from agent_r1_league.worlds import World

AFTER = ">"
"""Follows a whole word in the name of a place: the action is written, and nobody has answered yet. Only critics of the
environment's tokens look there."""


class Places:
    """The places of a world by number, and its tokens."""

    def __init__(self, world: World) -> None:
        self.world = world
        words = [(name, word) for name, state in world.states.items() for word in state.actions]
        letters = sorted({letter for _, word in words for letter in word})
        self.tokens = {letter: number for number, letter in enumerate(letters)}
        self.observation = len(letters)
        """The id of every token that the environment says."""
        decisions = dict.fromkeys((name, word[:end]) for name, word in words for end in range(len(word)))
        self.decisions = len(decisions)
        """Places below this number are those at which the policy acts."""
        self.numbers = {place: number for number, place in enumerate([*decisions, *((s, w + AFTER) for s, w in words)])}
        self.allowed = torch.zeros(len(decisions), len(letters), dtype=torch.bool)
        for name, word in words:
            for end, letter in enumerate(word):
                self.allowed[self.numbers[name, word[:end]], self.tokens[letter]] = True

    @cached_property
    def _of_turns(self) -> dict[tuple[str, str], tuple[int, list[int], int]]:
        """By state and word: the state's beginning, the places of the letters, and the one behind the word."""
        number = self.numbers
        return {
            (state, word): (
                number[state, ""],
                [number[state, word[:letter]] for letter in range(len(word))],
                number[state, word + AFTER],
            )
            for state, here in self.world.states.items()
            for word in here.actions
        }

    @cached_property
    def order(self) -> list[str]:
        """The states, each before those that follow it."""
        found: dict[str, None] = {}

        def visit(state: str) -> None:
            if state not in found:
                for outcomes in self.world.states[state].actions.values():
                    for outcome in outcomes:
                        if outcome.state is not None:
                            visit(outcome.state)
                found[state] = None

        for start in self.world.starts:
            visit(start)
        return list(reversed(found))

    def of(self, batch: Batch) -> Tensor:
        """The place before each token, long [n, T]: at actions where the policy acts; at the environment's first token
        after an action the one behind that word, and at its others the next state's beginning. -1 where no critic
        looks: in the prompt, in padding, and after the last action."""
        places = torch.full(batch.ids.shape, -1, dtype=torch.long)
        for row, trajectory in enumerate(batch.trajectories):
            numbers, behind = list[int](), -1
            for turn in trajectory.turns:
                beginning, letters, then = self._of_turns[str(turn.state_key), turn.text]
                read = turn.start - len(numbers)
                numbers += [behind, *[beginning] * (read - 1)] if numbers else [-1] * read
                numbers += letters
                behind = then
            places[row, : len(numbers)] = torch.tensor(numbers)
        return places


@dataclass(frozen=True)
class Truth:
    """What is true of a policy."""

    score: float
    """The expected return."""
    values: Tensor
    """[all places], the expected rewards to come."""
    advantages: Tensor
    """[P, V]: of each token that may be written."""
    gradient: Tensor
    """[P, V]: of the score with respect to the logits."""

    def of(self, places: Tensor, tokens: Tensor) -> Tensor:
        """The advantages of these tokens at these places, [n] each."""
        return self.advantages[places, tokens]


def probabilities(places: Places, logits: Tensor) -> Tensor:
    """The policy [P, V] with these logits [P, V]."""
    return logits.masked_fill(~places.allowed, -torch.inf).softmax(1)


def exact(places: Places, policy: Tensor) -> Truth:
    """What is true of a policy [P, V]."""
    chances = policy.tolist()
    values = [0.0] * len(places.numbers)
    actions = [[0.0] * len(places.tokens) for _ in chances]
    words = {state: sorted(places.world.states[state].actions, key=len) for state in places.order}
    for state in reversed(places.order):
        for word, prefix in _steps(words[state], longest_first=True):
            here, token = places.numbers[state, prefix], places.tokens[word[len(prefix)]]
            if len(prefix) + 1 < len(word):
                value = values[places.numbers[state, word[: len(prefix) + 1]]]
            else:
                after = places.world.states[state].actions[word]
                follow = sum(o.probability * values[places.numbers[o.state, ""]] for o in after if o.state is not None)
                values[places.numbers[state, word + AFTER]] = follow
                value = follow + sum(o.probability * o.reward for o in after)
            actions[here][token] = value
            values[here] += chances[here][token] * value
    visits = [0.0] * len(values)
    for state, probability in places.world.starts.items():
        visits[places.numbers[state, ""]] = probability
    for state in places.order:
        for word, prefix in _steps(words[state], longest_first=False):
            here, token = places.numbers[state, prefix], places.tokens[word[len(prefix)]]
            passing = visits[here] * chances[here][token]
            if len(prefix) + 1 < len(word):
                visits[places.numbers[state, word[: len(prefix) + 1]]] += passing
                continue
            for outcome in places.world.states[state].actions[word]:
                if outcome.state is not None:
                    visits[places.numbers[outcome.state, ""]] += passing * outcome.probability
    exact_values, visited = (torch.tensor(numbers, dtype=torch.float64) for numbers in (values, visits))
    own = torch.tensor(actions, dtype=torch.float64) - exact_values[: places.decisions, None]
    advantages = own.masked_fill(~places.allowed, 0.0)
    score = sum(p * values[places.numbers[state, ""]] for state, p in places.world.starts.items())
    return Truth(score, exact_values, advantages, visited[: places.decisions, None] * policy * advantages)


def best_score(world: World) -> float:
    """The expected return of the best policy."""
    values: dict[str, float] = {}
    for state in reversed(Places(world).order):
        actions = world.states[state].actions.values()
        values[state] = max(
            sum(o.probability * (o.reward + (values[o.state] if o.state else 0.0)) for o in outcomes)
            for outcomes in actions
        )
    return sum(probability * values[state] for state, probability in world.starts.items())


def _steps(words: list[str], longest_first: bool) -> list[tuple[str, str]]:
    """Every letter of a state's words once, as a word that has it and what stands before it."""
    steps = {word[: end + 1]: (word, word[:end]) for word in words for end in range(len(word))}
    return [steps[key] for key in sorted(steps, key=len, reverse=longest_first)]
