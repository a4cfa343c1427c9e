"""A pretended CUDA device: tensors that say `cuda`, hold numbers on the CPU, refuse mixed devices, and count.

Import it before torch. It counts kernels and the moments at which the CPU waits for the device: copies that are neither
pinned nor non-blocking, and numbers that Python asks for. Times it cannot tell, nor what CUDA's own kernels compute.
"""

from __future__ import annotations

import ctypes
import importlib.util
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

assert "torch" not in sys.modules, "torch asks for CUDA's hooks when it is imported"
_TORCH = Path(importlib.util.find_spec("torch").origin).parent  # type: ignore[union-attr, arg-type]


def _load_guard() -> None:
    """Compile and load the guard, which takes some seconds."""
    for library in ("libc10.so", "libtorch_cpu.so"):
        ctypes.CDLL(str(_TORCH / "lib" / library), ctypes.RTLD_GLOBAL)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "guard.so")
        where = [f"-I{_TORCH / 'include'}", f"-L{_TORCH / 'lib'}", "-lc10", "-ltorch_cpu"]
        source = Path(__file__).with_name("guard.cpp")
        subprocess.run(["g++", "-shared", "-fPIC", "-std=c++20", source, "-o", made, *where], check=True)
        ctypes.CDLL(str(made), ctypes.RTLD_GLOBAL).guard_cuda()


_load_guard()

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves, tree_map  # noqa: E402

