"""An engine without a model: the policy answers 4, and a judge gives a grade that tells its folder.

A judge whose reply is begun goes on behind its grade, as small models do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agent_r1_core import Engine, EngineModel, EngineSpec, Generation, Request, context_digest, hookimpl

AGENT_R1_PLUGIN_API = 1
GRADES = {"tiny": 2, "tiny-worlds": 7}


class Speaking(Engine):
    async def start(self, model: EngineModel) -> None:
        self.folder, self.tokenizer = Path(model.folder).name, model.tokenizer

    async def generate(self, request: Request) -> Generation:
        read, grade = self.tokenizer.decode(request.ids), GRADES[self.folder]
        said = f'{{"correct": {grade}}}' if "impartial judge" in read else "<answer>4</answer>"
        if read.endswith("I say"):
            said = " no, because" if "Short." in read else " yes."
        ids = (*self.tokenizer.encode(said), self.tokenizer.end_id)
        return Generation(ids, (0.0,) * len(ids), "stop", context_digest(request.ids))

    async def load_weights(self, weights: Mapping[str, Any], version: int) -> None:
        pass


@hookimpl
def register_engines() -> Iterable[EngineSpec]:
    return [EngineSpec("speaking", ":Speaking", "an engine without a model")]
