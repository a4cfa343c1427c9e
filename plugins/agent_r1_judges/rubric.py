"""The reward `judge`: a model grades an answer, or a whole episode, by weighted criteria."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from agent_r1_core import ComponentConfig, NotedScore, Trajectory
from agent_r1_core.contracts.reward import Ask
from agent_r1_judges.asking import AskingReward, JudgeError
from agent_r1_judges.case import JSON_ALONE, METRICS, gold, judged_text, note_of, question, read_object
from agent_r1_judges.config import JudgeConfig


class Criterion(ComponentConfig):
    """One point of a rubric."""

    text: str = Field(min_length=1)
    """What a good answer does."""
    weight: float = Field(1.0, gt=0)


class Judge(AskingReward):
    """The weighted mean of a model's grades for each criterion, 0 to 1; no answer scores 0 unless all is shown.

    A judge that cannot be asked, or says what cannot be read, fails the episode.
    """

    metrics = METRICS

    class Config(JudgeConfig):
        criteria: dict[str, Criterion] = Field(
            default={"correct": Criterion(text="The answer is correct.")}, min_length=1
        )
        """By name: `{correct: {text: The answer is correct., weight: 2}, brief: One sentence.}`."""
        scale: int = Field(10, ge=1, le=100)
        """Grades are whole numbers from 0 to this."""
        frozen: str | None = None
        """Instead of an address: the model that judges in an engine of the run: `start`, the one that the run began
        with, or a name as in `model.name`. Its `options` are `max_tokens` alone."""
        prefill: bool = False
        """Whether a frozen model is asked of one criterion at a time, with its reply begun, and says yes or no, the
        highest grade and the lowest: for small models. One that thinks first could not."""

        @field_validator("criteria", mode="before")
        @classmethod
        def _may_be_texts(cls, given: Any) -> Any:
            if not isinstance(given, dict):
                return given
            return {name: {"text": one} if isinstance(one, str) else one for name, one in given.items()}

        @model_validator(mode="after")
        def _are_options_of_a_frozen_model(self) -> Self:
            most = self.options.get("max_tokens")
            if self.frozen is not None and (len(self.options) != 1 or type(most) is not int or most < 1):
                raise ValueError("options: a frozen judge has max_tokens alone, and needs it, a number above 0")
            if self.prefill and len({one.text for one in self.criteria.values()}) < len(self.criteria):
                raise ValueError("criteria: two say the same; leave one out, and give the other its weight")
            return self

        def programs(self) -> dict[str, str]:
            return {} if self.frozen is not None else super().programs()

        def unavailable(self) -> str | None:
            return None if self.frozen is not None else super().unavailable()

    @classmethod
    def idle_options(cls, config: Any) -> dict[str, str]:
        """Those of an address, where a frozen model judges."""
        if config.frozen is None:
            return {"prefill": "no frozen model judges"}
        idle = dict.fromkeys(
            ("address", "model", "key", "retries"), "a frozen model judges, which would say the same again"
        )
        return idle | ({"scale": "a grade is yes or no with prefill"} if config.prefill else {})

    @classmethod
    def frozen_model(cls, config: Any) -> str | None:
        name: str | None = config.frozen
        return name

    def connect(self, ask: Ask) -> None:
        self._asker.frozen = ask

    async def score(self, trajectory: Trajectory) -> float:
        """Between 0 and 1.

        Raises:
            JudgeError: there is no verdict.
        """
        text, right, config = judged_text(self.config, trajectory), gold(trajectory), self.config
        if text is None:
            return NotedScore(0.0, **({} if right is None else {"agreement": 1.0}))
        if config.frozen is not None and self._asker.frozen is None:
            raise JudgeError("there is no engine for the frozen judge here; train or evaluate with it")
        calls, grades = [], dict[str, int]()
        for names in [[name] for name in config.criteria] if config.prefill else [list(config.criteria)]:
            begin = "I say" if config.prefill else ""
            asked = question(config, trajectory.task, {config.show: text}, *self._asked(names))
            calls.append(await self._asker.ask(*asked, partial(self._grades, names, begin), begin))
            grades |= calls[-1][0].value
        weights = {name: one.weight for name, one in config.criteria.items()}
        total = sum(weights[name] * grade for name, grade in grades.items())
        score = total / config.scale / sum(weights.values())
        agreement = None if right is None else float((score >= 0.5) == right)
        return NotedScore(score, **note_of(calls, grades=grades, agreement=agreement))

    def _asked(self, names: Sequence[str]) -> tuple[str, str]:
        """What the judge has to do, and the form of its reply."""
        criteria = self.config.criteria
        if self.config.prefill:
            return f"Is this true of what is judged: {criteria[names[0]].text}", "Reply with yes or no alone."
        points = "\n".join(f"- {name}: {criteria[name].text}" for name in names)
        keys = ", ".join(f'"{name}"' for name in names)
        return (
            f"Grade what is judged by each criterion, from 0 (not at all) to {self.config.scale}:\n{points}",
            f"{JSON_ALONE}an object that has for {keys} a whole number from 0 to {self.config.scale}",
        )

    def _grades(self, names: Sequence[str], begin: str, reply: str) -> dict[str, int]:
        """The grades that a reply gives; raises ValueError unless it has one for each name. Of one that was begun, the
        word that follows is read, and nothing else."""
        scale = self.config.scale
        grades = {names[0]: scale * _says_yes(reply.removeprefix(begin))} if begin else read_object(reply)
        if grades.keys() != set(names):
            raise ValueError(f"it does not grade exactly {', '.join(names)}")
        if not all(type(grade) is int and 0 <= grade <= scale for grade in grades.values()):
            raise ValueError(f"a grade is no whole number from 0 to {scale}")
        return grades


def _says_yes(text: str) -> bool:
    found = re.match(r"\W*(yes|no)\b", text, re.IGNORECASE)
    if found is None:
        raise ValueError("it says neither yes nor no")
    return found[1].lower() == "yes"
