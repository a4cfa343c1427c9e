"""RolloutRequest, what a trainer, an evaluation or a command asks to play; and its episodes, an EpisodePlan each.

A plan is the same wherever and however often it is played. Branches repeat the first actions of another episode of
their group, and go on by themselves; they are played when those that they branch off from have ended (Tree-GRPO, arXiv
2509.21240, with one round).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from agent_r1_core.contracts.engine import Generation, context_digest
from agent_r1_core.seeds import derive_seed
from agent_r1_core.trajectory import EndStatus, Group, ObservationSource, Task, Trajectory, Turn

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


OnEpisode = Callable[[Trajectory], None]
"""Called with each episode as it ends, failed ones included."""
OnFinished = Callable[[EpisodePlan, Trajectory], None]
"""The same, with its plan."""


async def play_request(
    request: RolloutRequest,
    seed: int,
    play: Callable[[Sequence[EpisodePlan], OnFinished], Awaitable[None]],
    on_episode: OnEpisode | None = None,
) -> list[Trajectory]:
    """The episodes of a request in the order of its plans: `play` plays those that begin at the start, then those that
    branch off from them.

    Args:
        seed: of the run.
    """
    plans, finished = plan_episodes(request, seed), dict[int, Trajectory]()

    def keep(plan: EpisodePlan, trajectory: Trajectory) -> None:
        finished[plan.index] = trajectory
        if on_episode is not None:
            on_episode(trajectory)

    branches = [plan for plan in plans if request.trees and plan.sample >= request.trees and not plan.baseline]
    later = {plan.index for plan in branches}
    await play([plan for plan in plans if plan.index not in later], keep)
    if branches:
        stems = (finished[plan.index - plan.sample + plan.sample % request.trees] for plan in branches)
        await play([branched(plan, stem) for plan, stem in zip(branches, stems, strict=True)], keep)
    return [finished[plan.index] for plan in plans]


def branched(plan: EpisodePlan, stem: Trajectory) -> EpisodePlan:
    """The plan of an episode that repeats the first turns of `stem`, at least one and all but the last at most, as its
    seed says. Where there are none (`stem` failed, has a single turn, or several players) it stays as it is."""
    if stem.status is EndStatus.FAILED or stem.others or len(stem.turns) < 2:
        return plan
    turns = stem.turns[: 1 + derive_seed(plan.seed, "branch") % (len(stem.turns) - 1)]
    script = tuple(_generation(stem, turn) for turn in turns)
    return replace(plan, seed=stem.seed, branched_from=stem.sample, sampling_seed=plan.seed, script=script)


def _generation(stem: Trajectory, turn: Turn) -> Generation:
    """What an engine gave for a turn."""
    segment, span = stem.segments[turn.segment], slice(turn.start, turn.stop)
    return Generation(
        ids=tuple(segment.ids[span]),
        logprobs=tuple(segment.logprobs[span]),
        finish="length" if turn.finish == "length" else "stop",
        context=context_digest(segment.ids[: turn.start]),
        versions=turn.versions,
    )


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
