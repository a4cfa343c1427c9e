"""The rewards `exact_match` and `f1`, by the official scorers of HotpotQA, and `numeric_match`: the final answer.

HotpotQA's normalisation drops signs, points and articles. Here alone, other than in scores, `38` is not paid for `-38`,
nor an empty answer for the choice `A`. A task without accepted answers cannot be scored: the scorer's error fails the
episode.
"""

from __future__ import annotations

import re
from fractions import Fraction

from pydantic import Field

from agent_r1_core import ComponentConfig, RewardFn, Trajectory, f1_score, is_accepted, misread


class ExactMatch(RewardFn):
    """1 when the answer equals an accepted one after HotpotQA's normalisation, else 0; no answer scores 0."""

    def score(self, trajectory: Trajectory) -> float:
        """0 or 1.

        Raises:
            ValueError: the task has no accepted answer.
        """
        return float(is_accepted(trajectory.answer, trajectory.task.answers))


class F1(RewardFn):
    """F1 between the tokens of the answer and of the best accepted one; no answer scores 0."""

    def score(self, trajectory: Trajectory) -> float:
        """Between 0 and 1.

        Raises:
            ValueError: the task has no accepted answer.
        """
        answer, accepted = trajectory.answer, trajectory.task.answers
        meant = [one for one in accepted if answer is None or not misread(answer, one)]
        return f1_score(answer, meant) if meant or not accepted else 0.0


_RUN = re.compile(r"(?P<sign>(?<!\w)[-+\u2212]\s?)?[$€£]?(?P<digits>[0-9.,/]*[0-9](?:[eE][-+]?[0-9]{1,3}(?![0-9]))?)")
_NUMBER = re.compile(r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)?(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?(?:/[0-9]+)?")
_MAX_CHARACTERS = 2000


class NumericMatch(RewardFn):
    """1 when the answer holds one number and it equals an accepted one: `1,000` is `1000.0`; no answer scores 0.

    Units, currency and percent signs are ignored: `18 dollars`, `$18` and `18` are the same, and so are `50%` and `50`.
    An answer with two different numbers counts as no answer. If it holds `####` (the mark of GSM8K's solutions), only
    what follows the last one counts.
    """

    class Config(ComponentConfig):
        tolerance: float = Field(1e-9, ge=0, lt=1)
        """Relative; whole numbers are compared exactly."""

    def score(self, trajectory: Trajectory) -> float:
        """0 or 1.

        Raises:
            ValueError: the task has no accepted answer, or one that is not a number.
        """
        accepted = [read_number(answer) for answer in trajectory.task.answers]
        if not accepted or None in accepted:
            raise ValueError(
                f"task {trajectory.task.id} has the answers {list(trajectory.task.answers)}, and numeric_match needs "
                f"numbers; use another reward"
            )
        value = None if trajectory.answer is None else read_number(trajectory.answer)
        return float(value is not None and any(self._equal(value, other) for other in accepted if other is not None))

    def _equal(self, left: Fraction, right: Fraction) -> bool:
        if left == right or (left.denominator == right.denominator == 1):
            return left == right
        return abs(left - right) <= Fraction(self.config.tolerance) * max(abs(left), abs(right))


def read_number(text: str) -> Fraction | None:
    """The one number in a text; None if there is none, if there are several, or if it has over 2,000 characters."""
    final = text.rpartition("####")[2]
    if len(final) > _MAX_CHARACTERS:
        return None
    numbers = {_fraction(match["sign"] or "", match["digits"]) for match in _RUN.finditer(final)}
    return numbers.pop() if len(numbers) == 1 else None


def _fraction(sign: str, digits: str) -> Fraction | None:
    plain = digits.lstrip(",/")
    if not _NUMBER.fullmatch(plain):
        return None
    numerator, _, denominator = plain.replace(",", "").partition("/")
    try:
        value = Fraction(numerator) / Fraction(denominator or "1")
    except ZeroDivisionError:
        return None
    return -value if sign.strip() in ("-", "\u2212") else value
