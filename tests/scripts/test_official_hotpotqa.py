"""Our scores are those of an independent plain implementation on the pairs that the official file was run on."""

from __future__ import annotations

from pathlib import Path

import pytest
from plain_scores import plain_exact, plain_f1

from agent_r1_core.metrics.scorers import exact_match_score, f1_score


def test_our_scores_are_those_of_a_plain_implementation(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(root / "scripts"))
    from official_hotpotqa import pairs

    cases = pairs(10_000)
    assert [exact_match_score(*case) for case in cases] == [plain_exact(*case) for case in cases]
    assert [f1_score(*case) for case in cases] == pytest.approx([plain_f1(*case) for case in cases], abs=1e-12)
    odd = [sum(0 < f1_score(*case) < 1 for case in cases), sum(not "".join(case).isascii() for case in cases)]
    assert min(odd) > 200, "the pairs tell scorers apart"
