"""OpenedRuns: the runs of a viewer, and the few things about each that are kept between two questions.

What is kept does not grow with the number of episodes: of every run what the list says, and what takes more room of
those that were asked about last.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from agent_r1_core.errors import RunError
from agent_r1_core.opening import DOCUMENT, open_to_read
from agent_r1_core.runs.reading.found_runs import FoundRuns
from agent_r1_core.runs.reading.metrics_tail import MetricsTail
from agent_r1_core.runs.reading.summary import SummaryReader
from agent_r1_core.runs.run_reader import RunReader
from agent_r1_viewer.reading.token_texts import TokenTexts

METRICS, TOKENIZERS = 16, 2
"""How many of each are kept."""
_Value = TypeVar("_Value")


class OpenedRun:
    """One run, read by one thread at a time where it is read on from where it was left."""

    def __init__(self, name: str, path: Path, found: FoundRuns) -> None:
        self.id = name
        self.reader = RunReader(path)
        self.summary = SummaryReader(self.reader, found.check_inside)
        self.lock = threading.Lock()
        self._found = found

    def file(self, *parts: str) -> Path:
        """A file of the run.

        Raises:
            RunError: it is a link out of the viewer's folders.
        """
        return self._found.check_inside(self.reader.path.joinpath(*parts))

    def step_file(self, step: int) -> Path:
        """The trajectories of a step.

        Raises:
            RunError: the same.
        """
        return self._found.check_inside(self.reader.trajectory_file(step))

    def evaluation_file(self, name: str, group: str) -> Path:
        """The episodes that an evaluation kept of a set.

        Raises:
            RunError: there is no such evaluation or set, it kept none, or the file is a link out of the folders.
        """
        with self.lock:
            evaluations, _ = self.summary.evaluations.all()
        found = next((one for one in evaluations if one.name == name), None)
        if found is None:
            known = ", ".join(one.name for one in evaluations) or "none"
            raise RunError(f"run {self.id} has no evaluation {name!r}; it has: {known}")
        if group not in found.trajectories:
            raise RunError(
                f"evaluation {name} kept no episodes of set {group!r}; recording.evaluation_episodes says how many"
            )
        return self.file("evaluations", found.trajectories[group])


class OpenedRuns:
    """The runs in the viewer's folders; used by several threads."""

    def __init__(self, found: FoundRuns) -> None:
        self.found = found
        self._runs: dict[Path, OpenedRun] = {}
        self._lock = threading.Lock()
        self._metrics: _Recent[Path, _Locked] = _Recent(METRICS)
        self._texts: _Recent[str, TokenTexts | RunError] = _Recent(TOKENIZERS)

    def all(self) -> list[OpenedRun]:
        """Those that are there now."""
        runs = {path: self._opened(name, path) for name, path in self.found.all().items()}
        with self._lock:
            self._runs = runs
        return list(runs.values())

    def run(self, name: str) -> OpenedRun:
        """One of them.

        Raises:
            RunError: there is none of this id.
        """
        return self._opened(name, self.found.path(name))

    def metrics(self, run: OpenedRun, after: int | None, edition: str | None) -> dict[str, Any]:
        """Steps, the values of every metric by step, and the edition that both are of.

        Args:
            after: the step after which they begin; None: they are all there.
            edition: the one that has the steps before; all steps come if it is not the file's any more.

        Raises:
            RunError: the file cannot be read.
        """
        path = run.file("metrics.jsonl")
        kept = self._metrics.get(path, lambda: _Locked(MetricsTail(path)))
        with kept.lock:
            kept.tail.update()
            after = after if edition in (None, kept.tail.edition) else None
            steps = [step for step in kept.tail.steps if after is None or step > after]
            return {"edition": kept.tail.edition, "steps": steps, "values": kept.tail.columns(after)}

    def texts(self, run: OpenedRun) -> TokenTexts | None:
        """The texts of its tokens; None: it has no tokenizer that can be read. Runs share those of one tokenizer."""
        try:
            with open_to_read(run.file("model_files", "tokenizer.json"), DOCUMENT) as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except (OSError, RunError):
            return None
        found = self._texts.get(digest, lambda: _texts(run.reader.model_files.folder))
        return None if isinstance(found, RunError) else found

    def _opened(self, name: str, path: Path) -> OpenedRun:
        with self._lock:
            if path not in self._runs:
                self._runs[path] = OpenedRun(name, path, self.found)
            run = self._runs[path]
        run.id = name  # another run of the same name may have come or gone
        return run


@dataclass
class _Locked:
    tail: MetricsTail
    lock: threading.Lock = field(default_factory=threading.Lock)


_Key = TypeVar("_Key")


class _Recent(Generic[_Key, _Value]):
    """The values that were asked for last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[_Key, _Value] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: _Key, make: Callable[[], _Value]) -> _Value:
        """The value of a key, made if it is not here."""
        with self._lock:
            if key not in self._values:
                self._values[key] = make()
            self._values.move_to_end(key)
            while len(self._values) > self._most:
                self._values.popitem(last=False)
            return self._values[key]


def _texts(folder: Path) -> TokenTexts | RunError:
    try:
        return TokenTexts.read(folder)
    except RunError as error:
        return error
