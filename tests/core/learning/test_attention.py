"""Attention along the paths of a prefix tree, by either way of computing it, against every whole sequence alone."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from gradients import relative_difference

from agent_r1_core.learning import attention
from agent_r1_core.learning.attention import packed_attention
from agent_r1_core.learning.packing import PrefixForest, Span

SEQUENCES = ([1, 2, 3, 4, 5, 6], [1, 2, 3, 7], [1, 2, 3, 7, 8, 9, 10], [5])


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("plain_products", [False, True])
@pytest.mark.parametrize("block", [2, 256])
def test_each_token_sees_its_own_prefix(
    window: int | None, plain_products: bool, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "_BLOCK", block)
    monkeypatch.setattr(attention, "_products_win", lambda query, places: plain_products)
    forest = PrefixForest()
    for ids in SEQUENCES:
        forest.add(ids, 0)
    tree, place = forest.build()
    draw = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, heads, len(tree.ids), 8, generator=draw) for heads in (4, 2, 2))
    module = SimpleNamespace(num_key_value_groups=2)
    found, _ = packed_attention(module, query, key, value, None, sliding_window=window, spans=tree.spans)  # type: ignore[arg-type]
    for at in place.split([len(ids) for ids in SEQUENCES]):
        expected = by_the_book(query[:, :, at], key[:, :, at], value[:, :, at], window)
        torch.testing.assert_close(found[:, at], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kept", [0, 32])
def test_in_bfloat16_either_way_is_as_exact_as_its_numbers(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "_KEPT", kept)
    assert attention._products_win(torch.zeros(1, 4, 20, 8, dtype=torch.bfloat16), 60) == bool(kept)
    draw = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, heads, 60, 8, generator=draw).requires_grad_() for heads in (4, 2, 2))
    direction = torch.randn(1, 60, 4, 8, generator=draw)
    spans = (Span(40, ()), Span(20, (0,)))
    with torch.autocast("cpu", torch.bfloat16):
        found, _ = packed_attention(SimpleNamespace(), query, key, value, None, spans=spans)  # type: ignore[arg-type]
    expected = by_the_book(query, key, value, None)
    assert found.dtype == torch.bfloat16
    assert relative_difference(found.detach(), expected.detach()) < 0.01
    ours, theirs = (torch.autograd.grad((out * direction).sum(), (query, key, value)) for out in (found, expected))
    for one, other in zip(ours, theirs, strict=True):
        assert relative_difference(one, other) < 0.01


@pytest.mark.parametrize("packed", [False, True])
def test_a_models_own_scale_of_scores_is_kept(packed: bool) -> None:
    """Also in ordinary passes of a wrapped model."""
    draw = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, heads, 9, 8, generator=draw) for heads in (4, 2, 2))
    module, spans = SimpleNamespace(num_key_value_groups=2, is_causal=True), (Span(9, ()),) if packed else None
    found, _ = packed_attention(module, query, key, value, None, scaling=0.05, spans=spans)  # type: ignore[arg-type]
    expected = by_the_book(query * 0.05 * 8**0.5, key, value, None)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def by_the_book(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, window: int | None) -> torch.Tensor:
    """softmax(QK' / sqrt(d)) V under the causal mask, [1, tokens, heads, width]."""
    key, value = key.repeat_interleave(2, 1), value.repeat_interleave(2, 1)
    at = torch.arange(query.shape[2])
    distance = at[:, None] - at
    seen = (distance >= 0) & (distance < (window or len(at)))
    scores = (query @ key.transpose(2, 3) / query.shape[-1] ** 0.5).masked_fill(~seen, float("-inf"))
    return (scores.softmax(-1) @ value).transpose(1, 2)
