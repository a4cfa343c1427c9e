"""The task source `miniwiki`: questions from several worlds, and the union of their passages as a corpus."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Literal

from pydantic import Field

from agent_r1_core import ComponentConfig, Passage, Task, TaskSource
from agent_r1_core.errors import TaskError
from agent_r1_miniwiki.names import Split
from agent_r1_miniwiki.world import Kind, Question, World


class MiniWiki(TaskSource):
    """Multi-hop questions about invented worlds.

    The splits share no name and no fact, so nothing that training teaches can be memorised for evaluation. An answer
    is the name of a person, film, company, city or (1 and 3 hops) country, or (1 hop) a year. A comparison can be
    guessed from its question half of the time and is left out by default.
    """

    class Config(ComponentConfig):
        split: Split = "train"
        """Each split has worlds of its own."""
        hops: tuple[Literal[1, 2, 3], ...] = Field((2,), min_length=1)
        """Passages that must be read for an answer."""
        kinds: tuple[Kind, ...] = Field(("compositional", "bridge"), min_length=1)
        """A comparison needs two passages: with `comparison`, `hops` must name 2."""
        size: int = Field(1000, ge=1)
        """Number of questions, drawn evenly over hops and forms of question."""
        worlds: int = Field(8, ge=1)
        """Worlds that the questions are about."""
        world_size: int = Field(120, ge=12, le=5000)
        """Entities, and so passages, of each world."""
        seed: int = 0
        """Draws the worlds and the questions."""

    @classmethod
    def idle_options(cls, config: Config) -> dict[str, str]:
        """`kinds` with comparison does nothing where no question has two hops."""
        if "comparison" in config.kinds and 2 not in config.hops:
            return {"kinds": "a comparison reads two passages and hops leaves out 2"}
        return {}

    @cached_property
    def worlds(self) -> list[World]:
        """The worlds, without a common name."""
        config, taken = self.config, set[str]()
        first = config.seed * 10_000
        return [World(first + index, config.split, config.world_size, taken) for index in range(config.worlds)]

    def load(self) -> Sequence[Task]:
        """`size` tasks; metadata: hops, kind, path (titles to read), chain (relations to follow), world (its seed).

        Raises:
            TaskError: the worlds do not hold that many questions.
        """
        config = self.config
        rng = random.Random(f"miniwiki/tasks/{config.split}/{config.seed}")
        found = [
            (world, question)
            for world in self.worlds
            for hops in sorted(set(config.hops))
            for question in world.questions(hops, config.kinds)
        ]
        if len(found) < config.size:
            raise TaskError(
                f"miniwiki holds {len(found)} questions with hops={list(config.hops)}, kinds={list(config.kinds)} in "
                f"{config.worlds} worlds of {config.world_size} but size={config.size} was asked for; raise worlds or "
                f"world_size, or lower size"
            )
        rng.shuffle(found)
        return [self._task(world, question) for world, question in _evenly(found)[: config.size]]

    def corpus(self) -> Iterable[Passage]:
        """The passages of all worlds."""
        return [passage for world in self.worlds for passage in world.passages]

    def _task(self, world: World, question: Question) -> Task:
        return Task(
            id=f"{world.split}.w{world.seed}.{question.key}",
            prompt=question.text,
            answers=(question.answer,),
            metadata={
                "hops": question.hops,
                "kind": question.kind,
                "path": list(question.path),
                "chain": list(question.chain),
                "world": world.seed,
            },
        )


def _evenly(found: list[tuple[World, Question]]) -> list[tuple[World, Question]]:
    """Take turns between the forms of question, so that the first n hold about as many of each."""
    forms: dict[tuple[str, ...], list[tuple[World, Question]]] = {}
    for world, question in found:
        forms.setdefault((question.kind, *question.chain), []).append((world, question))
    rounds = itertools.zip_longest(*forms.values())
    return [pair for turn in rounds for pair in turn if pair is not None]
