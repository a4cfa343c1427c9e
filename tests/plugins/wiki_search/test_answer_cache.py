from __future__ import annotations

import threading

from agent_r1_wiki_search.answer_cache import AnswerCache
from agent_r1_wiki_search.searcher import Hit

from agent_r1_core import Passage


def hits(count: int) -> list[Hit]:
    return [Hit(Passage(str(number), ""), 1.0) for number in range(count)]


def test_what_was_used_last_stays() -> None:
    cache = AnswerCache(5)
    cache.put("a", 2, hits(2))
    cache.put("b", 2, hits(2))
    assert cache.get("a", 2) == hits(2)
    cache.put("c", 2, hits(2))
    assert [cache.get(query, 2) for query in "abc"] == [hits(2), None, hits(2)]


def test_an_answer_belongs_to_its_number_of_passages_and_may_be_empty() -> None:
    cache = AnswerCache(5)
    cache.put("a", 2, [])
    assert cache.get("a", 2) == []
    assert cache.get("a", 3) is None


def test_an_answer_that_is_put_again_counts_once() -> None:
    cache = AnswerCache(4)
    for _ in range(5):
        cache.put("a", 2, hits(2))
    cache.put("b", 2, hits(2))
    assert cache.get("a", 2) == cache.get("b", 2) == hits(2)


def test_what_is_larger_than_the_cache_is_not_kept_and_drops_nothing() -> None:
    cache = AnswerCache(2)
    cache.put("a", 1, hits(1))
    cache.put("b", 3, hits(3))
    assert (cache.get("a", 1), cache.get("b", 3)) == (hits(1), None)
    nothing = AnswerCache(0)
    nothing.put("a", 1, [])
    assert nothing.get("a", 1) is None


def test_threads_share_it() -> None:
    cache, wrong = AnswerCache(20), []

    def use(name: str) -> None:
        for number in range(500):
            query = f"{name} {number % 7}"
            cache.put(query, 1, [Hit(Passage(query, ""), 1.0)])
            found = cache.get(query, 1)
            if found is not None and found[0].passage.title != query:
                wrong.append(query)

    threads = [threading.Thread(target=use, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert sum(cache.get(f"{name} {number}", 1) is not None for name in "abcd" for number in range(7)) == 20
