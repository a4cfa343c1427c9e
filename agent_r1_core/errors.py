"""The expected failures of agent-r1, in one tree; everything else that is raised is a bug.

AgentR1Error                 exit code 1: the work failed
├── ConfigError              2: a key, value or combination in a recipe or override is wrong
├── PluginError              3
│   ├── UnknownComponent     3: no plugin offers that name
│   ├── AmbiguousComponent   3: several plugins offer that name
│   ├── ComponentLoadError   3: the component's target cannot be imported or is not what its spec says
│   └── UntrustedPlugin      3: a recipe or a run names a plugin file or program that the user has not allowed
├── RunError                 1: a run directory or checkpoint is missing, taken, broken or of another run
│   └── NotOpened            1: what lies there is a pipe, a device, too long or a link; also an OSError, in all rooms
├── TaskError                1: a data set is missing, empty or malformed
├── ModelError               1: a model folder, tokenizer or chat template cannot be used
│   └── DriftError           1: what would be trained is not what was sampled (LAW 1)
├── AlgorithmError           1: an algorithm raised, or returned what its contract does not allow
├── EngineError              1: the engine cannot serve a request
├── LearnerLost              1: a process of the learner is lost (the run goes on from its newest checkpoint)
├── EpisodeError             1: infrastructure broke inside an episode (the episode becomes `failed`, LAW 5)
└── ToolError                1: a tool declines; its sentence becomes the observation that the model reads
"""

from __future__ import annotations

import os
import threading
import traceback
from contextlib import suppress
from pathlib import Path

__all__ = [
    "AgentR1Error",
    "AlgorithmError",
    "AmbiguousComponent",
    "ComponentLoadError",
    "ConfigError",
    "DriftError",
    "EngineError",
    "EpisodeError",
    "LearnerLost",
    "ModelError",
    "NotOpened",
    "PluginError",
    "RunError",
    "TaskError",
    "ToolError",
    "UnknownComponent",
    "UntrustedPlugin",
    "describe_error",
    "first_line",
    "message_of",
    "plain_error",
    "raised_at",
]

_OWN_FOLDERS = (Path(__file__).parent, Path(__file__).parents[1] / "agent_r1_cli")
_BUNDLED = Path(__file__).parents[1] / "plugins"
_STDLIB = Path(os.__file__).parent
_TEXT_SECONDS = 1.0
"""How long the main thread waits for the text of an author's exception."""
_PLAIN = (str, int, float, bool, type(None))
_PLAIN_TEXTS = (BaseException.__str__, KeyError.__str__, OSError.__str__)


class AgentR1Error(Exception):
    """Base of every expected failure; its text is one sentence: what happened, where, what to do next."""

    exit_code = 1


class ConfigError(AgentR1Error):
    """A recipe or an override is wrong."""

    exit_code = 2


class PluginError(AgentR1Error):
    """A plugin or component cannot be used."""

    exit_code = 3


class UnknownComponent(PluginError):
    """No loaded plugin offers a component of this kind and name."""


class AmbiguousComponent(PluginError):
    """Several plugins offer a component of this kind and name."""


class ComponentLoadError(PluginError):
    """A component was found, but its target cannot be imported or does not keep the contract of its kind."""


class UntrustedPlugin(PluginError):
    """A recipe or a run names a plugin file or a program that did not run here before, and nobody has allowed it."""


class RunError(AgentR1Error):
    """A run directory or a checkpoint cannot be used."""


class NotOpened(RunError, OSError):
    """What lies there is not opened: no regular file, more than is read, or, to write, a link (LAW 13).

    Raised for runs, models, indexes and data alike. It is an OSError, too, so that a room which says what an unreadable
    file means to it says so of these.
    """

    def __str__(self) -> str:
        return super().__str__() if self.filename is None else f"{self.filename} is not opened: {self.strerror}"


class TaskError(AgentR1Error):
    """A data set is missing, empty or malformed."""


class ModelError(AgentR1Error):
    """A model folder, a tokenizer or a chat template cannot be used."""


class DriftError(ModelError):
    """A trajectory holds other ids than the engine saw and sampled: training on it would be wrong (LAW 1)."""


