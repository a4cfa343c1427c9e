"""The kernels compute what torch's operations do, and a machine that cannot compile them does without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.nn.functional import rms_norm, scaled_dot_product_attention, silu

from agent_r1_core import kernels
from agent_r1_core.kernels import Norm, functions
from agent_r1_core.kernels.compiled import Compiled


@pytest.fixture(autouse=True)
def _found_anew() -> Iterator[None]:
    yield
    functions._found.cache_clear()
    kernels.switch(True)


@pytest.fixture
def compiled(kernels_here: None) -> kernels.Kernels:
    found = kernels.kernels()
    return found


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat((-right, left), -1) * sin


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("width", "heads", "key_heads", "normed"), [(48, 4, 2, False), (64, 3, 3, True), (24, 6, 1, True), (8, 5, 1, False)]
)
def test_a_step_of_attention(width, heads, key_heads, normed, threads, compiled, monkeypatch) -> None:
    """Rows of 1, 2, 9, 33, 70 places, in slots that are longer; then rows that begin alike."""
    draw = torch.Generator().manual_seed(width)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    for lengths, trunk in (([1, 2, 9, 33, 70], 0), ([40, 41, 70], 37)):
        rows, positions = len(lengths), torch.tensor(lengths) - 1
        keys, values = (torch.randn(rows, key_heads, 80, width, generator=draw) for _ in range(2))
        for held in (keys, values):
            held[:, :, :trunk] = held[0, :, :trunk]
        weights = torch.rand(2, width, generator=draw)
        angles = torch.randn(80, width // 2, generator=draw).repeat(1, 2)
        mixed = torch.randn(rows, 1, (heads + 2 * key_heads) * width, generator=draw)

        query, key, value = mixed.view(rows, -1, width).split([heads, key_heads, key_heads], 1)
        if normed:
            query, key = (rms_norm(x, [width], w, 1e-6) for x, w in zip((query, key), weights, strict=True))
        cos, sin = angles.cos(), angles.sin()
        query, key = (rotated(x, cos[positions][:, None], sin[positions][:, None]) for x in (query, key))
        expected_keys, expected_values, rows_of = keys.clone(), values.clone(), torch.arange(rows)
        expected_keys[rows_of, :, positions], expected_values[rows_of, :, positions] = key, value
        expected = [
            scaled_dot_product_attention(
                query[row, :, None], expected_keys[row, :, :length], expected_values[row, :, :length], enable_gqa=True
            ).flatten()
            for row, length in enumerate(lengths)
        ]

        norms = (Norm(weights[0], 1e-6), Norm(weights[1], 1e-6)) if normed else None
        later = keys[0, 0, lengths[0] :].fill_(torch.nan)  # what another row left there
        found = compiled.attend(mixed, heads, norms, (cos, sin), positions, keys, values, trunk)
        expected_keys[0, 0, lengths[0] :] = later
        torch.testing.assert_close(found[:, 0], torch.stack(expected), atol=2e-6, rtol=1e-5)
        torch.testing.assert_close(keys, expected_keys, atol=2e-6, rtol=1e-5, equal_nan=True)
        assert torch.equal(values, expected_values)


@pytest.mark.gpu
@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize(
    ("width", "heads", "key_heads", "normed"),
    [(48, 4, 2, False), (64, 14, 2, True), (24, 6, 1, True), (8, 5, 1, False), (128, 40, 2, False)],
)
def test_a_gpu_attends_as_a_cpu_does(width, heads, key_heads, normed, parts, gpu, compiled, monkeypatch) -> None:
    """Rows of 1, 2, 33, 640 and 700 places, whose keys one program reads or four; nothing else is written."""
    if gpu != "cuda":
        pytest.skip("Triton compiles for a GPU alone")
    from agent_r1_core.kernels import decoding

    monkeypatch.setattr(decoding, "_parts", lambda share: parts)
    draw, positions = torch.Generator().manual_seed(width), torch.tensor([0, 1, 32, 639, 699])
    held = torch.randn(2, 5, key_heads, 704, width, generator=draw)
    for row, position in enumerate(positions):
        held[:, row, :, position:] = torch.nan  # what another row left there
    weights = torch.rand(2, width, generator=draw)
    tables = torch.randn(2, 704, width // 2, generator=draw).repeat(1, 1, 2)
    mixed = torch.randn(5, 1, (heads + 2 * key_heads) * width, generator=draw)
    for dtype, tolerance in ((torch.float32, 1e-6), (torch.bfloat16, 8e-3)):
        mixed, weights, tables, held = (one.to(dtype).float() for one in (mixed, weights, tables, held))
        found = []
        for attend, device, kind in ((compiled.attend, "cpu", torch.float32), (Compiled().attend, gpu, dtype)):
            own = held.to(device, kind, copy=True)
            norms = tuple(Norm(weight.to(device, kind), 1e-6) for weight in weights) if normed else None
            given = [one.to(device, kind) for one in tables]
            mixture = attend(mixed.to(device, kind), heads, norms, given, positions.to(device), *own, 0)
            found.append((mixture.cpu().float(), own.cpu().float()))
        for on_cpu, on_gpu in zip(*found, strict=True):
            assert torch.equal(on_gpu.isnan(), on_cpu.isnan())
            assert (on_gpu - on_cpu).nan_to_num().norm() <= tolerance * on_cpu.nan_to_num().norm()


def test_norm_and_activation(compiled) -> None:
    draw = torch.Generator().manual_seed(0)
    for rows, width in ((1, 1), (3, 7), (5, 192)):
        x, added = torch.randn(2, rows, 1, width, generator=draw) * 3
        weight = torch.rand(width, generator=draw)
        for more in (None, added):
            total = x.clone()
            _, found = compiled.add_norm(total, more, Norm(weight, 1e-6))
            assert torch.equal(total, x if more is None else x + more)
            torch.testing.assert_close(found, rms_norm(total, [width], weight, 1e-6), atol=1e-6, rtol=1e-6)
    gate = torch.tensor([-1e4, -200.0, -90.0, -8.0, -1e-8, 0.0, 1e-8, 3.0, 90.0, 1e4])
    both = torch.stack([torch.cat([gate, gate.flip(0)]), torch.cat([gate, torch.ones(10)])]).chunk(2, -1)
    torch.testing.assert_close(compiled.silu_mul(*both), silu(both[0]) * both[1], atol=1e-30, rtol=1e-6)
    nothing = torch.tensor([[torch.nan, 1.0]])
    assert compiled.silu_mul(nothing, nothing.flip(1)).isnan().all()


def test_without_a_compiler_torch_stays_and_a_sentence_says_why(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AGENT_R1_CACHE", str(tmp_path))
    for compiler, why in (("no-such-compiler", "No such file"), ("false", "false ended with 1")):
        monkeypatch.setenv("CXX", compiler)
        functions._found.cache_clear()
        assert kernels.kernels() is None
        assert kernels.describe().startswith("kernels: torch's own (")
        assert why in kernels.describe()
    kernels.switch(False)
    assert kernels.describe() == "kernels: torch's own (they are switched off)"


def test_a_damaged_library_is_compiled_again(compiled, monkeypatch, tmp_path: Path) -> None:
    file = tmp_path / "kernels" / Path(compiled._compiled._name).name
    file.parent.mkdir()
    file.write_bytes(b"\x7fELF")
    monkeypatch.setenv("AGENT_R1_CACHE", str(tmp_path))
    functions._found.cache_clear()
    assert kernels.kernels() is not None
