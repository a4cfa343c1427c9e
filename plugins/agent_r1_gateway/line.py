"""Line: between one episode's program, whose requests arrive at the server, and whoever answers them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from agent_r1_gateway.forward import Elsewhere
from agent_r1_gateway.wire import ChatRequest, Refused, Reply


@dataclass
class Asked:
    """One request that waits for its reply."""

    request: ChatRequest
    api: str
    """Name of the dialect."""
    number: int
    """Counts the requests of the line, from 0; a retry is the same one."""
    reply: Future[Reply] = field(default_factory=Future)
    listeners: int = 1
    """Connections that wait for the reply; 0: every client has left."""
    retries: int = 0

    async def wait(self) -> Reply:
        """The reply, however many wait for it.

        Raises:
            Refused: there is none.
        """
        reply = asyncio.wrap_future(self.reply)
        reply.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may be left to read it
        return await asyncio.shield(reply)

    def refuse(self, refused: Refused) -> None:
        if not self.reply.done():
            self.reply.set_exception(refused)


class Line:
    """The requests of one program, in the order of their arrival; a retry joins the request that it repeats."""

    def __init__(
        self,
        answerer: Callable[[Asked], None],
        on_reward: Callable[[float], None] | None = None,
        elsewhere: Callable[[str], Elsewhere | None] = lambda model: None,
    ) -> None:
        """`answerer` gets each new request, and `on_reward` each reward that the program reports, both in the server's
        thread; `elsewhere` says where a model is served that is not ours."""
        self.key = f"ar1-{secrets.token_hex(16)}"
        """The API key of the program."""
        self._answerer = answerer
        self._on_reward = on_reward
        self.elsewhere = elsewhere
        self._asked: list[Asked] = []
        self._by_digest: dict[bytes, Asked] = {}
        self._by_key: dict[str, bytes] = {}
        self._ended: str | None = None

    def ask(self, request: ChatRequest, api: str, headers: Mapping[str, str]) -> Asked:
        """Put a request through, or find the one that it repeats; whoever asks leaves `listeners` again.

        Raises:
            Refused: the line has been closed, or an idempotency key came with another body before.
        """
        if self._ended is not None:
            raise Refused(self._ended, 403, "permission_error")
        body = json.dumps(request.body, sort_keys=True, default=str).encode()
        digest = hashlib.blake2b(api.encode() + body, digest_size=16).digest()
        again = headers.get("x-stainless-retry-count", "0").strip() not in ("", "0")
        own = headers.get("idempotency-key")
        if own is not None:
            known = self._by_key.setdefault(own, digest)
            again = again or known in self._by_digest
            if known != digest:
                raise Refused("this Idempotency-Key came with another body before; use a new one", 409)
        if again and digest in self._by_digest:
            asked = self._by_digest[digest]
            asked.retries += 1
            asked.listeners += 1
            return asked
        asked = Asked(request, api, len(self._asked))
        self._asked.append(asked)
        self._by_digest[digest] = asked
        self._answerer(asked)
        return asked

    def forget(self, asked: Asked) -> None:
        """There will be no reply, since every client has left; a retry of the request is a new one."""
        asked.refuse(Refused("the request was given up when its client left; send it again", 503, "api_error"))
        self._by_digest = {digest: one for digest, one in self._by_digest.items() if one is not asked}

    def reward(self, value: Any) -> None:
        """Report a reward for the last turn.

        Raises:
            Refused: it is no finite number, or nobody takes rewards here.
        """
        if self._on_reward is None or self._ended is not None:
            raise Refused(self._ended or "nothing is trained here, so that rewards have no meaning", 403)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e18:
            raise Refused('send {"reward": number}, a number between -1e18 and 1e18', field="reward")
        self._on_reward(float(value))

    def close(self, sentence: str) -> None:
        """Refuse what waits, and whatever still comes, with this sentence."""
        self._ended = sentence
        for asked in list(self._asked):
            asked.refuse(Refused(sentence, 403, "permission_error"))
