"""Random streams, top-k, top-p and the frequencies of samples."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from agent_r1_core.engines.sampling import choose, keep_likely, uniforms
from agent_r1_core.testing import make_request


def request(**options):
    return make_request((1,), 1, **options)


def test_streams_are_uniform_and_independent_of_each_other():
    numbers = np.stack([uniforms(range(2000), [position] * 2000) for position in range(5)])
    assert numbers.min() > 0
    assert numbers.max() < 1
    assert abs(numbers.mean() - 0.5) < 0.01
    assert np.abs(np.corrcoef(numbers) - np.eye(5)).max() < 0.1
    assert uniforms([7, -1, 2**63], [3, 3, 3])[0] == uniforms([7], [3])[0]


def test_in_a_large_vocabulary_an_id_is_where_the_number_falls_in_the_cumulative_distribution():
    """And never one that top-k excludes, though most blocks of ids are then empty."""
    logits = 4 * torch.randn(64, 50_001, generator=torch.Generator().manual_seed(0))
    exact = torch.log_softmax(logits.double(), -1)
    cumulative = exact.exp().cumsum(-1)
    numbers = torch.from_numpy(uniforms(range(64), [3] * 64))
    expected = torch.searchsorted(cumulative, numbers[:, None] * cumulative[:, -1:], right=True)
    ids, logprobs = choose(logits, [request(seed=seed) for seed in range(64)], [3] * 64)
    assert ids == expected[:, 0].tolist()
    assert logprobs == pytest.approx(exact.gather(1, expected)[:, 0].tolist(), abs=3e-6)
    few, _ = choose(logits, [request(seed=seed, top_k=2) for seed in range(64)], [3] * 64)
    likeliest = logits.topk(2).indices
    assert all(token in two for token, two in zip(few, likeliest.tolist(), strict=True))


def test_log_probs_are_those_before_top_k_and_rows_with_different_options_do_not_disturb_each_other():
    logits = torch.tensor([[0.0, 3.0, 1.0], [5.0, 0.0, 0.0], [1.0, 2.0, 3.0]])
    ids, logprobs = choose(logits, [request(temperature=0.0), request(temperature=0.0), request(top_k=1)], [0, 0, 0])
    assert ids == [1, 0, 2]
    assert logprobs == pytest.approx(torch.log_softmax(logits, -1).max(-1).values.tolist(), abs=1e-6)
    logits = torch.randn(4, 30, generator=torch.Generator().manual_seed(0))
    requests = [request(seed=1), request(temperature=0.0), request(seed=3, temperature=2.0), request(seed=4, top_k=2)]
    together = choose(logits, requests, [5, 6, 7, 8])
    alone = [choose(logits[row : row + 1], [requests[row]], [5 + row]) for row in range(4)]
    assert together[0] == [ids[0] for ids, _ in alone]
    assert together[1] == pytest.approx([logprobs[0] for _, logprobs in alone])


@pytest.mark.parametrize(
    ("top_k", "top_p", "kept"),
    [(0, 1.0, [0, 1, 2, 3]), (2, 1.0, [1, 3]), (0, 0.39, [3]), (0, 0.41, [1, 3]), (0, 0.75, [0, 1, 3]), (2, 0.5, [3])],
)
def test_top_k_then_top_p_keep_the_likeliest(top_k, top_p, kept):
    probabilities = torch.tensor([0.2, 0.3, 0.1, 0.4])
    result = keep_likely(probabilities, top_k, top_p)
    assert result.nonzero()[:, 0].tolist() == kept
    assert torch.equal(result[kept], probabilities[kept])
