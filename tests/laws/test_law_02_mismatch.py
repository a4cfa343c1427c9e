"""LAW 2: where engine and learner disagree, a mask leaves out what it says, segment by segment, and tells how much."""

from __future__ import annotations

import pytest
import torch
from agent_r1_grpo.grpo import GRPO
from gradients import relative_difference, update_gradients

from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.learning.batch import Advantages, Batch
from agent_r1_core.learning.learner import Learner
from agent_r1_core.learning.policy import Policy
from agent_r1_core.testing import make_task, make_trajectory, tiny_model
from agent_r1_core.trajectory import Group

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
        for ids, segment in zip(
            torch.randint(200, (2, 12), generator=torch.Generator().manual_seed(sample)), ratios, strict=True
        ):
            table = torch.log_softmax(model(ids[None]).logits[0].double(), -1)
            own = torch.stack([table[at - 1, ids[at]] for at in SAMPLED]) - torch.tensor(segment).log()
            turns += [(ids[:5].tolist(), ids[5:7].tolist()), (ids[7:10].tolist(), ids[10:].tolist())]
            told += [own[:2].tolist(), own[2:].tolist()]
        group.trajectories.append(
            make_trajectory(turns, sample=sample, logprobs=told, reward=float(sample), new_segment_at=(2,))
        )
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
