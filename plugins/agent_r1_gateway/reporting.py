"""Reports to the test kit for gateways what the engine sampled and what would be trained, as docs/gateway_kit.md says.

`python -m agent_r1_gateway.reporting` prints its address. Episodes are played as in training, by the collector and the
environment `program`. The policy is scripted, over the bundled model's tokenizer; it samples its texts one character at
a time, which is hardly ever how the tokenizer would encode them.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Protocol

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse
from starlette.routing import Route

from agent_r1_core import Generation, Request, Sampling, Task, ToolCall, ToolFormat, Trajectory
from agent_r1_core.assembly.model_source import BUNDLED
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.contracts.engine import context_digest
from agent_r1_core.rollout import Collector, RolloutRequest, RolloutSettings
from agent_r1_core.testing import ScriptedPolicy
from agent_r1_gateway.env import ProgramEnv
from agent_r1_gateway.program import Episode
from agent_r1_gateway.server import DIALECTS
from agent_r1_gateway.testing import tool_format_of

OFFERS = (
    *("stream", "logprobs", "reasoning", "namespaces", "untrained"),
    *("idempotency", "keys", "max_turns", "count_tokens", "ends", "failures"),
)
"""What the kit may ask for beyond the APIs."""
_NOTHING_LEFT = (-1, {"say": "Nothing is left to say."})


@cache
def bundled_tokenizer() -> ChatTokenizer:
    """The tokenizer of the policy."""
    return ChatTokenizer.from_folder(BUNDLED / "tiny")


class KitPolicy(ScriptedPolicy):
    """Says the actions of a script, in answer to the prompts that they are for, and keeps what it sampled."""

    def __init__(self, actions: Sequence[Mapping[str, Any]], form: ToolFormat, spelled: bool = True) -> None:
        """`spelled`: sample texts one character at a time; else as the tokenizer encodes them."""
        super().__init__([""], bundled_tokenizer())
        self.sampled: list[dict[str, Any]] = []
        """As the protocol reports it."""
        self.held = 0
        """Requests that wait for `say_held`."""
        self._form = form
        self._spelled = spelled
        self.left = list(enumerate(actions))
        """What it has not said, with its place in the script."""
        self._released = asyncio.Event()

    async def generate(self, request: Request) -> Generation:
        """The next action for this prompt."""
        context = bundled_tokenizer().decode(request.ids)
        number, action = self._next(context)
        if action.get("held"):
            self.held += 1
            try:
                await self._released.wait()
            finally:
                self.held -= 1
        ids, finish = self._cut(self._ids(action), request)
        logprobs = tuple(-(1 + place % 7) / 8 for place in range(len(ids)))
        kept = {"prompt": list(request.ids), "ids": ids, "logprobs": logprobs, "context": context}
        self.sampled.append({"action": number, **kept})
        return Generation(tuple(ids), logprobs, finish, context_digest(request.ids))

    def say_held(self) -> None:
        """Say what is held back."""
        self._released.set()
        self._released = asyncio.Event()

    def _next(self, context: str) -> tuple[int, Mapping[str, Any]]:
        """The first action that is for this prompt, before those that are for any."""
        fitting = [one for one in self.left if one[1].get("to", "") in context]
        found = min(fitting, key=lambda one: "to" not in one[1], default=_NOTHING_LEFT)
        self.left = [one for one in self.left if one is not found]
        return found

    def _ids(self, action: Mapping[str, Any]) -> list[int]:
        """Tags are control tokens; everything else is text."""
        parts = [action["say"]]
        if action.get("think"):
            parts = ["", "<think>", f"\n{action['think']}\n", "</think>", f"\n\n{action['say']}"]
        for call in action.get("calls", ()):
            name = "__".join(filter(None, (call.get("namespace"), call["name"])))
            text = self._form.render_call(ToolCall(name, call["arguments"]))
            inner = text.removeprefix("<tool_call>").removesuffix("</tool_call>")
            parts[-1] += "\n" if any(parts) else ""
            parts += ["<tool_call>", inner, "</tool_call>", ""]
        encode = (self._encode, bundled_tokenizer().encode)
        return [index for place, part in enumerate(parts) for index in encode[place % 2](part)]

    def _encode(self, text: str) -> list[int]:
        pieces = text if self._spelled else [text]
        return [index for piece in pieces for index in super(KitPolicy, self)._encode(piece)]


class Played:
    """One episode of a program that is not here: it asks the gateway over the network, and ends when it says so."""

    def __init__(self, body: Mapping[str, Any], spelled: bool = True) -> None:
        """`body` is the protocol's; `spelled` as in `KitPolicy`."""
        self.name = f"kit-{secrets.token_hex(6)}"
        self._started: asyncio.Future[Episode] = asyncio.get_running_loop().create_future()
        options = {"models": {"untrained": "untrained"}, "max_tokens": 10**6, "max_turns": body.get("max_turns", 1000)}
        config = ProgramEnv.Config(function=f"{__name__}:wait_for_the_end", workers=0, **options)
        form = tool_format_of(config)
        self.policy = KitPolicy(body["policy"], form, spelled)
        self._ended, self._error = threading.Event(), ""
        make = partial(ProgramEnv, config)
        settings = RolloutSettings(make, tool_format=form, sampling=Sampling(max_new_tokens=4096), max_retries=0)
        self._collector = Collector(self.policy, bundled_tokenizer(), settings)
        PLAYED[self.name] = self
        self._playing = asyncio.create_task(self._collector.collect(RolloutRequest([Task(self.name, "kit")])))

    def play(self, episode: Episode) -> None:
        """Be the program, in a thread of its own."""
        self._started.get_loop().call_soon_threadsafe(self._started.set_result, episode)
        self._ended.wait()
        if self._error:
            raise RuntimeError(self._error)

    async def opened(self) -> dict[str, Any]:
        """Where the program asks."""
        episode = await asyncio.wait_for(self._started, 30)
        addresses = {"base_url": episode.base_url, "anthropic_base_url": episode.anthropic_base_url}
        return {"api_key": episode.api_key, "model": "policy", "untrained_model": "untrained", **addresses}

    async def end(self, error: str) -> dict[str, Any]:
        """The program ends; the report."""
        self._error = error
        self._ended.set()
        while not self._playing.done():
            self.policy.say_held()
            await asyncio.wait({self._playing}, timeout=0.05)
        self._collector.close()
        PLAYED.pop(self.name, None)
        result = self._playing.result()
        dropped = result.dropped[0].reason if result.dropped else None
        segments = [one for trajectory in result.trajectories for one in _segments(trajectory)]
        return {"sampled": self.policy.sampled, "segments": segments, "failed": dropped}


