"""Attention in one kernel computes what span after span computes, and is compiled once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from gradients import relative_difference
from torch._dynamo.testing import CompileCounter
from torch.nn.attention import flex_attention as library

from agent_r1_core.learning import attention
from agent_r1_core.learning.attention import BLOCK, TreeMask, filled, packed_attention
from agent_r1_core.learning.decoder import _one_kernel
from agent_r1_core.learning.packing import PrefixForest, Tree
from agent_r1_core.learning.policy import Policy
from agent_r1_core.testing import tiny_model

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")


def random_tree(seed: int, sequences: int = 12, longest: int = 30) -> Tree:
    """Sequences over three ids in two groups, so that many begin alike."""
    draw, forest = random.Random(seed), PrefixForest()
    for number in range(sequences):
        forest.add([draw.randrange(3) for _ in range(draw.randrange(1, longest))], number % 2)
    return forest.build()[0]


def dense(tree_mask: TreeMask, window: int | None) -> torch.Tensor:
    """bool [tokens, tokens]: what the kernel's mask function says."""
    at = torch.arange(len(tree_mask.tree.ids))
    return tree_mask.visible(window)(at[:1], at[:1], at[:, None], at[None])


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the learner logged."""
    return [record.getMessage() for record in caplog.records if record.name.startswith("agent_r1")]


@pytest.fixture(params=["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A GPU, or a CPU, on which torch refuses FlexAttention's backward pass, though it can compute it uncompiled."""
    found = "cpu" if request.param == "cpu" else request.getfixturevalue("gpu")
    if found == "cpu":
        monkeypatch.setattr(library, "_validate_device", lambda query, key, value: None)
    return str(found)


