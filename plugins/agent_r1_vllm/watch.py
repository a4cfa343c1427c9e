"""Notices when a process of vLLM dies: vLLM's synchronous client would wait forever for an answer."""

from __future__ import annotations

import threading
from multiprocessing import connection
from typing import TYPE_CHECKING, Any

from agent_r1_core.errors import EngineError

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess


def watch(client: Any) -> list[BaseProcess]:
    """Make all waits on vLLM's client fail as soon as one of its processes ends; returns the processes."""
    processes = list(client.resources.engine_manager.processes)
    sentinels = [process.sentinel for process in processes]

    def wait() -> None:
        connection.wait(sentinels)
        error = EngineError("a process of vLLM has ended; resume the run from its last checkpoint")
        client.resources.engine_dead = True
        for future in list(client.utility_results.values()):
            if not future.done():
                future.set_exception(error)
        client.outputs_queue.put(error)

    threading.Thread(target=wait, name="agent-r1-vllm-watch", daemon=True).start()
    return processes
