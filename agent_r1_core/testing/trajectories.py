"""Makes trajectories, groups and tasks, given or random, for tests that need no model."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from agent_r1_core.trajectory import EndStatus, Group, Segment, Task, Trajectory, Turn


def make_task(
    task_id: str = "task", prompt: str = "What is 1+1?", answers: Sequence[str] = ("2",), **more: Any
) -> Task:
    """A task; `more` are further fields of `Task`."""
    return Task(id=task_id, prompt=prompt, answers=tuple(answers), **more)


def make_trajectory(
    turns: Sequence[tuple[Sequence[int], Sequence[int]]] = (((1, 2, 3), (4, 5)), ((6, 7), (8, 9))),
    *,
    task: Task | None = None,
    sample: int = 0,
    turn_rewards: Sequence[float] | None = None,
    reward: float = 0.0,
    rewards: Mapping[str, float] | None = None,
    logprobs: Sequence[Sequence[float]] | None = None,
    texts: Sequence[str] | None = None,
    closing: Sequence[int] = (),
    new_segment_at: Collection[int] = (),
    state_keys: Sequence[str | None] | None = None,
    status: EndStatus = EndStatus.TERMINATED,
    answer: str | None = None,
    bootstrap: bool = False,
    **more: Any,
) -> Trajectory:
    """A trajectory from ids.

    Args:
        turns: a pair (observation ids, action ids) per turn.
        task: None: `make_task()`.
        turn_rewards: each turn's process reward; None: zeros.
        reward: the outcome reward (weighted sum); `rewards` are its components.
        logprobs: of each turn's action ids, in nats; None: -1.0 for every id.
        texts: each action's text; None: its ids as text.
        closing: ids after the last action, with mask 0.
        new_segment_at: indices of turns that open a new segment (the first always does).
        state_keys: the name of the state before each turn; None: they have none.
        more: further fields of `Trajectory`.
    """
    segments: list[Segment] = []
    record: list[Turn] = []
    for index, (observation, action) in enumerate(turns):
        if not segments or index in new_segment_at:
            segments.append(Segment())
        segments[-1].append_context(observation)
        start, stop = segments[-1].append_action(action, logprobs[index] if logprobs else [-1.0] * len(action))
        record.append(
            Turn(
                index=index,
                observation=[{"role": "tool" if index else "user", "content": _words(observation)}],
                text=texts[index] if texts else _words(action),
                segment=len(segments) - 1,
                start=start,
                stop=stop,
                reward=turn_rewards[index] if turn_rewards else 0.0,
                state_key=state_keys[index] if state_keys else None,
            )
        )
    if closing:
        segments[-1].append_context(closing)
    trajectory = Trajectory(
        task=task or make_task(), sample=sample, segments=segments, turns=record, status=status, bootstrap=bootstrap
    )
    trajectory.answer, trajectory.reward, trajectory.rewards = answer, reward, dict(rewards or {})
    for name, value in more.items():
        if not hasattr(trajectory, name):
            raise TypeError(f"a Trajectory has no field {name!r}; the fields are in agent_r1_core/trajectory.py")
        setattr(trajectory, name, value)
    return trajectory


def random_trajectory(
    seed: int = 0, *, turns: int | None = None, vocabulary: int = 256, longest: int = 6, **more: Any
) -> Trajectory:
    """A trajectory with random ids below `vocabulary`, log-probs, rewards and states; the same seed gives the same one.

    Args:
        turns: number of turns; None: 1 to 4 at random.
        longest: most ids in one observation or action.
        more: arguments of `make_trajectory`, which override the random ones.
    """
    rng = random.Random(seed)
    count = rng.randint(1, 4) if turns is None else turns

    def some_ids() -> list[int]:
        return [rng.randrange(vocabulary) for _ in range(rng.randint(1, longest))]

    pairs = [(some_ids(), some_ids()) for _ in range(count)]
    drawn: dict[str, Any] = {
        "turn_rewards": [round(rng.uniform(-0.5, 0.5), 3) for _ in pairs],
        "reward": round(rng.uniform(0.0, 1.0), 3),
        "logprobs": [[-rng.expovariate(1.0) for _ in action] for _, action in pairs],
        "state_keys": ["start", *(rng.choice("ab") for _ in pairs[1:])],
    }
    return make_trajectory(pairs, **(drawn | more))


def random_group(seed: int = 0, size: int = 4, *, task: Task | None = None, **more: Any) -> Group:
    """A group of `size` random trajectories of one task, and a greedy baseline."""
    shared = task or make_task(f"task-{seed}")
    samples = [random_trajectory(seed * 1000 + index, task=shared, sample=index, **more) for index in range(size)]
    greedy = random_trajectory(seed * 1000 + 999, task=shared, sample=size, baseline=True, **more)
    return Group(task=shared, trajectories=samples, baseline=greedy)


def _words(ids: Sequence[int]) -> str:
    return " ".join(str(value) for value in ids)
