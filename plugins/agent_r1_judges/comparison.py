"""The reward `judge_comparison`: a model ranks the answers of a group."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import fmean

from pydantic import Field

from agent_r1_core import NotedScore, Trajectory
from agent_r1_judges.asking import AskingReward
from agent_r1_judges.case import JSON_ALONE, METRICS, gold, judged_text, note_of, question, read_object
from agent_r1_judges.config import JudgeConfig


class JudgeComparison(AskingReward):
    """The share of the group's other answers that an answer beats, a tie counting half.

    The same answer given twice is a tie; no answer loses to any answer. The judge gets the answers in an order that
    does not depend on who gave them. Groups are scored in training alone: an evaluation has no such score.
    """

    scope = "group"
    metrics = METRICS

    class Config(JudgeConfig):
        criterion: str = Field("which answer is better", min_length=1)
        """What the judge ranks by."""
        orders: int = Field(2, ge=1, le=2)
        """2: the judge is asked again with the answers in reverse, and the mean of both counts, since judges prefer
        what stands first."""

    async def score_group(self, trajectories: Sequence[Trajectory]) -> list[float]:
        """Between 0 and 1, for each.

        Raises:
            JudgeError: there is no verdict.
        """
        texts = [judged_text(self.config, one) for one in trajectories]
        answers = sorted({text for text in texts if text is not None})
        random.Random("\n".join(answers)).shuffle(answers)
        calls, ranks = [], []
        for order in [answers, answers[::-1]][: self.config.orders if len(answers) > 1 else 0]:
            instructions = f"Rank the {len(order)} numbered answers, the best first: {self.config.criterion}."
            form = JSON_ALONE + '{"ranking": [numbers of all answers]}'
            judged = {"answers": {str(number): text for number, text in enumerate(order, 1)}}
            asked = question(self.config, trajectories[0].task, judged, instructions, form)
            verdict, known = await self._asker.ask(*asked, lambda reply: _ranking(reply, len(answers)))
            calls.append((verdict, known))
            ranks.append({order[number - 1]: place for place, number in enumerate(verdict.value)})
        if not ranks:
            ranks = [dict.fromkeys(answers, 0)]
        wins = [[_beats(mine, other, ranks) for other in texts] for mine in texts]
        right = [gold(one) for one in trajectories]
        pairs = [wins[a][b] for a, good in enumerate(right) for b, bad in enumerate(right) if good and bad is False]
        note = note_of(calls, ranking=answers and sorted(answers, key=lambda text: fmean(r[text] for r in ranks)))
        note |= {"agreement": fmean(pairs)} if pairs and calls else {}
        beaten = [(sum(row) - 0.5) / (len(row) - 1) if len(row) > 1 else 0.5 for row in wins]  # each ties with itself
        return [NotedScore(share, **note) for share in beaten]


def _beats(mine: str | None, other: str | None, ranks: Sequence[dict[str, int]]) -> float:
    """1 where mine is ranked above the other, 0.5 for a tie, 0 below; the mean over the orders."""
    if mine is None or other is None or mine == other:
        return 0.5 if mine == other else float(other is None)
    return fmean(float(one[mine] < one[other]) for one in ranks)


def _ranking(reply: str, count: int) -> list[int]:
    """The ranking that a reply gives; raises ValueError unless it has each number once."""
    found = read_object(reply)
    ranking = found.get("ranking")
    if found.keys() != {"ranking"} or not isinstance(ranking, list) or any(type(one) is not int for one in ranking):
        raise ValueError('it is not {"ranking": [numbers]}')
    if sorted(ranking) != list(range(1, count + 1)):
        raise ValueError(f"it does not rank each of 1 to {count} once")
    return ranking
