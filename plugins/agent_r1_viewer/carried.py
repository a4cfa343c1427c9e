"""Carried: the answers that a page without a server takes with it, of some steps or as far as one address needs."""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote

from agent_r1_core.contracts.json_text import to_json
from agent_r1_core.errors import AgentR1Error, RunError
from agent_r1_viewer.addresses import found, parts_of
from agent_r1_viewer.answers import Answers

MOST = 250_000_000
"""Bytes of answers, before they are compressed."""
MOST_EVALUATED = 100
"""Episodes of the first evaluation, and of the last."""
_NO_QUERY: Mapping[str, str] = {}
_UNRESERVED = "-_.!~*'()"
"""What `encodeURIComponent` leaves as it is, beside letters and digits."""


class Carried:
    """Answers by address, compressed as they come."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._buffer = io.BytesIO()
        self._packed = gzip.GzipFile(fileobj=self._buffer, mode="wb", mtime=0)
        self._addresses: set[str] = set()
        self._bytes = 0
        self.episodes = 0
        """How many of training are carried."""
        self.evaluated = 0
        """How many of evaluations."""

    def run(self, name: str, steps: Sequence[int]) -> None:
        """A run with the groups and episodes of some of its steps.

        Raises:
            RunError: it is more than a page can hold, or the run is not there.
        """
        about = self._ask("run", run=name)
        kept = [step for step in steps if step in about["episode_steps"]]
        self._put("run", _without_places(about) | {"episode_steps": kept}, run=name)
        if not self._add_whole("metrics", run=name):  # the run's page names it among its problems
            self._put("metrics", {"steps": [], "values": {}}, run=name)
        self._evaluations(name)
        for place, step in enumerate(kept):
            beside = {"previous": kept[place - 1] if place else None, "next": next(iter(kept[place + 1 :]), None)}
            groups = self._whole("step", run=name, step=step)
            if groups is None:
                continue
            self._put("step", groups | beside, run=name, step=step)
            rows = [row["row"] for row in groups["dropped"]]
            for group in groups["groups"]:
                self._add_whole("group", run=name, step=step, group=group["group"])
                rows += [*group["rows"], *([] if group["baseline"] is None else [group["baseline"]])]
            self.episodes += sum(self._add_whole("episode", run=name, step=step, row=row) for row in rows)

    def runs(self, names: Sequence[str]) -> None:
        listed = self._ask("runs")
        kept = [{**run, "path": run["name"]} for run in listed["runs"] if run["id"] in names]
        self._put("runs", {**listed, "runs": kept, "folders": []})

    def needed(self, address: str) -> None:
        """What the page at an address shows that a notebook may have: of charts, or of an episode.

        Raises:
            RunError: there is nothing at this address.
        """
        path, _, search = address.removeprefix("#").strip("/").partition("?")
        query = dict(parse_qsl(search))
        shown, values = found([unquote(part) for part in path.split("/") if part]) or (None, {})
        if shown is None or not shown.carries:
            raise RunError(f"{address} is no page that can be carried; give one such as #/runs/NAME/steps/1/episodes/0")
        if shown.page == "plot":
            for name in query.get("runs", "").split(","):
                self._plot(unquote(name), query.get("metrics", "").split(","))
            return
        asked = {"set": query.get("set", "")} if "evaluation" in values else {}
        for answer in shown.carries:
            self._put(answer, self._ask(answer, asked, **values), asked, **values)

    def packed(self) -> bytes:
        """The answers as gzipped JSON, an object by address; nothing can be added afterwards."""
        self._packed.write(b"}" if self._addresses else b"{}")
        self._packed.close()
        return self._buffer.getvalue()

    def _plot(self, name: str, metrics: Sequence[str]) -> None:
        """A run with these metrics alone."""
        self._put("run", _without_places(self._ask("run", run=name)) | {"config": None, "sources": {}}, run=name)
        curves = self._ask("metrics", run=name)
        values = {metric: column for metric, column in curves["values"].items() if metric in metrics}
        self._put("metrics", curves | {"values": values}, run=name)

    def _evaluations(self, name: str) -> None:
        """The matrix by every score; its cells lead to the episodes of the first evaluation and of the last."""
        matrix = self._whole("evaluations", run=name)
        if matrix is None:
            return
        rows = [[None] * len(matrix["evaluations"]) for _ in matrix["questions"]]
        for place in sorted({0, len(matrix["evaluations"]) - 1} if matrix["evaluations"] else ()):
            evaluation = matrix["evaluations"][place]["name"]
            kept = [line for line, cells in enumerate(matrix["rows"]) if cells[place] is not None]
            for line in kept[:MOST_EVALUATED]:
                row, asked = matrix["rows"][line][place], {"set": matrix["questions"][line]["set"]}
                if self._add_whole("episode", asked, run=name, evaluation=evaluation, row=row):
                    rows[line][place] = row
                    self.evaluated += 1
        self._put("evaluations", matrix | {"rows": rows}, run=name)
        for score in matrix["scores"]:
            scored = self._whole("evaluations", {"score": score}, run=name)
            if scored is not None:
                self._put("evaluations", scored | {"rows": rows}, {"score": score}, run=name)

    def _add_whole(self, answer: str, query: Mapping[str, str] = _NO_QUERY, **values: object) -> bool:
        """Add an answer unless it is damaged, and return whether it was added."""
        whole = self._whole(answer, query, **values)
        if whole is not None:
            self._put(answer, whole, query, **values)
        return whole is not None

    def _whole(self, answer: str, query: Mapping[str, str] = _NO_QUERY, **values: object) -> dict[str, Any] | None:
        """An answer; None of what is damaged, whose page says that it is not carried."""
        try:
            return self._ask(answer, query, **values)
        except AgentR1Error:
            return None

    def _ask(self, answer: str, query: Mapping[str, str] = _NO_QUERY, **values: object) -> dict[str, Any]:
        told = self._answers.answer(parts_of(answer, values), query)
        assert isinstance(told, dict)
        return told

    def _put(
        self, answer: str, told: Mapping[str, Any], query: Mapping[str, str] = _NO_QUERY, **values: object
    ) -> None:
        place = address(parts_of(answer, values), query)
        if place in self._addresses:
            return
        text = f"{',' if self._addresses else '{'}{json.dumps(place)}:{to_json(told)}".encode()
        self._addresses.add(place)
        self._bytes += len(text)
        if self._bytes > MOST:
            raise RunError(
                f"the page would hold more than {MOST / 1e6:.0f} MB of episodes; choose fewer steps with --steps"
            )
        self._packed.write(text)


def address(parts: Sequence[object], query: Mapping[str, str]) -> str:
    """An answer's address as the page's own scripts write it."""
    path = "/".join(quote(str(part), safe=_UNRESERVED) for part in parts)
    asked = "&".join(f"{_form(name)}={_form(value)}" for name, value in query.items() if value != "")
    return f"{path}?{asked}" if asked else path


def _form(text: str) -> str:
    """As `URLSearchParams` writes it."""
    return quote_plus(text, safe="*").replace("~", "%7E")


def chosen_steps(wanted: str, known: Sequence[int]) -> list[int]:
    """Steps from a text such as `1,7-9,last`, in ascending order; those that a run does not have are left out.

    Raises:
        RunError: a part is neither a number nor a range of them nor `first` nor `last`.
    """
    chosen: set[int] = set()
    for part in wanted.split(","):
        name = part.strip()
        if name in ("first", "last"):
            chosen |= set(known[:1] if name == "first" else known[-1:])
        elif match := re.fullmatch(r"(\d+)(?:-(\d+))?", name):
            low, high = int(match[1]), int(match[2] or match[1])
            if low > high:
                raise RunError(f"--steps {wanted} has a range that ends before it begins; write {high}-{low}")
            chosen |= {step for step in known if low <= step <= high}
        else:
            raise RunError(f"--steps {wanted} names no steps; give numbers, ranges, first or last, such as 1,7-9,last")
    return sorted(chosen)


def _without_places(about: dict[str, Any]) -> dict[str, Any]:
    """A run without the folder that it is in: a page is shown to others."""
    return about | {"summary": {**about["summary"], "path": about["summary"]["name"]}}