@pytest.mark.parametrize(("sequences", "longest"), [(1, 2), (12, 30), (9, 300), (60, 90)])
@pytest.mark.parametrize("window", [None, 5, 150])
def test_blocks_follow_from_the_ends_of_intervals(window: int | None, sequences: int, longest: int) -> None:
    tree_mask = TreeMask(random_tree(1, sequences, longest), CPU)
    seen = dense(tree_mask, window).view(-1, BLOCK, len(tree_mask.tree.ids) // BLOCK, BLOCK).transpose(1, 2)
    asked, full = attention.block_pairs(tree_mask._ends, tree_mask.tree.positions, window)
    assert not (asked & full).any()
    assert not (full & ~seen.all(3).all(2)).any(), "a full block hides nothing"
    assert not (seen.any(3).any(2) & ~(asked | full)).any(), "a block that is left out shows nothing"
    if window is None:
        assert torch.equal(asked | full, seen.any(3).any(2))
        assert torch.equal(full, seen.all(3).all(2))
    size = len(tree_mask.tree.ids)
    theirs = library.create_block_mask(tree_mask.visible(window), None, None, size, size, "cpu")
    ours = tree_mask.blocks(window)
    assert ours.shape == theirs.shape
    assert bool((ours.to_dense() >= theirs.to_dense()).all())
    assert tree_mask.blocks(window) is ours, "made once for all layers"


@pytest.mark.parametrize("tokens", [0, 1, 255, 256, 257, 384])
def test_a_tree_is_filled_up_to_whole_blocks(tokens: int) -> None:
    forest = PrefixForest()
    if tokens:
        forest.add(list(range(tokens)), 0)
    tree = forest.build()[0]
    whole = filled(tree, 2)
    expected = max(256, -(-tokens // 128) * 128)
    assert len(whole.ids) == len(whole.positions) == sum(span.length for span in whole.spans) == expected
    assert torch.equal(whole.ids[:tokens], tree.ids)
    assert int(whole.positions.max()) <= max(tokens - 1, 0)
    kept = dense(TreeMask(tree, CPU), None)
    assert not kept[:tokens, tokens:].any()
    assert not kept[tokens:, :tokens].any()


def both_ways(
    mask: TreeMask, tokens: int, sizes: tuple[int, int, int], window: int | None, dtype: torch.dtype = torch.float32
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Output and gradients of the tree's `tokens`, by one kernel in `dtype`, and span after span in float32."""
    heads, key_heads, width = sizes
    draw, device = torch.Generator().manual_seed(0), mask.tree.ids.device
    given = [torch.randn(1, n, len(mask.tree.ids), width, generator=draw) for n in (heads, key_heads, key_heads)]
    direction = torch.randn(1, tokens, heads, width, generator=draw).to(device)
    results = []
    for chosen, kind in ((mask, dtype), (None, torch.float32)):
        inputs = [part.to(device, dtype).to(kind).requires_grad_() for part in given]
        spans: Any = {"spans": mask.tree.spans, "tree_mask": chosen, "sliding_window": window, "scaling": 0.3}
        out, _ = packed_attention(SimpleNamespace(), *inputs, None, **spans)  # type: ignore[arg-type]
        out = out[:, :tokens].float()
        results.append([out.detach(), *torch.autograd.grad((out * direction).sum(), inputs)])
    return ((found.float(), exact) for found, exact in zip(*results, strict=True))


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("window", [None, 4, 40])
@pytest.mark.parametrize("sizes", [(4, 2, 16), (6, 2, 24), (4, 4, 8), (14, 2, 64), (16, 2, 128)])
def test_one_kernel_computes_what_span_after_span_does(
    device: str, dtype: torch.dtype, bound: float, window: int | None, sizes: tuple[int, int, int]
) -> None:
    """On a GPU, where it is compiled, of trees short and long."""
    trees = [random_tree(5)]
    if device == "cuda":
        trees += [random_tree(6, 9, 300), random_tree(7, 60, 90)]
    for tree in trees:
        for found, exact in both_ways(TreeMask(tree, torch.device(device)), len(tree.ids), sizes, window, dtype):
            assert relative_difference(found, exact) < bound


def test_the_number_of_tokens_compiles_nothing_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = CompileCounter()
    kernel = torch.compile(library.flex_attention, dynamic=True, fullgraph=True, backend=counter)
    monkeypatch.setattr(attention, "flex_attention", kernel)

    def attend(tree_mask: TreeMask, window: int | None) -> None:
        query, key, value = (torch.randn(1, heads, len(tree_mask.tree.ids), 16) for heads in (4, 2, 2))
        tree_mask.attend(query, key, value, window, 0.25)

    trees = [
        random_tree(seed, sequences, longest) for seed, sequences, longest in ((0, 1, 2), (1, 9, 300), (2, 60, 90))
    ]
    for compiled, window in enumerate((None, 4), start=1):
        attend(TreeMask(random_tree(3), CPU, blocks=11), window)
        assert counter.frame_count == compiled
        for tree in trees:
            attend(TreeMask(tree, CPU), window)
        assert counter.frame_count == compiled
    attend(TreeMask(trees[0], CPU), 7)
    assert counter.frame_count == 2, "nor does the size of the window"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_kernel_is_used_where_its_trial_succeeds(dtype: str, device: str) -> None:
    """Without this, an update on a GPU would still be right, but slow."""
    assert _one_kernel(Policy(tiny_model().to(device), dtype).decoder) is TreeMask


def test_a_kernel_that_cannot_run_is_not_used(caplog: pytest.LogCaptureFixture) -> None:
    assert _one_kernel(Policy(tiny_model()).decoder) is None
    assert told(caplog) == [
        "FlexAttention cannot be used (NotImplementedError: FlexAttention does not support backward on CPU. Please set "
        "the input requires_grad to False or use another device); attention takes a kernel for each span"
    ]


def test_a_kernel_whose_gradient_differs_is_not_used(
    device: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def wrong(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **options: Any) -> torch.Tensor:
        return library.flex_attention(query, key, value.detach(), **options)

    decoder = Policy(tiny_model().to(device)).decoder
    monkeypatch.setattr(attention, "flex_attention", wrong)
    monkeypatch.setattr(attention, "_compiled", lambda: torch.compile(wrong, dynamic=True, fullgraph=True))
    assert _one_kernel(decoder) is None
    assert told(caplog) == ["FlexAttention cannot be used (its results differ); attention takes a kernel for each span"]