PLAYED: dict[str, Played] = {}
"""The episodes that run."""


def _segments(trajectory: Trajectory) -> list[dict[str, Any]]:
    return [{"ids": one.ids, "mask": one.mask, "logprobs": one.logprobs} for one in trajectory.segments]


def wait_for_the_end(episode: Episode) -> None:
    """What `program` runs: the kit's program is elsewhere."""
    PLAYED[episode.task["id"]].play(episode)


class KitEpisode(Protocol):
    """An episode, as the protocol sees it."""

    policy: KitPolicy
    """What the engine says."""

    async def opened(self) -> dict[str, Any]:
        """Where the program asks, and with which key."""

    async def end(self, error: str) -> dict[str, Any]:
        """The program has ended; the report."""


ABOUT = {
    "name": "agent-r1",
    "apis": [dialect.NAME for dialect in DIALECTS],
    "offers": OFFERS,
    "controls": ["<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_response>"],
}


def app(about: Mapping[str, Any] = ABOUT, play: Callable[[Mapping[str, Any]], KitEpisode] = Played) -> Starlette:
    """Serve the protocol of docs/gateway_kit.md for a gateway, by default ours."""
    episodes: dict[str, KitEpisode] = {}

    async def describe(request: HttpRequest) -> Mapping[str, Any]:
        return about

    async def begin(request: HttpRequest) -> Mapping[str, Any]:
        episode = play(await request.json())
        name = f"e{len(episodes)}"
        episodes[name] = episode
        return {"id": name} | await episode.opened()

    async def look(request: HttpRequest) -> Mapping[str, Any]:
        return {"held": episodes[request.path_params["id"]].policy.held}

    async def release(request: HttpRequest) -> Mapping[str, Any]:
        episodes[request.path_params["id"]].policy.say_held()
        return {}

    async def end(request: HttpRequest) -> Mapping[str, Any]:
        return await episodes[request.path_params["id"]].end((await request.json()).get("error", ""))

    def route(path: str, method: str, answer: Callable[[HttpRequest], Awaitable[Mapping[str, Any]]]) -> Route:
        async def endpoint(request: HttpRequest) -> JSONResponse:
            return JSONResponse(await answer(request))

        return Route(path, endpoint, methods=[method])

    return Starlette(
        routes=[
            route("/", "GET", describe),
            route("/episodes", "POST", begin),
            route("/episodes/{id}", "GET", look),
            route("/episodes/{id}/release", "POST", release),
            route("/episodes/{id}/end", "POST", end),
        ]
    )


def main() -> None:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--port", type=int, default=8720)
    port = parser.parse_args().port
    print(f"pytest --agent-gateway http://127.0.0.1:{port}", flush=True)
    uvicorn.run(app(), port=port, log_level="warning", lifespan="off")


if __name__ == "__main__":
    main()
