"""RolloutRequest, what a trainer, an evaluation or a command asks to play; and its episodes, an EpisodePlan each.

A plan is the same wherever and however often it is played.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from agent_r1_core.contracts.engine import Generation
from agent_r1_core.seeds import derive_seed
from agent_r1_core.trajectory import EndStatus, Group, ObservationSource, Task, Trajectory

_NAMED = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class RolloutRequest:
    """Play tasks, each several times."""

    tasks: Sequence[Task]
    """Each becomes one group."""
    samples: int = 1
    """Episodes of each task."""
    round: int | str = 0
    """Part of every seed: the training step, or the name of an evaluation (LAW 11)."""
    greedy: bool = False
    """Take the likeliest token; else sample as the run says."""
    split: str = "train"
    """Which tools and corpus the episodes use."""
    version: int | None = None
    """Version of the weights that must sample the episodes; None: the version being served."""
    greedy_baseline: bool = False
    """Play each task once more, greedily, as the baseline of its group."""
    demonstrations: ObservationSource | None = None
    """Play the tasks' demonstrations, and where their observations come from; None: the policy plays."""
    trees: int = 0
    """How many samples of each task begin at its start; the others branch off from these. 0: all begin there."""
    hint: str | None = None
    """What a teacher will read beside each task, as in `Algorithm.hint`."""


@dataclass(frozen=True)
class EpisodePlan:
    """One episode to be played."""

    index: int
    """Its place in the request."""
    task: Task
    sample: int
    seed: int
    key: str
    """Names the episode within its run."""
    baseline: bool = False
    """Whether it is the greedy baseline of its group."""
    demonstrated: ObservationSource | None = None
    """As in `Trajectory`."""
    branched_from: int | None = None
    """As in `Trajectory`; its world is then made by the seed of that sample."""
    sampling_seed: int | None = None
    """What its own actions are sampled by; None: `seed`."""
    script: tuple[Generation, ...] = ()
    """The actions that it repeats."""
    hint: str | None = None
    """What a teacher knows beside the task."""


def plan_episodes(request: RolloutRequest, seed: int) -> list[EpisodePlan]:
    """The episodes of a request in order, task by task, under the seed of the run; a task that is listed twice gets
    other seeds the second time."""
    plans: list[EpisodePlan] = []
    seen: Counter[str] = Counter()
    for task in request.tasks:
        hint = None if request.hint is None else _hint(request.hint, task)
        for sample in range(request.samples):
            number = seen[task.id] * request.samples + sample
            sample_seed = derive_seed(seed, request.round, task.id, number)
            key = f"{request.round}/{task.id}/{number}"
            shown = request.demonstrations
            plans.append(EpisodePlan(len(plans), task, sample, sample_seed, key, demonstrated=shown, hint=hint))
        if request.greedy_baseline:
            name = f"greedy-{seen[task.id]}"
            own_seed = derive_seed(seed, request.round, task.id, name)
            key = f"{request.round}/{task.id}/{name}"
            plans.append(EpisodePlan(len(plans), task, request.samples, own_seed, key, baseline=True))
        seen[task.id] += 1
    return plans


def _hint(hint: str, task: Task) -> str | None:
    """The hint of a task; None where the task lacks what it names."""
    lists = {name: ", ".join(map(str, value)) for name, value in task.metadata.items() if isinstance(value, list)}
    told = {**task.metadata, **lists, "answers": " or ".join(task.answers)}
    known = {name: str(value) for name, value in told.items() if value not in (None, "")}
    named = _NAMED.findall(hint)
    return _NAMED.sub(lambda found: known[found[1]], hint) if all(name in known for name in named) else None


def group_episodes(request: RolloutRequest, episodes: Sequence[Trajectory]) -> list[Group]:
    """The episodes that did not fail, grouped by task and player: those of player 0 come first. A task without any
    sample has no group. They come in the order of the request's plans."""
    groups, size = [], request.samples + request.greedy_baseline
    for index, task in enumerate(request.tasks):
        of_task = episodes[index * size : (index + 1) * size]
        players: dict[int, list[Trajectory]] = {}
        for episode in of_task:
            if episode.status is not EndStatus.FAILED:
                for part in (episode, *episode.others):
                    players.setdefault(part.player, []).append(part)
        for player, own in sorted(players.items()):
            samples = [part for part in own if not part.baseline]
            baseline = next((part for part in own if part.baseline), None)
            if samples:
                groups.append(Group(task, samples, baseline, player))
    return groups