CUDA = torch.device("cuda", 0)
_VIEWS = frozenset([
    "view", "_unsafe_view", "expand", "permute", "transpose", "t", "slice", "select", "unsqueeze", "squeeze", "alias",
    "detach", "as_strided", "split", "split_with_sizes", "unbind", "_reshape_alias", "lift_fresh", "unfold", "diagonal",
    "chunk", "narrow", "empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "is_same_size", "set_",
    "resize_",
])  # fmt: skip
"""Launch no kernel."""
_ASKING = frozenset(
    ["nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "equal", "is_nonzero", "bincount"]
)
"""The size or the value of their result is known only once the device has computed it."""
_INDEXING = frozenset(["index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"])


class Counts:
    """What was counted since the last `clear`."""

    def __init__(self) -> None:
        self.kernels: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()
        """By what for, and the line of the project that waits."""
        self.paused = False

    def clear(self) -> None:
        self.kernels.clear()
        self.waits.clear()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Count nothing within, where the pretence itself computes."""
        self.paused, before = True, self.paused
        try:
            yield
        finally:
            self.paused = before

    def kernel(self, name: str) -> None:
        if not self.paused and name not in _VIEWS:
            self.kernels[name] += 1

    def wait(self, why: str) -> None:
        if not self.paused:
            self.waits[f"{why} at {_project_line()}"] += 1


COUNTS = Counts()


def _project_line() -> str:
    """The innermost line of the project that runs."""
    for frame in reversed(traceback.extract_stack()):
        for folder in ("agent_r1_core", "plugins"):
            if f"/{folder}/" in frame.filename and "site-packages" not in frame.filename:
                return f"{folder}/{frame.filename.rpartition(f'/{folder}/')[2]}:{frame.lineno}"
    return "?"


class Pretended(Tensor):
    """A tensor on the device."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> Pretended:
        made = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, held.size(), strides=held.stride(), storage_offset=held.storage_offset(), dtype=held.dtype, device=CUDA
        )
        made.held = held
        return made  # type: ignore[no-any-return]

    def __repr__(self, **options: Any) -> str:  # type: ignore[override]
        return f"Pretended({self.held})"

    def tolist(self) -> Any:
        COUNTS.wait("tolist")
        return self.held.tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class PretendedCuda(TorchDispatchMode):
    """Within it, what is made on CUDA is pretended."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _to_cuda(kwargs) or any(isinstance(leaf, Pretended) for leaf in tree_leaves((args, kwargs))):
            return _run(func, args, kwargs)
        return func(*args, **kwargs)


def _to_cuda(kwargs: dict[str, Any]) -> bool:
    return kwargs.get("device") is not None and torch.device(kwargs["device"]).type == "cuda"


def _held(value: Any) -> Any:
    return value.held if isinstance(value, Pretended) else value


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    name = func._schema.name.split("::")[1]
    if name == "copy_":
        return _copy(*args, **kwargs)
    if name == "_to_copy":
        return _moved(func, args[0], kwargs)
    leaves = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    ours = [leaf for leaf in leaves if isinstance(leaf, Pretended)]
    if name in ("_local_scalar_dense", "item"):
        COUNTS.wait("item")
        return func(*tree_map(_held, args))
    _check(func, name, args, leaves, bool(ours))
    if name in _ASKING:
        COUNTS.wait(name)
    if name in _INDEXING and any(isinstance(one, Tensor) and one.dtype == torch.bool for one in args[1]):
        COUNTS.wait("index by bool")
    on_device = _to_cuda(kwargs)
    if on_device:
        kwargs = {**kwargs, "device": "cpu"}
    COUNTS.kernel(name)
    out = func(*tree_map(_held, args), **tree_map(_held, kwargs))
    if name.endswith("_") and not name.startswith("_") and isinstance(args[0], Pretended):
        return args[0]
    if func._schema.is_mutable and name.startswith(("_foreach", "_fused")):
        return out
    return tree_map(lambda one: Pretended(one) if isinstance(one, Tensor) else one, out)


def _copy(target: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    if isinstance(target, Pretended) != isinstance(source, Pretended) and not non_blocking:
        COUNTS.wait("copy to the device" if isinstance(target, Pretended) else "copy from the device")
    COUNTS.kernel("copy_")
    _held(target).copy_(_held(source))
    return target


def _moved(func: Any, source: Tensor, kwargs: dict[str, Any]) -> Tensor:
    """What `to` makes of a tensor."""
    there = _to_cuda(kwargs) if kwargs.get("device") is not None else isinstance(source, Pretended)
    if there != isinstance(source, Pretended):
        if not kwargs.get("non_blocking"):
            COUNTS.wait("copy to the device" if there else "copy from the device")
    else:
        COUNTS.kernel("_to_copy")
    given = {**kwargs, "device": "cpu"} if kwargs.get("device") is not None else kwargs
    out: Tensor = func(_held(source), **given)
    out = out.clone() if out is _held(source) else out
    return Pretended(out) if there else out


def _check(func: Any, name: str, args: Any, leaves: list[Tensor], ours: bool) -> None:
    """Refuse what CUDA refuses; a scalar may be anywhere, and an index from the CPU costs a copy."""
    strange = [leaf for leaf in leaves if ours and not isinstance(leaf, Pretended) and leaf.dim() > 0]
    if strange and name in _INDEXING and all(any(one is index for index in args[1]) for one in strange):
        COUNTS.wait("index from the CPU")
    elif strange:
        shapes = [tuple(leaf.shape) for leaf in strange]
        raise RuntimeError(f"{func} has tensors on two devices; on the CPU: {shapes}, at {_project_line()}")


def on_pretended(module: nn.Module) -> nn.Module:
    """Move parameters and buffers to the device; tied ones stay tied."""
    seen: dict[int, nn.Parameter] = {}
    for part in module.modules():
        for name, parameter in list(part._parameters.items()):
            if parameter is not None and not isinstance(parameter, Pretended):
                moved = nn.Parameter(Pretended(parameter.detach().clone()), parameter.requires_grad)
                part._parameters[name] = seen.setdefault(id(parameter), moved)
        for name, buffer in list(part._buffers.items()):
            if buffer is not None and not isinstance(buffer, Pretended):
                part._buffers[name] = Pretended(buffer.detach().clone())
    return module


class _Attention(torch.autograd.Function):
    """Stands for FlexAttention's kernel, by the plain formula."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scale: float) -> Tensor:
        COUNTS.kernel("flex_attention")
        ctx.given = query.held.detach(), key.held.detach(), value.held.detach()  # type: ignore[attr-defined]
        ctx.rest = mask, scale
        return Pretended(_plain_attention(*ctx.given, mask, scale))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        COUNTS.kernel("flex_attention_backward")
        with torch.enable_grad():
            inputs = [one.float().requires_grad_() for one in ctx.given]
            out = _plain_attention(*inputs, *ctx.rest)
        found = torch.autograd.grad(out, inputs, gradient.held.float())  # type: ignore[attr-defined]
        return *(Pretended(one.to(ctx.given[0].dtype)) for one in found), None, None


