"""The drift guard names model, turn and token."""

from __future__ import annotations

import pytest

from agent_r1_core.chat import ChatTokenizer, DriftGuard, Sampled
from agent_r1_core.contracts.engine import context_digest
from agent_r1_core.errors import DriftError
from agent_r1_core.testing import make_trajectory, tiny_tokenizer


@pytest.fixture
def guard() -> DriftGuard:
    return DriftGuard("tiny", ChatTokenizer(tiny_tokenizer()))


@pytest.fixture
def episode():
    trajectory = make_trajectory([([65, 66], [67, 68]), ([69], [70])])
    contexts = [(65, 66), (65, 66, 67, 68, 69)]
    sampled = [
        Sampled(context, ids, context_digest(context)) for context, ids in zip(contexts, [(67, 68), (70,)], strict=True)
    ]
    return trajectory, sampled


def test_an_exact_trajectory_passes(guard, episode):
    guard.check_trajectory(*episode)


def test_a_changed_context_is_named(guard, episode):
    trajectory, sampled = episode
    trajectory.segments[0].ids[4] = 1
    with pytest.raises(DriftError, match=r"tiny: episode task/0, turn 1, token 4 \(id 1, .*the context changed"):
        guard.check_trajectory(trajectory, sampled)


def test_a_changed_action_is_named(guard, episode):
    trajectory, sampled = episode
    trajectory.segments[0].ids[5] = 71
    with pytest.raises(DriftError, match=r"turn 1, token 5 \(id 71, .*not those that were sampled"):
        guard.check_trajectory(trajectory, sampled)


def test_an_action_that_lost_an_id_is_named(guard, episode):
    trajectory, sampled = episode
    sampled[1] = Sampled(sampled[1].sent, (*sampled[1].ids, 71), sampled[1].digest)
    with pytest.raises(DriftError, match=r"turn 1, token 6 \(missing\): the action's ids are not those"):
        guard.check_trajectory(trajectory, sampled)


def test_an_engine_that_saw_something_else_is_named(guard, episode):
    trajectory, sampled = episode
    sampled[0] = Sampled(sampled[0].sent, sampled[0].ids, digest=123)
    with pytest.raises(DriftError, match=r"turn 0.*conditioned on other ids than it was sent"):
        guard.check_trajectory(trajectory, sampled)


def test_a_masked_action_is_named(guard, episode):
    trajectory, sampled = episode
    trajectory.segments[0].mask[3] = 0
    with pytest.raises(DriftError, match=r"turn 0, token 3 .*action mask 0"):
        guard.check_trajectory(trajectory, sampled)


def test_an_id_that_nobody_sampled_is_no_action(guard, episode):
    trajectory, sampled = episode
    trajectory.segments[0].append_context([71, 72])
    trajectory.segments[0].mask[-1] = 1
    with pytest.raises(DriftError, match=r"after turn 1, token 7 \(id 72, .*nobody sampled"):
        guard.check_trajectory(trajectory, sampled)


def test_a_later_segment_is_looked_at_too(guard):
    trajectory = make_trajectory([([65], [67]), ([69], [70]), ([71], [72])], new_segment_at=[1, 2], closing=[73])
    trajectory.segments[2].mask[2] = 1
    sampled = [Sampled((ids[0],), (ids[1],), context_digest(ids[:1])) for ids in ([65, 67], [69, 70], [71, 72])]
    with pytest.raises(DriftError, match=r"after turn 2, token 2 \(id 73, .*nobody sampled"):
        guard.check_trajectory(trajectory, sampled)


def test_a_lost_turn_is_named(guard, episode):
    trajectory, sampled = episode
    with pytest.raises(DriftError, match="2 turns and 1 generations"):
        guard.check_trajectory(trajectory, sampled[:1])
