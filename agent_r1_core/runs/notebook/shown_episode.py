"""One episode of a run, for notebooks and terminals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

from agent_r1_core.errors import RunError
from agent_r1_core.runs.notebook.inline import Inline, ids_of
from agent_r1_core.terminal import shown

if TYPE_CHECKING:
    from agent_r1_core.runs.reading.group_rows import GroupRow
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
        sample: of the group, from 0.

    Raises:
        RunError: there is no such step, group or sample, or the file is damaged.
    """
    from agent_r1_core.runs.reading.episode import read_episode
    from agent_r1_core.runs.reading.group_rows import read_groups

    steps = run.trajectory_steps()
    if not steps:
        raise RunError(f"run {run.name} has no episodes yet; they come with its first step")
    step = steps[-1] if step is None else step
    if step not in steps:
        raise RunError(f"run {run.name} has no episodes of step {step}; it has those of {_ranges(steps)}")
    path = run.trajectory_file(step)
    groups, _ = read_groups(path)
    if not 0 <= group < len(groups):
        raise RunError(f"step {step} of run {run.name} has no group {group}; it has 0 to {len(groups) - 1}")
    rows = groups[group].rows
    if not 0 <= sample < len(rows):
        raise RunError(f"group {group} of step {step} has no sample {sample}; it has 0 to {len(rows) - 1}")
    row = rows[sample]
    where = f"step {step}, group {group} (0 to {len(groups) - 1}), sample {sample} (0 to {len(rows) - 1})"
    text = "\n".join([f"{run.name}, {where}", *_lines(read_episode(path, row).trajectory, groups[group])])
    (name,) = ids_of((run.path,))
    address = f"#/runs/{quote(name, safe='')}/steps/{step}/episodes/{row}"
    return Inline(shown(text), (run.path,), address, _HEIGHT)


def _lines(episode: Trajectory, group: GroupRow) -> Iterator[str]:
    """What came of it, and the conversation; what the policy sampled stands in [[ ]]."""
    gold = f", of {' | '.join(group.answers)}" if group.answers else ""
    answer = "none" if episode.answer is None else episode.answer
    yield f"return {episode.total_reward:.3g} (of the group: {group.mean:.3g}), {episode.status}: {episode.reason}"
    yield f"answer: {answer}{gold}"
    for turn in episode.turns:
        yield ""
        if turn.new_context:
            yield "(the conversation begins anew)"
        yield from map(_message, turn.observation)
        reward = f"  (reward {turn.reward:.3g})" if turn.reward else ""
        yield f"[[{_cut(turn.text)}]]{reward}"
    yield from map(_message, episode.closing)


def _message(message: Message) -> str:
    content = message.get("content", "")
    return f"{message.get('role', '')}: {_cut(content if isinstance(content, str) else json.dumps(content))}"


def _cut(text: str) -> str:
    more = len(text) - _LONGEST
    return text if more <= 0 else f"{text[:_LONGEST]} ... ({more:,} more characters)"


def _ranges(steps: list[int]) -> str:
    """`1 to 8, 10`."""
    parts: list[list[int]] = []
    for step in steps:
        if parts and step == parts[-1][-1] + 1:
            parts[-1].append(step)
        else:
            parts.append([step])
    return ", ".join(f"{part[0]} to {part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)
