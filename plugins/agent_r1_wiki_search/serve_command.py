"""`serve`: an HTTP service that searches one corpus for many trainings."""

from __future__ import annotations

import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent_r1_core import ConfigError, TaskError, WorkDisplay, cache_dir
from agent_r1_wiki_search.commands import Device, Effort, How, Model

if TYPE_CHECKING:
    from agent_r1_wiki_search.searcher import Searcher
    from agent_r1_wiki_search.service.service import Service

_PACKAGES = ("fastapi", "uvicorn", "prometheus_client")


def serve(
    index: Annotated[
        Path,
        typer.Argument(
            metavar="INDEX", help="An index folder, or a file of passages to search in memory.", show_default=False
        ),
    ],
    backend: How = None,
    model: Model = None,
    device: Device = None,
    effort: Effort = None,
    host: Annotated[str, typer.Option(help="The address to listen on; nobody is asked for a password.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = 8765,
    batch_size: Annotated[int, typer.Option(min=1, help="Most queries that are searched together.")] = 64,
    batch_wait: Annotated[
        float, typer.Option(min=0, max=1, help="Seconds that a request waits for others while nothing is searched.")
    ] = 0.002,
    queue: Annotated[
        int, typer.Option(min=64, help="Queries that may wait; further requests are told to come back.")
    ] = 1024,
    name: Annotated[
        list[str] | None,
        typer.Option(
            help="A name by which clients ask, beside localhost, this machine's name and IP addresses; repeat it for "
            "several.",
            show_default=False,
        ),
    ] = None,
    grace: Annotated[
        float, typer.Option(min=1, help="Seconds to answer what was accepted, after SIGTERM or Ctrl-C.")
    ] = 30.0,
) -> None:
    """Search an index for others over HTTP, until SIGTERM or Ctrl-C. The URL is printed once searches are answered.
    A file is searched by BM25.

    POST /search takes {"queries": ["..."], "top_k": 3}; GET /health says what is searched; GET /metrics is for
    Prometheus. The tool {name: wiki_search, backend: remote, url: URL} asks it.
    """
    if missing := [name for name in _PACKAGES if find_spec(name) is None]:
        raise ConfigError(f"serve needs {' and '.join(missing)}; run `pip install 'agent-r1[serve]'`")
    from agent_r1_wiki_search.service.batching import BatchLimits
    from agent_r1_wiki_search.service.server import listen, run_service, url_of

    if not index.exists():
        raise TaskError(
            f"there is neither an index nor a corpus at {index}; give a folder that "
            "`agent-r1 wiki build` made, or a file of passages"
        )
    options = {"backend": backend, "model": model, "device": device, "effort": effort}
    idle = [f"--{name}" for name, value in options.items() if value is not None]
    if idle and not index.is_dir():
        raise ConfigError(f"{index} is no index folder, so {' and '.join(idle)} would have no effect; leave it out")
    listening = listen(host, port)
    url = url_of(listening)
    _say(f"loading {index}")

    def on_ready(service: Service) -> None:
        facts = ", ".join(f"{name} {value}" for name, value in service.facts.items())
        _say(f"ready: {facts}, index {service.index}")
        print(url, flush=True)

    def load() -> Searcher:
        with WorkDisplay():
            return _open(index, backend, model, device, effort)

    limits, names = BatchLimits(batch_size, batch_wait, queue), [host, *(name or ())]
    ended_by = run_service(load, listening, limits, grace, on_ready, names)
    if ended_by == signal.SIGINT:
        raise KeyboardInterrupt


def _open(index: Path, backend: str | None, model: str | None, device: str | None, effort: int | None) -> Searcher:
    if index.is_dir():
        from agent_r1_wiki_search.folder import SearchOptions, open_folder

        return open_folder(index, backend, SearchOptions(model, device, effort))
    from agent_r1_wiki_search.bm25 import Words, open_bm25
    from agent_r1_wiki_search.corpus import read_corpus

    return open_bm25(read_corpus(str(index)), Words(stemmer=False), str(cache_dir()), str(index))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
