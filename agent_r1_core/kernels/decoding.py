"""Attention of a step that samples on a GPU, all between its two matrix products in one kernel, written for Triton.

A program computes the queries that share a key head of one row. It embeds them and the new key, which it stores with
the value, and reads the row's own keys and values once, no further than they go. Few rows leave most of a GPU idle:
then several programs take a part each, and a second kernel combines these (Flash-Decoding, Dao et al. 2023).
"""

# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import functools

import torch
import triton
import triton.language as tl
from torch import Tensor

from agent_r1_core.kernels.functions import Norm

_TILE = 2**14
"""Bytes of the keys that a program reads at once."""
_LEAST = 16
"""Of each side of a matrix in a product of Triton's."""
_PARTS = 32
"""Most programs that share a row's keys."""


def attend(
    mixed: Tensor,
    heads: int,
    norms: tuple[Norm, Norm] | None,
    tables: tuple[Tensor, Tensor],
    positions: Tensor,
    keys: Tensor,
    values: Tensor,
) -> Tensor:
    """What `Kernels.attend` computes, with its arguments, of tensors on a GPU that have one dtype."""
    rows, key_heads, _, width = keys.shape
    assert keys.stride() == values.stride()
    assert keys.stride()[2:] == (width, 1)
    assert mixed.is_contiguous()
    processors, programs = _processors(keys.device), rows * key_heads
    parts = _parts(processors // programs)
    alone = programs <= 2 * processors  # in its processor's memory
    options = {"num_warps": 8, "num_stages": 3} if alone else {"num_warps": 4, "num_stages": 2}
    out = mixed.new_empty(rows, 1, heads * width)
    partial = mixed.new_empty(rows, heads, parts, width + 2, dtype=torch.float32) if parts > 1 else out
    query_norm, key_norm = norms or (Norm(mixed, 0.0), Norm(mixed, 0.0))
    wide = max(triton.next_power_of_2(width), _LEAST)
    _attend[rows, key_heads, parts](
        mixed, query_norm.weight, key_norm.weight, query_norm.eps, *tables, positions,
        keys, values, keys.stride(0), keys.stride(1), width**-0.5, partial,
        HEADS=heads, KEY_HEADS=key_heads, WIDTH=width, NORMED=norms is not None, PARTS=parts,
        QUERIES=max(triton.next_power_of_2(heads // key_heads), _LEAST), WIDE=wide,
        AT_ONCE=max(_TILE // (wide * keys.element_size()), _LEAST), **options,
    )  # fmt: skip
    if parts > 1:
        _combine[rows, heads](partial, out, WIDTH=width, PARTS=parts, WIDE=wide)
    return out


@functools.cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


def _parts(share: int) -> int:
    """How many programs share a row's keys, a power of two, where a row has so many processors to itself."""
    return 1 << min(max(share, 1), _PARTS).bit_length() - 1


@triton.jit
def _embedded(start, lane, inside, weight, eps, cos, sin, WIDTH: tl.constexpr, NORMED: tl.constexpr):
    """Heads [n, WIDE] from where each begins, after their norm and the rotary embedding, rounded as torch does it."""
    partner = tl.where(lane < WIDTH // 2, lane + WIDTH // 2, lane - WIDTH // 2)
    x, y = tl.load(start + lane, inside, other=0.0), tl.load(start + partner, inside, other=0.0)
    dtype = x.dtype
    x, y = x.to(tl.float32), y.to(tl.float32)
    if NORMED:
        scale = tl.rsqrt(tl.sum(x * x, 1) / WIDTH + eps)[:, None]
        weighted, other = tl.load(weight + lane, inside, other=0.0), tl.load(weight + partner, inside, other=0.0)
        x = (weighted.to(tl.float32) * (x * scale)).to(dtype).to(tl.float32)
        y = (other.to(tl.float32) * (y * scale)).to(dtype).to(tl.float32)
    return (x * cos + tl.where(lane < WIDTH // 2, -y, y) * sin).to(dtype)


@triton.jit
def _attend(
    mixed, query_norm, key_norm, eps, cosines, sines, positions, keys, values, row_stride, head_stride, scale, out,
    HEADS: tl.constexpr, KEY_HEADS: tl.constexpr, WIDTH: tl.constexpr, NORMED: tl.constexpr, PARTS: tl.constexpr,
    QUERIES: tl.constexpr, WIDE: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    """By row, key head and part; what remains to be combined is written as [row, head, part, sums..., top, total]."""
    row, head, part = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    GROUP: tl.constexpr = HEADS // KEY_HEADS
    lane = tl.arange(0, WIDE)[None, :]
    query = tl.arange(0, QUERIES)[:, None]
    known = lane < WIDTH
    inside = known & (query < GROUP)
    position = tl.load(positions + row).to(tl.int32)
    cos = tl.load(cosines + position * WIDTH + lane, known, other=0.0).to(tl.float32)
    sin = tl.load(sines + position * WIDTH + lane, known, other=0.0).to(tl.float32)
    mixed += row * (HEADS + 2 * KEY_HEADS) * WIDTH
    keys += row * row_stride + head * head_stride
    values += row * row_stride + head * head_stride
    start = mixed + (head * GROUP + query) * WIDTH
    queries = _embedded(start, lane, inside, query_norm, eps, cos, sin, WIDTH, NORMED)
    new_key = _embedded(mixed + (HEADS + head) * WIDTH, lane, known, key_norm, eps, cos, sin, WIDTH, NORMED)
    new_value = tl.load(mixed + (HEADS + KEY_HEADS + head) * WIDTH + lane, known, other=0.0)
    # The first part takes the new key, which others may not see in memory yet.
    mine = part == 0
    tl.store(keys + position * WIDTH + lane, new_key, known & mine)
    tl.store(values + position * WIDTH + lane, new_value, known & mine)
    score = tl.sum(queries.to(tl.float32) * new_key.to(tl.float32), 1) * scale
    top = tl.where(mine, score, float("-inf"))
    total = tl.where(mine, 1.0, 0.0) + tl.zeros([QUERIES], tl.float32)
    sums = tl.where(mine, new_value.to(tl.float32), 0.0) + tl.zeros([QUERIES, WIDE], tl.float32)
    share = tl.cdiv(tl.cdiv(position, AT_ONCE), PARTS) * AT_ONCE
    end = tl.minimum((part + 1) * share, position)
    for first in range(part * share, end, AT_ONCE):
        place = first + tl.arange(0, AT_ONCE)
        seen = place < end
        some_keys = tl.load(keys + place[None, :] * WIDTH + tl.trans(lane), seen[None, :] & tl.trans(known), other=0.0)
        scores = tl.dot(queries, some_keys, input_precision="ieee") * scale
        scores = tl.where(seen[None, :], scores, float("-inf"))
        higher = tl.maximum(top, tl.max(scores, 1))
        weights, fade = tl.exp(scores - higher[:, None]), tl.exp(top - higher)
        some_values = tl.load(values + place[:, None] * WIDTH + lane, seen[:, None] & known, other=0.0)
        total = total * fade + tl.sum(weights, 1)
        products = tl.dot(weights.to(some_values.dtype), some_values, input_precision="ieee")
        sums = sums * fade[:, None] + products
        top = higher
    if PARTS == 1:
        at = out + (row * HEADS + head * GROUP + query) * WIDTH
        tl.store(at + lane, (sums / total[:, None]).to(queries.dtype), inside)
    else:
        at = out + ((row * HEADS + head * GROUP + query) * PARTS + part) * (WIDTH + 2)
        tl.store(at + lane, sums, inside)
        tl.store(at + WIDTH, top[:, None], query < GROUP)
        tl.store(at + WIDTH + 1, total[:, None], query < GROUP)


@triton.jit
def _combine(partial, out, WIDTH: tl.constexpr, PARTS: tl.constexpr, WIDE: tl.constexpr):
    """By row and head."""
    row = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
    part, lane = tl.arange(0, PARTS), tl.arange(0, WIDE)
    at = partial + (row * PARTS + part) * (WIDTH + 2)
    top = tl.load(at + WIDTH)
    fade = tl.exp(top - tl.max(top, 0))
    total = tl.sum(tl.load(at + WIDTH + 1) * fade, 0)
    sums = tl.load(at[:, None] + lane[None, :], (lane < WIDTH)[None, :], other=0.0)
    mixed = tl.sum(sums * fade[:, None], 0) / total
    tl.store(out + row * WIDTH + lane, mixed.to(out.dtype.element_ty), lane < WIDTH)
