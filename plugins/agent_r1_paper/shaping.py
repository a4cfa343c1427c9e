"""Shaping: the table of RAGEN's second finding (arXiv 2504.20073), in small: how rollouts are shaped, in two worlds.

Its rows differ in one thing from the first row of their world: how many tasks share the episodes of a step, how many
actions a turn may have, or how many updates are made from the rollouts of one policy. A world of questions has no
several actions a turn. A policy is scored by the last evaluation of its training.
"""

from __future__ import annotations

from agent_r1_paper.tables import TABLES, Row, Table

_SOLVED = "held-out tasks"


def _shape(world: str, name: str, title: str, *overrides: str, paper: float | None = None) -> Row:
    """A shape of the rollouts of a world, with RAGEN's success on FrozenLake."""
    return Row(f"{world}-{name}", f"{world}, {title}", {} if paper is None else {_SOLVED: paper}, world, overrides)


def _shares(world: str, tasks: int, paper: float | None = None) -> Row:
    """The 64 episodes of a step on so many tasks."""
    samples = 64 // tasks
    overrides = (f"training.tasks_per_step={tasks}", f"training.samples_per_task={samples}")
    return _shape(world, f"{tasks}x{samples}", f"{tasks} tasks x {samples} samples", *overrides, paper=paper)


def _updates(world: str, count: int) -> tuple[Row, ...]:
    """So many updates from the rollouts of one policy; without `epochs` there are as many as elsewhere, in 2 steps."""
    again = f"training.epochs={count}"
    parts = (f"training.tasks_per_step={16 * count}", f"training.minibatches={count}")
    same = f"{count} updates from the same 64 episodes"
    return (
        _shape(world, "parts", f"{count} updates from {64 * count} episodes, 64 each", "training.steps=2", *parts),
        _shape(world, "reused", f"{same}, 1 / {count} of all episodes", "training.steps=2", again),
        _shape(world, "epochs", f"{same}, {count} times the updates", again),
    )


def _actions(actions: int, turns: int, paper: float | None = None) -> Row:
    """Turns of several moves. RAGEN allows five turns and ten moves, so that turns of one leave half of the moves."""
    name, moves = f"{turns}_turns_of_{actions}", actions * turns
    overrides = (f"env.actions_per_turn={actions}", f"env.max_turns={turns}")
    return _shape("lake", name, f"{turns} turns of up to {actions} actions, {moves} in all", *overrides, paper=paper)


_FIRST = "16x4"
_WORSE = ("32x2", "4x16", "parts", "reused", "epochs")
"""What RAGEN found worse than steps of several samples of many tasks, learnt from once."""
_BETTER = ("10_turns_of_2", "10_turns_of_3", "10_turns_of_6", "5_turns_of_2")
"""What it found better than turns of one action; the last one has no more moves than those."""

SHAPING = Table(
    "shaping",
    "Rollout shaping: solved tasks by how the episodes of a step are shared out, and how often each is learnt from",
    (
        _shares("lake", 16, 0.2148),
        _shares("lake", 32, 0.1250),
        _shares("lake", 4, 0.1953),
        *_updates("lake", 3),
        *(_actions(2, 10, 0.1836), _actions(3, 10, 0.2088), _actions(6, 10, 0.1836), _actions(2, 5)),
        *(_shares("search", tasks) for tasks in (16, 32, 4)),
        *_updates("search", 4),
    ),
    (
        *((f"{world}-{_FIRST}", f"{world}-{worse}") for world in ("lake", "search") for worse in _WORSE),
        *((f"lake-{better}", f"lake-{_FIRST}") for better in _BETTER),
    ),
    (_SOLVED,),
    "reward/mean",
    "paper/shaping-{method}",
    "RAGEN's numbers (arXiv 2504.20073, Tables 2 and 3) are those of Qwen2.5-0.5B-Instruct, trained on Sokoban and "
    "tested on FrozenLake; with one action a turn it has 0.1172.",
    trainings_score=True,
)

ALL_TABLES = {**TABLES, SHAPING.name: SHAPING}
"""What `agent-r1 reproduce` repeats, by name."""
