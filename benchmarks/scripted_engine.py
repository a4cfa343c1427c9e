"""Plugin: the engine `scripted` says what a recipe writes, without a model, and keeps nothing of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agent_r1_core import EngineModel, EngineSpec, Generation, Request, hookimpl
from agent_r1_core.contracts.engine import EngineConfig
from agent_r1_core.testing import Cue, ScriptedPolicy

AGENT_R1_PLUGIN_API = 1
RARE = 64
"""One task in so many is rare."""


def is_rare(task: str) -> bool:
    """Whether the task of this number gets the other answers."""
    return int(task) % RARE == RARE // 2


class Scripted(ScriptedPolicy):
    """Tasks have numbers as their ids."""

    class Config(EngineConfig):
        answers: tuple[str, ...]
        """Turn by turn; the last one repeats, and DIGIT in it is a digit from 0 to 8."""
        rare: tuple[str, ...] = ()
        """Those of rare tasks; empty: the same."""

    def __init__(self, config: Any) -> None:
        super().__init__(self._say, config=config)

    async def start(self, model: EngineModel) -> None:
        self._tokenizer = model.tokenizer.raw

    async def generate(self, request: Request) -> Generation:
        self.requests.clear()
        self.released.clear()
        return await super().generate(request)

    def _say(self, cue: Cue) -> str:
        if "impartial judge" in cue.prompt:
            return '{"correct": 10}'
        task = cue.request.episode.split("/")[1]
        answers = self.config.rare if self.config.rare and is_rare(task) else self.config.answers
        return answers[min(cue.turn, len(answers) - 1)].replace("DIGIT", str(cue.request.seed % 9))


@hookimpl
def register_engines() -> Iterable[EngineSpec]:
    return [EngineSpec("scripted", ":Scripted", "an engine that follows a script")]
