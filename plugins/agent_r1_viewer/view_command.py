"""`agent-r1 view`: shows runs in a browser."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated

import typer

from agent_r1_cli.completion import places as places_offered
from agent_r1_cli.output import check_target, say, show
from agent_r1_core.errors import ConfigError, RunError

Places = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RUN or FOLDER]...",
        help="Runs, or folders with runs (default: runs).",
        show_default=False,
        autocompletion=places_offered,
    ),
]


def view(
    places: Places = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=1, max=65535, help="The port (default: 8700, or the next free one).", show_default=False
        ),
    ] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Only print the address.")] = False,
    export: Annotated[
        Path | None,
        typer.Option("--export", metavar="FILE", help="Write one page that needs no server.", show_default=False),
    ] = None,
    steps: Annotated[
        str | None,
        typer.Option(
            "--steps",
            metavar="STEPS",
            help="Whose episodes the exported page holds (default: first,last).",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the exported page if it exists.")] = False,
) -> None:
    """Show runs in a browser: curves, groups, episodes token by token.

    \b
    agent-r1 view                       all runs in the folder runs
    agent-r1 view runs/default-1        one run
    agent-r1 view /data/runs --port 9000 --no-open
    agent-r1 view runs/default-1 --export page.html --steps 1,7-9,last

    Reads the runs as they are, also while they train, and writes nothing into them. The page is served on this machine
    alone, to whoever has the printed address; from another machine, open it through a tunnel to the same port:
    ssh -L 8700:localhost:8700 MACHINE.
    """
    if export is not None:
        _refuse(port is not None or no_open, "--port and --no-open belong to the server", "--export")
        return _export(places or ["runs"], export, steps, force)
    _refuse(steps is not None or force, "--steps and --force belong to an exported page", "a server")
    _serve(places, port, no_open)


def _serve(places: list[str] | None, port: int | None, no_open: bool) -> None:
    from agent_r1_core.runs.reading.found_runs import FoundRuns
    from agent_r1_viewer.serving import HOST, PORT, listen, serve

    if not places and not Path("runs").is_dir():
        raise RunError(
            "there is no folder runs here; `agent-r1 train` makes one, or name the folder that holds your runs"
        )
    found, opened = FoundRuns(places or ["runs"]), listen(port)
    taken = opened.getsockname()[1]
    token = secrets.token_urlsafe(24)
    address = f"http://{HOST}:{taken}/?token={token}"
    runs = list(found.all())
    if places and len(places) == len(runs) == 1:
        from urllib.parse import quote

        address += f"#/runs/{quote(runs[0], safe='')}"

    def ready() -> None:
        show(f"{len(runs)} run{'' if len(runs) == 1 else 's'} at {address}")
        if not runs:
            say("a run appears when its training starts; `agent-r1 train` makes one")
        if port is None and taken != PORT:
            say(f"port {PORT} is in use, so this viewer has port {taken}; --port chooses one")
        say("Ctrl-C ends it")
        sys.stdout.flush()
        if not no_open and _has_display():
            until_end.enter_context(_opened(address))

    with contextlib.ExitStack() as until_end:
        serve(found, opened, token, ready)


def _export(places: list[str], file: Path, steps: str | None, force: bool) -> None:
    from agent_r1_core.runs.files import write_text
    from agent_r1_core.runs.reading.metrics_tail import ranges
    from agent_r1_viewer.exported_page import STEPS, export

    check_target(file)
    if file.exists() and not force:
        raise RunError(f"{file} exists already; replace it with --force, or choose another name")
    page = export(places, steps or STEPS)
    write_text(file, page.html)
    runs = f"{len(page.runs)} runs" if len(page.runs) > 1 else f"run {page.runs[0]}"
    which = f"step{'s' if len(page.steps) > 1 else ''} {ranges(page.steps)}"
    shown = f"{page.episodes} episodes of {which}" if page.steps else "no episodes of steps"
    evaluated = f" and {page.evaluated} of the first and the last evaluation" if page.evaluated else ""
    show(f"{file}: {len(page.html) / 1e6:.1f} MB; {runs} with curves, configuration, evaluations, {shown}{evaluated}")
    if steps is None and page.steps:
        say("--steps chooses whose episodes it holds")


def _refuse(given: bool, what: str, beside: str) -> None:
    """Refuse options that would do nothing."""
    if given:
        raise ConfigError(f"{what}, and do nothing for {beside}; leave them out")


def _has_display() -> bool:
    """Whether a browser can appear here."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


@contextlib.contextmanager
def _opened(address: str) -> Iterator[None]:
    """An address in a browser, by a file that leads there: everybody on this machine sees command lines."""
    import html
    import webbrowser

    with _page() as page:
        page.write(f'<meta http-equiv="refresh" content="0; url={html.escape(address)}">')
        page.flush()
        with contextlib.suppress(webbrowser.Error):
            webbrowser.open(Path(page.name).absolute().as_uri())
        yield


def _page() -> IO[str]:
    """A file that only this user reads, while it is open.

    A browser in a snap or a flatpak has a /tmp of its own, and of the home it reads what is not hidden, or downloads.
    """
    home = os.path.expanduser("~")
    for folder in (os.path.join(home, "Downloads"), home):
        with contextlib.suppress(OSError):
            return _private_file(folder)
    return _private_file(None)


def _private_file(folder: str | None) -> IO[str]:
    return tempfile.NamedTemporaryFile("w", prefix="agent-r1-view-", suffix=".html", dir=folder, encoding="utf-8")
