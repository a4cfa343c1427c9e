"""What the worlds model is taught from is legal and aimless, and both tokenizers are those that ship."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast


@pytest.fixture
def scripts(root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(root / "scripts"))
    for name in [name for name in sys.modules if name.split(".")[0] in ("tiny_model", "worlds_model")]:
        monkeypatch.delitem(sys.modules, name)
    import worlds_model.aimless

    return worlds_model.aimless


def test_steps_on_the_lake_are_drawn_among_those_that_stay_on_it_and_nothing_else_matters(scripts: Any) -> None:
    """A hole next to the player is chosen as often as ice."""
    chosen: Counter[str] = Counter()
    open_to: Counter[str] = Counter()
    for demonstration in islice(scripts.Aimless(1, {"frozen_lake": 1.0}), 500):
        for shown, said in zip(demonstration.messages[::2], demonstration.messages[1::2], strict=True):
            around = dict(re.findall(r" (left|down|right|up) ([_O#G])", shown["content"].rpartition("at ")[2]))
            first = re.fullmatch(r"<answer>(\w+)(, \w+)*</answer>", said["content"])[1]
            if around:
                assert around[first] != "#"
                chosen[around[first]] += 1
                steps = [cell for cell in around.values() if cell != "#"]
                open_to.update({cell: steps.count(cell) / len(steps) for cell in set(steps)})
    for cell in ("_", "O"):
        assert chosen[cell] / open_to[cell] == pytest.approx(1.0, abs=0.15)


def test_every_world_is_played_without_an_error(scripts: Any) -> None:
    seen = Counter()
    for demonstration in islice(scripts.Aimless(2), 200):
        assert "Error" not in "".join(message["content"] for message in demonstration.messages)
        first = demonstration.messages[0]["content"]
        seen[next((word for word in ("Target", "phoenix", "#####", "down") if word in first), first)] += 1
    assert set(seen) == {"Target", "phoenix", "#####", "down"}


@pytest.mark.parametrize("name", ["tiny", "tiny-worlds"])
def test_the_scripts_build_the_tokenizers_that_ship(name: str, scripts: Any, root: Path) -> None:
    import tiny_model.tokenizer
    import worlds_model.tokenizer

    built = (tiny_model if name == "tiny" else worlds_model).tokenizer.build()
    shipped = PreTrainedTokenizerFast.from_pretrained(root / "agent_r1_core" / "bundled" / name)
    assert built.get_vocab() == shipped.get_vocab()
    assert json.loads(built.backend_tokenizer.to_str()) == json.loads(shipped.backend_tokenizer.to_str())
