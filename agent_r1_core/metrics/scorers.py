"""The scores of an evaluation, each declared once, beside its scorer: name, meaning, unit, which way is good, bounds.

The definitions of exact match and F1 are those of HotpotQA's `hotpot_evaluate_v1.py` (Yang et al. 2018, arXiv
1809.09600): English articles, ASCII punctuation. With several accepted answers the best one counts. No answer (None)
scores 0.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Self

from agent_r1_core.contracts.metric import Better, Metric
from agent_r1_core.contracts.score import Bounds, DeclaredScore
from agent_r1_core.trajectory import EndStatus

if TYPE_CHECKING:
    from agent_r1_core.evaluation.episode_record import EpisodeRecord

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CLOSED = frozenset({"yes", "no", "noanswer"})
_NUMBER = re.compile(r"[-+$\s]*[0-9.,/]*[0-9][.,]?%?")
_THOUSANDS = re.compile(r",(?=[0-9]{3}(?![0-9]))")


def normalize_answer(text: str) -> str:
    """Lower case, then without ASCII punctuation, then without the articles a, an, the, then single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match_score(prediction: str | None, answers: str | Sequence[str]) -> float:
    """1.0 when the normalised prediction equals a normalised accepted answer, else 0.0.

    Raises:
        ValueError: there is no accepted answer.
    """
    return _best(prediction, answers, lambda given, accepted: float(given == accepted))


def f1_score(prediction: str | None, answers: str | Sequence[str]) -> float:
    """F1 between the bags of normalised tokens, 0 to 1; the best over the accepted answers.

    As in the official script, a prediction or answer that is `yes`, `no` or `noanswer` scores 0 unless both are equal.

    Raises:
        ValueError: there is no accepted answer.
    """
    return _best(prediction, answers, _f1)


def substring_match_score(prediction: str | None, answers: str | Sequence[str]) -> float:
    """1.0 when the normalised prediction contains a normalised accepted answer; laxer than exact match, and never to be
    reported as such.

    Raises:
        ValueError: there is no accepted answer.
    """
    return _best(prediction, answers, lambda given, accepted: float(accepted in given if accepted else not given))


def misread(prediction: str, answer: str) -> bool:
    """Whether the normalisation takes two different things for one: numbers with another sign, point or slash (`-38`
    and `38`, `1/2` and `12`), or texts of which it leaves nothing (the choice `A` and an empty answer)."""
    normalized = normalize_answer(answer)
    if normalize_answer(prediction) != normalized:
        return False
    if not normalized:
        return _bare(prediction) != _bare(answer)
    one, other = prediction.strip(), answer.strip()
    return bool(_NUMBER.fullmatch(one) and _NUMBER.fullmatch(other)) and _digits(one) != _digits(other)


def is_accepted(prediction: str | None, answers: str | Sequence[str]) -> bool:
    """Whether the prediction is an accepted answer: an exact match that is not `misread`. Rewards go by this.

    Raises:
        ValueError: there is no accepted answer.
    """
    if exact_match_score(prediction, answers) == 0.0 or prediction is None:
        return False
    accepted = [answers] if isinstance(answers, str) else answers
    return any(exact_match_score(prediction, one) == 1.0 and not misread(prediction, one) for one in accepted)


def _bare(text: str) -> str:
    """Lower case, without punctuation at the ends; a text of punctuation keeps it."""
    return " ".join(text.lower().split()).strip(string.punctuation + " ") or text.strip()


def _digits(number: str) -> str:
    """A number's digits with its sign, point and slash."""
    return re.sub(r"[^0-9.,/-]", "", _THOUSANDS.sub("", number)).rstrip(".,")


def _best(prediction: str | None, answers: str | Sequence[str], score: Callable[[str, str], float]) -> float:
    """The best score over the accepted answers, all texts normalised."""
    accepted = [normalize_answer(answer) for answer in ([answers] if isinstance(answers, str) else answers)]
    if not accepted:
        raise ValueError("an answer cannot be scored: the task has no accepted answers; give the task `answers`")
    if prediction is None:
        return 0.0
    normalized = normalize_answer(prediction)
    return max(score(normalized, answer) for answer in accepted)


