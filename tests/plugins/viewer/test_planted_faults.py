"""What the viewer promises about safety and numbers breaks, on purpose, in a copy of the source, and a test must fail.

Faults of the page itself are not here: to drive a browser for each would take too long.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from planting import Runner, check_noticed, copied, plant, runner

pytestmark = pytest.mark.slow

TESTS = ("tests/plugins/viewer", "tests/core/runs")
SERVER, GATE, EXPORT, VIEW, READING = (
    f"tests/plugins/viewer/test_{name}.py" for name in ("server", "gate", "export", "view", "reading")
)
STATE, FOUND = "tests/core/runs/test_state.py", "tests/core/runs/reading/test_found_runs.py"


@dataclass(frozen=True)
class Fault:
    """In a file, the text `old`, which stands there exactly once, becomes `new`."""

    name: str
    seen_by: str
    tests: str
    """A pytest -k expression: the quickest test of the file `seen_by` that sees it."""
    old: str
    new: str


FAULTS: dict[str, tuple[Fault, ...]] = {
    "plugins/agent_r1_viewer/serving.py": (
        Fault("every-machine", VIEW, "taken_port", '"127.0.0.1"', '"0.0.0.0"'),
    ),
    "plugins/agent_r1_viewer/gate.py": (
        Fault("names-that-begin-like-ours", GATE, "other_names", "not _OURS.fullmatch(", "not _OURS.match("),
        Fault("no-token", GATE, "lacks", "_refusal(scope) or self._stranger(scope)", "_refusal(scope)"),
        Fault("token-of-another-port", GATE, "lacks",
              'cookies.get(cookie_name(headers["host"]), "")', 'next(iter(cookies.values()), "")'),
        Fault("cookie-for-everybody", GATE, "lacks",
              'scope["path"] != "/" or not self._fits(shown)', 'scope["path"] != "/"'),
        Fault("any-page-changes-remarks", GATE, "own_page",
              'headers.getlist("origin") == [f"http://{hosts[0]}"]', 'headers.get("origin", "").startswith("http://")'),
    ),
    "plugins/agent_r1_viewer/app.py": (
        Fault("unread-searches-stay", GATE, "nobody_reads",
              "async with asyncio.timeout(UNREAD):", "async with asyncio.timeout(None):"),
        Fault("every-search-at-once", GATE, "nobody_reads",
              "asyncio.Semaphore(THREADS)", "asyncio.Semaphore(100 * THREADS)"),
    ),
    "plugins/agent_r1_viewer/view_command.py": (
        Fault("token-on-the-command-line", VIEW, "command_line",
              "webbrowser.open(Path(page.name).absolute().as_uri())", "webbrowser.open(address)"),
    ),
    "plugins/agent_r1_viewer/remarks.py": (
        Fault("remarks-in-the-run", GATE, "beside",
              'return self._folder / f"{digest.hexdigest()}.json"', 'return run / f"{digest.hexdigest()}.json"'),
    ),
    "agent_r1_core/opening.py": (
        Fault("links-followed", FOUND, "links", "real = Path(os.path.realpath(path))", "real = Path(path)"),
    ),
    "plugins/agent_r1_viewer/opened_runs.py": (
        Fault("metrics-through-links", SERVER, "no_link",
              "return self._found.check_inside(self.reader.path.joinpath(*parts))",
              "return self.reader.path.joinpath(*parts)"),
        Fault("looking-repairs", SERVER, "reading_changes_nothing",
              "self.reader = RunReader(path)",
              "from agent_r1_core.runs.run import Run; Run.bring_back(path); self.reader = RunReader(path)"),
    ),
    "plugins/agent_r1_viewer/reading/evaluation_matrix.py": (
        Fault("questions-through-links", SERVER, "beside_it_only", "        check(episodes_file(path, result))\n", ""),
        Fault("failed-ones-are-wrong-answers", READING, "several_samples",
              ' if one.get("status") != EndStatus.FAILED]', "]"),
    ),
    "plugins/agent_r1_viewer/reading/episode_search.py": (
        Fault("search-through-links", SERVER, "no_link", "        check(path)\n", ""),
    ),
    "agent_r1_core/runs/evaluation_file.py": (
        Fault("names-that-lead-elsewhere", SERVER, "beside_it_only", " and Path(name).name == name", ""),
    ),
    "plugins/agent_r1_viewer/exported_page.py": (
        Fault("exported-connects", EXPORT, "nothing_of_a_run", "img-src data:; ", "img-src data:; connect-src *; "),
        Fault("address-ends-the-script", EXPORT, "for_a_notebook", '.replace("<", "\\\\u003c")', ""),
    ),
    "agent_r1_core/runs/events_file.py": (
        Fault("killed-is-training", STATE, "killed", "        if held:\n", "        if True:\n"),
    ),
}  # fmt: skip
"""By file."""


@pytest.fixture(scope="module")
def runs() -> Iterator[Runner]:
    with runner() as found:
        yield found


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Iterator[Path]:
    with copied(root, tmp_path, TESTS) as folder:
        yield folder


@pytest.mark.parametrize(
    ("file", "fault"), [pytest.param(file, one, id=one.name) for file, several in FAULTS.items() for one in several]
)
def test_a_test_sees_the_fault(file: str, fault: Fault, copy: Path, runs: Runner) -> None:
    plant(copy, file, fault.old, fault.new)
    code, said = runs.run(copy, [copy / fault.seen_by], fault.tests, "-x")
    check_noticed(code, said, fault.seen_by)


def test_without_a_fault_the_same_tests_pass(copy: Path, runs: Runner) -> None:
    faults = [one for several in FAULTS.values() for one in several]
    files = sorted({copy / fault.seen_by for fault in faults})
    code, said = runs.run(copy, files, " or ".join(f"({tests})" for tests in sorted({one.tests for one in faults})))
    assert code == 0, said
