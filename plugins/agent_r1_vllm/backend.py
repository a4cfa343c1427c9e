"""VllmBackend: vLLM's engine behind the few calls that an RL rollout needs.

In-process and separate engines differ in two places only: how they are paused, and how weights reach them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass
from multiprocessing import connection
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from agent_r1_core import EngineBackend, EngineLimits, Generation, Request, Sampling, working
from agent_r1_core.contracts.engine import context_digest
from agent_r1_core.errors import EngineError
from agent_r1_vllm.arguments import check_machine, engine_arguments
from agent_r1_vllm.environment import multiply_exactly, starting
from agent_r1_vllm.weights import handed_over, weights_of_folder

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from agent_r1_core.contracts.engine import EngineModel

_FIRST = 0
"""Version of the weights that the folder holds."""
_JOIN_TIMEOUT = 10.0
"""Seconds to wait for a process of vLLM to end after it was killed."""


@dataclass
class Statistics:
    """Counts of tokens and requests since the engine started."""

    context: int = 0
    """Ids of the contexts of requests that ended."""
    cached: int = 0
    """Of these, ids whose keys and values the prefix cache held."""
    sampled: int = 0
    aborted: int = 0
    """Requests that were cancelled before their end."""


class VllmBackend(EngineBackend):
    """Generates with vLLM."""

    def __init__(self, config: Any) -> None:
        """Keep the options; vLLM computes with as many torch threads as the caller."""
        self._config = config
        self._threads = torch.get_num_threads()
        self._separate = config.processes == "separate"
        self._asleep = False
        self._processes: list[BaseProcess] = []
        self._statistics = Statistics()

    def open(self, model: EngineModel) -> EngineLimits:
        """Import vLLM and start it.

        Raises:
            EngineError: vLLM is not installed, or cannot serve the model with these options.
        """
        config = self._config
        torch.set_num_threads(self._threads)
        check_machine(model, config)
        self._known, self._dtype = weights_of_folder(model.folder), model.dtype
        if (model.device, model.dtype) == ("cuda", "float32"):
            multiply_exactly()
        eager_cpu = model.device == "cpu" and config.enforce_eager is not False
        with starting(separate=self._separate, eager_cpu=eager_cpu, threads=self._threads):
            with working("starting vLLM"):
                self._llm = _start(model, config, self._separate)
            if self._separate:
                self._processes = watch(self._llm.engine_core)
            self._try_out(model)
        described: Any = self._llm.model_config
        self._llm.set_weight_version(str(_FIRST))
        return EngineLimits(int(described.get_vocab_size()), int(described.max_model_len))

    def add(self, key: int, request: Request) -> None:
        from vllm import TokensPrompt

        prompt = TokensPrompt(prompt_token_ids=list(request.ids))
        try:
            self._llm.add_request(str(key), prompt, sampling_params(request))
        except ValueError as error:
            raise EngineError(f"vLLM refuses a request ({_reason(error)}); change what it asks for") from error

    def abort(self, key: int) -> None:
        self._llm.abort_request([str(key)])
        self._statistics.aborted += 1

    @property
    def busy(self) -> bool:
        """Whether requests wait or run in vLLM."""
        return bool(self._llm.has_unfinished_requests())

    def step(self) -> list[tuple[int, Generation | EngineError]]:
        """Compute, or wait for, one step."""
        return [(int(output.request_id), self._answer(output)) for output in self._llm.step() if output.finished]

    def load_weights(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Replace the weights between two steps; drop all cached keys and values and read them again.

        Raises:
            EngineError: the weights do not fit the model; the engine keeps the old ones.
        """
        checked = self._known.checked(weights)
        with self._within_reach(checked) as source:
            # Paused first: a step between new weights and dropped caches would mix the two.
            self._call("pause_scheduler", "keep", True)
            if self._asleep:
                self._llm.wake_up(["weights"])
            self._llm.collective_rpc("load_agent_r1_weights", args=(source,))
            self._llm.set_weight_version(str(version))
            if self._asleep:
                self._llm.wake_up(["kv_cache"])  # which resumes the scheduler
                self._asleep = False
            self._call("resume_scheduler")

    def sleep(self) -> None:
        """With `sleep_mode`, drop weights and cache from the GPU; requests wait until `load_weights`."""
        if self._config.sleep_mode and not self._asleep:
            self._llm.sleep(2, "keep")
            self._asleep = True

    def counts(self) -> dict[str, int]:
        """Counts since the start: context ids, context ids from the cache, sampled ids, aborted requests."""
        return asdict(self._statistics)

    def close(self) -> None:
        """Stop vLLM and its processes; drop running requests."""
        if self._separate:
            with suppress(Exception):  # dead processes need no pause
                self._call("pause_scheduler", "abort", False)  # processes stopped within a step log errors
        self._llm.engine_core.shutdown()
        for process in self._processes:
            process.join(_JOIN_TIMEOUT)

    def _within_reach(self, weights: Mapping[str, Tensor]) -> AbstractContextManager[Any]:
        """What vLLM's workers load new weights from."""
        return handed_over(weights, self._dtype) if self._separate else nullcontext(weights)

    def _answer(self, output: Any) -> Generation | EngineError:
        """The result or the error of a request, from vLLM's finished `RequestOutput`."""
        try:
            answer = generation(output)
        except EngineError as error:
            return error
        self._statistics.context += len(output.prompt_token_ids)
        self._statistics.cached += output.num_cached_tokens or 0
        self._statistics.sampled += len(answer.ids)
        return answer

    def _try_out(self, model: EngineModel) -> None:
        """Sample one id: only then does vLLM notice that it has no kernel for the model's sizes."""
        try:
            self.add(-1, Request((0,), Sampling(max_new_tokens=1), seed=0))
            while self.busy:
                self._llm.step()
        except Exception as error:
            self.close()
            raise _cannot_serve(model, error) from error

    def _call(self, name: str, *arguments: Any) -> None:
        """A call of the engine core that vLLM's synchronous client does not offer by name."""
        client: Any = self._llm.engine_core
        if self._separate:
            client.call_utility(name, *arguments)
        else:
            getattr(client.engine_core, name)(*arguments)


