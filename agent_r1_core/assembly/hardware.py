"""Chooses device, precision and threads by measuring for about two seconds what is fastest on this machine.

A machine measures a model once and keeps the choice in the cache folder, so that the same command always chooses the
same; the run's configuration records it. Beside other work float32 is kept, and the choice counts for an hour.
Deterministic mode measures nothing: one thread, float32.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import platform
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_r1_core.errors import ConfigError, ModelError, RunError
from agent_r1_core.folders import cache_dir
from agent_r1_core.opening import check_folder, read_json, read_text
from agent_r1_core.runs.files import write_text
from agent_r1_core.work.running import usable_cores

if TYPE_CHECKING:
    import torch

Choice = tuple[int, str]
"""Threads, and `float32` or `bfloat16`."""
PROBE_SECONDS = 1.2
"""Time for all measurements together, not counting the first pass of each choice."""
_ROWS, _SEQUENCES, _LENGTH = 64, 8, 48
"""Of the probe: rows of a decoding step; sequences of a micro-batch, and tokens of each."""
_LARGEST = 2 * 10**7
"""Most weights of a layer; a larger one takes too long to build."""
_DECODING, _LEARNING = 64, 512
"""Rows of the measured matrix products: a decoding step of many episodes, and a small micro-batch."""
_UNKNOWN_MODEL = (OSError, TypeError, ValueError, RuntimeError, AttributeError, KeyError, IndexError, ModelError)
"""Errors that an unfamiliar model may raise when one layer is built or run."""


@dataclass(frozen=True)
class Hardware:
    device: str
    dtype: str
    """`float32` or `bfloat16`: the precision of forward passes; the master weights are always float32."""
    threads: int


def choose_hardware(device: str, dtype: str, threads: int | str, deterministic: bool, folder: Path) -> Hardware:
    """Resolve `auto` settings for the model in `folder`.

    Raises:
        ConfigError: CUDA is requested but absent, or requested in deterministic mode.
    """
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("model.device is cuda, but torch sees no CUDA device; set model.device=cpu or auto")
    if deterministic and device == "cuda":
        raise ConfigError("deterministic runs need the CPU; set model.device=cpu, or deterministic=false")
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() and not deterministic else "cpu"
    if device == "cuda":
        chosen = "bfloat16" if torch.cuda.is_bf16_supported() else "float32"
        return Hardware("cuda", chosen if dtype == "auto" else dtype, torch.get_num_threads())
    if deterministic:
        return Hardware("cpu", "float32" if dtype == "auto" else dtype, 1 if threads == "auto" else int(threads))
    counts = _thread_counts() if threads == "auto" else [int(threads)]
    dtypes = _cpu_dtypes() if dtype == "auto" else [dtype]
    count, kind = _remembered(folder, list(itertools.product(counts, dtypes)))
    return Hardware("cpu", kind, count)


def apply(hardware: Hardware, deterministic: bool) -> None:
    """Set torch's global switches, and turn off transformers' progress bars."""
    import torch
    from transformers.utils import logging

    logging.disable_progress_bar()

    torch.set_num_threads(hardware.threads)
    torch.use_deterministic_algorithms(deterministic)
    # float32 means float32 on a GPU too: TF32 rounds to 10 bits, too coarse for the agreement of LAW 2.
    torch.set_float32_matmul_precision("highest")


def _thread_counts() -> list[int]:
    """1, 2, 4, ... up to the cores that this process may use."""
    return [2**power for power in range(usable_cores().bit_length())]


def _cpu_dtypes() -> list[str]:
    """Precisions worth measuring: bfloat16 only where the CPU has instructions for it."""
    import torch

    try:
        supported = bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    except (AttributeError, RuntimeError):  # this build of torch has no oneDNN
        supported = False
    return ["float32", "bfloat16"] if supported else ["float32"]


def _remembered(folder: Path, choices: list[Choice]) -> Choice:
    """The fastest choice: from the cache folder if this machine has measured this model before."""
    if len(choices) == 1:
        return choices[0]
    file = cache_dir() / "hardware" / f"{_fingerprint(folder, choices)}.json"
    try:
        threads, dtype, until = read_json(file)
        if (threads, dtype) in choices and (until is None or time.time() < until):
            return threads, dtype
    except (OSError, ValueError, TypeError):
        pass  # not measured yet, or not readable
    until = None
    if _loaded():
        until, choices = time.time() + 3600, [choice for choice in choices if choice[1] == "float32"] or choices
    choice = _fastest(folder, choices)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, json.dumps([*choice, until]))
    except (OSError, RunError):
        pass  # without a cache folder every run measures
    return choice


def _loaded() -> bool:
    """Whether other work takes a quarter of the cores or more, which makes several threads look slow."""
    try:
        return os.getloadavg()[0] >= usable_cores() / 4
    except (OSError, AttributeError):  # not known here
        return False


def _fingerprint(folder: Path, choices: list[Choice]) -> str:
    """A hash of the machine, its libraries, the model's shape and the choices."""
    import torch
    import transformers

    try:
        shape = read_text(folder / "config.json")
    except OSError:
        shape = str(folder)
    identity = [platform.node(), platform.machine(), torch.__version__, transformers.__version__, shape, choices]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]