def _plain_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scale: float) -> Tensor:
    groups = query.shape[1] // key.shape[1]
    key, value = (part.float().repeat_interleave(groups, 1) for part in (key, value))
    weights = (query.float() @ key.transpose(2, 3) * scale).masked_fill(~mask, -1e30).softmax(-1)
    return (weights @ value).to(query.dtype)


def pretended_flex_attention(
    query: Tensor, key: Tensor, value: Tensor, *, block_mask: Any, scale: float, enable_gqa: bool
) -> Tensor:
    """In place of the compiled kernel."""
    assert block_mask.kv_indices.is_cuda, "the block mask is not on the device"
    with COUNTS.pause():
        place = Pretended(torch.arange(query.shape[2]))
        mask = block_mask.mask_mod(0, 0, place[:, None], place[None, :]).held
    return _Attention.apply(query, key, value, mask, scale)  # type: ignore[no-any-return, no-untyped-call]


class Idle:
    """A stream or an event: what is computed here is done at once."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.device = CUDA

    def record_event(self, *_: Any) -> Idle:
        return Idle()

    def ready(self, *_: Any) -> None:
        """Nothing is left to wait for."""

    record = wait = wait_event = wait_stream = synchronize = ready


def _pretend_for_fsdp() -> None:
    """Streams and events do nothing; memory that is freed or taken is that of the numbers."""
    from torch.distributed.fsdp._fully_shard import _fsdp_param, _fsdp_param_group

    torch.cuda.Stream = torch.cuda.Event = torch.Event = Idle  # type: ignore[assignment, misc]
    torch.cuda.current_stream = lambda device=None: Idle()  # type: ignore[assignment, return-value]
    torch.cuda.stream = lambda stream: nullcontext()  # type: ignore[assignment]
    Tensor.record_stream = lambda self, stream: None  # type: ignore[method-assign]
    free, take = _fsdp_param.free_storage, _fsdp_param.alloc_storage
    _fsdp_param.free_storage = lambda tensor: free(_held(tensor))
    _fsdp_param.alloc_storage = _fsdp_param_group.alloc_storage = lambda tensor: take(_held(tensor))  # type: ignore[attr-defined]


def pretend() -> None:
    """Let this process take the device for a real one."""
    from agent_r1_core.learning import attention

    _pretend_for_fsdp()
    torch._C._set_only_lift_cpu_tensors(True)  # type: ignore[attr-defined]
    torch.cuda._lazy_init = lambda: None
    torch.cuda.is_available = torch.cuda.is_bf16_supported = lambda *_, **__: True  # type: ignore[assignment]
    torch.cuda.current_device = lambda: 0  # type: ignore[assignment]
    torch.inference_mode = torch.no_grad  # type: ignore[assignment, misc]  # wrapped tensors do not work in it
    torch.cuda.mem_get_info = lambda device=None: (2**33, 2**33)  # type: ignore[assignment]
    Tensor.pin_memory = lambda self, device=None: self  # type: ignore[method-assign, assignment]
    attention._compiled = lambda: pretended_flex_attention  # type: ignore[assignment]
    move = nn.Module.to

    def to(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        devices = [one for one in (*args, *kwargs.values()) if isinstance(one, str | torch.device)]
        there = any(torch.device(one).type == "cuda" for one in devices)
        return on_pretended(module) if there else move(module, *args, **kwargs)

    nn.Module.to = to  # type: ignore[method-assign, assignment]
