"""How commands fail: with one sentence and an exit code; an unexpected failure also suggests `--debug`."""

from __future__ import annotations

import errno
import functools
import inspect
import os
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_r1_cli.output import say
from agent_r1_core.errors import AgentR1Error, message_of

DEBUG_VARIABLE = "AGENT_R1_DEBUG"
"""Set it to 1 to see the traceback of a failure."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, SIGTERM or SIGHUP."""
_REFUSED = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""What a full or read-only disk answers, also outside a run: in the cache, the temporary folder, a plugin's files."""

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of a failure.")]


def guarded(command: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a command so that failures print one sentence, and give it the option `--debug`.

    Typer's own exceptions pass through.
    """

    @functools.wraps(command)
    def run(*args: Any, debug: bool, **kwargs: Any) -> Any:
        show_tracebacks(debug)
        try:
            return command(*args, **kwargs)
        except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
            raise
        except KeyboardInterrupt as interruption:
            _show_traceback()
            say(_said(interruption) or "interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            raise typer.Exit(tell(error)) from None

    signature = inspect.signature(command, eval_str=True)
    option = inspect.Parameter("debug", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Debug)
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), option])  # type: ignore[attr-defined]
    return run


def _said(interruption: BaseException | None) -> str:
    """What an interruption says, or one that it interrupted in turn: how to go on, for example."""
    while interruption is not None:
        if isinstance(interruption, KeyboardInterrupt) and str(interruption):
            return str(interruption)
        interruption = interruption.__context__
    return ""


def tell(error: Exception) -> int:
    """Print a failure on stderr; returns the exit code."""
    _show_traceback()
    if isinstance(error, AgentR1Error):
        say("\n".join(f"error: {line}" for line in str(error).splitlines()))
        return error.exit_code
    if isinstance(error, OSError) and error.errno in _REFUSED:
        where = error.filename or "a file"
        say(f"error: {where} could not be written ({error.strerror}); free space or allow writing there")
        return 1
    hint = "" if debugging() else "; this is unexpected: add --debug to the command to see where it happened"
    say(f"error: {type(error).__name__}: {message_of(error)}{_users_line(error)}{hint}")
    return 1


def show_tracebacks(wanted: bool) -> None:
    """From now on show the traceback of failures, also in processes that this one starts."""
    if wanted:
        os.environ[DEBUG_VARIABLE] = "1"


def debugging() -> bool:
    return os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")


def _show_traceback() -> None:
    if debugging():
        say(traceback.format_exc().rstrip())


def _users_line(error: Exception) -> str:
    """The innermost line of the user's own code, such as a local plugin, in an exception's traceback.

    `errors.raised_at` also names installed plugins; it knows that our code called the author's.
    """
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_users(Path(frame.filename))]
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""


def _is_users(file: Path) -> bool:
    """Whether a file belongs neither to this project nor to a library."""
    libraries = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    ours = any(part.startswith("agent_r1_") for part in file.parts)
    return file.is_file() and not ours and not any(file.is_relative_to(library) for library in libraries)
