"""The reward `judge`: a model grades an answer, or a whole episode, by weighted criteria."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from agent_r1_core import ComponentConfig, NotedScore, Trajectory
from agent_r1_core.contracts.reward import Ask
from agent_r1_judges.asking import AskingReward, JudgeError
from agent_r1_judges.case import METRICS, gold, judged_text, note_of, question, read_object
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

        @field_validator("criteria", mode="before")
        @classmethod
        def _may_be_texts(cls, given: Any) -> Any:
            if not isinstance(given, dict):
                return given
            return {name: {"text": one} if isinstance(one, str) else one for name, one in given.items()}

        @model_validator(mode="after")
        def _are_options_of_a_frozen_model(self) -> Self:
            if self.frozen is not None and self.options.keys() != {"max_tokens"}:
                raise ValueError("options: a frozen judge has max_tokens alone, and needs it")
            return self

        def programs(self) -> dict[str, str]:
            return {} if self.frozen is not None else super().programs()

        def unavailable(self) -> str | None:
            return None if self.frozen is not None else super().unavailable()

    @classmethod
    def idle_options(cls, config: Any) -> dict[str, str]:
        """Those of an address, where a frozen model judges."""
        idle = ("address", "model", "key", "retries") if config.frozen is not None else ()
        return dict.fromkeys(idle, "a frozen model judges, which would say the same again")

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
        points = "\n".join(f"- {name}: {one.text}" for name, one in config.criteria.items())
        instructions = f"Grade what is judged by each criterion, from 0 (not at all) to {config.scale}:\n{points}"
        form = ", ".join(f'"{name}": 0 to {config.scale}' for name in config.criteria)
        asked = question(config, trajectory.task, {config.show: text}, instructions, f"{{{form}}}")
        verdict, known = await self._asker.ask(*asked, self._grades)
        weights = {name: one.weight for name, one in config.criteria.items()}
        total = sum(weights[name] * grade for name, grade in verdict.value.items())
        score = total / config.scale / sum(weights.values())
        agreement = None if right is None else float((score >= 0.5) == right)
        return NotedScore(score, **note_of([(verdict, known)], grades=verdict.value, agreement=agreement))

    def _grades(self, reply: str) -> dict[str, int]:
        """The grades that a reply gives; raises ValueError unless it has one for each criterion."""
        grades, scale = read_object(reply), self.config.scale
        if grades.keys() != self.config.criteria.keys():
            raise ValueError(f"it does not grade exactly {', '.join(self.config.criteria)}")
        if not all(type(grade) is int and 0 <= grade <= scale for grade in grades.values()):
            raise ValueError(f"a grade is no whole number from 0 to {scale}")
        return grades