def _start(model: EngineModel, config: Any, separate: bool) -> Any:
    try:
        import vllm  # noqa: F401
        from vllm.engine.arg_utils import EngineArgs
        from vllm.v1.engine.llm_engine import LLMEngine
        from vllm.v1.executor import Executor
    except ImportError as error:
        raise EngineError(
            f"the vllm engine needs vLLM, which cannot be imported ({_reason(error)}); "
            "pip install 'agent-r1[vllm]', or set engine.name=transformers"
        ) from error
    try:
        settings = EngineArgs(**engine_arguments(model, config)).create_engine_config()
        return LLMEngine(settings, Executor.get_class(settings), log_stats=False, multiprocess_mode=separate)
    except Exception as error:
        raise _cannot_serve(model, error) from error


def _cannot_serve(model: EngineModel, error: Exception) -> EngineError:
    return EngineError(
        f"vLLM cannot serve the model in {model.folder} on {model.device} ({_reason(error)}); "
        "change the options of engine, or set engine.name=transformers"
    )


def _reason(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def sampling_params(request: Request) -> Any:
    """vLLM's `SamplingParams`: the request's options, ids and log-probs returned at the end, no stops of vLLM's own.

    Stop strings are matched on the decoded text, special tokens included; vLLM keeps the whole token that completes
    one.
    """
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        max_tokens=request.sampling.max_new_tokens,
        temperature=request.sampling.temperature,
        top_p=request.sampling.top_p,
        top_k=request.sampling.top_k,
        seed=request.seed,
        stop=list(request.stop_strings),
        stop_token_ids=list(request.stop_ids),
        ignore_eos=True,
        logprobs=0,
        detokenize=bool(request.stop_strings),
        skip_special_tokens=False,
        spaces_between_special_tokens=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def generation(output: Any) -> Generation:
    """The contract's `Generation` from vLLM's finished `RequestOutput`; `context` digests the ids that vLLM recorded.

    Raises:
        EngineError: vLLM gave up the request.
    """
    [completion] = output.outputs
    if completion.finish_reason not in ("stop", "length"):
        raise EngineError(
            f"vLLM ended a request with {completion.finish_reason!r} after {len(completion.token_ids)} ids; "
            "generate it again, or start the engine anew"
        )
    ids = tuple(completion.token_ids)
    logprobs = tuple(float(place[token].logprob) for place, token in zip(completion.logprobs, ids, strict=True))
    spans = [(int(span.version), span.end - span.start) for span in completion.weight_versions or ()]
    version = spans[-1][0] if spans else 0
    versions = tuple(spans) if len(spans) > 1 else ()
    return Generation(
        ids, logprobs, completion.finish_reason, context_digest(output.prompt_token_ids), version, versions
    )


def watch(client: Any) -> list[BaseProcess]:
    """Make all waits on vLLM's client fail as soon as one of its processes ends; returns the processes.

    Its synchronous client would wait forever for an answer.
    """
    processes = list(client.resources.engine_manager.processes)
    sentinels = [process.sentinel for process in processes]

    def wait() -> None:
        connection.wait(sentinels)
        error = EngineError("a process of vLLM has ended; resume the run from its last checkpoint")
        client.resources.engine_dead = True
        for future in list(client.utility_results.values()):
            if not future.done():
                future.set_exception(error)
        client.outputs_queue.put(error)

    threading.Thread(target=wait, name="agent-r1-vllm-watch", daemon=True).start()
    return processes
