"""The arguments with which vLLM starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_r1_core.errors import EngineError

if TYPE_CHECKING:
    from agent_r1_core.contracts.engine import EngineModel

_DTYPES = ("float32", "bfloat16")
_GIB = 1 << 30
_CUDA_ONLY = {
    "gpu_memory_utilization": "bounds a GPU's memory; set engine.kv_cache_memory instead",
    "sleep_mode": "gives a GPU's memory back; leave it out",
}


def check_machine(model: EngineModel, config: Any) -> None:
    """Refuse options that the device or a deterministic run rules out, rather than ignore them (LAW 8).

    Raises:
        EngineError: an option needs CUDA, vLLM does not offer the dtype, or a deterministic run has several processes.
    """
    if model.dtype not in _DTYPES:
        raise EngineError(
            f"the vllm engine cannot compute in dtype {model.dtype!r}; choose one of {', '.join(_DTYPES)}"
        )
    if model.device == "cpu":
        for option, why in _CUDA_ONLY.items():
            if getattr(config, option) != type(config).model_fields[option].default:
                raise EngineError(f"engine.{option} needs CUDA, and the model is on the CPU: it {why}")
    if model.deterministic and config.processes != "in_process":
        raise EngineError(
            "a deterministic run needs the vllm engine in this process, where requests are admitted in a fixed order; "
            "set engine.processes=in_process, or deterministic=false"
        )


def engine_arguments(model: EngineModel, config: Any) -> dict[str, Any]:
    """Keyword arguments of vLLM's `EngineArgs`."""
    on_cpu = model.device == "cpu"
    memory = config.kv_cache_memory or (1.0 if on_cpu else None)
    arguments: dict[str, Any] = {
        "model": model.folder,
        "dtype": model.dtype,
        "generation_config": "vllm",  # a folder's sampling defaults must not enter
        "logprobs_mode": "processed_logprobs",
        "max_model_len": config.max_model_len,
        "max_num_seqs": config.max_episodes,
        "block_size": config.block_size,
        # The contents of the cache depend on the run's past, which a resumed run does not have.
        "enable_prefix_caching": config.enable_prefix_caching and not model.deterministic,
        "tensor_parallel_size": config.tensor_parallel_size,
        "enforce_eager": on_cpu if config.enforce_eager is None else config.enforce_eager,
        "enable_sleep_mode": config.sleep_mode,
        "skip_tokenizer_init": model.tokenizer is None,
        "worker_extension_cls": "agent_r1_vllm.extension.WeightLoading",
        "use_tqdm_on_load": False,
        "disable_log_stats": True,
    }
    if config.processes == "in_process":
        arguments["async_scheduling"] = False  # no step may be under way while weights change
    if memory is None:
        arguments["gpu_memory_utilization"] = config.gpu_memory_utilization
    else:
        arguments["kv_cache_memory_bytes"] = int(memory * _GIB)  # given, so that vLLM need not measure it
    if on_cpu:
        # A seeded request whose context is read in chunks rewinds its generator, which CPU generators cannot do.
        arguments["enable_chunked_prefill"] = False
    return arguments
