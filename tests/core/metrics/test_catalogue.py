"""Metrics are declared once and looked up by name."""

from __future__ import annotations

import pytest

from agent_r1_core.contracts.component import Component
from agent_r1_core.contracts.metric import Metric
from agent_r1_core.errors import ConfigError
from agent_r1_core.metrics import Catalogue


class Counting(Component):
    """Declares a metric of its own."""

    metrics = (Metric("hits", "calls that found something", unit="share", better="higher"),)


@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("reward/brief", "one reward"),
        ("eval/wiki/reward/mean", "return"),
        ("eval/pass@8", "k samples"),
        ("tools/wiki_search/seconds", "this tool"),
        ("env/score", "number"),
    ],
)
def test_members_of_a_family_are_found(name: str, of: str) -> None:
    metric = Catalogue()[name]
    assert metric == name
    assert of in metric.meaning


def test_a_metric_that_does_not_exist_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match=r"'health/group_sd'; did you mean 'health/group_std'"):
        Catalogue()["health/group_sd"]
    assert Catalogue().undeclared(["reward/mean", "reward/a/b", "nonsense"]) == ["reward/a/b", "nonsense"]


def test_a_component_declares_its_own() -> None:
    catalogue = Catalogue.with_components(
        [("algorithm", "mine", Counting), ("env", "world", Counting), ("tool", "search", Counting)]
    )
    for name in ("update/hits", "env/hits", "tools/search/hits"):
        assert catalogue[name].meaning == "calls that found something"
        assert catalogue[name].better == "higher"
    assert "tools/other/hits" not in catalogue
    assert "update/hits" not in Catalogue()
