"""Backend: vLLM's engine in the few calls that an RL rollout needs; all of them in one thread.

In-process and separate engines differ in two places only: how a pause is asked for, and how weights travel.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from agent_r1_core import Request, Sampling
from agent_r1_core.errors import EngineError
from agent_r1_vllm.arguments import check_machine, engine_arguments
from agent_r1_vllm.environment import starting
from agent_r1_vllm.requests import sampling_params
from agent_r1_vllm.watch import watch
from agent_r1_vllm.weights import KnownWeights, handed_over

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from agent_r1_core.contracts.engine import EngineModel

_FIRST = 0
"""Version of the weights that the folder holds."""
_PATIENCE = 10.0
"""Seconds that a process of vLLM gets to end after it was killed."""


@dataclass(frozen=True)
class Limits:
    """What a request has to keep to."""

    vocabulary: int
    positions: int
    """Ids that a context may have in all, the generated ones included."""


class Backend:
    """A started vLLM engine."""

    def __init__(self, model: EngineModel, config: Any) -> None:
        """Import vLLM and start it.

        Raises:
            EngineError: vLLM is not installed, or cannot serve the model with these options.
        """
        check_machine(model, config)
        self._separate = config.processes == "separate"
        self._known = KnownWeights(model.folder)
        self._asleep = False
        self._processes: list[BaseProcess] = []
        eager_cpu = model.device == "cpu" and config.enforce_eager is not False
        with starting(separate=self._separate, eager_cpu=eager_cpu, threads=torch.get_num_threads()):
            self._llm = _start(model, config, self._separate)
            if self._separate:
                self._processes = watch(self._llm.engine_core)
            self._try_out(model)
        described: Any = self._llm.model_config
        self.limits = Limits(int(described.get_vocab_size()), int(described.max_model_len))
        self._llm.set_weight_version(str(_FIRST))

    def add(self, name: str, request: Request) -> None:
        """Queue a request under a name that no other has.

        Raises:
            EngineError: vLLM refuses it.
        """
        from vllm import TokensPrompt

        prompt = TokensPrompt(prompt_token_ids=list(request.ids))
        try:
            self._llm.add_request(name, prompt, sampling_params(request))
        except ValueError as error:
            raise EngineError(f"vLLM refuses a request ({_reason(error)}); change what it asks for") from error

    def abort(self, name: str) -> None:
        """Drop a request, wherever it is; one that has ended is no error."""
        self._llm.abort_request([name])

    @property
    def busy(self) -> bool:
        """Whether requests wait or run."""
        return bool(self._llm.has_unfinished_requests())

    def step(self) -> list[Any]:
        """Compute, or wait for, one step; returns vLLM's `RequestOutput` of the requests that ended."""
        return [output for output in self._llm.step() if output.finished]

    def load_weights(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Replace the weights between two steps; every cached key and value is dropped and read again.

        Raises:
            EngineError: the weights do not fit the model, which keeps its own then.
        """
        checked = self._known.checked(weights)
        transfer: AbstractContextManager[Any] = handed_over(checked) if self._separate else nullcontext(checked)
        with transfer as source:
            # Paused first: a step between new weights and dropped caches would mix the two.
            self._call("pause_scheduler", "keep", True)
            if self._asleep:
                self._llm.wake_up(["weights"])
            self._llm.collective_rpc("load_agent_r1_weights", args=(source,))
            if self._asleep:
                self._llm.wake_up(["kv_cache"])
                self._asleep = False
            self._llm.set_weight_version(str(version))
            self._call("resume_scheduler")

    def sleep(self) -> None:
        """Drop weights and cache from the GPU; requests wait until `load_weights`."""
        if not self._asleep:
            self._llm.sleep(2, "keep")
            self._asleep = True

    def close(self) -> None:
        """Stop vLLM and its processes; requests that run are dropped."""
        if self._separate:
            with suppress(Exception):  # processes that have died need no rest
                self._call("pause_scheduler", "abort", False)  # stopped within a step they would complain
        self._llm.engine_core.shutdown()
        for process in self._processes:
            process.join(_PATIENCE)

    def _try_out(self, model: EngineModel) -> None:
        """Sample one id: vLLM notices only then that it has no kernel for the model's sizes."""
        try:
            self.add("trial", Request((0,), Sampling(max_new_tokens=1), seed=0))
            while self.busy:
                self.step()
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