def _f1(prediction: str, answer: str) -> float:
    if prediction != answer and (prediction in _CLOSED or answer in _CLOSED):
        return 0.0
    predicted, accepted = prediction.split(), answer.split()
    same = sum((Counter(predicted) & Counter(accepted)).values())
    if same == 0:
        return 0.0
    precision, recall = same / len(predicted), same / len(accepted)
    return 2 * precision * recall / (precision + recall)


Measure = Callable[["EpisodeRecord"], float | None]
"""What a score takes from an episode; None if the episode has no such score."""


class Score(Metric):
    """A metric that an evaluation measures in each of its episodes, and reports as a mean over tasks."""

    measure: Measure
    bounds: Bounds
    scorer: str
    """How it is measured, as reports state it (LAW 12); empty where the name says it."""
    main: bool
    """Whether it is broken down by source, hops and question type."""
    chooses: bool
    """Whether `checkpoint.best` may name it, as it may name the return and the rewards."""

    def __new__(
        cls,
        name: str,
        meaning: str,
        measure: Measure,
        bounds: Bounds = "none",
        *,
        scorer: str = "",
        main: bool = False,
        chooses: bool = False,
        unit: str = "",
        better: Better = "neither",
    ) -> Self:
        score = super().__new__(cls, name, meaning, unit=unit, better=better)
        score.measure, score.bounds, score.scorer, score.main, score.chooses = measure, bounds, scorer, main, chooses
        return score

    @classmethod
    def member(cls, family: Metric, name: str, measure: Measure, bounds: Bounds) -> Self:
        return cls(family.of(name), family.meaning, measure, bounds, unit=family.unit, better=family.better)


def _answered_with(scorer: Callable[[str | None, Sequence[str]], float]) -> Measure:
    return lambda episode: scorer(episode.prediction, episode.answers) if episode.answers else None


EXACT_MATCH = Score(
    "exact_match",
    "answers that equal an accepted one after HotpotQA's normalisation",
    _answered_with(exact_match_score),
    "0 or 1",
    scorer="HotpotQA's official normalisation (lower case, no ASCII punctuation, no a/an/the), then equality",
    main=True,
    chooses=True,
    better="higher",
)
EXACT_MATCH_LOW = Metric("exact_match_low", "lower end of the 95 % interval of exact_match")
EXACT_MATCH_HIGH = Metric("exact_match_high", "upper end of the 95 % interval of exact_match")
F1 = Score(
    "f1",
    "token overlap with the best accepted answer, HotpotQA's F1",
    _answered_with(f1_score),
    "0 to 1",
    scorer="HotpotQA's official normalisation, then F1 over tokens; yes, no and noanswer count only when equal",
    main=True,
    chooses=True,
    better="higher",
)
SUBSTRING_MATCH = Score(
    "substring_match",
    "answers that contain an accepted one after that normalisation; laxer",
    _answered_with(substring_match_score),
    "0 or 1",
    scorer="HotpotQA's official normalisation, then an accepted answer anywhere in the prediction",
    main=True,
    better="higher",
)
RETRIEVAL_RECALL = Score(
    "retrieval_recall",
    "supporting titles that the prompt or the tools showed, of tasks that name theirs",
    lambda one: len(one.shown) / len(one.supporting) if one.supporting else None,
    "0 to 1",
    scorer="the task's supporting titles that stood on a line of their own in the prompt or in what the environment "
    "said, without what the policy wrote",
    main=True,
    unit="share",
    better="higher",
)
RETRIEVAL_ALL = Score(
    "retrieval_all",
    "episodes that were shown every supporting title of their task",
    lambda one: float(len(one.shown) == len(one.supporting)) if one.supporting else None,
    "0 or 1",
    scorer="1 when retrieval_recall is 1",
    main=True,
    unit="share",
    better="higher",
)
SUCCESS = Score(
    "success",
    "episodes that the environment called a success",
    lambda one: None if one.success is None else float(one.success),
    "0 or 1",
    main=True,
    chooses=True,
    unit="share",
    better="higher",
)
PASS_AT = Metric("pass@<k>", "tasks that at least one of k samples solves", unit="share", better="higher")
REWARD_MEAN = Score(
    "reward/mean",
    "return of an episode: outcome and process rewards, weighted",
    lambda one: one.total,
    main=True,
    better="higher",
)
REWARD = Metric("reward/<name>", "one reward, unweighted; a process reward is summed over the turns", better="higher")
SCORE = Metric("score/<name>", "one of the recipe's `scores`")
STATUS = Metric("status/<status>", "episodes that ended this way", unit="share")
ANSWERED = Score(
    "answered",
    "episodes with a final answer",
    lambda one: float(one.prediction is not None),
    "0 or 1",
    chooses=True,
    unit="share",
    better="higher",
)
TURNS = Score("turns", "turns of an episode, without summaries of its context", lambda one: float(one.turns))
TOOL_CALLS = Score("tool_calls", "tool calls of an episode", lambda one: float(one.tool_calls))
TOOL_ERRORS = Score(
    "tool_errors",
    "tool calls of an episode that were answered with an error",
    lambda one: float(one.tool_errors),
    better="lower",
)
TOKENS = Score("tokens", "all tokens of an episode", lambda one: float(one.tokens), unit="tokens")
ACTION_TOKENS = Score(
    "action_tokens",
    "tokens that the policy sampled in an episode",
    lambda one: float(one.action_tokens),
    unit="tokens",
)
N = Metric("n", "tasks that were scored")
FAILED = Metric("failed", "episodes that failed and are in no score", better="lower")

