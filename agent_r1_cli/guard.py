"""How commands fail: an expected failure is one sentence and its exit code, an unexpected one hints at `--debug`."""

from __future__ import annotations

import functools
import os
import traceback
from collections.abc import Callable
from typing import Any

import typer

from agent_r1_cli.output import say
from agent_r1_core.errors import AgentR1Error

DEBUG_VARIABLE = "AGENT_R1_DEBUG"
"""Set to 1: failures show their traceback."""
INTERRUPTED = 130
"""Exit code after Ctrl-C."""


def guarded(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with its failures told in the way of the house; Typer's own exceptions pass."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
            raise
        except KeyboardInterrupt as interruption:
            _show_traceback()
            say(str(interruption) or "interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            raise typer.Exit(tell(error)) from None

    return run


def tell(error: Exception) -> int:
    """Print a failure on stderr; returns the exit code."""
    _show_traceback()
    if isinstance(error, AgentR1Error):
        say("\n".join(f"error: {line}" for line in str(error).splitlines()))
        return error.exit_code
    hint = "" if debugging() else "; this is unexpected: run `agent-r1 --debug ...` again to see where"
    say(f"error: {type(error).__name__}: {error}{hint}")
    return 1


def debugging() -> bool:
    """Whether tracebacks are wanted."""
    return os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")


def _show_traceback() -> None:
    if debugging():
        traceback.print_exc()
