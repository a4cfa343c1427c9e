"""Times decoding and learning, where a run spends its time, on one layer of the model with random weights."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from agent_r1_core.learning.packing import Packed, PrefixForest
from agent_r1_core.learning.policy import Policy
from agent_r1_core.opening import check_folder

Choice = tuple[int, str]
"""Threads, and `float32` or `bfloat16`."""
SECONDS = 1.2
"""Time for all measurements together, not counting the first pass of each choice."""
_ROWS, _SEQUENCES, _LENGTH = 64, 8, 48
"""Rows of a decoding step; sequences of a micro-batch, and tokens of each."""
_LARGEST = 2 * 10**7
"""Most weights of a layer; a larger one takes too long to build."""


class LayerTooLarge(ValueError):
    """A layer of the model is too large to be timed."""


class Probe:
    """One layer of the model in `folder`, with a small vocabulary.

    Raises:
        LayerTooLarge: building and running the layer would take too long.
    """

    def __init__(self, folder: Path) -> None:
        check_folder(folder)
        config = AutoConfig.from_pretrained(str(folder), trust_remote_code=False)
        config.num_hidden_layers = 1
        config.vocab_size = min(config.vocab_size, 1024)
        config.pad_token_id = config.bos_token_id = config.eos_token_id = None
        width = config.hidden_size
        if width * (4 * width + 3 * getattr(config, "intermediate_size", 4 * width)) > _LARGEST:
            raise LayerTooLarge(f"a layer {width} wide has too many weights to be timed")
        generator = torch.Generator().manual_seed(0)
        draw: dict[str, Any] = {"generator": generator}
        self._ids = torch.randint(config.vocab_size, (_SEQUENCES, _LENGTH), **draw)
        self._modules = {
            name: AutoModelForCausalLM.from_config(config, dtype=getattr(torch, name)).eval()
            for name in ("float32", "bfloat16")
        }
        self._policies = {name: Policy(_float32(config), dtype=name) for name in self._modules}
        self._packed = _packed(self._ids)

    def seconds(self, choices: Iterable[Choice]) -> dict[Choice, float]:
        """Seconds per token, sampled once and trained on once, for each choice.

        The choices take turns and the fastest pass of each counts, since other load on the machine only slows passes.
        """
        costs: dict[Choice, list[float]] = {choice: [] for choice in choices}
        for choice in costs:
            self._cost(choice)
        stop = time.perf_counter() + SECONDS
        for turn in itertools.count():
            if turn >= 5 and time.perf_counter() > stop:
                break
            for choice in costs:
                costs[choice].append(self._cost(choice))
        return {choice: min(seconds) for choice, seconds in costs.items()}

    def _cost(self, choice: Choice) -> float:
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


def _float32(config: Any) -> Any:
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32)


def _packed(ids: Tensor) -> Packed:
    forest = PrefixForest()
    for key, row in enumerate(ids.tolist()):
        forest.add(row, key)
    tree, place = forest.build()
    return Packed(torch.arange(len(ids)), ids.flatten(), torch.ones(ids.shape, dtype=torch.bool), place, tree)
