"""WeightLoading: loads new weights inside vLLM's workers, in whichever process they run.

vLLM's own reload is incomplete for a tied model on a CPU. There every linear layer multiplies with a packed copy of its
weights, and the output layer's copy of the tied embedding is not refreshed, because no weight has its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from agent_r1_core.opening import check_regular


class WeightLoading:
    """Mixed into vLLM's `Worker` by `worker_extension_cls`."""

    def load_agent_r1_weights(self, weights: Mapping[str, Tensor] | str) -> None:
        """Load new weights in place.

        Args:
            weights: Hugging Face names with tensors, for a worker in the caller's process; else the path of a
                safetensors file that holds them.
        """
        if isinstance(weights, str):
            from safetensors.torch import load_file

            check_regular(weights)
            weights = load_file(weights)
        worker: Any = self
        worker.reload_weights(weights_iterator=iter(weights.items()))
        refresh_tied_head(worker.model_runner.get_model())


def refresh_tied_head(model: nn.Module) -> None:
    """Pack the output weights again if an output layer computes with a packed copy of the embedding."""
    for module in model.modules():
        if type(module).__name__ == "ParallelLMHead" and hasattr(module, "cpu_linear"):
            head: Any = module
            if head.weight.numel():
                head.quant_method.process_weights_after_loading(head)
