"""Other gateways under the reporting protocol of the test kit."""

from __future__ import annotations

import asyncio
import json
import secrets
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import httpx2
from agent_r1_gateway.reporting import KitPolicy
from agent_r1_tool_formats.hermes import Hermes
from gateway_engine import Engine

from agent_r1_core.assembly.model_source import BUNDLED

sys.path.append(str(Path(__file__).parents[1] / "tests" / "warm"))
from served import free_port


def row(prompt: list[int], ids: list[int], logprobs: list[float] | None) -> dict[str, Any]:
    """A request and its reply as a row of training."""
    padded = None if logprobs is None else [0.0] * len(prompt) + logprobs
    return {"ids": prompt + ids, "mask": [0] * len(prompt) + [1] * len(ids), "logprobs": padded}


class Peer(ABC):
    """An episode in another gateway, whose requests reach the engine."""

    ABOUT: ClassVar[Mapping[str, Any]]

    def __init__(self, engine: Engine, body: Mapping[str, Any], spelled: bool = True) -> None:
        self.engine = engine
        self.body = body
        self.name = f"kit-{secrets.token_hex(6)}"
        self.policy = KitPolicy(body["policy"], Hermes(), spelled)
        engine.open.insert(0, self.policy)

    async def opened(self) -> dict[str, Any]:
        begun = await asyncio.to_thread(self.begin)
        return {"anthropic_base_url": begun["base_url"], "model": "policy", "api_key": "kit", **begun}

    async def end(self, error: str) -> dict[str, Any]:
        self.policy.say_held()
        await asyncio.sleep(0.05)  # what was released reaches the gateway
        try:
            segments, failed = await asyncio.to_thread(self.segments, error), None
        except httpx2.HTTPStatusError as refused:
            segments, failed = [], f"the trace cannot be read: the gateway answers {refused.response.status_code}"
        self.engine.open.remove(self.policy)
        return {"sampled": self.policy.sampled, "segments": segments, "failed": failed}

    @abstractmethod
    def begin(self) -> dict[str, str]:
        """Open the episode in the gateway; its `base_url`, perhaps its `api_key`."""

    @abstractmethod
    def segments(self, error: str) -> list[dict[str, Any]]:
        """End it; what would be trained."""


class Lines:
    """A process that answers lines of JSON, one at a time."""

    def __init__(self, *command: str) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._busy = threading.Lock()
        self._until("READY")

    def ask(self, told: Any) -> Any:
        with self._busy:
            assert self.process.stdin is not None
            self.process.stdin.write(json.dumps(told) + "\n")
            self.process.stdin.flush()
            return json.loads(self._until("SAID"))

    def _until(self, word: str) -> str:
        assert self.process.stdout is not None
        return next(line for line in self.process.stdout if line.startswith(word)).removeprefix(word)


class AgentLightning(Peer):
    """Agent Lightning's server; its rows are read by the code that its trainer reads them with, at the level
    `transition`, the default."""

    ABOUT: ClassVar[Mapping[str, Any]] = {
        "name": "agentlightning 1.0.2",
        "apis": ["chat"],
        "offers": ["keys", "logprobs", "ends", "failures"],
        "controls": ["<|im_end|>"],
    }
    READER = """
import json, sys
from agentlightning.verl.agl_rollout_manager import AglRolloutManagerBase, EnqueuedRollout
manager = AglRolloutManagerBase(agl_base_url=sys.argv[1], agl_key="kit", model="policy", step=0)
print("READY", flush=True)
for line in sys.stdin:
    name = json.loads(line)
    queued = EnqueuedRollout(data_id="d", rollout_id=name, step=0, sample_idx_in_step=0, enqueue_time=0.0)
    rows = manager._build_completed_rollout(queued, manager._get_rollout(name)).triplets
    manager._delete_rollout(name)
    told = [[one.prompt["token_ids"], one.response["token_ids"], one.response["log_probs"]] for one in rows]
    print("SAID" + json.dumps(told), flush=True)
"""
    address: str
    reader: Lines

    @classmethod
    def start(cls, venv: Path, engine: str) -> list[subprocess.Popen[Any]]:
        port, python = free_port(), str(venv / "bin/python")
        options = ["host=127.0.0.1", f"port={port}", "key=kit", "default_proxy.model_name=policy", "hydra.run.dir=/tmp"]
        server = subprocess.Popen([python, "-m", "agentlightning.server", *options], stdout=subprocess.DEVNULL)
        cls.address = f"http://127.0.0.1:{port}"
        until_up(f"{cls.address}/healthz")
        cls.call("POST", "/api/models", [{"model": "policy", "endpoint": f"{engine}/v1"}])
        cls.reader = Lines(python, "-c", cls.READER, cls.address)
        return [server, cls.reader.process]

    @classmethod
    def call(cls, method: str, path: str, body: Any) -> Any:
        headers = {"authorization": "Bearer kit"}
        return httpx2.request(method, cls.address + path, json=body, headers=headers).raise_for_status().json()

    def begin(self) -> dict[str, str]:
        self.call("POST", "/api/rollouts", [{"input": {}, "rollout_id": self.name}])
        self.call("PATCH", f"/api/rollouts/{self.name}", {"status": {"state": "running"}})
        return {"base_url": f"{self.address}/proxy/rollout/{self.name}/attempt/0/mode/train/openai/v1"}

    def segments(self, error: str) -> list[dict[str, Any]]:
        status = {"state": "failed" if error else "succeeded", "error_message": error or None}
        self.call("PATCH", f"/api/rollouts/{self.name}", {"status": status})
        return [row(*one) for one in self.reader.ask(self.name)]


