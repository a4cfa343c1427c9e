"""The reward `{{name}}`: a right answer in few words."""

from __future__ import annotations

from pydantic import Field

from agent_r1_core import ComponentConfig, RewardFn, Trajectory


class {{class}}(RewardFn):
    """1 for an accepted answer, less for every word around it; 0 for a wrong answer or none."""

    range = (0.0, 1.0)

    class Config(ComponentConfig):
        """What a recipe may set."""

        per_word: float = Field(0.1, ge=0)
        """Penalty for each word beyond the accepted answer's."""

    def score(self, trajectory: Trajectory) -> float:
        """The best score over the accepted answers."""
        words = (trajectory.answer or "").lower().split()
        scores = [self._compare(words, accepted.lower().split()) for accepted in trajectory.task.answers]
        return max(scores, default=0.0)

    def _compare(self, words: list[str], accepted: list[str]) -> float:
        size = len(accepted)
        right = any(words[start : start + size] == accepted for start in range(len(words) - size + 1))
        return max(0.0, 1.0 - self.config.per_word * (len(words) - size)) if right and size else 0.0
