"""The test kit for gateways passes on ours, finds the faults that are planted in it, and has a page of the docs."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_r1_gateway import reporting, server
from agent_r1_gateway.history import History, Place
from agent_r1_gateway.line import Asked, Line
from agent_r1_gateway_kit.exact import EncodedAgain, NotExact, Report
from served import served

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where our gateway reports, in a thread, so that faults can be planted."""
    with served(reporting.app()) as address:
        yield address


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run pytest as somebody else would, in a folder of theirs."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "-p", "agent_r1_gateway_kit.pytest_plugin", "-p", "no:cacheprovider"]
        return subprocess.run([*command, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=300)

    return run


@pytest.mark.slow
def test_ours_passes_every_behaviour(run: Run, address: str) -> None:
    result = run("--agent-gateway", address)
    assert result.returncode == 0, result.stdout[-5000:]
    assert re.search(r"\n=+ 1\d\d passed in ", result.stdout), result.stdout[-500:]


def first_segment_alone(trajectory: Any, segments: Any = reporting._segments) -> Any:
    return segments(trajectory)[:1]


def a_token_too_many(trajectory: Any, segments: Any = reporting._segments) -> Any:
    return [one | {"mask": [*one["mask"][:2], 1, *one["mask"][3:]]} for one in segments(trajectory)]


def without_headers(self: Line, request: Any, api: Any, headers: Any, ask: Any = Line.ask) -> Any:
    return ask(self, request, api, {})


UNREAD = property(lambda self: 1, lambda self, value: None)
FAULTS = {
    "encodes again": (History, "place", lambda self, request: Place(None, request.messages, "anew"), "several_turns"),
    "trains retries twice": (Line, "ask", without_headers, "answer_that_was_lost and chat"),
    "drops sub-agents": (reporting, "_segments", first_segment_alone, "sub_agents_in_parallel and chat"),
    "trains what nobody read": (Asked, "listeners", UNREAD, "client_that_leaves and chat"),
    "masks a token too many": (reporting, "_segments", a_token_too_many, "a_question and chat"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(run: Run, address: str, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    target, name, broken, chosen = FAULTS[fault]
    monkeypatch.setattr(target, name, broken, raising=False)
    found = run("--agent-gateway", address, "-k", chosen, "--tb=line")
    assert found.returncode == 1, found.stdout[-3000:]
    assert ("EncodedAgain" if fault == "encodes again" else "NotExact") in found.stdout


@pytest.mark.slow
def test_a_busy_gateway_may_notice_late_that_a_client_has_left(
    run: Run, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = server._left

    async def late(request: Any) -> None:
        await left(request)
        await asyncio.sleep(0.7)

    monkeypatch.setattr(server, "_left", late)
    result = run("--agent-gateway", address, "-k", "test_a_client_that_leaves and chat")
    assert result.returncode == 0, result.stdout[-3000:]


def report(sampled: list[tuple[list[int], list[int]]], segments: list[tuple[list[int], list[int]]]) -> Report:
    actions = [
        {"action": number, "prompt": prompt, "ids": ids, "context": ""} for number, (prompt, ids) in enumerate(sampled)
    ]
    return Report.of({"sampled": actions, "segments": [{"ids": ids, "mask": mask} for ids, mask in segments]})


TWO = [([1, 2], [3, 4]), ([1, 2, 3, 4, 5], [6])]
"""Two actions of one conversation."""


@pytest.mark.parametrize(
    "segments",
    [[([1, 2, 3, 4, 5, 6], [0, 0, 1, 1, 0, 1])], [([1, 2, 3, 4], [0, 0, 1, 1]), ([1, 2, 3, 4, 5, 6], [0] * 5 + [1])]],
    ids=["one segment", "one for each turn"],
)
def test_what_is_exact(segments):
    report(TWO, segments).check([[0, 1]])


@pytest.mark.parametrize(
    ("sampled", "segments", "error", "sentence"),
    [
        (TWO, [([1, 2, 3, 4, 5, 6], [0, 0, 1, 1, 1, 1])], NotExact, "not trained once"),
        (TWO, [([1, 2, 3, 4, 5, 6], [0, 0, 1, 0, 0, 1])], NotExact, "not trained once"),
        (TWO, [([1, 2, 3, 4, 9, 6], [0, 0, 1, 1, 0, 1])], NotExact, "no segment holds it"),
        (TWO, [([1, 2, 3, 4, 5, 6], [0, 0, 1, 1, 0, 1]), ([1, 2, 3, 4], [0, 0, 1, 1])], NotExact, "trained already"),
        (TWO, [([1, 2, 3, 4, 5, 6, 7], [0, 0, 1, 1, 0, 1])], NotExact, "mask of segment 0"),
        (TWO, [([1, 2, 3, 4, 5, 6, 7, 8], [0, 0, 1, 1, 0, 1, 0, 1])], NotExact, "did not sample"),
        (
            [([1, 2], [3, 4]), ([1, 2, 34, 5], [6])],
            [([1, 2, 3, 4], [0, 0, 1, 1]), ([1, 2, 34, 5, 6], [0, 0, 0, 0, 1])],
            EncodedAgain,
            "its id 0 differs",
        ),
    ],
    ids=["between", "half", "another context", "twice", "length", "unsampled", "encoded again"],
)
def test_what_is_not_exact(sampled, segments, error, sentence):
    with pytest.raises(error, match=sentence):
        report(sampled, segments).check([[0, 1]])


def test_behaviours_are_collected_by_the_option_alone_and_a_gateway_that_is_not_there_is_named(
    run: Run, tmp_path: Path, address: str
) -> None:
    (tmp_path / "test_own.py").write_text(
        "import sys\ndef test_own(): assert 'agent_r1_gateway_kit.protocol' not in sys.modules\n"
    )
    assert "1 passed" in run().stdout
    (tmp_path / "test_own.py").write_text("def test_a_question_of_mine(): pass\n")
    result = run("--agent-gateway", address, "test_own.py", "-k", "a_question and (chat or mine)")
    assert "3 passed" in result.stdout, result.stdout
    result = run("--agent-gateway", "http://127.0.0.1:9", "-k", "a_question and chat")
    assert "nobody listens at http://127.0.0.1:9" in result.stdout
    assert result.returncode == 1
    result = run("--agent-gateway", "nonsense", "-k", "a_question and chat")
    assert "is no address; give one such as http:" in result.stdout


def test_the_page_has_every_behaviour_ours_are_exact_and_all_that_a_gateway_may_offer(root: Path, monkeypatch) -> None:
    """`python benchmarks/gateways.py ... --write` makes its table."""
    page = (root / "docs" / "gateway_kit.md").read_text(encoding="utf-8")
    assert all(f"| `{offer}` |" in page for offer in reporting.OFFERS)
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    from gateways import BEGIN, END, behaviours

    rows = [line for line in page.partition(BEGIN)[2].partition(END)[0].splitlines() if line.startswith("| **")]
    shown = {line.partition("**: ")[0].removeprefix("| **"): line.partition("**: ")[2] for line in rows}
    wanted = {name.removeprefix("test_").replace("_", " "): told for name, told in behaviours().items()}
    assert list(shown) == list(wanted)
    assert len(wanted) >= 40
    for name, sentence in wanted.items():
        assert shown[name].startswith(f"{sentence} | exact |"), name
