"""Loads causal language models of transformers, for the learner and for engines that compute in this process; and
downloads them from the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_r1_core.errors import ModelError, first_line
from agent_r1_core.opening import check_folder
from agent_r1_core.work import Work, working

if TYPE_CHECKING:
    import torch
    from torch import nn
    from transformers import PreTrainedModel

_UNUSED = ["*.gguf", "*.onnx", "*.pth", "original/*"]
"""Files of the hub that no learner and no engine reads."""


def load_model(folder: str | Path, dtype: torch.dtype, device: str = "cpu") -> PreTrainedModel:
    """The model of a Hugging Face folder, on `device`, with every tensor in memory of its own.

    Args:
        device: on `meta` no weights are read: tensors have shapes and no numbers.

    Raises:
        ModelError: the folder holds no causal language model, or only a part of its weights, or the device cannot be
            used.
    """
    try:
        model, missing = _skeleton(folder, dtype) if device == "meta" else _read(folder, dtype, device)
    except Exception as error:  # a damaged configuration makes transformers raise almost anything
        raise ModelError(
            f"no causal language model can be loaded from {folder} on {device} ({first_line(error)}); "
            "give a folder in Hugging Face format, and a device that this machine has"
        ) from error
    if missing:
        more = f" and {len(missing) - 1} more of the model's tensors" if len(missing) > 1 else ""
        raise ModelError(f"the weights in {folder} lack {missing[0]}{more}; copy all files of the model there")
    copy_tensors(model)
    return model


def _read(folder: str | Path, dtype: torch.dtype, device: str) -> tuple[PreTrainedModel, list[str]]:
    """The model, and the names of the tensors that its files lack."""
    import torch
    from transformers import AutoModelForCausalLM

    check_folder(folder)
    with weights_shown(f"loading {model_name(folder)}"):
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            str(folder), dtype=dtype, trust_remote_code=False, output_loading_info=True
        )
        model, report = loaded
        if device != "cpu":  # cuDNN makes a plan for each length of a context, which takes longer than computing
            torch.backends.cuda.enable_cudnn_sdp(False)
        model.to(device)
    return model, sorted(report["missing_keys"])


def _skeleton(folder: str | Path, dtype: torch.dtype) -> tuple[PreTrainedModel, list[str]]:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    check_folder(folder)
    config = AutoConfig.from_pretrained(str(folder), trust_remote_code=False)
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(config, dtype=dtype, trust_remote_code=False)
    return model, []


def copy_tensors(model: nn.Module) -> None:
    """Copy each parameter and buffer that is on the CPU into memory of its own; tied ones stay tied.

    Tensors from a safetensors file are views into it. Their alignment follows from the length of the file's header, and
    CPU kernels may differ in the last bit between alignments: a run that is resumed from another file would not repeat
    exactly (LAW 10).
    """
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.device.type == "cpu":
            tensor.data = tensor.data.clone()


def model_name(folder: str | Path) -> str:
    """The hub's name of a folder in its cache; of any other folder its path."""
    cached = next((part for part in Path(folder).parts if part.startswith("models--")), None)
    return str(folder) if cached is None else cached.removeprefix("models--").replace("--", "/")


@contextmanager
def weights_shown(what: str) -> Iterator[None]:
    """Count the tensors that transformers loads as long work, in place of its own progress bars."""
    from transformers import modeling_gguf_pytorch_utils
    from transformers.utils import logging

    gguf: Any = modeling_gguf_pytorch_utils  # its bar comes from tqdm itself

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    with working(what, unit="tensors") as work:
        before = logging.set_tqdm_hook(lambda bar, arguments, options: _Counted(work, *arguments, **options))
        drawn, gguf.tqdm = gguf.tqdm, partial(_Counted, work)
        try:
            yield
        finally:
            gguf.tqdm = drawn
            logging.set_tqdm_hook(before)
            if shown:
                logging.enable_progress_bar()


class _Counted:
    """Replaces a progress bar of transformers: iterates over a sequence, or counts steps."""

    def __init__(self, work: Work, items: Iterable[Any] | None = None, total: int | None = None, **_: object) -> None:
        self._work, self._items = work, items
        counted = total if total is not None else len(items) if isinstance(items, Sized) else None
        work.restart(counted)

    def __iter__(self) -> Iterator[Any]:
        for item in self._items or ():
            yield item
            self.update()

    def update(self, count: float = 1) -> None:
        self._work.advance(count)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None

    def __enter__(self) -> _Counted:
        return self

    def __exit__(self, *_: object) -> None:
        """The bar would stay; the work goes on."""


def download(name: str) -> Path:
    """The folder of a model of the hub, downloaded unless the hub's cache has it; an OSError or ValueError where it is
    neither there nor here."""
    from huggingface_hub import snapshot_download

    with working(f"downloading {name}", unit="bytes") as work:
        return Path(snapshot_download(name, ignore_patterns=_UNUSED, tqdm_class=_counting(work)))


def _counting(work: Work) -> type[Any]:
    """A class in place of the hub's bars, which would tear the run's own: it shows nothing, and advances the work.

    The hub counts bytes as they arrive and as they are written, and files; the one of the two that is ahead counts.
    """
    from tqdm.auto import tqdm

    counted: list[Any] = []

    class Bytes(tqdm):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **{**options, "disable": True})
            if options.get("unit") == "B":
                counted.append(self)

        def update(self, n: float | None = 1) -> bool | None:
            self.n += n or 0
            if any(bar is self for bar in counted):
                work.total = max(bar.total or 0 for bar in counted)
                work.advance(max(bar.n for bar in counted) - work.done)
            return None

    return Bytes
