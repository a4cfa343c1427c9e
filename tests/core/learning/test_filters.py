"""Which groups an update learns from, and that the others are out of it altogether."""

from __future__ import annotations

import math
from typing import Any

import pytest

from agent_r1_core import Algorithm, AlgorithmConfig, ConfigError, EndStatus, Group
from agent_r1_core.config import load_config
from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.learning.batch import Advantages, Batch
from agent_r1_core.learning.loss import LossTerms, LossTokens
from agent_r1_core.learning.selection import Selection, kept_groups, top_p, top_share
from agent_r1_core.testing import make_task, make_trajectory


def group(name: str, *returns: float, failed: tuple[float, ...] = ()) -> Group:
    """A group of these returns, and of failed trajectories with these rewards."""
    statuses = [EndStatus.TERMINATED] * len(returns) + [EndStatus.FAILED] * len(failed)
    played = enumerate(zip((*returns, *failed), statuses, strict=True))
    return Group(make_task(name), [make_trajectory(sample=k, reward=r, status=how) for k, (r, how) in played])


GROUPS = [
    group("flat", 1.0, 1.0, 1.0),
    group("small", 0.0, 0.1),
    group("negative", -1.0, -3.0),
    group("alone", 7.0),
    group("rounding", 0.1 + 0.2, 0.3),
    group("one left", 0.5, failed=(0.0, 9.0)),
    group("flat but for a failure", -1.0, -1.0, failed=(5.0,)),
    group("large", 0.0, 4.0, failed=(0.0,)),
    group("none left", failed=(0.0, 1.0)),
    group("also small", 0.6, 0.5),
]
VARIED = ["small", "negative", "large", "also small"]


def kept(**options: Any) -> list[str]:
    return [one.task.id for one in kept_groups(GROUPS, AlgorithmConfig(**options))]


def test_a_spread_is_that_of_the_trajectories_that_did_not_fail() -> None:
    assert kept() == [one.task.id for one in GROUPS]
    for filter in ("zero_spread", "resample"):
        assert kept(filter=filter) == VARIED
    assert GROUPS[7].std == pytest.approx(math.sqrt(8))
    assert GROUPS[2].std == pytest.approx(math.sqrt(2))


def test_the_top_share_is_of_all_groups_and_top_p_keeps_the_fewest_that_have_its_share_of_the_spread() -> None:
    """Neither has a group without spread."""
    assert kept(filter="top_share", filter_share=0.1) == ["large"]
    assert kept(filter="top_share", filter_share=0.11) == ["negative", "large"]
    assert kept(filter="top_share", filter_share=1.0) == VARIED
    assert kept(filter="top_share", filter_share=0.3) == ["small", "negative", "large"], "of two alike, the earlier"
    assert top_share([1.0] * 30, 0.1) == [0, 1, 2]
    assert kept(filter="top_p", filter_p=0.5) == ["large"]
    assert kept(filter="top_p", filter_p=0.9) == ["negative", "large"]
    assert kept(filter="top_p", filter_p=1.0) == VARIED
    assert top_p([3.0, 1.0, 0.0, 4.0, 2.0], 0.7) == [3, 0], "7 of 10 are reached exactly"
    assert top_p([], 0.9) == []


class Plain(Algorithm):
    """A third party's algorithm that knows nothing of filters."""

    def advantages(self, batch: Batch) -> Advantages:
        raise NotImplementedError

    def loss(self, tokens: LossTokens) -> LossTerms:
        raise NotImplementedError


class Picky(Plain):
    """Wants no groups of negative returns, and always one more task."""

    def filter(self, groups):
        return [one for one in groups if min(one.returns) >= 0]

    def more_tasks(self, groups, tasks):
        return 1


def selection(algorithm: type[Algorithm], tasks_per_step: int = 16, **options: Any) -> Selection:
    return Selection(algorithm(algorithm.Config(**options)), TrainingConfig(tasks_per_step=tasks_per_step))


def test_any_algorithm_has_the_filters_and_resampling_asks_for_as_many_tasks_as_groups_are_missing() -> None:
    """It may keep fewer groups still, and ask for more tasks."""
    for algorithm, names in ((Plain, ["negative", "large"]), (Picky, ["large"])):
        chosen = selection(algorithm, filter="top_p", filter_p=0.9).filter(GROUPS)
        assert [one.task.id for one in chosen] == names
    resampling = selection(Plain, tasks_per_step=6, filter="resample")
    assert resampling.more_tasks(resampling.filter(GROUPS), len(GROUPS)) == 2
    assert resampling.more_tasks(GROUPS[:6], 20) == resampling.more_tasks(GROUPS[:7], 20) == 0
    assert selection(Plain, tasks_per_step=6).more_tasks([], 6) == 0
    assert selection(Picky, tasks_per_step=6, filter="resample").more_tasks(GROUPS[:6], 6) == 1


def test_an_option_of_another_filter_is_refused_and_so_is_a_filter_of_groups_of_one() -> None:
    load_config("default", ["algorithm=ppo", "algorithm.filter=top_share", "algorithm.filter_share=.5"])
    load_config("default", ["algorithm.filter=resample", "training.extra_rollouts=9"])
    for keys, said in (
        ("filter=top_p algorithm.filter_share=.5", "filter_share.*only `filter: top_share` reads it, and it is top_p"),
        ("name=reinforce_pp algorithm.filter_p=.5", "algorithm.filter_p.*has no effect"),
        ("filter=zero_spread training.extra_rollouts=2", "training.extra_rollouts.*algorithm.filter is not resample"),
        ("filter=top_p training.samples_per_task=1", "algorithm.filter.*keeps no group of one; set training.samples_"),
    ):
        with pytest.raises(ConfigError, match=said):
            load_config("default", f"algorithm.{keys}".split())
