"""An engine in one file, as an author writes it: it reads the whole context anew for every id."""

from __future__ import annotations

import torch

from agent_r1_core import EngineSpec, FunctionEngine, hookimpl
from agent_r1_core.engines.sampling import choose

AGENT_R1_PLUGIN_API = 1


def continue_request(module, request):
    ids, logprobs = [], []
    while len(ids) < request.sampling.max_new_tokens and not {*ids} & {*request.stop_ids}:
        logits = module(torch.tensor([[*request.ids, *ids]])).logits[:, -1]
        (token,), (logprob,) = choose(logits, [request], [len(ids)])
        ids.append(token)
        logprobs.append(logprob)
    return ids, logprobs


class Plain(FunctionEngine):
    """Serves one request after the other."""

    def generate_rows(self, module, requests):
        return [continue_request(module, request) for request in requests]


@hookimpl
def register_engines():
    return [EngineSpec("plain", ":Plain", "reads the whole context anew for every id")]
