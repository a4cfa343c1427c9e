"""Which activations of a layer wait for the backward pass, and which it computes again.

With `full` a layer keeps its input alone. With `selective` it keeps what its matrix products and its attention gave as
well, so that only the elementwise work between them is computed again: norms, activations, rotary embeddings, sums and
casts, also where they are kernels of ours, which no one but their gradients sees into.

Scores that attention by plain products computes (bfloat16 on a CPU) are never kept: they would be [tokens, tokens].
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import CheckpointPolicy, SelectiveCheckpointContext, create_selective_checkpoint_contexts
from transformers import PreTrainedModel

from agent_r1_core.contracts.training import Recomputation
from agent_r1_core.errors import ModelError

_aten = torch.ops.aten
_COSTLY = {
    _aten.mm.default,
    _aten.addmm.default,
    _aten.bmm.default,
    _aten._grouped_mm.default,
    _aten._scaled_dot_product_flash_attention.default,
    _aten._scaled_dot_product_efficient_attention.default,
    _aten._scaled_dot_product_cudnn_attention.default,
    _aten._scaled_dot_product_flash_attention_for_cpu.default,
    _aten._scaled_dot_product_fused_attention_overrideable.default,
    torch.ops.higher_order.flex_attention,
}


def recompute(decoder: PreTrainedModel, what: Recomputation) -> None:
    """Let the layers of a decoder recompute activations in the backward passes of training mode.

    Raises:
        ModelError: this torch computes nothing again selectively where layers are compiled.
    """
    if what == "none":
        decoder.gradient_checkpointing_disable()
        return
    options: dict[str, Any] = {"use_reentrant": False}
    if what == "selective":
        options["context_fn"] = partial(create_selective_checkpoint_contexts, partial(_policy, frozenset(_kept())))
    decoder.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)


def visible() -> bool:
    """Whether this torch shows selective recomputation what it has compiled (2.11 does)."""
    import torch._inductor.config as inductor

    return hasattr(inductor, "wrap_inductor_compiled_regions")


def _kept() -> set[Any]:
    if not visible():
        raise ModelError(
            f"model.gradient_checkpointing=selective needs torch 2.11, and this is {torch.__version__}; take full"
        )
    # The only region that is compiled to be seen is attention; see attention.py.
    return _COSTLY | {torch.ops.higher_order.inductor_compiled_code}


def _policy(
    kept: frozenset[Any], context: SelectiveCheckpointContext, operation: Any, *args: Any, **kwargs: Any
) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if operation in kept else CheckpointPolicy.PREFER_RECOMPUTE
