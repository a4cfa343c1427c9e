"""The `agent-r1` command: an entry per command; commands import what they need inside their bodies."""

from __future__ import annotations

import gc
import os
import signal
from typing import Annotated

import typer

from agent_r1_cli import (
    eval_command,
    metrics_command,
    new_command,
    play_command,
    plugins_command,
    plugins_show,
    rollout_command,
    train_command,
)
from agent_r1_cli.guard import DEBUG_VARIABLE, INTERRUPTED, guarded
from agent_r1_core import __version__

EPILOG = """\b
Where to begin:
  agent-r1 train --dry-run      see what the default recipe would do
  agent-r1 train                train the bundled model to search, in minutes on a CPU
  agent-r1 plugins list         see the tools, rewards, algorithms, ... to choose from
"""


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"agent-r1 {__version__}")
        raise typer.Exit


def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of a failure.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Train LLM agents with end-to-end reinforcement learning over multi-turn tool use."""
    if debug:
        os.environ[DEBUG_VARIABLE] = "1"


def build_app() -> typer.Typer:
    """The Typer app."""
    app = _group(options.__doc__ or "")
    app.callback(epilog=EPILOG)(options)
    app.command("train")(guarded(train_command.train))
    app.command("eval")(guarded(eval_command.evaluate))
    app.command("rollout")(guarded(rollout_command.rollout))
    app.command("play")(guarded(play_command.play))
    app.command("metrics")(guarded(metrics_command.metrics))
    app.command("new")(guarded(new_command.new))
    plugins = _group("List, show and check plugins and their components.")
    plugins.command("list")(guarded(plugins_command.list_plugins))
    plugins.command("show")(guarded(plugins_show.show))
    plugins.command("doctor")(guarded(plugins_command.doctor))
    app.add_typer(plugins, name="plugins")
    return app


def _group(about: str) -> typer.Typer:
    return typer.Typer(
        help=about,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def main() -> None:
    """Run the command line."""
    try:
        build_app()(prog_name="agent-r1")
    except SystemExit as end:
        if end.code == INTERRUPTED:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # another Ctrl-C would only garble the exit
        raise
    finally:
        gc.freeze()  # else the interpreter collects garbage among torch's objects before it exits, for seconds
