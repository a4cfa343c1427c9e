"""Kernels: the compiled functions on tensors, and whether this process uses them.

They are a library, compiled for the processor that is here and kept in the cache folder. Its name is a hash of the
source, the command and what the processor can do, so that a cache may be shared by machines.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import shlex
import subprocess
from contextlib import suppress
from ctypes import CDLL, c_float, c_int, c_long, c_void_p
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch
from torch import Tensor

from agent_r1_core.folders import cache_dir
from agent_r1_core.opening import read_bytes

_SOURCE = Path(__file__).with_name("kernels.cpp")
_OPTIONS = ("-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-shared", "-fPIC")
"""None lets sums take another order than the source says. Products that are added may be rounded once (FMA)."""
_SECONDS = 120
"""After which a compiler is given up."""
_SIGNATURES = {
    "attend": [
        *(c_void_p, c_long, c_long, c_long, c_long, c_void_p, c_void_p, c_float, c_void_p, c_void_p, c_void_p),
        *(c_void_p, c_void_p, c_long, c_long, c_long, c_void_p, c_long, c_void_p, c_int),
    ],
    "add_norm": [c_void_p, c_void_p, c_void_p, c_float, c_void_p, c_long, c_long, c_int],
    "norm_backward": [c_void_p, c_void_p, c_float, c_void_p, c_void_p, c_void_p, c_long, c_long, c_int],
    "silu_mul": [c_void_p, c_void_p, c_long, c_void_p, c_long, c_long, c_int],
    "silu_mul_backward": [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_long, c_long, c_int],
    "rotary": [c_void_p, c_void_p, c_void_p, c_float, c_void_p, c_long, c_long, c_long, c_int],
}
_LANES, _WIDEST = 8, 256
"""What the width of a head is a multiple of, and the most that it may be."""


class Norm(NamedTuple):
    """A root mean square norm."""

    weight: Tensor
    eps: float


class Kernels:
    """All tensors are float32 on the CPU and contiguous, where nothing else is said. Each function takes as many
    threads as torch; on their number depends alone how the gradient of a norm's weight is rounded."""

    def __init__(self, compiled: CDLL) -> None:
        for name, arguments in _SIGNATURES.items():
            function = getattr(compiled, name)
            function.argtypes, function.restype = arguments, None
        self._compiled = compiled

    @staticmethod
    def suit(width: int) -> bool:
        """Whether `attend` and `rotary` can compute heads of this width."""
        return width % _LANES == 0 and width <= _WIDEST

    def attend(
        self,
        mixed: Tensor,
        heads: int,
        norms: tuple[Norm, Norm] | None,
        tables: tuple[Tensor, Tensor],
        positions: Tensor,
        keys: Tensor,
        values: Tensor,
        trunk: int,
    ) -> Tensor:
        """Rotary embedding of a new token in each row, and causal attention; stores its key and value.

        Args:
            mixed: [rows, 1, (heads + 2 key heads) * width], queries, keys and values.
            heads: number of queries.
            norms: of queries and keys before the embedding, each head by itself.
            tables: cosines and sines [places, width], each half of them twice.
            positions: long [rows], places of the new tokens.
            keys: [rows, key heads, places, width], whose last two dimensions alone need be contiguous.
            values: like `keys`.
            trunk: number of first places that are the same in all rows; all new tokens come after them.

        Returns:
            [rows, 1, heads * width].
        """
        rows, key_heads, places, width = keys.shape
        assert values.stride() == keys.stride()
        assert keys.stride()[2:] == (width, 1)
        assert mixed.numel() == rows * (heads + 2 * key_heads) * width
        assert positions.shape == (rows,)
        threads = torch.get_num_threads()
        out = mixed.new_empty(rows, 1, heads * width)
        scratch = mixed.new_empty(threads, heads // key_heads, places + width)
        query_norm, key_norm = norms or (None, None)
        self._compiled.attend(
            _at(mixed), rows, heads, key_heads, width,
            None if query_norm is None else _at(query_norm.weight), None if key_norm is None else _at(key_norm.weight),
            0.0 if query_norm is None else query_norm.eps,
            _at(tables[0]), _at(tables[1]), _at(positions, torch.long), keys.data_ptr(), values.data_ptr(),
            keys.stride(0), keys.stride(1), trunk, _at(scratch), places, _at(out), threads,
        )  # fmt: skip
        return out

    def add_norm(self, x: Tensor, added: Tensor | None, norm: Norm) -> tuple[Tensor, Tensor]:
        """x + added, [..., width], which `x` becomes, and its norm."""
        out = torch.empty_like(x)
        width = x.shape[-1]
        rows, threads = x.numel() // width, torch.get_num_threads()
        assert added is None or added.shape == x.shape
        at = None if added is None else _at(added)
        self._compiled.add_norm(_at(x), at, _at(norm.weight), norm.eps, _at(out), rows, width, threads)
        return x, out

    def norm_backward(self, x: Tensor, norm: Norm, grad: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients for x and for the weight of the norm of x, [..., width]."""
        width, threads = x.shape[-1], torch.get_num_threads()
        x_grad, weight_grads = torch.empty_like(x), x.new_zeros(threads, width)
        numbers = _at(x), _at(norm.weight), norm.eps, _at(grad), _at(x_grad), _at(weight_grads)
        self._compiled.norm_backward(*numbers, x.numel() // width, width, threads)
        return x_grad, weight_grads.sum(0)

    def silu_mul(self, gate: Tensor, up: Tensor) -> Tensor:
        """silu(gate) * up, [..., width]; both may be halves of the last dimension of a contiguous tensor."""
        width, stride = gate.shape[-1], gate.stride(-2)
        assert gate.stride() == up.stride()
        out = gate.new_empty(gate.shape)
        rows = gate.numel() // width
        assert gate.stride(0) * gate.shape[0] == rows * stride
        self._compiled.silu_mul(gate.data_ptr(), up.data_ptr(), stride, _at(out), rows, width, torch.get_num_threads())
        return out

    def silu_mul_backward(self, gate: Tensor, up: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients for gate and up."""
        gate_grad, up_grad = torch.empty_like(gate), torch.empty_like(up)
        numbers = _at(gate), _at(up), _at(grad), _at(gate_grad), _at(up_grad)
        width = gate.shape[-1]
        self._compiled.silu_mul_backward(*numbers, gate.numel() // width, width, torch.get_num_threads())
        return gate_grad, up_grad

    def rotary(self, x: Tensor, cos: Tensor, sin: Tensor, inverse: bool = False) -> Tensor:
        """Rotary embedding of [tokens, heads, width] by cosines and sines [tokens, width], each half of them twice."""
        out, (tokens, heads, width) = torch.empty_like(x), x.shape
        assert cos.shape == sin.shape == (tokens, width)
        numbers = _at(x), _at(cos), _at(sin), -1.0 if inverse else 1.0, _at(out)
        self._compiled.rotary(*numbers, tokens, heads, width, torch.get_num_threads())
        return out


def _at(tensor: Tensor, dtype: torch.dtype = torch.float32) -> int:
    """Where the numbers of a tensor begin."""
    assert (tensor.dtype, tensor.device.type, tensor.is_contiguous()) == (dtype, "cpu", True)
    return tensor.data_ptr()


_on = True


def switch(on: bool) -> None:
    """Whether this process uses kernels from now on; it does before the first call."""
    global _on
    _on = on


def switched_on() -> bool:
    """Whether this process uses kernels where it finds some."""
    return _on


def kernels() -> Kernels | None:
    """The kernels; None where torch's operations are to be taken."""
    found = _found() if _on else None
    return found if isinstance(found, Kernels) else None


def describe() -> str:
    """A sentence on what this process computes with."""
    found = _found() if _on else "they are switched off"
    if isinstance(found, Kernels):
        return "kernels: compiled for this processor"
    return f"kernels: torch's own ({found})"


@functools.cache
def _found() -> Kernels | str:
    """The kernels, or why there are none."""
    try:
        return Kernels(_library())
    except (OSError, subprocess.SubprocessError, AttributeError) as error:
        return str(error).partition("\n")[0]


def _library() -> CDLL:
    """The library; compiles it, in about two seconds, where it is not in the cache.

    Raises:
        OSError, subprocess.SubprocessError: it cannot be compiled or kept.
    """
    command = [*shlex.split(os.environ.get("CXX", "c++")), *_OPTIONS]
    identity = [command, platform.machine(), _processor()]
    name = hashlib.sha256(read_bytes(_SOURCE) + repr(identity).encode()).hexdigest()[:32]
    file = cache_dir() / "kernels" / f"{name}.so"
    with suppress(OSError):  # not compiled yet, or damaged
        return CDLL(str(file))
    file.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=file.parent) as folder:
        made = Path(folder, file.name)
        done = subprocess.run(
            [*command, str(_SOURCE), "-o", str(made)], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        if done.returncode:
            said = done.stderr.strip().splitlines() or [f"{command[0]} ended with {done.returncode}"]
            raise OSError(said[0])
        made.replace(file)
    return CDLL(str(file))


def _processor() -> str:
    """The model of the processor and its instructions, as Linux lists them; elsewhere what Python says."""
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        telling = ("model name", "flags", "CPU part", "Features", "isa")
        return "".join(dict.fromkeys(line for line in lines if line.startswith(telling)))
    return platform.processor()
