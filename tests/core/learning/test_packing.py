"""What a sequence costs in a prefix tree, and groups dealt to ranks."""

from __future__ import annotations

import random

import pytest

from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.packing import PrefixForest, deal, pack, passes
from agent_r1_core.learning.ranks import ONE_RANK
from agent_r1_core.testing import random_group


@pytest.mark.parametrize("seed", range(5))
def test_the_cost_of_a_sequence_is_what_it_adds(seed: int) -> None:
    """Of random sequences over two ids, so that many begin alike."""
    forest, rng = PrefixForest(), random.Random(seed)
    for _ in range(20):
        key, ids = rng.randrange(2), [rng.randrange(2) for _ in range(rng.randint(1, 9))]
        cost, before = forest.cost([ids], key), forest.tokens
        forest.add(ids, key)
        assert forest.tokens - before == cost


@pytest.fixture(scope="module")
def batch() -> Batch:
    return Batch.from_groups([random_group(seed, 2 + seed % 4, longest=4 + 5 * seed) for seed in range(9)])


def computed(batch: Batch, rows: list[int], share: bool) -> int:
    return len(pack(batch, rows, share).tree.ids)


@pytest.mark.parametrize("share", [True, False])
def test_groups_stay_whole_and_ranks_end_together(batch: Batch, share: bool) -> None:
    largest = max(computed(batch, hand, share) for hand in deal(batch, range(batch.size), share, 9))
    for size in (2, 3, 4):
        hands = deal(batch, range(batch.size), share, size)
        assert sorted(row for hand in hands for row in hand) == list(range(batch.size))
        assert sum(len({int(batch.group[row]) for row in hand}) for hand in hands) == 9
        loads = [computed(batch, hand, share) for hand in hands]
        assert max(loads) - min(loads) < largest
        assert max(loads) < 1.2 * sum(loads) / size


def test_the_order_of_rows_does_not_matter_and_equal_groups_go_to_the_first_ranks() -> None:
    batch = Batch.from_groups([random_group(0, 2), random_group(0, 2)])
    assert deal(batch, [3, 1, 2, 0], True, 4) == [[1, 0], [3, 2], [], []]


def test_a_rank_on_its_own_keeps_the_micro_batches_as_they_are(batch: Batch) -> None:
    found = [packed.rows.tolist() for packed in passes(batch, [5, 0, 1], 10_000, True, ONE_RANK)]
    assert found == [[0, 1, 5]]
