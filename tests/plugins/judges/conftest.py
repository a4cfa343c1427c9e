"""A judge that follows a script, at a real address."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scripted_judge import ScriptedJudge


@pytest.fixture
def judge() -> Iterator[ScriptedJudge]:
    with ScriptedJudge().served() as script:
        yield script
