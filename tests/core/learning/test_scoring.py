"""Actions after prompts that they did not follow: the log-probs of plain forward passes, one sequence at a time."""

from __future__ import annotations

import pytest
import torch

from agent_r1_core.learning.forward import score_actions
from agent_r1_core.learning.policy import Policy
from agent_r1_core.testing import tiny_model

PROMPTS = [[5, 6, 7], [5, 6, 8, 9], [40]]
ACTIONS = [[11, 12], [13], [11, 14, 15, 16]]


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("max_tokens", [5, 4096])
def test_scores_are_those_of_one_sequence_at_a_time(share: bool, max_tokens: int) -> None:
    model, temperature = tiny_model(), 0.7
    found = score_actions(Policy(model), PROMPTS, ACTIONS, temperature=temperature, max_tokens=max_tokens, share=share)
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
