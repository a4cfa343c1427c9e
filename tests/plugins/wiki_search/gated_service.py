"""A service whose searcher waits for a line on stdin before it loads and before every call; prints its URL.

gated_service.py QUERIES_THAT_MAY_WAIT GRACE SECONDS_FOR_A_BODY [SECONDS_FOR_OTHERS]
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import Any

from agent_r1_wiki_search.searcher import Hit
from agent_r1_wiki_search.service import app
from agent_r1_wiki_search.service.batching import BatchLimits
from agent_r1_wiki_search.service.server import listen, run_service, url_of

from agent_r1_core import AgentR1Error, Passage

LONG = 20_000_000
"""Characters, more than sockets hold."""


class Gated:
    """Finds every query as a passage."""

    def __init__(self) -> None:
        sys.stdin.readline()

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        sys.stdin.readline()
        if "bad" in queries:
            raise ValueError("a bad query")
        return [
            [Hit(Passage(query, "." * (LONG // top_k if query == "long" else 1)), 1.0)] * top_k for query in queries
        ]

    def facts(self) -> dict[str, Any]:
        return {"backend": "gated"}

    def close(self) -> None:
        print("closed", flush=True)


if __name__ == "__main__":
    listening = listen("127.0.0.1", 0)
    print(url_of(listening), flush=True)
    limits = BatchLimits(size=4, wait=float((*sys.argv, 0)[4]), waiting=int(sys.argv[1]))
    grace, app.BODY_SECONDS = float(sys.argv[2]), float(sys.argv[3])
    try:
        ended_by = run_service(Gated, listening, limits, grace, lambda service: print("ready", flush=True))
    except AgentR1Error as error:
        sys.exit(str(error))
    sys.exit(ended_by != signal.SIGTERM)
