"""The value network: where it begins, what it reads, how it is saved; and scores of actions after other prompts."""

from __future__ import annotations

import pytest
import torch
from agent_r1_grpo.grpo import GRPO
from batches import some_critic, valued

from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.learning.critic import Critic
from agent_r1_core.learning.learner import Learner
from agent_r1_core.learning.packing import pack
from agent_r1_core.learning.policy import Policy
from agent_r1_core.testing import make_trajectory, tiny_model

TWO_TURNS = (((1, 2, 3), (4, 5)), ((6, 7), (8, 9, 10)))


def test_every_value_begins_at_zero() -> None:
    batch = valued(Critic(Policy(tiny_model())), make_trajectory(TWO_TURNS, bootstrap=True))
    assert not batch.values.any()
    assert not batch.bootstrap.any()


def test_the_value_of_a_token_is_read_at_the_token_before_it() -> None:
    """V(state before t) must not know token t."""
    critic = some_critic()
    batch = valued(critic, make_trajectory(TWO_TURNS))
    packed = pack(batch, [0])
    everywhere = critic.values(packed, torch.arange(10)).detach()
    torch.testing.assert_close(batch.values[0, 3:], everywhere[2:9])
    other = valued(critic, make_trajectory((((1, 2, 3), (4, 5)), ((6, 7), (200, 9, 10)))))
    torch.testing.assert_close(other.values[0, :8], batch.values[0, :8])
    assert (other.values[0, 8:] - batch.values[0, 8:]).abs().min() > 1e-6


def test_only_a_trajectory_cut_from_outside_is_bootstrapped_after_its_last_id() -> None:
    critic = some_critic()
    cut, ended = make_trajectory(TWO_TURNS, closing=(11,), bootstrap=True), make_trajectory(TWO_TURNS, closing=(11,))
    batch = valued(critic, cut, ended)
    last = critic.values(pack(batch, [0]), torch.tensor([10])).detach()
    torch.testing.assert_close(batch.bootstrap[:1], last)
    assert float(batch.bootstrap[1]) == 0.0


def test_the_critic_is_a_network_of_its_own() -> None:
    policy = Policy(tiny_model())
    critic = Critic(policy)
    shared = {p.data_ptr() for p in policy.parameters()} & {p.data_ptr() for _, p in critic.named_parameters()}
    assert not shared


def test_its_state_comes_back_bit_for_bit() -> None:
    critic, fresh = some_critic(), Critic(Policy(tiny_model(seed=3)))
    fresh.load_state_dict(critic.state_dict())
    one, other = valued(critic, make_trajectory(TWO_TURNS)), valued(fresh, make_trajectory(TWO_TURNS))
    assert torch.equal(one.values, other.values)


PROMPTS = [[5, 6, 7], [5, 6, 8, 9], [40]]
ACTIONS = [[11, 12], [13], [11, 14, 15, 16]]


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("max_tokens", [5, 4096])
def test_scores_are_those_of_one_sequence_at_a_time(share: bool, max_tokens: int) -> None:
    """Log-probs of plain forward passes."""
    model, temperature = tiny_model(), 0.7
    settings = TrainingConfig(max_tokens_per_microbatch=max_tokens, share_prefixes=share)
    found = Learner(Policy(model), GRPO(), settings, temperature=temperature).score(PROMPTS, ACTIONS)
    assert found.shape == (3, 3)
    assert not found.requires_grad
    for i, action in enumerate(ACTIONS):
        for j, prompt in enumerate(PROMPTS):
            with torch.no_grad():
                logits = model(torch.tensor([prompt + action])).logits[0].double() / temperature
            plain = 0.0
            for place, token in enumerate(action, len(prompt)):
                plain += float(logits[place - 1].log_softmax(-1)[token])
            assert float(found[i, j]) == pytest.approx(plain, abs=1e-4)
