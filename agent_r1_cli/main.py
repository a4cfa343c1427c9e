"""The `agent-r1` command, with one entry per own subcommand; they import what they need when they run.

It ends after its answer, within a stated time, whatever plugins left running. Python waits at its end for threads that
are no daemons and for processes of `multiprocessing`, and a forked copy of this process keeps its standard output open
for its reader. Nothing in Python can stop another thread, so that after the time the process leaves at once: buffers
are flushed, but no exit handler runs.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from agent_r1_cli import (
    compare_command,
    eval_command,
    metrics_command,
    new_command,
    play_command,
    plugins_command,
    plugins_show,
    rollout_command,
    runs_command,
    train_command,
)
from agent_r1_cli.guard import INTERRUPTED, Debug, guarded, show_tracebacks
from agent_r1_cli.help_text import SETTINGS, Command
from agent_r1_cli.output import say, show_logged_warnings
from agent_r1_cli.plugin_commands import Commands
from agent_r1_core import __version__

LEAVE_SECONDS = 10.0
"""Time for what plugins left running, after the command has done its work."""
_POLL_SECONDS = 0.05
EPILOG = """\b
Where to begin:
  agent-r1 train                teach the bundled model to search, in minutes
  agent-r1 runs                 list what you have trained
  agent-r1 view                 see curves and episodes in a browser
  agent-r1 rollout              watch that model before training
  agent-r1 play                 take its place yourself
  agent-r1 train --dry-run      see every setting of the default recipe
  agent-r1 reproduce table3     repeat the paper's table in small
  agent-r1 plugins list         see tools, rewards, algorithms and more
  agent-r1 new tool word_count  write a tool of your own
Every command explains itself: agent-r1 train --help
"""


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"agent-r1 {__version__}")
        raise typer.Exit


def options(
    debug: Debug = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Train LLM agents with end-to-end reinforcement learning over multi-turn tool use."""
    show_tracebacks(debug)


def build_app() -> typer.Typer:
    app = _group(options.__doc__ or "", completion=True, cls=Commands)
    app.callback(epilog=EPILOG)(options)
    _add(app, "train", train_command.train)
    _add(app, "eval", eval_command.score)
    _add(app, "compare", compare_command.compare)
    _add(app, "rollout", rollout_command.rollout)
    _add(app, "play", play_command.play)
    _add(app, "runs", runs_command.runs)
    _add(app, "metrics", metrics_command.metrics)
    _add(app, "new", new_command.new)
    plugins = _group("List, show and check plugins and their components.")
    _add(plugins, "list", plugins_command.list_plugins)
    _add(plugins, "show", plugins_show.show)
    _add(plugins, "doctor", plugins_command.doctor)
    app.add_typer(plugins, name="plugins")
    return app


def _group(about: str, completion: bool = False, cls: type[TyperGroup] = TyperGroup) -> typer.Typer:
    return typer.Typer(
        cls=cls,
        help=about,
        no_args_is_help=True,
        add_completion=completion,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=SETTINGS,
    )


def _add(group: typer.Typer, name: str, command: Callable[..., Any]) -> None:
    group.command(name, cls=Command)(guarded(command))


def main() -> None:
    _open_closed_streams()
    show_logged_warnings()
    try:
        build_app()(prog_name="agent-r1")
    except SystemExit as end:
        if end.code == INTERRUPTED:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # another Ctrl-C would only garble the exit
        _leave_in_time(end.code if isinstance(end.code, int) else 0)
        raise
    finally:
        gc.freeze()  # otherwise the interpreter spends seconds collecting torch's objects before it exits


def _open_closed_streams() -> None:
    """Connect a standard stream that the caller has closed, in whose place Python has None, to nothing."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115
            os.set_inheritable(stream.fileno(), True)  # processes that are started need one, too
            setattr(sys, name, stream)


def _leave_in_time(code: int) -> None:
    """Let Python end by itself with this exit code; after `LEAVE_SECONDS`, leave at once."""
    deadline = time.monotonic() + LEAVE_SECONDS
    watch = threading.Timer(LEAVE_SECONDS, _leave, [code])
    watch.daemon = True
    watch.start()
    while _forked_copies() and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    if _forked_copies():
        _leave(code)


def _forked_copies() -> list[int]:
    """Ids of the children that are copies of this process: forked, without another program; needs /proc."""
    copies = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and (folder / "cmdline").read_bytes() == Path("/proc/self/cmdline").read_bytes():
                copies.append(int(folder.name))
    return copies


def _leave(code: int) -> None:
    """Say what still runs, end forked copies, and leave."""
    copies = _forked_copies()
    threads = [thread.name for thread in threading.enumerate() if not thread.daemon and thread.name != "MainThread"]
    running = [*(f"thread {name}" for name in threads), *(f"process {copy}" for copy in copies)]
    for copy in copies:
        with contextlib.suppress(ProcessLookupError):
            os.kill(copy, signal.SIGKILL)
    with contextlib.suppress(Exception):
        say(f"leaving now: a plugin left {', '.join(running) or 'something'} running, which does not end")
        sys.stdout.flush()
    os._exit(code)
