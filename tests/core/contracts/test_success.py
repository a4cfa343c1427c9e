"""Which episodes count as solved where the environment does not judge all of them."""

from __future__ import annotations

from agent_r1_core.contracts.success import judged


def test_an_episode_that_a_budget_cut_before_it_was_judged_is_no_success_where_others_are_judged() -> None:
    assert judged([True, None, None, False], [False, True, False, True]) == [True, False, None, False]
    assert judged([None, None], [True, False]) == [None, None], "the environment knows no success"
