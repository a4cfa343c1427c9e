"""What tools change in the process that all share."""

from __future__ import annotations

import sys

import pytest

from agent_r1_core.tools.process_state import SharedProcess


@pytest.mark.parametrize(("change", "while_others_run"), [(500, 500), (-100, 0)])
def test_a_higher_recursion_limit_lasts_as_long_as_any_call_and_a_lower_one_ends_with_its_call(
    change: int, while_others_run: int
) -> None:
    before, process = sys.getrecursionlimit(), SharedProcess()
    try:
        process.begin("deep")
        process.begin("quick")
        sys.setrecursionlimit(before + change)
        process.returned("quick")
        process.end()
        assert sys.getrecursionlimit() == before + while_others_run
        process.returned("deep")
        process.end()
        assert sys.getrecursionlimit() == before
    finally:
        sys.setrecursionlimit(before)
