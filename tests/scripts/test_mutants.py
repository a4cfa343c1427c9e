"""The mutation score of a package of one function: what its tests see, what they miss, and what is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

SOURCE = """
import os

def leave(with_all: bool = False) -> None:
    if with_all:
        os.killpg(0, 9)

def share(part: float, whole: float) -> float:
    if whole < 1:
        raise ValueError("nothing to share" + str(whole))
    name = "share"
    return part / whole
"""
CARELESS = "from agent_r1_core.sums import share\n\n\ndef test_it():\n    assert share(0.0, 2.0) == 0.0\n"
CAREFUL = """import pytest

from agent_r1_core.sums import leave, share


def test_it():
    leave()
    assert share(1.0, 2.0) == 0.5
    assert share(1.0, 1.0) == 1.0
    with pytest.raises(ValueError):
        share(1.0, 0.5)
    with pytest.raises(ValueError):
        share(1.0, 0.0)
"""
EMPTY = ("agent_r1_core/__init__.py", "agent_r1_cli/__init__.py", "recipes/default.yaml", "templates/a.txt")
FILES = {
    **dict.fromkeys((*EMPTY, "README.md", "CONTRIBUTING.md"), ""),
    "agent_r1_core/sums.py": SOURCE,
    "tests/test_sums.py": CARELESS,
    "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--import-mode=importlib"\n',
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "checkout" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "checkout"


@pytest.mark.slow
def test_better_tests_kill_more_and_texts_are_left_out(checkout, root, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "scripts"))
    from mutants import Workplace, choose, read_mutants
    from mutation.rooms import Room

    room = Room("sums", ("agent_r1_core/*.py",), ("tests/test_sums.py",), exhaustive=True)

    def survivors() -> set[tuple[str, str]]:
        place = Workplace(checkout, tmp_path / "work", room)
        place.prepare()
        place.leave_out_all_but(choose({room: read_mutants(place)})[room])
        place.run(workers=1)
        tried: list[Any] = [mutant for mutant in read_mutants(place) if mutant.tried]
        assert not any("nothing to share" in mutant.before or 'share"' in mutant.after for mutant in tried)
        return {(mutant.before, mutant.after) for mutant in tried if not mutant.killed}

    missed = survivors()
    assert ("return part / whole", "return part * whole") in missed
    (checkout / "tests" / "test_sums.py").write_text(CAREFUL)
    missed = {mutant for mutant in survivors() if "killpg" not in mutant[0]}
    assert missed == {('name = "share"', "name = None")}, "what kills its process group is killed alone"
