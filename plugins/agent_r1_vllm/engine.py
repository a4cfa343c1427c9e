"""VllmEngine: rollouts by vLLM, whose scheduler batches requests as they come and keeps prefixes across turns.

Log-probs are log softmax(logits / temperature) of the sampled ids (vLLM's `processed_logprobs`). vLLM renormalises them
over the ids that top-p and top-k keep. Training refuses both options, so this affects only evaluations, which read no
log-probs. `sleep_mode` needs CUDA. On a CPU, vLLM's attention has kernels only for certain head sizes.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from agent_r1_core import EngineBackend, EngineConfig, ThreadedEngine
from agent_r1_vllm.backend import VllmBackend


class VllmEngine(ThreadedEngine):
    """Generates with vLLM, driven by a thread of its own."""

    name = "vllm"

    class Config(EngineConfig):
        """Options of the `vllm` engine; those that vLLM has too mean the same."""

        processes: Literal["in_process", "separate"] = "in_process"
        """`in_process`: in this process, ready in seconds, weights passed in memory. `separate`: in processes of its
        own, which compute in parallel with this one; weights pass through a file in memory."""
        tensor_parallel_size: int = Field(1, ge=1)
        """GPUs (on a CPU: processes) that share each layer; more than one needs `processes: separate`."""
        max_model_len: int | None = Field(default=None, ge=1)
        """Longest context in ids, generated ones included. null: the model's positions."""
        block_size: int = Field(32, ge=1)
        """Ids per block of the KV cache; the next turn reuses whole blocks. A multiple of 32 on a CPU."""
        enable_prefix_caching: bool = True
        """Keep the keys and values of contexts, so that a turn reads only new ids; off in deterministic runs."""
        kv_cache_memory: float | None = Field(default=None, gt=0)
        """GiB of keys and values. null: 1 on a CPU, and what `gpu_memory_utilization` leaves on CUDA."""
        gpu_memory_utilization: float = Field(0.4, gt=0, le=1)
        """Share of a GPU's memory that vLLM may use in total, CUDA only; the learner needs the rest."""
        enforce_eager: bool | None = None
        """false: compile the model, with CUDA graphs on a GPU. null: compiled on CUDA, eager on a CPU."""
        sleep_mode: bool = False
        """Free the GPU's memory while the learner uses it. Needs CUDA."""

        @model_validator(mode="after")
        def _shards_need_processes(self) -> Self:
            if self.tensor_parallel_size > 1 and self.processes == "in_process":
                raise ValueError(
                    f"tensor_parallel_size={self.tensor_parallel_size} needs processes of its own; "
                    "set processes=separate"
                )
            return self

    @classmethod
    def idle_options(cls, config: Any) -> dict[str, str]:
        if config.kv_cache_memory is not None:
            return {"gpu_memory_utilization": "kv_cache_memory says how much memory the cache gets"}
        return {}

    @classmethod
    def unavailable(cls, config: Any) -> str | None:
        if find_spec("vllm") is None:
            return "vLLM is not installed; run `pip install 'agent-r1[vllm]'`, or set engine.name=transformers"
        return None

    def make_backend(self) -> EngineBackend:
        return VllmBackend(self.config)
