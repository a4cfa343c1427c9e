"""Line: between one episode's program, whose requests arrive at the server, and whoever answers them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from agent_r1_gateway.forward import Elsewhere
from agent_r1_gateway.wire import ChatRequest, Refused, Reply

_KEPT = 1000
"""Requests whose replies a retry can have, and others refer to."""


@dataclass
class Asked:
    """One request that waits for its reply."""

    request: ChatRequest
    api: str
    """Name of the dialect."""
    number: int
    """Counts the requests of the line, from 0; a retry is the same one."""
    digest: bytes
    """Of the body."""
    idempotency_key: str = ""
    reply: Future[Reply] = field(default_factory=Future)
    listeners: int = 1
    """Connections that wait for the reply; 0: every client has left."""
    retries: int = 0

    @property
    def given_up(self) -> bool:
        """Whether there will be no reply."""
        return self.reply.done() and self.reply.exception() is not None

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

    def give_up(self) -> None:
        """There will be no reply, since every client has left; a retry of the request is a new one."""
        self.refuse(Refused("the request was given up when its client left; send it again", 503, "api_error"))


class Line:
    """The requests of one program, in the order of their arrival; a retry joins the request that it repeats."""

    def __init__(
        self,
        answerer: Callable[[Asked], None],
        on_reward: Callable[[float], None] | None = None,
        on_left: Callable[[Asked], None] = lambda asked: None,
        elsewhere: Callable[[str], Elsewhere | None] = lambda model: None,
    ) -> None:
        """`answerer` gets each new request, `on_reward` each reward that the program reports, and `on_left` a request
        that nobody waits for any more, all in the server's thread; `elsewhere` says where a model is served that is not
        ours."""
        self.key = f"ar1-{secrets.token_hex(16)}"
        """The API key of the program."""
        self._answerer = answerer
        self._on_reward = on_reward
        self._on_left = on_left
        self.elsewhere = elsewhere
        self._numbers = count()
        self._asked: deque[Asked] = deque()
        self._by_digest: dict[bytes, list[Asked]] = {}
        self._by_key: dict[str, Asked] = {}
        self._ended: Callable[[], Refused] | None = None
        self.refused = ""
        """Why the last request was refused; empty where it was not."""
        self.unrewarded = ""
        """Why a reward that the program reported cannot count; empty where all do."""

    def ask(self, request: ChatRequest, api: str, headers: Mapping[str, str]) -> Asked:
        """Put a request through, or find the one that it repeats; whoever asks calls `leave` in the end.

        Raises:
            Refused: the line has been closed, or an idempotency key came with another body before.
        """
        if self._ended is not None:
            raise self._ended()
        self.refused = ""
        body = json.dumps(request.body, sort_keys=True, default=str).encode()
        digest = hashlib.blake2b(api.encode() + body, digest_size=16).digest()
        again = headers.get("x-stainless-retry-count", "0").strip() not in ("", "0")
        own = headers.get("idempotency-key", "")
        repeated = self._by_key.get(own) or (self._unheard(digest) if again else None)
        if repeated is not None and repeated.given_up:
            self._drop(repeated)
        elif repeated is not None:
            if repeated.digest != digest:
                raise Refused("this Idempotency-Key came with another body before; use a new one", 409)
            repeated.retries += 1
            repeated.listeners += 1
            return repeated
        asked = Asked(request, api, next(self._numbers), digest, own)
        self._by_digest.setdefault(digest, []).append(asked)
        if own:
            self._by_key[own] = asked
        self._asked.append(asked)
        while len(self._asked) > _KEPT and self._asked[0].reply.done():
            self._drop(self._asked.popleft())
        self._answerer(asked)
        return asked

    def _unheard(self, digest: bytes) -> Asked | None:
        """The request with this body that a retry repeats: the first whose client left before the reply, else the last
        that was answered, else the last."""
        several = self._by_digest.get(digest, [])
        gone = [one for one in several if not one.listeners]
        unheard = [one for one in gone if one.given_up or not one.reply.done()]
        return next(iter(unheard or gone[::-1] or several[::-1]), None)

    def answered(self, api: str) -> dict[str, tuple[ChatRequest, Reply]]:
        """The latest requests in this API that have a reply, and it, by its id."""
        done = (one for one in self._asked if one.api == api and one.reply.done() and not one.given_up)
        return {(reply := one.reply.result()).id: (one.request, reply) for one in done}

    def leave(self, asked: Asked) -> None:
        """One that asked waits no longer."""
        asked.listeners -= 1
        if not asked.listeners and not asked.reply.done():
            self._on_left(asked)

    def _drop(self, asked: Asked) -> None:
        """A retry no longer finds the request."""
        several = self._by_digest.get(asked.digest, [])
        if asked in several:
            several.remove(asked)
        if not several:
            self._by_digest.pop(asked.digest, None)
        if self._by_key.get(asked.idempotency_key) is asked:
            del self._by_key[asked.idempotency_key]

    def reward(self, value: Any, *others: str) -> None:
        """Report a reward for the last turn; `others` are names of what else was sent.

        Raises:
            Refused: it is no finite number, something comes with it, or nobody takes rewards here, or no longer.
        """
        if self._ended is not None:
            raise self._ended()
        if self._on_reward is None:
            raise Refused("nothing is trained here, so that rewards have no meaning", 403)
        wrong = "is no number between -1e18 and 1e18"
        if isinstance(value, int | float) and abs(value) < 1e18:
            wrong = f"comes with {others[0]!r:.80}, which has no meaning here" if others else ""
        if wrong:
            self.unrewarded = f'the reward {f"{value!r:.80}"} {wrong}; send {{"reward": number}}'
            raise Refused(self.unrewarded)
        self._on_reward(float(value))

    def close(self, sentence: str, status: int = 403, kind: str = "permission_error") -> None:
        """Refuse what waits, and whatever still comes, with this sentence."""
        self._ended = partial(Refused, sentence, status, kind)
        for asked in list(self._asked):
            asked.refuse(self._ended())
