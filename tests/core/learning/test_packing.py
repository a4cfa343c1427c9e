"""Prefix trees: every token of every sequence is computed once, under its own prefix; and groups dealt to ranks."""

from __future__ import annotations

import random

import pytest

from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.packing import PrefixForest, Span, deal, pack, passes
from agent_r1_core.learning.ranks import ONE_RANK
from agent_r1_core.testing import random_group


def sequences(seed: int) -> list[tuple[int, list[int]]]:
    """Random sequences over few ids, so that many begin alike; (key, ids)."""
    rng = random.Random(seed)
    return [(rng.randrange(2), [rng.randrange(2) for _ in range(rng.randint(1, 9))]) for _ in range(20)]


def forest_of(pairs: list[tuple[int, list[int]]], share: bool = True) -> PrefixForest:
    forest = PrefixForest(share)
    for key, ids in pairs:
        forest.add(ids, key)
    return forest


@pytest.mark.parametrize("seed", range(5))
def test_every_sequence_is_found_again_along_its_path(seed: int) -> None:
    pairs = sequences(seed)
    tree, place = forest_of(pairs).build()
    prefixes = {(key, *ids[: end + 1]) for key, ids in pairs for end in range(len(ids))}
    assert len(tree.ids) == len(prefixes)
    starts = [0]
    for span in tree.spans:
        starts.append(starts[-1] + span.length)
    span_of = [number for number, span in enumerate(tree.spans) for _ in range(span.length)]
    offset = 0
    for _, ids in pairs:
        places = place[offset : offset + len(ids)].tolist()
        offset += len(ids)
        assert [int(tree.ids[at]) for at in places] == ids
        assert [int(tree.positions[at]) for at in places] == list(range(len(ids)))
        for at in places:
            number = span_of[at]
            seen = [p for one in (*tree.spans[number].above, number) for p in range(starts[one], starts[one + 1])]
            assert places[: places.index(at) + 1] == seen[: seen.index(at) + 1]
    assert offset == len(place)


def test_without_sharing_every_sequence_stands_alone() -> None:
    pairs = sequences(0)
    tree, place = forest_of(pairs, share=False).build()
    assert tree.spans == tuple(Span(len(ids), ()) for _, ids in pairs)
    assert place.tolist() == list(range(sum(len(ids) for _, ids in pairs)))


@pytest.mark.parametrize("seed", range(5))
def test_the_cost_of_a_sequence_is_what_it_adds(seed: int) -> None:
    forest = PrefixForest()
    for key, ids in sequences(seed):
        cost, before = forest.cost([ids], key), forest.tokens
        forest.add(ids, key)
        assert forest.tokens - before == cost


def test_an_empty_forest_computes_nothing() -> None:
    tree, place = PrefixForest().build()
    assert (len(tree.ids), len(place), tree.spans) == (0, 0, ())


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
