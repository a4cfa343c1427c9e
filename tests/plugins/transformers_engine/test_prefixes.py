"""Rows that begin alike are found, and what they have in common is looked at once."""

from __future__ import annotations

import random
from itertools import takewhile

import pytest
import torch
from agent_r1_transformers.lean import attend_along_trunk
from agent_r1_transformers.prefixes import Prefixes
from agent_r1_transformers.row import Row
from torch.nn.functional import scaled_dot_product_attention

from agent_r1_core.testing import make_request


def row(ids: tuple[int, ...]) -> Row:
    return Row(0, make_request(ids, 1))


def alike(contexts: list[tuple[int, ...]]) -> int:
    """How many ids all contexts begin with."""
    return sum(1 for _ in takewhile(lambda ids: len(set(ids)) == 1, zip(*contexts, strict=False)))


def shared(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    """What the tree may promise: all but the last id of equal contexts, else whole blocks."""
    common = alike([left[:-1], right[:-1]])
    return common if len(left) == len(right) == common + 1 else common // 16 * 16


def contexts(source: random.Random, number: int) -> list[tuple[int, ...]]:
    """Contexts that branch off one another at any place."""
    made = [tuple(source.randrange(3) for _ in range(source.randrange(1, 90)))]
    while len(made) < number:
        old = source.choice(made)
        stem = old[: source.randrange(len(old) + 1)]
        made.append((*stem, *(source.randrange(3) for _ in range(source.randrange(1, 40)))))
    return made


@pytest.mark.parametrize("seed", range(20))
def test_the_longest_common_beginning_is_found(seed: int) -> None:
    source = random.Random(seed)
    prefixes, inside = Prefixes(), list[Row]()
    for ids in contexts(source, 60):
        found, length = prefixes.find(ids)
        assert length == max((shared(ids, other.request.ids) for other in inside), default=0)
        if length:
            assert found is not None
            assert shared(ids, found.request.ids) == length
        inside.append(row(ids))
        prefixes.add(inside[-1])
        if source.random() < 0.4:
            prefixes.remove(inside.pop(source.randrange(len(inside))))
        everywhere, ends = alike([one.request.ids[:-1] for one in inside]), {len(one.request.ids) for one in inside}
        assert prefixes.trunk() == (everywhere if ends == {everywhere + 1} else everywhere // 16 * 16)
    last = inside[-1].request.ids
    for one in inside:
        prefixes.remove(one)
    assert (prefixes.find(last), prefixes.trunk()) == ((None, 0), 0), "something remains of rows that left"


def test_equal_contexts_share_all_but_their_last_id() -> None:
    prefixes = Prefixes()
    rows = [row((5,) * 40), row((5,) * 40), row((5,) * 17)]
    for one in rows:
        prefixes.add(one)
    assert prefixes.trunk() == 16
    prefixes.remove(rows[2])
    assert prefixes.trunk() == 39


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_along_a_trunk_is_attention(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    rows, heads, new, width, span, trunk = 18, 2, 3, 8, 50, 33
    keys, values = 2 * torch.randn(2, rows, heads, span + 7, width).to(dtype)[:, :, :, :span]
    keys[:, :, :trunk], values[:, :, :trunk] = keys[:1, :, :trunk].clone(), values[:1, :, :trunk].clone()
    query = 2 * torch.randn(rows, heads, new, width).to(dtype)
    hidden = torch.arange(span) > torch.randint(trunk, span, (rows, 1, 1, 1))
    unseen = torch.zeros(rows, 1, new, span, dtype=dtype).masked_fill(hidden, -torch.inf)
    exact = scaled_dot_product_attention(query.double(), keys.double(), values.double(), attn_mask=unseen.double())
    found = attend_along_trunk(query, keys, values, unseen, trunk)
    assert found.dtype == dtype
    usual = scaled_dot_product_attention(query, keys, values, attn_mask=unseen)
    worst = (usual.double() - exact).abs().max()
    assert (found.double() - exact).abs().max() <= max(2 * float(worst), 1e-6)
