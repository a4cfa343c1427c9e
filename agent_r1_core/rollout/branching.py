"""Branches: episodes that repeat the first actions of another one of their group, and go on by themselves.

They are played when those that they branch off from have ended (Tree-GRPO, arXiv 2509.21240, with one round).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from agent_r1_core.contracts.engine import Generation, context_digest
from agent_r1_core.rollout.plan import EpisodePlan, RolloutRequest
from agent_r1_core.seeds import derive_seed
from agent_r1_core.trajectory import EndStatus, Trajectory, Turn


async def play_in_waves(
    request: RolloutRequest,
    plans: Sequence[EpisodePlan],
    finished: Mapping[int, Trajectory],
    play: Callable[[Sequence[EpisodePlan]], Awaitable[None]],
) -> None:
    """Play what begins at the start, then what branches off from it.

    Args:
        finished: by index, what `play` has played.
    """
    branches = [plan for plan in plans if request.trees and plan.sample >= request.trees and not plan.baseline]
    later = {plan.index for plan in branches}
    await play([plan for plan in plans if plan.index not in later])
    if branches:
        stems = (finished[plan.index - plan.sample + plan.sample % request.trees] for plan in branches)
        await play([branched(plan, stem) for plan, stem in zip(branches, stems, strict=True)])


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
