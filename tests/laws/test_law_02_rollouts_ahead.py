"""LAW 2: where rollouts run ahead, the engine is held against the learner at tokens of the learner's own weights alone,
and an older policy's log-probs never stand for those before the update."""

from __future__ import annotations

import math

import pytest
import torch
from agent_r1_grpo.grpo import GRPO

from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.learning.learner import Learner
from agent_r1_core.learning.policy import Policy
from agent_r1_core.testing import make_task, make_trajectory, tiny_model
from agent_r1_core.trajectory import Group, Trajectory

STEP = 3
NEWEST, OLDER = STEP - 1, STEP - 2
TURNS = [[5, 6, 7], [8, 9, 10, 11], [12, 13], [14, 15, 16, 17]]
"""What was read and sampled, in turn."""
ACTIONS = [[3, 4, 5, 6], [9, 10, 11, 12]]
"""Places of what was sampled."""
OFF = 0.5
"""Nats by which the older policy thought its tokens likelier."""


def logprobs(policy: Policy, sample: int) -> torch.Tensor:
    """Of the ids of an episode, float64 [ids]; 0 at the first."""
    ids = torch.tensor([id for ids in turns(sample) for id in ids])
    with torch.no_grad():
        told = torch.log_softmax(policy.model(ids[None]).logits[0].double(), -1)
    return torch.cat([torch.zeros(1).double(), told[:-1].gather(1, ids[1:, None])[:, 0]])


def turns(sample: int) -> list[list[int]]:
    return [[(id + 20 * sample) % 200 for id in ids] for ids in TURNS]


def episode(policy: Policy, sample: int) -> Trajectory:
    """The weights change in the middle of every action: the older policy sampled two tokens, the newest one two."""
    own, (task, first, said, second) = logprobs(policy, sample).tolist(), turns(sample)
    told = [[own[at] + OFF * (k < 2) for k, at in enumerate(action)] for action in ACTIONS]
    pairs = [(task, first), (said, second)]
    made = make_trajectory(pairs, task=make_task(), sample=sample, logprobs=told, reward=float(sample % 2))
    for turn in made.turns:
        turn.versions = ((OLDER, 2), (NEWEST, 2))
    return made


@pytest.mark.parametrize("passes", [1, 2])
def test_the_gap_is_that_of_the_newest_weights_and_older_tokens_are_weighed(passes: int) -> None:
    """The learning rate moves no weight, so that every pass is the first."""
    policy, reference = Policy(tiny_model()), Policy(tiny_model(seed=1)).freeze()
    samples = range(4)
    group = Group(make_task(), [episode(policy, sample) for sample in samples])
    algorithm = GRPO(GRPO.Config(kl_coef=0.1, kl_correction=True))
    settings = TrainingConfig(max_staleness=1, epochs=passes, lr=1e-20)
    metrics = Learner(policy, algorithm, settings, reference=reference).update([group], STEP).metrics
    assert metrics["logprob_gap"] < 1e-4
    assert metrics["prob_gap"] < 1e-4
    # By how much likelier the policy before the update makes them: half of them e^-OFF, half 1.
    weight = torch.tensor([math.exp(-OFF)] * 2 + [1.0] * 2)
    assert metrics["update/importance_weight"] == pytest.approx(float(weight.mean()), abs=1e-4)
    apart = torch.stack([logprobs(policy, sample) - logprobs(reference, sample) for sample in samples])[:, ACTIONS]
    expected = float((weight * (torch.exp(-apart) - 1 + apart)).mean())
    assert metrics["update/kl_reference"] == pytest.approx(expected, rel=1e-4)
