"""Values begin at zero; scores of actions after other prompts, and after those with a hint."""

from __future__ import annotations

import pytest
import torch
from agent_r1_grpo.grpo import GRPO
from batches import valued

from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.critic import Critic
from agent_r1_core.learning.forward import hinted
from agent_r1_core.learning.learner import Learner
from agent_r1_core.learning.policy import Policy
from agent_r1_core.testing import make_trajectory, tiny_model
from agent_r1_core.trajectory import Group

TWO_TURNS = (((1, 2, 3), (4, 5)), ((6, 7), (8, 9, 10)))


def test_every_value_begins_at_zero() -> None:
    batch = valued(Critic(Policy(tiny_model())), make_trajectory(TWO_TURNS, bootstrap=True))
    assert not batch.values.any()
    assert not batch.bootstrap.any()


PROMPTS = [[5, 6, 7], [5, 6, 8, 9], [40]]
ACTIONS = [[11, 12], [13], [11, 14, 15, 16]]


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("max_tokens", [5, 4096])
def test_scores_are_those_of_one_sequence_at_a_time(share: bool, max_tokens: int) -> None:
    """Log-probs of plain forward passes."""
    model, temperature = tiny_model(), 0.7
    settings = TrainingConfig(max_tokens_per_microbatch=max_tokens, share_prefixes=share)
    learner = Learner(Policy(model), GRPO(), settings, temperature=temperature)
    found, one = learner.score([(PROMPTS, ACTIONS), (PROMPTS[1:], ACTIONS[:1])])
    assert found.shape == (3, 3)
    assert torch.allclose(one, found[:1, 1:])
    assert not found.requires_grad
    for i, action in enumerate(ACTIONS):
        for j, prompt in enumerate(PROMPTS):
            with torch.no_grad():
                logits = model(torch.tensor([prompt + action])).logits[0].double() / temperature
            plain = 0.0
            for place, token in enumerate(action, len(prompt)):
                plain += float(logits[place - 1].log_softmax(-1)[token])
            assert float(found[i, j]) == pytest.approx(plain, abs=1e-4)


def test_a_teacher_reads_the_hint_where_the_policy_read_its_prompt() -> None:
    several = make_trajectory(TWO_TURNS, new_segment_at=[1], hinted=[1, 2, 20, 21, 3])
    batch = Batch.from_groups([Group(several.task, [make_trajectory(TWO_TURNS), several])])
    told = hinted(batch)
    assert told.ids.tolist() == [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 0], [1, 2, 20, 21, 3, 4, 5, 6, 7, 8, 9, 10]]
    assert told.ids[told.action_mask].tolist() == batch.ids[batch.action_mask].tolist()
    assert [[len(one.ids) for one in row.segments] for row in told.trajectories] == [[10], [7, 5]]
