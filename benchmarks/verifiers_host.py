"""Verifiers' interception server, driven by lines on stdin; `gateway_peers.py` runs this in verifiers' environment.

    python verifiers_host.py ENGINE TOKENIZER_FOLDER

It talks to the engine as in training: prompts are rendered here, as Qwen3's, and sent as ids; `thinking_retention` lets
it continue ids wherever it can. What it reports are the trace's trainable branches: "each branch becomes one training
sample", says their docstring.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import verifiers.v1 as vf
from renderers.configs import Qwen3RendererConfig
from verifiers.v1.clients.client import ModelContext
from verifiers.v1.configs.client import TrainClientConfig
from verifiers.v1.interception.server import InterceptionServer
from verifiers.v1.session import RolloutLimits, RolloutSession

OPEN: dict[str, tuple[RolloutSession, str, str]] = {}


async def answer(server: InterceptionServer, client: TrainClientConfig, told: dict[str, Any]) -> Any:
    if told["do"] == "begin":
        task = vf.TraceTask(type="Kit", data=vf.TaskData(prompt="kit"))
        trace = vf.Trace(task=task, agent=vf.AgentInfo(config=vf.AgentConfig()))
        limits = RolloutLimits(max_turns=told["max_turns"])
        session = RolloutSession(ctx=ModelContext("policy", client), trace=trace, limits=limits)
        model_secret, state_secret = server.register(session)
        OPEN[told["name"]] = session, model_secret, state_secret
        return {"base_url": f"{server.base_url}/v1", "api_key": model_secret}
    session, model_secret, state_secret = OPEN.pop(told["name"])
    server.unregister(model_secret, state_secret)
    return [
        {"ids": branch.token_ids, "mask": [int(one) for one in branch.sampled_mask], "logprobs": branch.logprobs}
        for branch in session.trace.branches
        if branch.trainable
    ]


async def main() -> None:
    engine, folder = sys.argv[1:]
    renderer = Qwen3RendererConfig(thinking_retention="all")
    client = TrainClientConfig(
        base_url=f"{engine}/v1", api_key_var="UNSET", renderer=renderer, renderer_model_name=folder
    )
    async with InterceptionServer() as server:
        print("READY", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            print("SAID" + json.dumps(await answer(server, client, json.loads(line))), flush=True)


asyncio.run(main())