def _fastest(folder: Path, choices: list[Choice]) -> Choice:
    """The fastest threads and precision. Several threads must win by a tenth. bfloat16, which costs precision, must win
    by half: CPUs with matrix units for it do, and others gain too little to choose the same every time."""
    try:
        seconds = Probe(folder).seconds(choices)
    except _UNKNOWN_MODEL:
        seconds = {choice: _products(*choice) for choice in choices}

    def cost(choice: Choice) -> float:
        return seconds[choice] * (1.1 if choice[0] > 1 else 1.0) * (1.5 if choice[1] == "bfloat16" else 1.0)

    return min(choices, key=cost)


def _products(threads: int, dtype: str) -> float:
    """Relative cost of a token, from a wide layer's matrix products alone; a backward pass costs two forward passes."""
    import torch

    torch.set_num_threads(threads)
    kind = getattr(torch, dtype)
    return _product_seconds(_DECODING, kind) / _DECODING + 3 * _product_seconds(_LEARNING, kind) / _LEARNING


def _product_seconds(rows: int, dtype: torch.dtype, hidden: int = 1024) -> float:
    """Shortest measured time of a feed-forward block's products on `rows` tokens, in seconds."""
    import torch

    generator = torch.Generator().manual_seed(0)
    options: dict[str, Any] = {"generator": generator}
    tokens = torch.randn(rows, hidden, **options).to(dtype)
    up = torch.randn(hidden, 3 * hidden, **options).to(dtype)
    down = torch.randn(3 * hidden, hidden, **options).to(dtype)
    seconds: list[float] = []
    with torch.no_grad():
        started = time.perf_counter()
        while len(seconds) < 9 and (len(seconds) < 3 or time.perf_counter() - started < 0.1):
            begin = time.perf_counter()
            torch.nn.functional.silu(tokens @ up) @ down
            seconds.append(time.perf_counter() - begin)
    return min(seconds)


class Probe:
    """Times decoding and learning on one layer of the model in `folder`, with random weights and a small vocabulary.

    Raises:
        ValueError: building and running the layer would take too long.
    """

    def __init__(self, folder: Path) -> None:
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM

        from agent_r1_core.learning.packing import Packed, PrefixForest
        from agent_r1_core.learning.policy import Policy

        check_folder(folder)
        config = AutoConfig.from_pretrained(str(folder), trust_remote_code=False)
        config.num_hidden_layers = 1
        config.vocab_size = min(config.vocab_size, 1024)
        config.pad_token_id = config.bos_token_id = config.eos_token_id = None
        width = config.hidden_size
        if width * (4 * width + 3 * getattr(config, "intermediate_size", 4 * width)) > _LARGEST:
            raise ValueError(f"a layer {width} wide has too many weights to be timed")
        draw: dict[str, Any] = {"generator": torch.Generator().manual_seed(0)}
        self._ids = torch.randint(config.vocab_size, (_SEQUENCES, _LENGTH), **draw)
        self._modules = {
            name: AutoModelForCausalLM.from_config(config, dtype=getattr(torch, name)).eval()
            for name in ("float32", "bfloat16")
        }
        self._policies = {
            name: Policy(AutoModelForCausalLM.from_config(config, dtype=torch.float32), dtype=name)
            for name in self._modules
        }
        forest = PrefixForest()
        for key, row in enumerate(self._ids.tolist()):
            forest.add(row, key)
        tree, place = forest.build()
        mask = torch.ones(self._ids.shape, dtype=torch.bool)
        self._packed = Packed(torch.arange(len(self._ids)), self._ids.flatten(), mask, place, tree)

    def seconds(self, choices: Iterable[Choice]) -> dict[Choice, float]:
        """Seconds per token, sampled once and trained on once, for each choice.

        The choices take turns and the fastest pass of each counts, since other load on the machine only slows passes.
        """
        costs: dict[Choice, list[float]] = {choice: [] for choice in choices}
        for choice in costs:
            self._cost(choice)
        stop = time.perf_counter() + PROBE_SECONDS
        for turn in itertools.count():
            if turn >= 5 and time.perf_counter() > stop:
                break
            for choice in costs:
                costs[choice].append(self._cost(choice))
        return {choice: min(seconds) for choice, seconds in costs.items()}

    def _cost(self, choice: Choice) -> float:
        import torch

        threads, dtype = choice
        torch.set_num_threads(threads)
        start = time.perf_counter()
        with torch.no_grad():
            self._modules[dtype](input_ids=self._ids.flatten()[:_ROWS, None], use_cache=False)
        decoded = time.perf_counter()
        policy = self._policies[dtype]
        at = (self._packed.tree.positions > 0).nonzero().flatten()
        policy.logprobs(self._packed, at).logprobs.sum().backward()
        policy.module.zero_grad()
        return (decoded - start) / _ROWS + (time.perf_counter() - decoded) / self._ids.numel()
