"""One episode of a run, for notebooks and terminals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from agent_r1_core.errors import RunError
from agent_r1_core.runs.evaluation_file import trajectory_files
from agent_r1_core.runs.reading.metrics_tail import ranges
from agent_r1_core.terminal import shown
from agent_r1_viewer.notebook.inline import Inline, ids_of
from agent_r1_viewer.reading.episode import read_episode
from agent_r1_viewer.reading.episode_rows import read_rows
from agent_r1_viewer.reading.group_rows import read_groups

if TYPE_CHECKING:
    from agent_r1_core.runs.run_reader import RunReader
    from agent_r1_core.trajectory import Message, Trajectory

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
    """What came of it, and the conversation; what the policy sampled stands in [[ ]]; `mean` is that of its group."""
    gold = f", of {' | '.join(_cut(str(one)) for one in episode.task.answers)}" if episode.task.answers else ""
    answer = "none" if episode.answer is None else episode.answer
    beside = "" if mean is None else f" (of the group: {mean:.3g})"
    yield f"return {episode.total_reward:.3g}{beside}, {episode.status}: {episode.reason}"
    yield f"answer: {answer}{gold}"
    if episode.examples:
        yield f"({episode.examples} examples before the task)"
    for turn in episode.turns:
        yield ""
        if turn.new_context:
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
