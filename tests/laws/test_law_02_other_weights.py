"""LAW 2, where tokens were sampled by other weights than those that learn, or as if: a mask leaves out what the engine
says otherwise than the learner, segment by segment, and tells how much; where rollouts run ahead, the engine is held
against the learner at tokens of the learner's own weights alone, and an older policy's log-probs never stand for those
before the update."""

from __future__ import annotations

import math

import pytest
import torch
from agent_r1_grpo.grpo import GRPO
from gradients import relative_difference, update_gradients

from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.learning.batch import Advantages, Batch
from agent_r1_core.learning.learner import Learner
from agent_r1_core.learning.policy import Policy
from agent_r1_core.testing import make_task, make_trajectory, tiny_model
from agent_r1_core.trajectory import Group, Trajectory

RATIOS = [
    [[1.0, 1.0, 1.0, 1.0], [0.4, 1.0, 1.0, 6.0]],
    [[0.6, 0.6, 0.6, 0.6], [1.005, 1.005, 1.005, 1.005]],
    [[0.6, 0.6, 0.6, 0.6], [1.5, 1.5, 1.5, 1.0]],
    [[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]],
]
"""By sample and segment: how much likelier the learner finds each sampled token than the engine did. The first two
samples have the negative advantages. Over both segments, no product is above 3 and no negative mean below .607."""
EVERY = range(4)
LEFT_OUT = {
    "icepop": {(0, 1, 0), (0, 1, 3)},
    "sequence": {(2, 1, k) for k in EVERY},
    "geometric": {(sample, segment, k) for sample, segment in ((0, 1), (1, 0), (2, 0), (2, 1)) for k in EVERY},
    "off_policy": {(1, 0, k) for k in EVERY},
}
"""Sample, segment and place of what the masks leave out."""


SAMPLED = [5, 6, 10, 11]
"""Places of what was sampled among the twelve ids of a segment, in two turns."""


def played() -> Group:
    model, group = tiny_model(), Group(make_task())
    for sample, ratios in enumerate(RATIOS):
        turns, told = [], []
        drawn = torch.randint(200, (2, 12), generator=torch.Generator().manual_seed(sample))
        for ids, segment in zip(drawn, ratios, strict=True):
            table = torch.log_softmax(model(ids[None]).logits[0].double(), -1)
            own = torch.stack([table[at - 1, ids[at]] for at in SAMPLED]) - torch.tensor(segment).log()
            turns += [(ids[:5].tolist(), ids[5:7].tolist()), (ids[7:10].tolist(), ids[10:].tolist())]
            told += [own[:2].tolist(), own[2:].tolist()]
        about = {"sample": sample, "logprobs": told, "reward": float(sample)}
        group.trajectories.append(make_trajectory(turns, **about, new_segment_at=(2,)))
    return group


class Without(GRPO):
    """GRPO without the advantages of these actions."""

    left_out: set[tuple[int, int, int]]

    def advantages(self, batch: Batch) -> Advantages:
        found = super().advantages(batch)
        for sample, segment, place in self.left_out:
            found.advantages[sample, 12 * segment + SAMPLED[place]] = 0.0
        return found


@pytest.mark.parametrize("mask", LEFT_OUT)
def test_a_mask_leaves_out_what_it_names_and_says_how_much(mask: str) -> None:
    """The gradient is that of advantages of 0 there, with the same normaliser; the environment's tokens, which are in
    the loss here, are in no segment's ratio."""
    group, options = played(), GRPO.Config(loss_mask=False)
    found = update_gradients(tiny_model(), GRPO(options), [group], mismatch_mask=mask)[0]
    expected = Without(options)
    expected.left_out = LEFT_OUT[mask]
    assert relative_difference(found, update_gradients(tiny_model(), expected, [group])[0]) < 1e-5
    assert relative_difference(found, update_gradients(tiny_model(), GRPO(options), [group])[0]) > 1e-2

    settings = TrainingConfig(mismatch_mask=mask, max_tokens_per_microbatch=1)
    metrics = Learner(Policy(tiny_model()), GRPO(options), settings).update([group], 1).metrics
    assert metrics["update/mismatch_masked"] == pytest.approx(len(LEFT_OUT[mask]) / 32)
    assert metrics["update/mismatch_segments"] == pytest.approx(len({place[:2] for place in LEFT_OUT[mask]}) / 8)


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
