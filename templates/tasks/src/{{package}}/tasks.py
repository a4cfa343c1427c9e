"""The task source `{{name}}`: how often does a letter occur in a word?"""

from __future__ import annotations

import random

from pydantic import Field

from agent_r1_core import ComponentConfig, Task, TaskSource

WORDS = (
    "strawberry",
    "banana",
    "mississippi",
    "onomatopoeia",
    "bookkeeper",
    "reinforcement",
    "trajectory",
    "assessment",
)


class {{class}}(TaskSource):
    """Questions with one whole number as their answer."""

    class Config(ComponentConfig):
        """What a recipe may set."""

        size: int = Field(50, ge=1)
        """Number of questions."""
        seed: int = 0
        """Other seeds give other questions."""

    def load(self) -> list[Task]:
        """All questions; the same options give the same questions in the same order."""
        rng = random.Random(f"{self.config.seed}")
        return [self._task(index, rng) for index in range(self.config.size)]

    def _task(self, index: int, rng: random.Random) -> Task:
        word = rng.choice(WORDS)
        letter = rng.choice(word)
        return Task(
            id=f"{{name}}-{self.config.seed}-{index}",
            prompt=f"How many times does the letter {letter} occur in the word {word}?",
            answers=(str(word.count(letter)),),
            metadata={"word": word, "letter": letter},
        )