class Rllm(Peer):
    """rLLM's model gateway; each trace with token ids is a row. Responses and Messages pass through it to the engine,
    and leave no ids."""

    ABOUT: ClassVar[Mapping[str, Any]] = {
        "name": "rllm-model-gateway 0.1.0",
        "apis": ["chat"],
        "offers": ["stream", "logprobs"],
        "controls": ["<|im_end|>"],
    }
    address: str

    @classmethod
    def start(cls, venv: Path, engine: str) -> list[subprocess.Popen[Any]]:
        port = free_port()
        options = ["--host", "127.0.0.1", "--port", str(port), "--worker", f"{engine}/v1", "--store", "memory"]
        command = [str(venv / "bin/rllm-model-gateway"), *options, "--log-level", "WARNING"]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        cls.address = f"http://127.0.0.1:{port}"
        until_up(f"{cls.address}/health")
        return [server]

    def begin(self) -> dict[str, str]:
        httpx2.post(f"{self.address}/sessions", json={"session_id": self.name}).raise_for_status()
        return {"base_url": f"{self.address}/sessions/{self.name}/v1"}

    def segments(self, error: str) -> list[dict[str, Any]]:
        httpx2.post(f"{self.address}/admin/flush").raise_for_status()
        traces = httpx2.get(f"{self.address}/sessions/{self.name}/traces").raise_for_status().json()
        told = [[one[name] for name in ("prompt_token_ids", "completion_token_ids", "logprobs")] for one in traces]
        return [row(*one) for one in told if one[1]]


class Verifiers(Peer):
    """Verifiers' interception server with its client for training; `verifiers_host.py` says what is reported."""

    ABOUT: ClassVar[Mapping[str, Any]] = {
        "name": "verifiers 0.4.0",
        "apis": ["chat"],
        "offers": ["stream", "reasoning", "idempotency", "keys", "max_turns", "ends"],
        "controls": ["<|im_end|>"],
    }
    host: Lines

    @classmethod
    def start(cls, venv: Path, engine: str) -> list[subprocess.Popen[Any]]:
        host = str(Path(__file__).with_name("verifiers_host.py"))
        cls.host = Lines(str(venv / "bin/python"), host, engine, str(BUNDLED / "tiny"))
        return [cls.host.process]

    def begin(self) -> dict[str, str]:
        asked = {"do": "begin", "name": self.name, "max_turns": self.body.get("max_turns")}
        return dict(self.host.ask(asked))

    def segments(self, error: str) -> list[dict[str, Any]]:
        return list(self.host.ask({"do": "end", "name": self.name}))


def until_up(address: str) -> None:
    for _ in range(600):
        try:
            httpx2.get(address).raise_for_status()
            return
        except httpx2.HTTPError:
            time.sleep(0.1)
    raise SystemExit(f"{address} does not answer")
