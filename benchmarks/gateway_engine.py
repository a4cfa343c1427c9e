"""An engine that answers as vLLM's server does, with what the scripts of the test kit say, for other gateways.

It speaks Chat Completions with `return_token_ids`, the Hermes tool parser and a template of Qwen2.5, and generation
from ids; it aborts when its client leaves. The policy and the tokenizer are those that the kit tests ours with.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

from agent_r1_gateway.reporting import KitPolicy, bundled_tokenizer
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agent_r1_core import Generation, Request, Sampling

TEMPLATE = Path(__file__).with_name("qwen25.jinja")
"""That of Qwen2.5's models."""
LONGEST = 32_768
"""Tokens of the engine's context."""
CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
"""As vLLM's Hermes parser reads calls."""


class Broken(Exception):
    """A request that vLLM refuses."""


class Engine:
    """Answers as vLLM's OpenAI server, with what the scripts of the open episodes say."""

    def __init__(self) -> None:
        self.open: list[KitPolicy] = []
        """The newest first."""
        self._raw = bundled_tokenizer().raw

    def routes(self) -> list[Route]:
        """What it serves, in the loop of the protocol, which releases what is held back."""

        async def models(request: HttpRequest) -> Response:
            listed = [{"id": "policy", "object": "model", "max_model_len": LONGEST}]
            return JSONResponse({"object": "list", "data": listed})

        return [
            Route("/v1/chat/completions", self._chat, methods=["POST"]),
            Route("/inference/v1/generate", self._of_ids, methods=["POST"]),
            Route("/v1/models", models),
            Route("/health", models),
        ]

    async def _chat(self, request: HttpRequest) -> Response:
        try:
            body = json.loads(await request.body())
            prompt = self._prompt(body)
        except (Broken, ValueError, KeyError, TypeError, AttributeError) as error:
            told = {"message": repr(error)[:200], "type": "BadRequestError", "param": None, "code": 400}
            return JSONResponse({"error": told}, 400)
        said = await _unless_left(request, self._generate(body, prompt))
        if said is None:
            return Response(status_code=499)
        whole = self._reply(body, prompt, said)
        if not body.get("stream"):
            return JSONResponse(whole)
        text = "".join(f"data: {json.dumps(one)}\n\n" for one in _chunks(whole, body)) + "data: [DONE]\n\n"
        return Response(text, media_type="text/event-stream")

    async def _of_ids(self, request: HttpRequest) -> Response:
        """vLLM's generation from ids."""
        body = await request.json()
        said = await _unless_left(request, self._generate(body["sampling_params"], body["token_ids"]))
        if said is None:
            return Response(status_code=499)
        (one,) = said
        shown = [{"token": f"token_id:{i}", "logprob": p} for i, p in zip(one.ids, one.logprobs, strict=True)]
        choice = {"index": 0, "token_ids": one.ids, "logprobs": {"content": shown}, "finish_reason": one.finish}
        return JSONResponse({"request_id": secrets.token_hex(8), "choices": [choice]})

    def _prompt(self, body: Mapping[str, Any]) -> list[int]:
        messages = [self._message(one) for one in body["messages"]]
        if not messages:
            raise Broken("messages is empty")
        if sum(len(one["content"]) for one in messages) > 8 * LONGEST:
            raise Broken(f"the context is longer than {LONGEST} tokens")
        text = self._raw.apply_chat_template(
            messages,
            tools=body.get("tools"),
            add_generation_prompt=True,
            tokenize=False,
            chat_template=TEMPLATE.read_text(encoding="utf-8"),
        )
        return list(self._raw.encode(text.encode("utf-8", "replace").decode(), add_special_tokens=False))

    def _message(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Texts of blocks are joined by line ends, and arguments read, as vLLM does before it renders."""
        content = given.get("content")
        if isinstance(content, list):
            content = "\n".join(part["text"] for part in content)
        if not isinstance(given["role"], str) or not isinstance(content, str | None):
            raise Broken("a message has the wrong shape")
        message: dict[str, Any] = {"role": given["role"], "content": content or ""}
        if given.get("tool_calls"):
            functions = [call["function"] for call in given["tool_calls"]]
            read = [{"name": one["name"], "arguments": json.loads(one["arguments"] or "{}")} for one in functions]
            message["tool_calls"] = [{"type": "function", "function": one} for one in read]
        return message

    async def _generate(self, body: Mapping[str, Any], prompt: list[int]) -> list[Generation]:
        context = bundled_tokenizer().decode(prompt)
        fits = lambda policy: any(one.get("to") and one["to"] in context for _, one in policy.left)
        policy = next(filter(fits, self.open), self.open[0])
        budget = body.get("max_completion_tokens") or body.get("max_tokens") or 4096
        ends: dict[str, Any] = {"stop_ids": bundled_tokenizer().eos_ids, "stop_strings": _stops(body)}
        request = Request(tuple(prompt), Sampling(max_new_tokens=budget), seed=0, **ends)
        return [await policy.generate(request) for _ in range(body.get("n") or 1)]

    def _reply(self, body: Mapping[str, Any], prompt: list[int], several: list[Generation]) -> dict[str, Any]:
        choices = [self._choice(body, number, one) for number, one in enumerate(several)]
        completion = sum(len(one.ids) for one in several)
        usage = {"prompt_tokens": len(prompt), "completion_tokens": completion}
        usage["total_tokens"] = len(prompt) + completion
        whole = {"id": f"chatcmpl-{secrets.token_hex(8)}", "object": "chat.completion", "created": int(time.time())}
        ids = {"prompt_token_ids": prompt} if body.get("return_token_ids") else {}
        return {**whole, "model": body.get("model"), "choices": choices, "usage": usage, **ids}

    def _choice(self, body: Mapping[str, Any], number: int, said: Generation) -> dict[str, Any]:
        text = str(self._raw.decode(list(said.ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))
        for one in _stops(body):
            text = text.partition(one)[0]
        message: dict[str, Any] = {"role": "assistant", "content": text}
        reason: str = said.finish
        found = [json.loads(one) for one in CALL.findall(text)] if body.get("tools") else []
        if found:
            reason = "tool_calls"
            message["content"] = text.partition("<tool_call>")[0] or None
            message["tool_calls"] = [
                {
                    "id": f"chatcmpl-tool-{secrets.token_hex(8)}",
                    "type": "function",
                    "function": {"name": one["name"], "arguments": json.dumps(one["arguments"], ensure_ascii=False)},
                }
                for one in found
            ]
        choice = {"index": number, "message": message, "finish_reason": reason, "logprobs": None}
        if body.get("logprobs"):
            more = {"bytes": None, "top_logprobs": list[Any]()}
            pairs = zip(said.ids, said.logprobs, strict=True)
            content = [{"token": self._raw.decode([i]), "logprob": p, **more} for i, p in pairs]
            choice["logprobs"] = {"content": content}
        return choice | ({"token_ids": list(said.ids)} if body.get("return_token_ids") else {})


def _stops(body: Mapping[str, Any]) -> tuple[str, ...]:
    stop = body.get("stop") or ()
    return (stop,) if isinstance(stop, str) else tuple(stop)


def _chunks(whole: Mapping[str, Any], body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The reply as a stream: the ids of the prompt come with the first piece, the reply in one more."""
    head = {name: whole[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    (choice,) = whole["choices"]
    message = choice["message"]
    calls = [{"index": index, **call} for index, call in enumerate(message.get("tool_calls") or ())]
    delta = {"content": message["content"]} | ({"tool_calls": calls} if calls else {})
    pieces = [{"role": "assistant", "content": ""}, delta, {}]
    chunks = [head | {"choices": [{"index": 0, "delta": piece, "finish_reason": None}]} for piece in pieces]
    chunks[0] |= {"prompt_token_ids": whole["prompt_token_ids"]} if "prompt_token_ids" in whole else {}
    chunks[1]["choices"][0] |= {name: choice[name] for name in ("logprobs", "token_ids") if name in choice}
    chunks[2]["choices"][0]["finish_reason"] = choice["finish_reason"]
    if (body.get("stream_options") or {}).get("include_usage"):
        chunks.append(head | {"choices": [], "usage": whole["usage"]})
    return chunks


async def _unless_left(request: HttpRequest, generating: Coroutine[Any, Any, list[Generation]]) -> Any:
    """What is generated; None where the client leaves before."""
    several, leaving = asyncio.ensure_future(generating), asyncio.ensure_future(_left(request))
    await asyncio.wait({several, leaving}, return_when=asyncio.FIRST_COMPLETED)
    leaving.cancel()
    if several.done():
        return several.result()
    several.cancel()
    return None


async def _left(request: HttpRequest) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
