"""docs/gateway_kit.md has every behaviour of the kit, with what becomes of it here, and all that gateways may offer."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_r1_gateway.reporting import OFFERS


@pytest.fixture
def page(root: Path) -> str:
    return (root / "docs" / "gateway_kit.md").read_text(encoding="utf-8")


def test_the_table_has_every_behaviour_and_ours_are_exact(page: str, root: Path, monkeypatch) -> None:
    """`python benchmarks/gateways.py ... --write` makes it."""
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    from gateways import BEGIN, END, behaviours

    rows = [line for line in page.partition(BEGIN)[2].partition(END)[0].splitlines() if line.startswith("| **")]
    shown = {line.partition("**: ")[0].removeprefix("| **"): line.partition("**: ")[2] for line in rows}
    wanted = {name.removeprefix("test_").replace("_", " "): told for name, told in behaviours().items()}
    assert list(shown) == list(wanted)
    assert len(wanted) >= 40
    for name, sentence in wanted.items():
        assert shown[name].startswith(f"{sentence} | exact |"), name


def test_the_page_names_all_that_a_gateway_may_offer(page: str) -> None:
    assert all(f"| `{offer}` |" in page for offer in OFFERS)
