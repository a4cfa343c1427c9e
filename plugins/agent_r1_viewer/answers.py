"""Answers: the viewer's API as a function from an address to data, for the server and for pages without one."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agent_r1_core.contracts.json_text import to_json
from agent_r1_core.errors import AgentR1Error, RunError, describe_error
from agent_r1_core.runs.reading.found_runs import FoundRuns
from agent_r1_core.trajectory import Trajectory
from agent_r1_viewer.addresses import found
from agent_r1_viewer.episode_answer import (
    cut,
    episode_answer,
    messages,
    shortened,
    task_answer,
    text_part,
    tokens_answer,
)
from agent_r1_viewer.opened_runs import OpenedRun, OpenedRuns
from agent_r1_viewer.reading.episode import read_episode, read_trajectory_rows, with_replay
from agent_r1_viewer.reading.episode_rows import read_groups, read_places, read_rows
from agent_r1_viewer.reading.evaluation_matrix import read_matrix
from agent_r1_viewer.remarks import Remarks
from agent_r1_viewer.run_answer import run_answer, summary_answer
from agent_r1_viewer.search_answer import search_lines

Query = Mapping[str, str]
_PART = 2**16
"""Characters of lines from which on a part is handed over."""


class NotFound(RunError):
    """An address leads nowhere."""


@dataclass(frozen=True)
class Text:
    """An answer that is text."""

    text: str


@dataclass(frozen=True)
class Lines:
    """An answer that comes in parts of whole lines, each one JSON."""

    parts: Generator[str]


Answer = dict[str, Any] | Text | Lines


class Answers:
    """Answers about the runs in some folders; used by several threads."""

    def __init__(self, runs: FoundRuns, remarks: Remarks | None = None) -> None:
        """Answer about runs.

        Args:
            remarks: what the reader keeps beside them; None: nothing is known of it, nor kept.
        """
        self.runs = OpenedRuns(runs)
        self._remarks = remarks

    def answer(self, parts: Sequence[str], query: Query) -> Answer:
        """The answer at `/api/<parts>?<query>`.

        Raises:
            NotFound: there is nothing at this address.
            RunError: what is there cannot be read.
        """
        try:
            return self._answer(list(parts), query)
        except AgentR1Error:
            raise
        except Exception as error:  # rows that no agent-r1 wrote
            sentence = f"this part of the run cannot be shown ({describe_error(error)}); look at its files"
            raise RunError(sentence) from error

    def keep(self, parts: Sequence[str], body: bytes) -> Answer:
        """Replace what is kept beside a run, sent to `/api/runs/<id>/remark`.

        Raises:
            NotFound: there is no such run.
            RunError: the body is no remark, or it cannot be kept.
        """
        match parts:
            case ["runs", name, "remark"] if self._remarks:
                return self._remarks.keep(self._run(name).reader.path, body).to_json()
        raise NotFound("nothing is kept at this address")

    def _answer(self, parts: list[str], query: Query) -> Answer:
        address, values = found(parts) or (None, {})
        if address is None or address.answer is None:
            raise NotFound("there is no such answer; begin at api/runs")
        if "run" not in values:
            return self._list()
        run = self._run(values["run"])
        match address.answer:
            case "run":
                answer = run_answer(run)
                return answer | {"summary": self._remarked(run, answer["summary"])}
            case "metrics":
                return self.runs.metrics(run, _number(query, "after"), query.get("edition"))
            case "search":
                return Lines(_by_step(search_lines(run, query)))
            case "evaluations":
                return _matrix(run, query.get("score"))
            case "step":
                return _step(run, _step_of(run, values["step"]))
            case "group":
                return _group(run, _step_of(run, values["step"]), values["group"])
            case _:
                return self._episode(run, address.answer, values, query)

    def _list(self) -> Answer:
        runs = [self._remarked(run, summary_answer(run)) for run in self.runs.all()]
        return {"runs": runs, "folders": list(map(str, self.runs.found.folders))}

    def _remarked(self, run: OpenedRun, summary: dict[str, Any]) -> dict[str, Any]:
        return summary | {"remark": self._remarks and self._remarks.of(run.reader.path).to_json()}

    def _run(self, name: str) -> OpenedRun:
        try:
            return self.runs.run(name)
        except RunError as error:
            raise NotFound(str(error)) from error

    def _episode(self, run: OpenedRun, wanted: str, values: Mapping[str, str], query: Query) -> Answer:
        where: dict[str, Any]
        if "step" in values:
            where = {"step": _step_of(run, values["step"]), "set": ""}
            path = run.step_file(where["step"])
        else:
            where = {"evaluation": values["evaluation"], "set": query.get("set", ""), "group": None}
            path = run.evaluation_file(where["evaluation"], where["set"])
        row = _whole(values["row"])
        if row is None or row < 0:
            raise NotFound("an episode has a number; choose one from its step")
        episode = read_episode(path, row)
        if "step" in values:
            episode = with_replay(episode, run.file("replays", path.name))
        match wanted:
            case "tokens":
                start = _number(query, "from") or 0
                texts = self.runs.texts(run)
                return {"from": start, "tokens": tokens_answer(episode, _number(query, "segment") or 0, start, texts)}
            case "text":
                return Text(text_part(episode.trajectory, query.get("part", "")))
            case _:
                return {"run": run.id, **episode_answer(episode, self.runs.texts(run)), **where}


def _by_step(lines: Iterator[dict[str, Any]]) -> Generator[str]:
    """The lines up to every progress together, unless they are many: to hand each one over would take longer than to
    find it."""
    part = ""
    for line in lines:
        part += f"{to_json(line)}\n"
        if "hit" not in line or len(part) > _PART:
            yield part
            part = ""


def _step(run: OpenedRun, step: int) -> Answer:
    groups, dropped = read_groups(run.step_file(step))
    steps = run.reader.trajectory_steps()
    return {
        "step": step,
        "previous": max((other for other in steps if other < step), default=None),
        "next": min((other for other in steps if other > step), default=None),
        "groups": [group.to_json() for group in groups],
        "dropped": [row.to_json() for row in dropped],
    }


def _group(run: OpenedRun, step: int, place: str) -> Answer:
    path = run.step_file(step)
    groups, number = read_places(path), _whole(place)
    if number is None or not 0 <= number < len(groups):
        raise NotFound(f"step {step} has no group {place}: it has {len(groups)}, counted from 0; choose one of these")
    found = groups[number]
    rows = [*found.rows, *([] if found.baseline is None else [found.baseline])]
    episodes = list(zip(read_rows(path, rows), read_trajectory_rows(path, rows), strict=True))
    return {
        "step": step,
        "group": found.index,
        "groups": len(groups),
        "task": task_answer(episodes[0][1].task),
        "episodes": [row.to_json() | _conversation(one) for row, one in episodes],
    }


def _conversation(one: Trajectory) -> dict[str, Any]:
    turns = [
        {
            **cut("text", turn.text),
            "reward": turn.reward,
            "rewards": turn.rewards,
            "errors": shortened(turn.errors),
            "calls": [shortened(vars(call)) for call in turn.calls],
            "purpose": turn.purpose,
        }
        for turn in one.turns
    ]
    return {"turns": turns, "messages": messages(one.messages())}


def _matrix(run: OpenedRun, score: str | None) -> Answer:
    with run.lock:
        evaluations, damaged = run.summary.evaluations.all()
    found = read_matrix(run.file("evaluations"), evaluations, score, run.summary.check)
    failed = [f"{one.name}: {why.sentence()}" for one in evaluations for name, why in one.failures.items() if not name]
    return {
        "score": found.score,
        "scores": found.scores,
        "evaluations": [
            {"name": one.name, "step": one.step, "headline": one.headline, "n": one.n} for one in evaluations
        ],
        "chooser": _chooser(run),
        "questions": [asdict(question) for question in found.questions],
        "cells": found.cells,
        "rows": found.rows,
        "predictions": [[shortened(text) for text in texts] for texts in found.predictions],
        "problems": [*damaged, *found.problems, *failed],
    }


def _chooser(run: OpenedRun) -> str | None:
    """The evaluation set that chooses the best checkpoint, and is in no mean."""
    try:
        run.file("config.yaml")
        with run.lock:
            evaluation = run.summary.config().get("evaluation")
    except RunError:
        return None
    chooser = evaluation.get("choose_on") if isinstance(evaluation, dict) else None
    return chooser if isinstance(chooser, str) else None


def _step_of(run: OpenedRun, text: str) -> int:
    step = _whole(text)
    if step is None:
        raise NotFound(f"{text!r} is no step; choose one from the run's page")
    if not run.step_file(step).is_file():
        raise NotFound(f"run {run.id} keeps no episodes of step {step}; its page names those that have some")
    return step


def _number(query: Query, name: str) -> int | None:
    """A whole number of a query; None: it has none.

    Raises:
        NotFound: it has something else.
    """
    text = query.get(name, "")
    number = _whole(text)
    if text and number is None:
        raise NotFound(f"{name}={text} is no whole number; give one, such as {name}=0")
    return number


def _whole(text: str) -> int | None:
    """The whole number that a text is, unless it has more digits than any number of these files."""
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None
