"""Plays worlds: episodes as trajectories, with segments, masks and log-probs, as a rollout makes them."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

from torch import Tensor

from agent_r1_core import Group, Message, Segment, Task, Trajectory, Turn
from agent_r1_league.truth import Places


@dataclass(frozen=True)
class Rollout:
    """The episodes of one update."""

    groups: list[Group]
    greedy: list[Trajectory]
    """Of each group one more, greedy; empty where nobody asks for them."""

    def with_baselines(self) -> list[Group]:
        """The groups with their greedy episodes, each in the place of a sample, so that as many episodes are played."""
        pairs = zip(self.groups, self.greedy, strict=True)
        return [replace(group, trajectories=group.trajectories[:-1], baseline=greedy) for group, greedy in pairs]


class Player:
    """Plays a policy [P, V] in a world."""

    def __init__(self, places: Places, policy: Tensor) -> None:
        self._places = places
        self._letters = list(places.tokens)
        self._chances: list[list[float]] = policy.tolist()

    def rollout(self, rng: random.Random, groups: int, samples: int, greedy: bool) -> Rollout:
        """Play so many groups of so many episodes, each group on a task drawn from the world's."""
        starts = self._places.world.starts
        played, baselines = list[Group](), list[Trajectory]()
        for number in range(groups):
            (start,) = rng.choices(list(starts), list(starts.values()))
            task = Task(id=f"{start}-{number}", prompt=start)
            played.append(Group(task, [self._episode(rng, task, start, sample) for sample in range(samples)]))
            if greedy:
                baselines.append(replace(self._episode(rng, task, start, samples, greedy=True), baseline=True))
        return Rollout(played, baselines)

    def _episode(self, rng: random.Random, task: Task, start: str, sample: int, greedy: bool = False) -> Trajectory:
        trajectory, segment = Trajectory(task, sample, reason="env"), Segment()
        trajectory.segments.append(segment)
        state: str | None = start
        while state is not None:
            here = self._places.world.states[state]
            segment.append_context([self._places.observation] * here.observation)
            word, logprobs = self._word(rng, state, greedy)
            begin, end = segment.append_action([self._places.tokens[letter] for letter in word], logprobs)
            outcomes = here.actions[word]
            (outcome,) = rng.choices(outcomes, [one.probability for one in outcomes])
            said = Message(role="tool" if trajectory.turns else "user", content=state)
            turn = Turn(len(trajectory.turns), [said], word, 0, begin, end, state_key=state)
            if outcome.state is None:
                trajectory.reward, trajectory.rewards = outcome.reward, {"outcome": outcome.reward}
                turn.success = outcome.reward >= 1
            else:
                turn.reward, turn.rewards = outcome.reward, {"env": outcome.reward}
            trajectory.turns.append(turn)
            state = outcome.state
        return trajectory

    def _word(self, rng: random.Random, state: str, greedy: bool) -> tuple[str, list[float]]:
        word, logprobs = "", list[float]()
        while (place := self._places.numbers.get((state, word), -1)) >= 0:
            chances = self._chances[place]
            token = chances.index(max(chances)) if greedy else rng.choices(range(len(chances)), chances)[0]
            word += self._letters[token]
            logprobs.append(math.log(chances[token]))
        return word, logprobs
