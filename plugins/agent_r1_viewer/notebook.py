"""What a notebook shows of runs: in a terminal curves with numbers and an episode as text, else a page in a frame."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from agent_r1_core.errors import RunError
from agent_r1_core.metrics import declared as metric
from agent_r1_core.runs.evaluation_file import trajectory_files
from agent_r1_core.runs.reading.evaluation_scores import RecordedEvaluations
from agent_r1_core.runs.reading.found_runs import FoundRuns
from agent_r1_core.runs.reading.metrics_tail import ranges
from agent_r1_core.terminal import shown, span_text, sparkline
from agent_r1_viewer.reading.episode import read_episode
from agent_r1_viewer.reading.episode_rows import read_groups, read_rows

if TYPE_CHECKING:
    from agent_r1_core.runs.run_reader import RunReader
    from agent_r1_core.trajectory import Message, Trajectory


@dataclass(frozen=True, repr=False)
class Inline:
    """A page of the viewer about runs, and the same in a few lines of text.

    The page's frame may run its own scripts and nothing else: it reaches no network, no file and no other cell.
    """

    text: str
    runs: tuple[Path, ...]
    """The folders of the runs that the page needs."""
    address: str
    """Of the page, as `#/runs/first/steps/3`."""
    height: int
    """Of the frame, in pixels."""

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """The frame, as IPython asks for it.

        Raises:
            RunError: what it shows is gone by now.
        """
        from agent_r1_viewer.exported_page import page

        html = escape(page(self.runs, self.address))
        style = f"width: 100%; height: {self.height}px; border: 0"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{html}"></iframe>'


def ids_of(runs: tuple[Path, ...]) -> list[str]:
    """What the viewer calls these runs."""
    names = {path: name for name, path in FoundRuns(runs).all().items()}
    return [names[run.resolve()] for run in runs]


_CHART, _LEGEND, _AROUND = 250, 40, 90
"""Pixels of a row of charts, of the names of several runs, and of what is above and below."""
_PER_ROW = 2
_WIDTH = 40
"""Columns of a curve in text."""
_SIMILAR = 3


def curves(runs: Sequence[RunReader], names: Sequence[str]) -> Inline:
    """The curves of these metrics, or of the mean reward if none is named.

    Raises:
        RunError: no run has a metric of this name, or a file is damaged.
    """
    names = names or (metric.REWARD_MEAN,)
    recorded = [_recorded(run) for run in runs]
    known = sorted({name for one in recorded for name in one})
    for name in names:
        if name not in known:
            raise RunError(_unknown(name, known, runs))
    paths = tuple(run.path for run in runs)
    ids = ids_of(paths)
    asked = {"runs": ",".join(quote(one, safe="") for one in ids), "metrics": ",".join(names)}
    height = _AROUND + _CHART * math.ceil(len(names) / _PER_ROW) + _LEGEND * (len(runs) > 1)
    return Inline(_text(ids, recorded, names), paths, f"#/plot?{urlencode(asked)}", height)


def _recorded(run: RunReader) -> dict[str, dict[int, float]]:
    """By metric, the values by step; of evaluations also those before the first step."""
    found: dict[str, dict[int, float]] = {}
    evaluations, _ = RecordedEvaluations(run.path / "evaluations").all()
    for one in evaluations:
        for group, scores in one.sets.items() if one.step is not None else ():
            for score, estimate in scores.items():
                found.setdefault(metric.evaluated(score, group), {})[int(one.step or 0)] = estimate.mean
    for line in run.metrics():
        for name, value in line.items():
            if name != "step":
                found.setdefault(name, {})[line["step"]] = float(value)
    return found


def _unknown(name: str, known: Sequence[str], runs: Sequence[RunReader]) -> str:
    which = f"run {runs[0].name}" if len(runs) == 1 else f"none of the runs {', '.join(run.name for run in runs)}"
    if not known:
        trains = any(run.state().kind == "training" for run in runs)
        hope = "no step yet; plot it when it has" if trains else "no step; choose one that has some"
        return f"{which} has recorded {hope}"
    near = difflib.get_close_matches(name, known, n=_SIMILAR, cutoff=0.5) or [
        other for other in known if name.lower() in other.lower()
    ]
    hint = f"near it are {', '.join(near[:_SIMILAR])}" if near else "run.metrics()[-1] names all"
    return f"{which} has no metric {name!r}; {hint}" if len(runs) == 1 else f"{which} has a metric {name!r}; {hint}"


def _text(ids: Sequence[str], recorded: Sequence[dict[str, dict[int, float]]], names: Sequence[str]) -> str:
    """A line for each metric of each run: its curve, its range, and where it ended."""
    rows = []
    for name in names:
        for run, one in zip(ids, recorded, strict=True):
            points = sorted(one.get(name, {}).items())
            label = name if len(ids) == 1 else f"{name}  {run}"
            rows.append((label, _row(points)))
    width = max(len(label) for label, _ in rows)
    return "\n".join(f"{label.ljust(width)}  {row}" for label, row in rows)


def _row(points: Sequence[tuple[int, float]]) -> str:
    if not points:
        return "not recorded"
    values = [value for _, value in points]
    last, value = points[-1]
    span = span_text(values)
    ended = f"{value:.3g} in step {last}"
    return "  ".join(filter(None, (sparkline(values, _WIDTH), span and f"{span}, {ended}")))


_HEIGHT = 700
_LONGEST = 2000
"""Characters of a message in text."""


def show_episode(run: RunReader, step: int | None, group: int, sample: int) -> Inline:
    """The episode of a sample.

    Args:
        step: None: the newest one that has episodes.
        group: of the step, from 0.
        sample: of the group, from 0; a sample that was dropped leaves a gap.

    Raises:
        RunError: there is no such step, group or sample, or the file is damaged.
    """
    steps = run.trajectory_steps()
    if not steps:
        hope = " yet; they come with its first step" if run.state().kind == "training" else "; choose one that has some"
        raise RunError(f"run {run.name} has no episodes{hope}")
    step = steps[-1] if step is None else step
    if step not in steps:
        raise RunError(f"run {run.name} has no episodes of step {step}; it has those of {ranges(steps)}")
    path = run.trajectory_file(step)
    groups, _ = read_groups(path)
    if not 0 <= group < len(groups):
        raise RunError(f"step {step} of run {run.name} has no group {group}; it has 0 to {len(groups) - 1}")
    samples = list(groups[group].samples)
    if sample not in samples:
        raise RunError(f"group {group} of step {step} has no sample {sample}; it has {ranges(samples)}")
    row = groups[group].rows[samples.index(sample)]
    where = f"step {step}, group {group} (0 to {len(groups) - 1}), sample {sample} ({ranges(samples)})"
    return _inline(run, where, read_episode(path, row).trajectory, f"steps/{step}/episodes/{row}", groups[group].mean)


def show_evaluated(run: RunReader, evaluation: str, set_name: str | None, sample: int) -> Inline:
    """An episode of an evaluation.

    Args:
        evaluation: its name.
        set_name: None: the only set that keeps episodes.
        sample: of the set's episodes, from 0.

    Raises:
        RunError: there is no such evaluation, set or episode, or a file is damaged.
    """
    evaluations = run.evaluations()
    if evaluation not in evaluations:
        raise RunError(f"run {run.name} has no evaluation {evaluation!r}; it has {', '.join(evaluations) or 'none'}")
    folder = run.path / "evaluations"
    files = trajectory_files(folder / f"{evaluation}.json", evaluations[evaluation])
    chosen = next(iter(files)) if set_name is None and len(files) == 1 else set_name or ""
    if not files:
        raise RunError(
            f"evaluation {evaluation} keeps no episodes; evaluate with recording.evaluation_episodes above 0"
        )
    if chosen not in files:
        known = ", ".join(name or "the one without a name" for name in files)
        raise RunError(f"give one of the sets of which evaluation {evaluation} keeps episodes: {known}")
    path = folder / files[chosen]
    count = len(read_rows(path))
    of = f"evaluation {evaluation}{chosen and f', set {chosen}'}"
    if not 0 <= sample < count:
        raise RunError(f"{of} of run {run.name} has no sample {sample}; it has 0 to {count - 1}")
    asked = f"?{urlencode({'set': chosen})}" if chosen else ""
    place = f"evaluations/{quote(evaluation, safe='')}/episodes/{sample}{asked}"
    return _inline(run, f"{of}, sample {sample} (0 to {count - 1})", read_episode(path, sample).trajectory, place)


def _inline(run: RunReader, where: str, episode: Trajectory, place: str, mean: float | None = None) -> Inline:
    text = "\n".join([f"{run.name}, {where}", *_lines(episode, mean)])
    (name,) = ids_of((run.path,))
    return Inline(shown(text), (run.path,), f"#/runs/{quote(name, safe='')}/{place}", _HEIGHT)


def _lines(episode: Trajectory, mean: float | None) -> Iterator[str]:
    """What came of it, and the conversation; what the policy sampled is in [[ ]]; `mean` is that of its group."""
    gold = f", of {' | '.join(_cut(str(one)) for one in episode.task.answers)}" if episode.task.answers else ""
    answer = "none" if episode.answer is None else episode.answer
    beside = "" if mean is None else f" (of the group: {mean:.3g})"
    yield f"return {episode.total_reward:.3g}{beside}, {episode.status}: {episode.reason}"
    yield f"answer: {answer}{gold}"
    if episode.player:
        yield f"(player {episode.player})"
    if episode.examples:
        yield f"({episode.examples} examples before the task)"
    for turn in episode.turns:
        yield ""
        if turn.new_context and turn.index:
            yield "(the conversation begins anew)"
        yield from map(_message, turn.observation)
        reward = f"  (reward {turn.reward:.3g})" if turn.reward else ""
        yield f"[[{_cut(turn.text)}]]{reward}"
    yield from map(_message, episode.closing)


def _message(message: Message) -> str:
    return f"{message.get('role', '')}: {_cut(message['content'])}"


def _cut(text: str) -> str:
    more = len(text) - _LONGEST
    return text if more <= 0 else f"{text[:_LONGEST]} ... ({more:,} more characters)"
