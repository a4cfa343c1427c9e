"""Converts requests and results to and from vLLM's classes."""

from __future__ import annotations

from typing import Any

from agent_r1_core import Generation, Request
from agent_r1_core.contracts.engine import context_digest
from agent_r1_core.errors import EngineError


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
