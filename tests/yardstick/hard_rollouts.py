"""Rollouts with everything that makes an update hard, played by a policy that differs a little from the learner's."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from plain_model import Shape, Weights, logprobs

from agent_r1_core.testing import make_task, make_trajectory
from agent_r1_core.trajectory import EndStatus, Group, Trajectory, Turn

Ids = Callable[[int], list[int]]
STATES = ("start", "found", None, "start")
WEIGHTS = {"exact": 2.0, "style": 0.5, "step": 0.5, "logged": 0.0}
"""Of the rewards with a name."""
NEWEST = 1
"""The version that `ahead` has for the newest: that of the weights that learn in step 2."""
BLOCK = 256
"""Queries that the learner's attention looks at together."""


def mixed(seed: int = 0) -> list[Group]:
    """Five groups: a shared first turn and a failed sample; several segments, one of which extends another; every way
    to end, one of them without any reward; one without spread, whose rewards differ; one of a single sample. States are
    shared between samples, come back within one, stand alone, or have no name, as have the outcomes of one group. All
    groups but one have a greedy baseline."""
    ids = _drawer(seed)
    prompt, action, said = ids(6), ids(3), ids(4)
    shared = [[(prompt, action), (said, ids(2 + k))] for k in range(3)] + [[(prompt, ids(4))]]
    task, first, second = ids(5), ids(4), ids(3)
    segments = [
        _played([(task, first), (ids(4), second), (ids(3), ids(5))], 0, {1, 2}, closing=ids(3), reward=0.4),
        _played([(task, first), ([*task, *first, *ids(3)], ids(4))], 1, {1}, reward=1.0, turn_rewards=(0.0, -0.3)),
        _played([(task, ids(5)), (ids(2), ids(1))], 2, reward=-0.5, turn_rewards=(0.2, 0.1), closing=ids(2)),
    ]
    start = ids(4)
    limits = [
        _played([(start, ids(3)), (ids(3), ids(4))], 0, closing=ids(2), bootstrap=True, status=EndStatus.TRUNCATED),
        _played([(start, ids(6))], 1, status=EndStatus.TRUNCATED, reward=-0.2),
        _played([(start, ids(2)), (ids(5), ids(2)), (ids(2), ids(3))], 2, reward=0.9, turn_rewards=(0.1, 0.0, 0.3)),
        _played([(start, ids(3)), (ids(4), ids(3))], 3, {1}, bootstrap=True, status=EndStatus.TRUNCATED, reward=0.3),
    ]
    flat = [
        _played([(ids(3), ids(3))], 0, reward=0.1, turn_rewards=(0.2,)),
        _played([(ids(3), ids(4))], 1, reward=0.3),
    ]
    groups = [
        _group("shared", [*_rewarded(shared), _played([(prompt, ids(3))], 4, status=EndStatus.FAILED, reward=5.0)]),
        _group("segments", segments),
        _group("limits", limits),
        _group("flat", flat),
        _group("lone", [_played([(ids(4), ids(5))], 0, reward=0.7)]),
    ]
    for number, group in enumerate(groups):
        for trajectory in group.trajectories:
            for turn in trajectory.turns:
                turn.state_key = STATES[(number * trajectory.sample + turn.index) % len(STATES)]
                turn.rewards = {"step": turn.reward / WEIGHTS["step"]}
            style = trajectory.sample % 3 / 2
            if group.task.id != "segments":
                exact = (trajectory.reward - WEIGHTS["style"] * style) / WEIGHTS["exact"]
                trajectory.rewards = {"exact": exact, "style": style, "logged": style**2 + number}
        if group.task.id != "segments":  # there the greedy episode failed
            group.baseline = make_trajectory(reward=0.1 * number, turn_rewards=(0.2, 0.1), baseline=True)
    return groups


def ahead(seed: int = 0) -> list[Group]:
    """`mixed`, of which an older policy than the newest sampled the first ids of every action, or all of them."""
    groups = mixed(seed)
    for turn in (turn for group in groups for one in group.trajectories for turn in one.turns):
        older = (turn.tokens + turn.index) // 2
        turn.versions = ((NEWEST - 1, older), (NEWEST, turn.tokens - older))
    return groups


def demonstrated(seed: int = 0) -> list[Group]:
    """`mixed`, of which nobody sampled anything: an engine that is asked knows no log-probs."""
    groups = mixed(seed)
    for trajectory in (trajectory for group in groups for trajectory in group.trajectories):
        trajectory.demonstrated = "tools"
    return groups


