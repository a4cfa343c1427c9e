"""What the viewer promises about safety and numbers breaks, on purpose, in a copy of the source, and a test must fail.

Faults of the page itself are not here: to drive a browser for each would take too long.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from planting import Runner, check_noticed, copied, plant, runner

pytestmark = pytest.mark.slow

TESTS = ("tests/plugins/viewer", "tests/core/runs", "tests/warm")
SERVER, GATE, EXPORT, VIEW, READING = (
    f"tests/plugins/viewer/test_{name}.py" for name in ("server", "gate", "export", "view", "reading")
)
STATE, FOUND = "tests/core/runs/test_state.py", "tests/core/runs/reading/test_found_runs.py"
FAULTS = {
    "plugins/agent_r1_viewer/serving.py": (("every-machine", VIEW, "taken_port", '"127.0.0.1"', '"0.0.0.0"'),),
    "plugins/agent_r1_viewer/gate.py": (
        ("names-that-begin-like-ours", GATE, "other_names", "not _OURS.fullmatch(", "not _OURS.match("),
        ("no-token", GATE, "lacks", "_refusal(scope) or self._stranger(scope)", "_refusal(scope)"),
        ("token-of-another-port", GATE, "lacks",
         'cookies.get(cookie_name(headers["host"]), "")', 'next(iter(cookies.values()), "")'),
        ("cookie-for-everybody", GATE, "lacks",
         'scope["path"] != "/" or not self._fits(shown)', 'scope["path"] != "/"'),
        ("any-page-changes-remarks", GATE, "own_page",
         'headers.getlist("origin") == [f"http://{hosts[0]}"]', 'headers.get("origin", "").startswith("http://")'),
    ),
    "plugins/agent_r1_viewer/app.py": (
        ("unread-searches-stay", GATE, "nobody_reads",
         "async with asyncio.timeout(UNREAD):", "async with asyncio.timeout(None):"),
        ("every-search-at-once", GATE, "nobody_reads",
         "asyncio.Semaphore(THREADS)", "asyncio.Semaphore(100 * THREADS)"),
    ),
    "plugins/agent_r1_viewer/view_command.py": (
        ("token-on-the-command-line", VIEW, "command_line",
         "webbrowser.open(Path(page.name).absolute().as_uri())", "webbrowser.open(address)"),
    ),
    "plugins/agent_r1_viewer/remarks.py": (
        ("remarks-in-the-run", GATE, "beside",
         'return self._folder / f"{digest.hexdigest()}.json"', 'return run / f"{digest.hexdigest()}.json"'),
    ),
    "agent_r1_core/opening.py": (
        ("links-followed", FOUND, "links", "real = Path(os.path.realpath(path))", "real = Path(path)"),
    ),
    "plugins/agent_r1_viewer/opened_runs.py": (
        ("metrics-through-links", SERVER, "no_link",
         "return self._found.check_inside(self.reader.path.joinpath(*parts))",
         "return self.reader.path.joinpath(*parts)"),
        ("looking-repairs", SERVER, "reading_changes_nothing",
         "self.reader = RunReader(path)",
         "from agent_r1_core.runs.run import Run; Run.bring_back(path); self.reader = RunReader(path)"),
    ),
    "plugins/agent_r1_viewer/reading/evaluation_matrix.py": (
        ("questions-through-links", SERVER, "beside_it_only", "        check(episodes_file(path, result))\n", ""),
        ("failed-ones-are-wrong-answers", READING, "several_samples",
         ' if one.get("status") != EndStatus.FAILED]', "]"),
    ),
    "plugins/agent_r1_viewer/reading/episode_search.py": (
        ("search-through-links", SERVER, "no_link", "        check(path)\n", ""),
    ),
    "agent_r1_core/runs/evaluation_file.py": (
        ("names-that-lead-elsewhere", SERVER, "beside_it_only", " and Path(name).name == name", ""),
    ),
    "plugins/agent_r1_viewer/exported_page.py": (
        ("exported-connects", EXPORT, "nothing_of_a_run", "img-src data:; ", "img-src data:; connect-src *; "),
        ("address-ends-the-script", EXPORT, "for_a_notebook", '.replace("<", "\\\\u003c")', ""),
    ),
    "agent_r1_core/runs/events_file.py": (
        ("killed-is-training", STATE, "killed", "        if held:\n", "        if True:\n"),
    ),
}  # fmt: skip
"""By file, faults: a name, which test file sees it, a -k expression for the quickest test there that does, and what the
text, which stands in the file exactly once, becomes."""


@pytest.fixture(scope="module")
def runs() -> Iterator[Runner]:
    with runner() as found:
        yield found


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Iterator[Path]:
    with copied(root, tmp_path, TESTS) as folder:
        yield folder


@pytest.mark.parametrize(
    ("file", "seen_by", "tests", "old", "new"),
    [pytest.param(file, *fault, id=name) for file, several in FAULTS.items() for name, *fault in several],
)
def test_a_test_sees_the_fault(
    file: str, seen_by: str, tests: str, old: str, new: str, copy: Path, runs: Runner
) -> None:
    plant(copy, file, old, new)
    code, said = runs.run(copy, [copy / seen_by], tests, "-x")
    check_noticed(code, said, seen_by)


def test_without_a_fault_the_same_tests_pass(copy: Path, runs: Runner) -> None:
    _, seen_by, tests, _, _ = zip(*(fault for several in FAULTS.values() for fault in several), strict=True)
    files = [copy / file for file in sorted({*seen_by})]
    code, said = runs.run(copy, files, " or ".join(f"({one})" for one in sorted({*tests})))
    assert code == 0, said
