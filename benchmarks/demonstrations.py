"""The conversations of gradients.py: written to a file, played by us as demonstrations, and held against TRL's tokens.

They call one tool, `multiply`, and mean nothing; what tools answered is read from the file.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_r1_core import Group, Trajectory
    from agent_r1_core.chat import ChatTokenizer

RECIPE = Path(__file__).resolve().parent / "multiply.yaml"
COUNT = 24
WORDS = ("so", "the product", "näher", "6 x 7", "first", "times", "then", "is", "<b>", "\n", "```", "…")


def write_conversations(file: Path, seed: int) -> None:
    """Conversations of one to four actions in the OpenAI chat format; a call stands alone, behind a text, or beside
    another call."""
    rng = random.Random(f"demonstrations/{seed}")
    lines = [json.dumps({"id": str(number), "messages": _conversation(rng, number % 4)}) for number in range(COUNT)]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _conversation(rng: random.Random, rounds: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Use tools."}]
    messages.append({"role": "user", "content": _text(rng, 6) + "?"})
    for _ in range(rounds):
        pairs = [(rng.randint(1, 99), rng.randint(-9, 9)) for _ in range(rng.choice((1, 1, 2)))]
        calls = [{"name": "multiply", "arguments": {"a": a, "b": b}} for a, b in pairs]
        said = _text(rng, 8) if rng.random() < 0.5 else ""
        asked = [{"type": "function", "function": call} for call in calls]
        messages.append({"role": "assistant", "content": said, "tool_calls": asked})
        messages += [{"role": "tool", "name": "multiply", "content": str(a * b)} for a, b in pairs]
    return [*messages, {"role": "assistant", "content": _text(rng, 12) + "."}]


def _text(rng: random.Random, most: int) -> str:
    """Words that neither begin nor end with white space, as a policy's turns do."""
    return "It " + " ".join(rng.choices(WORDS, k=rng.randint(1, most))) + " 1"


def played(file: Path, model: Path) -> tuple[list[Group], ChatTokenizer]:
    """The groups of one step of `algorithm: sft` on the file, and the tokenizer that wrote their ids."""
    from agent_r1_core.assembly.assembly import assemble
    from agent_r1_core.config import load_config
    from agent_r1_core.plugins.trust import Trust
    from agent_r1_core.rollout import RolloutRequest

    overrides = [
        f"model={{name: {model}, dtype: float32, device: cpu}}",
        f"tasks.train={{name: conversations, path: {file}}}",
        "algorithm={name: sft, observations: file}",
        "rewards=[]",
        "env.max_turns=8",
        "env.max_tokens=2048",
        "engine.max_new_tokens=512",
        "training.samples_per_task=1",
    ]
    resolved = load_config(RECIPE, overrides, trust=Trust(named=True))

    async def play() -> tuple[list[Group], ChatTokenizer]:
        assembly = assemble(resolved, learning=False, task_sets=("train",))
        try:
            await assembly.start()
            result = await assembly.rollouts.collect(RolloutRequest(assembly.train.tasks, demonstrations="file"))
        finally:
            await assembly.close()
        if result.dropped:
            raise SystemExit(f"a conversation could not be played: {result.dropped[0].reason}")
        return result.groups, assembly.tokenizer

    return asyncio.run(play())


def compare_tokens(
    groups: Sequence[Group], theirs: Sequence[Mapping[str, list[int]]], tokenizer: ChatTokenizer
) -> dict[str, Any]:
    """Ids and loss masks of both sides, id by id; `by us alone` and `by TRL alone` say which tokens are trained so.

    Args:
        theirs: `ids` and `mask` of every conversation, in the order of the groups.
    """
    row = Counter[str]()
    alone: dict[str, Counter[str]] = {"us": Counter(), "TRL": Counter()}
    for group, their in zip(groups, theirs, strict=True):
        (own,) = group.trajectories
        ids, mask = _tokens(own)
        row["ids"] += len(ids)
        row["other ids"] += sum(one != other for one, other in zip(ids, their["ids"], strict=False))
        row["ids missing"] += max(0, len(ids) - len(their["ids"]))
        row["ids behind the end"] += max(0, len(their["ids"]) - len(ids))
        mask += [0] * (len(their["ids"]) - len(ids))
        for place, (bit, other) in enumerate(zip(mask, their["mask"], strict=False)):
            row["trained by both"] += bit & other
            if bit != other:
                side = "of" if bit else "before" if mask[place + 1 : place + 2] == [1] else "after"
                where = f"{tokenizer.decode(their['ids'][place : place + 1])!r} {side} an action"
                alone["us" if bit else "TRL"][where] += 1
    names = ("ids", "other ids", "ids missing", "ids behind the end", "trained by both")
    said = {side: ", ".join(f"{n} x {where}" for where, n in found.items()) for side, found in alone.items()}
    return {name: row[name] for name in names} | {"by us alone": said["us"], "by TRL alone": said["TRL"]}


def _tokens(trajectory: Trajectory) -> tuple[list[int], list[int]]:
    """Ids and action mask of an episode, which has one segment."""
    (segment,) = trajectory.segments
    return list(segment.ids), [int(bit) for bit in segment.mask]