def repeated(seed: int = 0) -> list[Group]:
    """`mixed`, in which each group's last sample does in the same environment what its first one did, for more."""
    groups = mixed(seed)
    for group in groups:
        again = copy.deepcopy(group.trajectories[0])
        again.sample, again.reward = len(group.trajectories), again.reward + 1.0
        group.trajectories[0].reward += 1.0
        group.trajectories.append(again)
    return groups


def branched(seed: int = 0) -> list[Group]:
    """`mixed`, of which each group's samples from the third on have branched off from one of the first two."""
    groups = mixed(seed)
    for trajectory in (trajectory for group in groups for trajectory in group.trajectories):
        if trajectory.sample > 1:
            trajectory.branched_from = trajectory.sample % 2
    return groups


def hinted(seed: int = 0) -> list[Group]:
    """`mixed`, of which each group but the second has a hint, longer or shorter than its prompt or within it."""
    groups, ids = mixed(seed), _drawer(seed + 1)
    for number, group in enumerate(groups):
        for trajectory in group.trajectories if number != 1 else []:
            prompt = trajectory.segments[0].ids[: trajectory.segments[0].prompt_length]
            trajectory.hinted = [*prompt[:2], *ids(2 * number), *prompt[4:]]
    return groups


def unrewarded(seed: int = 0) -> list[Group]:
    """Two groups, of which the first has no reward at all, neither at a turn nor at the end."""
    ids = _drawer(seed)
    task = ids(4)
    nothing = [_played([(task, ids(3)), (ids(2), ids(3))], k, reward=0.0, closing=ids(2)) for k in range(3)]
    groups = [_group("nothing", nothing), _group("shared", mixed(seed)[0].trajectories)]
    for group in groups:
        for trajectory in group.trajectories:
            for turn in trajectory.turns:
                turn.state_key = STATES[turn.index % len(STATES)]
    groups[0].baseline = make_trajectory(reward=0.0, baseline=True)
    groups[1].baseline = make_trajectory(reward=0.1, baseline=True)
    return groups


def long(seed: int = 0) -> list[Group]:
    """One group beneath a shared first turn: two samples read more than two blocks of attention after it."""
    ids = _drawer(seed)
    prompt, action = ids(20), ids(5)
    reads = [ids(2 * BLOCK + 30), ids(2 * BLOCK + 45), ids(8)]
    return [_group("long", _rewarded([[(prompt, action), (read, ids(6))] for read in reads]))]


def sampled(groups: Sequence[Group], weights: Weights, shape: Shape, temperature: float, noise: float) -> list[Group]:
    """Copies with the engine's log-probs: those of the weights, off by `noise` nats (standard deviation) but where the
    newest version sampled."""
    copies = copy.deepcopy(list(groups))
    rng = random.Random("engine")
    for trajectory in (trajectory for group in copies for trajectory in group.trajectories):
        unknown = math.nan if trajectory.demonstrated else 0.0
        exact = {place for turn in trajectory.turns for place in _by_newest(turn)}
        for number, segment in enumerate(trajectory.segments):
            with torch.no_grad():
                told = [0.0, *logprobs(weights, shape, segment.ids, temperature)[0].tolist()]
            segment.logprobs = [
                bit and (value + noise * ((number, place) not in exact) * rng.gauss(0, 1) + unknown)
                for place, (value, bit) in enumerate(zip(told, segment.mask, strict=True))
            ]
    return copies


def _by_newest(turn: Turn) -> list[tuple[int, int]]:
    """Segment and place of the ids that the newest version sampled last."""
    count = sum(tokens for version, tokens in turn.versions if version == NEWEST)
    return [(turn.segment, place) for place in range(turn.stop - count, turn.stop)]


def _drawer(seed: int) -> Ids:
    rng = random.Random(seed)
    return lambda count: [rng.randrange(256) for _ in range(count)]


def _played(turns: Any, sample: int, new_segment_at: Sequence[int] | set[int] = (), **more: Any) -> Trajectory:
    return make_trajectory(turns, sample=sample, new_segment_at=tuple(new_segment_at), **more)


def _rewarded(samples: Sequence[Any]) -> list[Trajectory]:
    return [
        _played(turns, k, reward=(0.0, 1.0, 0.2, 0.6)[k], turn_rewards=[0.1 * k, -0.1][: len(turns)])
        for k, turns in enumerate(samples)
    ]


def _group(name: str, trajectories: list[Trajectory]) -> Group:
    return Group(make_task(name), trajectories)