REPORTED: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
"""What an evaluation reports, under these bare names in its own file, and in this order."""
SCORES: tuple[Score, ...] = tuple(metric for metric in REPORTED if isinstance(metric, Score))
"""Those of them that it measures in each episode, without the members of families."""
SCORERS: dict[str, str] = {str(score): score.scorer for score in SCORES if score.scorer}
"""How answers and retrieval are scored, by the name of the score."""


def scores_of(
    episodes: Sequence[EpisodeRecord], declared: Mapping[str, DeclaredScore] | None = None
) -> dict[str, Score]:
    """Every score that these episodes may have, by its declared name; `declared` are those of the recipe."""
    outcome = sorted({name for episode in episodes for name in episode.rewards})
    process = sorted({name for episode in episodes for name in episode.process_rewards})
    rewards = {name: Score.member(REWARD, name, _process_reward(name), "none") for name in process}
    rewards |= {name: Score.member(REWARD, name, _outcome_reward(name), "seen") for name in outcome}
    finished = (EndStatus.TERMINATED, EndStatus.TRUNCATED)
    statuses = [Score.member(STATUS, status.value, _ended(status), "0 or 1") for status in finished]
    of_recipe = [recipe_score(name, one) for name, one in (declared or {}).items()]
    members: dict[Metric, list[Score]] = {REWARD: list(rewards.values()), SCORE: of_recipe, STATUS: statuses}
    own = (members.get(metric, [metric] if isinstance(metric, Score) else []) for metric in REPORTED)
    return {score: score for scores in own for score in scores}


def recipe_score(name: str, declared: DeclaredScore) -> Score:
    """One of the recipe's `scores`, as records have it."""
    measure, unit, better = (lambda one: one.scores.get(name)), declared.unit, declared.better
    return Score(SCORE.of(name), declared.meaning, measure, declared.bounds, unit=unit, better=better)


def _outcome_reward(name: str) -> Measure:
    return lambda episode: episode.rewards.get(name)


def _process_reward(name: str) -> Measure:
    return lambda episode: episode.process_rewards.get(name, 0.0)


def _ended(status: EndStatus) -> Measure:
    return lambda episode: float(episode.status == status)
