"""Owner: an event loop in a thread of its own, where sessions live whatever loop their callers have."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any


class Owner:
    """Runs coroutines for other threads and loops."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """The coroutine's result, for a thread without an event loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def awaited(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        """The coroutine's result, for another event loop; cancelling it cancels the coroutine."""
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._loop))

    def close(self) -> None:
        """End the thread; nothing may run any more."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
