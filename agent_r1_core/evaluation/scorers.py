"""Answer scorers: exact match and F1 as in the official script of HotpotQA, and substring match under its own name.

The definitions are those of `hotpot_evaluate_v1.py` (Yang et al. 2018, arXiv 1809.09600): English articles, ASCII
punctuation. With several accepted answers the best one counts. No answer (None) scores 0.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CLOSED = frozenset({"yes", "no", "noanswer"})

SCORERS = {
    "exact_match": "HotpotQA's official normalisation (lower case, no ASCII punctuation, no a/an/the), then equality",
    "f1": "HotpotQA's official normalisation, then F1 over tokens; yes, no and noanswer count only when equal",
    "substring_match": "HotpotQA's official normalisation, then an accepted answer anywhere in the prediction",
    "retrieval_recall": "the task's supporting titles that stood on a line of their own in the prompt or in what the "
    "environment said, without what the policy wrote",
    "retrieval_all": "1 when retrieval_recall is 1",
}
"""What each score means, as reports state it (LAW 12)."""


def normalize_answer(text: str) -> str:
    """Lower case, then without ASCII punctuation, then without the articles a, an, the, then single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match_score(prediction: str | None, answers: str | Sequence[str]) -> float:
    """1.0 when the normalised prediction equals a normalised accepted answer, else 0.0.

    Raises:
        ValueError: there is no accepted answer.
    """
    accepted = _normalized(answers)
    return 0.0 if prediction is None else float(normalize_answer(prediction) in accepted)


def f1_score(prediction: str | None, answers: str | Sequence[str]) -> float:
    """F1 between the bags of normalised tokens, 0 to 1; the best over the accepted answers.

    As in the official script, a prediction or answer that is `yes`, `no` or `noanswer` scores 0 unless both are equal.

    Raises:
        ValueError: there is no accepted answer.
    """
    accepted = _normalized(answers)
    if prediction is None:
        return 0.0
    normalized = normalize_answer(prediction)
    return max(_f1(normalized, answer) for answer in accepted)


def substring_match_score(prediction: str | None, answers: str | Sequence[str]) -> float:
    """1.0 when the normalised prediction contains a normalised accepted answer; laxer than exact match, and never to be
    reported as such.

    Raises:
        ValueError: there is no accepted answer.
    """
    accepted = _normalized(answers)
    if prediction is None:
        return 0.0
    normalized = normalize_answer(prediction)
    return float(any(answer == normalized or (answer and answer in normalized) for answer in accepted))


def _normalized(answers: str | Sequence[str]) -> list[str]:
    accepted = [normalize_answer(answer) for answer in ([answers] if isinstance(answers, str) else answers)]
    if not accepted:
        raise ValueError("an answer cannot be scored: the task has no accepted answers; give the task `answers`")
    return accepted


def _f1(prediction: str, answer: str) -> float:
    if prediction != answer and (prediction in _CLOSED or answer in _CLOSED):
        return 0.0
    predicted, accepted = prediction.split(), answer.split()
    same = sum((Counter(predicted) & Counter(accepted)).values())
    if same == 0:
        return 0.0
    precision, recall = same / len(predicted), same / len(accepted)
    return 2 * precision * recall / (precision + recall)
