"""Prefix trees: every token of every sequence is computed once, under its own prefix."""

from __future__ import annotations

import random

import pytest

from agent_r1_core.learning.packing import PrefixForest, Span


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