class AlgorithmError(AgentR1Error):
    """An algorithm raised, or returned something that its contract does not allow; no retry mends it."""


class EngineError(AgentR1Error):
    """The engine cannot serve a request."""


class LearnerLost(AgentR1Error):
    """A process of the learner died, hangs or is out of reach; its weights are lost with it."""


class EpisodeError(AgentR1Error):
    """Infrastructure broke inside an episode: the episode is `failed`, retried within a bound, and never trained on."""


class ToolError(AgentR1Error):
    """Raised by a tool to tell the model, in one sentence, why it got no result."""


class _Stranger(Exception):
    """Stands for an exception of a class that an author wrote; its text is made."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def describe_error(error: BaseException) -> str:
    """For the person who wrote the code: `ValueError: no such page (my_tool.py, line 12)`."""
    message = message_of(error)
    kind = error.kind if isinstance(error, _Stranger) else type(error).__name__
    return f"{kind}{': ' + message if message else ''}{raised_at(error)}"


def message_of(error: BaseException) -> str:
    """The exception's message as an exact `str`; empty if it cannot be printed, whatever its text raises.

    It takes as long as that text does. In the main thread, where an interruption by the user looks like one that the
    text raises, another thread makes the text, and is given up after a second.
    """
    if _is_plain(error) or threading.current_thread() is not threading.main_thread():
        return _text(error)
    made: list[str] = []
    thread = threading.Thread(target=lambda: made.append(_text(error)), name="agent-r1-text", daemon=True)
    with suppress(RuntimeError):  # no thread can be started
        thread.start()
        thread.join(_TEXT_SECONDS)
    return "".join(made)


def first_line(error: BaseException) -> str:
    """The first line of the exception's message, for a sentence to quote; the name of its class if there is none."""
    lines = message_of(error).strip().splitlines()
    return lines[0].rstrip(".:") if lines else type(error).__name__


def plain_error(error: Exception) -> Exception:
    """The exception, or one in its place that prints as it does without running an author's code.

    Runs that code now. What is an AgentR1Error stays one, of a class of this module.
    """
    if _is_plain(error):
        return error
    known = (cls for cls in type(error).__mro__ if cls.__module__ == __name__)
    own, message = next(known, None), message_of(error)
    plain = _Stranger(type(error).__name__, message) if own is None else own(message)
    return plain.with_traceback(error.__traceback__)


def raised_at(error: BaseException) -> str:
    """` (file.py, line N)`: where an author's code raised, to append to what the exception says.

    The file is the first in the traceback that belongs to neither agent-r1 nor Python, one of an installed or bundled
    package only if there is no other; the line is the innermost in that file. Empty where there is none, and for an
    AgentR1Error, whose sentence is complete.
    """
    if isinstance(error, AgentR1Error):
        return ""
    authors = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_authors(frame.filename)]
    authors = [frame for frame in authors if not _is_installed(frame.filename)] or authors
    lines = [frame.lineno for frame in authors if frame.filename == authors[0].filename]
    return f" ({Path(authors[0].filename).name}, line {lines[-1]})" if lines else ""


def _is_authors(file: str) -> bool:
    path = Path(file)
    standard = path.is_relative_to(_STDLIB) and "site-packages" not in path.parts
    own = any(path.is_relative_to(folder) for folder in _OWN_FOLDERS)
    return not (file.startswith("<") or standard or own)


def _is_installed(file: str) -> bool:
    return "site-packages" in Path(file).parts or Path(file).is_relative_to(_BUNDLED)


def _is_plain(error: BaseException) -> bool:
    """Whether printing it runs no author's code."""
    kind = type(error)
    ours = kind.__module__.partition(".")[0] in ("builtins", __package__)
    if not ours or kind.__str__ not in (*_PLAIN_TEXTS, NotOpened.__str__):
        return False
    values = [error.errno, error.strerror, error.filename, error.filename2] if isinstance(error, OSError) else []
    return all(type(value) in _PLAIN for value in (*error.args, *values))


def _text(error: BaseException) -> str:
    try:
        return str.__str__(str(error))
    except BaseException:
        return ""
