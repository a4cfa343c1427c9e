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
from agent_r1_miniwiki.grammar import Type
from agent_r1_miniwiki.world import Kind, Question, Split, World


class MiniWiki(TaskSource):
    """Multi-hop questions about invented worlds.

    The splits share no name and no fact, so a model cannot answer evaluation questions from memory. An answer is the
    name of a person, film, company, city or (1 and 3 hops) country, or (1 hop) a year. Comparisons are excluded by
    default, since a guess from the question is right half of the time.
    """

    class Config(ComponentConfig):
        split: Split = "train"
        """Each split has worlds of its own."""
        hops: tuple[Literal[1, 2, 3], ...] = Field((2,), min_length=1)
        """Passages that must be read for an answer."""
        kinds: tuple[Kind, ...] = Field(("compositional", "bridge"), min_length=1)
        """A comparison needs two passages: with `comparison`, `hops` must name 2."""
        about: tuple[Type, ...] = Field(("film", "person", "company", "city"), min_length=1)
        """Types of entity that a question begins with: families of questions, to train on some and test on others."""
        size: int = Field(1000, ge=1)
        """Number of questions, drawn evenly over hops and forms of question."""
        worlds: int = Field(8, ge=1)
        """Worlds that the questions are about."""
        world_size: int = Field(120, ge=12, le=5000)
        """Entities, and so passages, of each world."""
        seed: int = 0
        """Seed of the worlds and the questions."""

    @classmethod
    def idle_options(cls, config: Config) -> dict[str, str]:
        """Comparisons have no effect if no question has two hops."""
        if "comparison" in config.kinds and 2 not in config.hops:
            return {"kinds": "a comparison needs two passages, and hops does not name 2"}
        return {}

    @cached_property
    def worlds(self) -> list[World]:
        """The worlds; no two share a name."""
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
        questions = [
            (world, question)
            for world in self.worlds
            for hops in sorted(set(config.hops))
            for question in world.questions(hops, config.kinds, config.about)
        ]
        if len(questions) < config.size:
            raise TaskError(
                f"miniwiki holds {len(questions)} questions with hops={list(config.hops)}, kinds={list(config.kinds)}, "
                f"about={list(config.about)} in {config.worlds} worlds of {config.world_size} but size={config.size} "
                f"was asked for; raise worlds or world_size, or lower size"
            )
        rng.shuffle(questions)
        return [self._task(world, question) for world, question in _evenly(questions)[: config.size]]

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


def _evenly(questions: list[tuple[World, Question]]) -> list[tuple[World, Question]]:
    """Alternate between the forms of question, so that the first n hold about as many of each."""
    forms: dict[tuple[str, ...], list[tuple[World, Question]]] = {}
    for world, question in questions:
        forms.setdefault((question.kind, *question.chain), []).append((world, question))
    rounds = itertools.zip_longest(*forms.values())
    return [pair for pairs in rounds for pair in pairs if pair is not None]
