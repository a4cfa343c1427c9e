"""The policy: log-probs of chosen tokens of packed sequences, weights by their Hugging Face names, a folder to save to.

Weights are float32 whatever the precision of the computation is, so that small updates are not lost. Activation
checkpointing and LoRA are options. Models of several devices are not handled here.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedModel

from agent_r1_core.contracts.training import LoraSettings
from agent_r1_core.errors import ModelError
from agent_r1_core.learning.decoder import Decoder, switch_off_dropout
from agent_r1_core.learning.head import Head
from agent_r1_core.learning.lora import adapter_state, add_lora, load_adapter_state, merged_weights
from agent_r1_core.learning.packing import Packed

_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "generation_config.json",
)


@dataclass(frozen=True)
class TokenScores:
    """What the policy says of some tokens, float32 [k] each, nats."""

    logprobs: Tensor
    entropy: Tensor
    """Of the distribution that the token was drawn from; without gradient."""


class Policy:
    """A causal language model of transformers under training, or frozen as a reference.

    Args:
        module: the model, in float32, or a peft model around it.
        dtype: `float32` or `bfloat16`, of the computation.
        folder: where it came from; its tokenizer files are copied when the policy is saved.
        gradient_checkpointing: recompute activations in the backward pass, for less memory.

    Raises:
        ModelError: the architecture's logits cannot be computed from its decoder.
    """

    def __init__(
        self,
        module: nn.Module,
        dtype: str = "float32",
        folder: str | Path | None = None,
        gradient_checkpointing: bool = False,
    ) -> None:
        self.module = module
        self.folder = Path(folder) if folder is not None else None
        self.dtype = dtype
        self.gradient_checkpointing = gradient_checkpointing
        self.lora = hasattr(module, "peft_config")
        self.model: PreTrainedModel = module.get_base_model() if self.lora else module  # type: ignore[operator, assignment]
        if not self.lora:
            switch_off_dropout(module)
        if gradient_checkpointing:
            self.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        self.head = Head(self.model)
        decoder = self.model.get_decoder()
        module.eval()
        self.head.check(self.model, decoder)
        self.decoder = Decoder(decoder, dtype, training_mode=gradient_checkpointing or self.lora)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        dtype: str = "float32",
        device: str = "cpu",
        lora: LoraSettings | None = None,
        gradient_checkpointing: bool = False,
        seed: int = 0,
    ) -> Policy:
        """Load a Hugging Face folder; `seed` draws the adapters of `lora`.

        Raises:
            ModelError: the folder holds no causal language model that can be trained, or peft is missing.
        """
        try:
            model = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise ModelError(
                f"no causal language model can be loaded from {folder} ({str(error).splitlines()[0]}); "
                "give a folder in Hugging Face format"
            ) from error
        switch_off_dropout(model)
        module: nn.Module = add_lora(model, lora, seed) if lora is not None else model
        return cls(module.to(device), dtype, folder, gradient_checkpointing)

    def freeze(self) -> Policy:
        """Let nothing of it learn any more; returns itself, a reference for KL terms."""
        self.module.requires_grad_(False)
        return self

    def frozen_copy(self) -> Policy:
        """This policy as it is now, without gradients: a reference for KL terms."""
        return Policy(copy.deepcopy(self.module), self.dtype, self.folder).freeze()

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.decoder.device

    def parameters(self) -> Iterator[nn.Parameter]:
        """What learns."""
        return (parameter for parameter in self.module.parameters() if parameter.requires_grad)

    def scores(self, packed: Packed, tokens: Tensor, temperature: float = 1.0) -> TokenScores:
        """Log-probs and entropies of packed tokens: log softmax(logits / temperature) at the token before each.

        Args:
            tokens: long [k], indices into the packed row; on the CPU; none is first in its segment.
        """
        # A token that several sequences share has one score, so it is taken once and handed to each of them.
        nodes, shared = packed.place[tokens].unique(return_inverse=True)
        before = torch.zeros_like(nodes).scatter_(0, shared, packed.place[tokens - 1])
        hidden = self.decoder.hidden(packed.tree)[before.to(self.device)]
        ids, shared = packed.tree.ids[nodes].to(self.device), shared.to(self.device)
        with self.decoder.precision():
            logprobs, entropy = self.head.scores(hidden, ids, temperature)
        return TokenScores(logprobs[shared], entropy[shared])

    def weights(self) -> dict[str, Tensor]:
        """Every tensor by its Hugging Face name, tied ones once, adapters merged; views of the live weights where
        nothing was merged."""
        if self.lora:
            return merged_weights(self.model)
        return {name: parameter.detach() for name, parameter in self.model.named_parameters()}

    def save(self, folder: str | Path, dtype: str = "float32") -> None:
        """Write a plain Hugging Face folder: configuration, weights in `dtype` (float32 for an exact resume), adapters
        merged, and the tokenizer files of the folder that the policy came from."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        kind = getattr(torch, dtype)
        weights = {name: tensor.to("cpu", kind) for name, tensor in self.weights().items()}
        self.model.save_pretrained(target, state_dict=weights)
        config = copy.deepcopy(self.model.config)
        config.dtype = kind
        config.save_pretrained(target)
        if self.folder is not None:
            for name in _TOKENIZER_FILES:
                if (self.folder / name).is_file():
                    shutil.copyfile(self.folder / name, target / name)

    def state_dict(self) -> dict[str, Any]:
        """What a saved folder does not hold: the adapters of LoRA, whose folder is merged."""
        return {"adapters": adapter_state(self.model)} if self.lora else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what `state_dict` gave; a policy with adapters must have been loaded from the run's first model, not
        from a checkpoint's merged folder.

        Raises:
            ModelError: the adapters do not fit.
        """
        if self.lora or "adapters" in state:
            load_adapter_state(self.model, state.get("adapters", {}))
