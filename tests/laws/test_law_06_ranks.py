"""LAW 6 on several ranks: the gradient does not depend on how many processes computed it.

The same rollout on 1, 2 and 4 ranks of torch.distributed is held against the formulas of tests/yardstick in float64,
for every registered algorithm. Prefixes are shared and rows without gradient skipped, as always; groups are of unequal
length, and on four ranks most algorithms leave some rank without a group.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from algorithms import NAMES
from rank_cases import COMPILED, OTHERS, formulas
from real_learner import Named, relative_error
from several_ranks import SIZES, compute

pytestmark = pytest.mark.slow
BOUND = 1e-5
WAY = 1e-3
"""Of the way that the weights went: AdamW makes a step of a gradient that is nothing but rounding."""
UPDATES = [
    *NAMES,
    *("grpo_kl", "grpo_entropy", "ppo_kl", "ppo_entropy_no_masks", "reinforce_pp_kl"),
    *("ppo_kl/long", "grpo_kl/unrewarded"),
]
"""Algorithms, some with other rollouts: of one group, and of two."""
LOADED = [case for case in OTHERS if case.startswith("loaded")]
SEVERAL = [size for size in SIZES if size > 1]
several = pytest.mark.parametrize("size", SEVERAL)
every_size = pytest.mark.parametrize("size", SIZES)


def on_several(cases: list[str]) -> list[tuple[str, int]]:
    """The cases, each on every number of ranks that it is tried on."""
    return [(case, size) for size in SEVERAL for case in cases if case != COMPILED or size < max(SIZES)]


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[dict[str, Any]]]:
    """By the number of ranks, what each of them found of the cases that this session's tests name."""
    specs = [item.callspec.params for item in request.session.items if item.path == request.path]
    named = {params["case"] for params in specs}
    sizes = {1, *(params["size"] for params in specs)}
    folder = tmp_path_factory.mktemp("ranks")
    return compute([case for case in (*UPDATES, *OTHERS) if case in named], folder, sizes)


def joined(found: list[dict[str, Any]], case: str, what: str) -> list[Named]:
    """Tensors of which each rank holds some rows."""
    shares = [rank[case][what] for rank in found]
    return [
        {name: torch.cat([share[name] for share in tensors]) for name in tensors[0]}
        for tensors in zip(*shares, strict=True)
    ]


@every_size
@pytest.mark.parametrize("case", UPDATES)
def test_the_gradient_is_that_of_the_formulas(case: str, size: int, found: Any) -> None:
    for gradient, expected in zip(joined(found[size], case, "gradients"), formulas(case), strict=True):
        assert relative_error(gradient, expected) < BOUND


@several
@pytest.mark.parametrize("case", [*UPDATES, "long run"])
def test_weights_and_metrics_are_those_of_one_rank(case: str, size: int, found: Any) -> None:
    alone = found[1][0][case]
    for after, before, own in zip(joined(found[size], case, "after"), alone["before"], alone["after"], strict=True):
        assert relative_error(way(before, after), way(before, own)) < WAY
    for rank in found[size]:
        assert rank[case]["metrics"] == found[size][0][case]["metrics"], "ranks differ"
    compare_metrics(found[size][0][case]["metrics"], alone["metrics"])


def way(before: Named, after: Named) -> Named:
    return {name: after[name] - weight for name, weight in before.items()}


def compare_metrics(metrics: list[dict[str, float]], expected: list[dict[str, float]]) -> None:
    for one, own in zip(metrics, expected, strict=True):
        assert one.keys() == own.keys()
        for name, value in own.items():
            assert one[name] == pytest.approx(value, rel=1e-4, abs=1e-4), name


@pytest.mark.parametrize(
    ("case", "size"), on_several([one for one in OTHERS if one != "long run" and "bfloat16" not in one])
)
def test_every_kind_of_policy_is_that_of_one_rank(case: str, size: int, found: Any) -> None:
    """Its gradient and scores everywhere; the weights after a step, and the saved folder, on the first rank alone."""
    alone, first = found[1][0][case], found[size][0][case]
    for number, rank in enumerate(found[size]):
        for what in ("gradient", "scores"):
            assert relative_error({what: rank[case][what]}, {what: alone[what]}) < BOUND
        for told, own in zip(rank[case]["told"], alone["told"], strict=True):
            assert not told.isnan().all()
            assert torch.allclose(told, own, atol=1e-4, equal_nan=True)
        assert bool(rank[case]["weights"]) == bool(rank[case]["saved"]) == (number == 0)
    compare_metrics(first["metrics"], alone["metrics"])
    assert first["weights"].keys() == alone["weights"].keys()
    assert relative_error(first["weights"], alone["weights"]) < BOUND
    assert first["saved"].keys() == first["weights"].keys()
    assert all(torch.equal(tensor, first["weights"][name]) for name, tensor in first["saved"].items())
    for rank in found[size]:
        assert all(torch.equal(rank[case]["half"][name], one.bfloat16()) for name, one in first["weights"].items())
    shares = [rank[case]["shares"] for rank in found[size]]
    for name, whole in first["half"].items():
        rows = [share[name][1] for share in shares]
        assert [share[name][0] for share in shares] == [sum(map(len, rows[:number])) for number in range(size)]
        assert torch.equal(torch.cat(rows), whole)


@pytest.mark.parametrize(("case", "size"), on_several(LOADED))
def test_only_the_first_rank_loads_weights(case: str, size: int, found: Any) -> None:
    """The others get theirs, and what no file holds, from it; each decides for itself how its device attends."""
    (alone,) = found[1]
    assert [rank[case]["held"] for rank in found[size]] == ["cpu", *["meta"] * (size - 1)]
    for rank in found[size]:
        assert rank[case]["one kernel"] == alone[case]["one kernel"] == ("one kernel" in case)
        assert rank[case]["buffers"].keys() == alone[case]["buffers"].keys()
        assert all(torch.equal(one, alone[case]["buffers"][name]) for name, one in rank[case]["buffers"].items())


@every_size
@pytest.mark.parametrize("case", ["loaded, off-loaded"])
def test_off_loading_leaves_the_gradient_alone(case: str, size: int, found: Any) -> None:
    for rank in found[size]:
        assert relative_error({case: rank[case]["gradient"]}, {case: rank[case]["exact"]}) < BOUND


@several
@pytest.mark.parametrize("case", ["bfloat16", "bfloat16 adapters"])
def test_bfloat16_is_as_coarse_as_on_one_rank(case: str, size: int, found: Any) -> None:
    """Layers travel in bfloat16: another rounding than that of one rank, and no more of it."""
    alone, first = found[1][0][case], found[size][0][case]
    coarse = float((alone["gradient"] - alone["exact"]).norm())
    assert 1e-3 < coarse / float(alone["exact"].norm()) < 0.1
    assert float((first["gradient"] - alone["exact"]).norm()) < 2 * coarse
    assert {tensor.dtype for tensor in first["weights"].values()} == {torch.float32}
