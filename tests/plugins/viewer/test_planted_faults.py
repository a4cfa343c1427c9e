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
VIEWER, READING = "plugins/agent_r1_viewer", "plugins/agent_r1_viewer/reading"
SERVER, LIVE = "tests/plugins/viewer/test_server.py", "tests/plugins/viewer/test_live.py"
GATE = "tests/plugins/viewer/test_gate.py"
EXPORT, INLINE = "tests/plugins/viewer/test_export.py", "tests/plugins/viewer/test_notebook.py"
STATE, FOUND = "tests/core/runs/test_state.py", "tests/core/runs/reading/test_found_runs.py"
EPISODES = "tests/plugins/viewer/reading/test_reading_episodes.py"
MATRIX = "tests/plugins/viewer/reading/test_evaluation_matrix.py"


@dataclass(frozen=True)
class Fault:
    """In `file`, the text `old`, which stands there exactly once, becomes `new`."""

    name: str
    file: str
    old: str
    new: str
    seen_by: str
    tests: str
    """A pytest -k expression: the quickest test of the file `seen_by` that sees it."""


FAULTS = (
    Fault("every-machine", f"{VIEWER}/serving.py", '"127.0.0.1"', '"0.0.0.0"', LIVE, "taken_port"),
    Fault(
        "names-that-begin-like-ours",
        f"{VIEWER}/gate.py",
        "not _OURS.fullmatch(",
        "not _OURS.match(",
        SERVER,
        "other_names",
    ),
    Fault("any-dot", f"{VIEWER}/gate.py", r"127\.0\.0\.1", r"127.0.0.\d+", SERVER, "other_names"),
    Fault("two-names", f"{VIEWER}/gate.py", "len(hosts) != 1 or not", "not", SERVER, "other_names"),
    Fault(
        "sending-allowed",
        f"{VIEWER}/gate.py",
        '("GET", "HEAD")',
        '("GET", "HEAD", "POST")',
        SERVER,
        "nothing_can_be_sent",
    ),
    Fault(
        "refusals-without-headers",
        f"{VIEWER}/gate.py",
        "(refused or self._app)(scope, receive, send_with_headers)",
        "(refused or self._app)(scope, receive, send if refused else send_with_headers)",
        SERVER,
        "other_names",
    ),
    Fault("no-policy", f"{VIEWER}/gate.py", '"content-security-policy": policy,', "", SERVER, "the_policy"),
    Fault(
        "other-sites-may-embed",
        f"{VIEWER}/gate.py",
        '"cross-origin-resource-policy": "same-origin",',
        "",
        SERVER,
        "the_policy",
    ),
    Fault("data-to-anywhere", f"{VIEWER}/front_page.py", "connect-src 'self'", "connect-src *", SERVER, "the_policy"),
    Fault("pictures-from-anywhere", f"{VIEWER}/front_page.py", "'self' data:", "* data:", SERVER, "the_policy"),
    Fault("may-be-framed", f"{VIEWER}/front_page.py", "; frame-ancestors 'none'", "", SERVER, "the_policy"),
    Fault("forms", f"{VIEWER}/front_page.py", "form-action 'none'; ", "", SERVER, "the_policy"),
    Fault(
        "texts-as-pages",
        f"{VIEWER}/app.py",
        "PlainTextResponse(answer.text.encode",
        "HTMLResponse(answer.text.encode",
        SERVER,
        "a_long_text",
    ),
    Fault(
        "source-as-static-files",
        f"{VIEWER}/app.py",
        "StaticFiles(STATIC)",
        "StaticFiles(STATIC.parent)",
        SERVER,
        "policy",
    ),
    Fault(
        "no-token", f"{VIEWER}/gate.py", "_refusal(scope) or self._stranger(scope)", "_refusal(scope)", GATE, "lacks"
    ),
    Fault(
        "token-of-another-port",
        f"{VIEWER}/gate.py",
        'cookies.get(cookie_name(headers["host"]), "")',
        'next(iter(cookies.values()), "")',
        GATE,
        "lacks",
    ),
    Fault(
        "cookie-for-everybody",
        f"{VIEWER}/gate.py",
        'scope["path"] != "/" or not self._fits(shown)',
        'scope["path"] != "/"',
        GATE,
        "lacks",
    ),
    Fault(
        "begins-like-the-page",
        f"{VIEWER}/gate.py",
        'scope["path"].startswith("/static/")',
        'not scope["raw_path"].startswith(b"/api/")',
        GATE,
        "lacks",
    ),
    Fault("cookie-for-scripts-and-sites", f"{VIEWER}/gate.py", "; HttpOnly; SameSite=Strict", "", GATE, "lacks"),
    Fault(
        "any-page-changes-remarks",
        f"{VIEWER}/gate.py",
        'headers.getlist("origin") == [f"http://{hosts[0]}"]',
        'headers.get("origin", "").startswith("http://")',
        GATE,
        "own_page",
    ),
    Fault(
        "token-on-the-command-line",
        "plugins/agent_r1_viewer/view_command.py",
        "webbrowser.open(Path(page.name).absolute().as_uri())",
        "webbrowser.open(address)",
        "tests/plugins/viewer/test_view.py",
        "command_line",
    ),
    Fault(
        "unread-searches-stay",
        f"{VIEWER}/line_stream.py",
        "async with asyncio.timeout(UNREAD):",
        "async with asyncio.timeout(None):",
        GATE,
        "nobody_reads",
    ),
    Fault(
        "every-search-at-once",
        f"{VIEWER}/app.py",
        "asyncio.Semaphore(THREADS)",
        "asyncio.Semaphore(100 * THREADS)",
        GATE,
        "nobody_reads",
    ),
    Fault(
        "remarks-in-the-run",
        f"{VIEWER}/remarks.py",
        'return self._folder / f"{digest.hexdigest()}.json"',
        'return run / f"{digest.hexdigest()}.json"',
        "tests/plugins/viewer/test_remarks.py",
        "beside",
    ),
    Fault(
        "links-followed",
        "agent_r1_core/opening.py",
        "real = Path(os.path.realpath(path))",
        "real = Path(path)",
        FOUND,
        "links",
    ),
    Fault(
        "folders-that-begin-alike",
        "agent_r1_core/opening.py",
        "real.is_relative_to(os.path.realpath(folder))",
        "str(real).startswith(os.path.realpath(folder))",
        FOUND,
        "links",
    ),
    Fault(
        "linked-runs-listed",
        "agent_r1_core/runs/reading/found_runs.py",
        "follow_symlinks=False",
        "follow_symlinks=True",
        FOUND,
        "links",
    ),
    Fault(
        "metrics-through-links",
        f"{VIEWER}/opened_runs.py",
        "return self._found.check_inside(self.reader.path.joinpath(*parts))",
        "return self.reader.path.joinpath(*parts)",
        SERVER,
        "no_link",
    ),
    Fault(
        "steps-through-links",
        f"{VIEWER}/opened_runs.py",
        "return self._found.check_inside(self.reader.trajectory_file(step))",
        "return self.reader.trajectory_file(step)",
        SERVER,
        "no_link",
    ),
    Fault(
        "evaluated-episodes-through-links",
        f"{VIEWER}/opened_runs.py",
        'return self.file("evaluations", found.trajectories[group])',
        'return self.reader.path / "evaluations" / found.trajectories[group]',
        SERVER,
        "no_link",
    ),
    Fault(
        "summaries-through-links",
        f"{VIEWER}/opened_runs.py",
        "SummaryReader(self.reader, found.check_inside)",
        "SummaryReader(self.reader)",
        SERVER,
        "no_link",
    ),
    Fault(
        "evaluations-through-links",
        "agent_r1_core/runs/reading/evaluation_scores.py",
        "                self._check(path)\n",
        "",
        SERVER,
        "no_link",
    ),
    Fault(
        "questions-through-links",
        f"{READING}/evaluation_matrix.py",
        "        check(episodes_file(path, result))\n",
        "",
        SERVER,
        "beside_it_only",
    ),
    Fault(
        "rows-of-questions-through-links",
        f"{READING}/evaluation_matrix.py",
        "                check(folder / name)\n",
        "",
        SERVER,
        "beside_it_only",
    ),
    Fault("search-through-links", f"{READING}/episode_search.py", "        check(path)\n", "", SERVER, "no_link"),
    Fault(
        "names-that-lead-elsewhere",
        "agent_r1_core/runs/evaluation_file.py",
        " and Path(name).name == name",
        "",
        SERVER,
        "beside_it_only",
    ),
    Fault(
        "looking-repairs",
        f"{VIEWER}/opened_runs.py",
        "        self.reader = RunReader(path)\n",
        "        from agent_r1_core.runs.run import Run\n\n        Run.bring_back(path)\n"
        "        self.reader = RunReader(path)\n",
        SERVER,
        "reading_changes_nothing",
    ),
    Fault(
        "exported-connects",
        f"{VIEWER}/exported_page.py",
        "img-src data:; ",
        "img-src data:; connect-src *; ",
        EXPORT,
        "nothing_of_a_run",
    ),
    Fault(
        "exported-names-folders",
        f"{VIEWER}/carried.py",
        '"folders": []',
        '"folders": listed["folders"]',
        EXPORT,
        "holds_the_answers",
    ),
    Fault(
        "address-ends-the-script",
        f"{VIEWER}/exported_page.py",
        '.replace("<", "\\\\u003c")',
        "",
        EXPORT,
        "for_a_notebook",
    ),
    Fault(
        "frame-of-the-same-origin",
        "plugins/agent_r1_viewer/notebook/inline.py",
        'sandbox="allow-scripts"',
        'sandbox="allow-scripts allow-same-origin"',
        INLINE,
        "frame",
    ),
    Fault(
        "numbers-of-the-segment-before",
        f"{VIEWER}/episode_answer.py",
        "joined = slice(before + start, before + min(start + most, len(found.ids)))",
        "joined = slice(start, min(start + most, len(found.ids)))",
        SERVER,
        "every_token",
    ),
    Fault(
        "versions-of-given-tokens",
        f"{VIEWER}/episode_answer.py",
        "[version if sampled else None for version, sampled in zip(versions, segment.mask, strict=True)]",
        "[versions[-1] for _ in versions]",
        SERVER,
        "every_token",
    ),
    Fault(
        "baseline-in-the-group",
        f"{READING}/episode_rows.py",
        "        if baseline:\n",
        "        if False:\n",
        EPISODES,
        "groups_are_cut",
    ),
    Fault(
        "dropped-in-the-group",
        f"{READING}/episode_rows.py",
        "elif status != EndStatus.FAILED:",
        "else:",
        SERVER,
        "a_step_is",
    ),
    Fault(
        "a-task-that-comes-twice-is-one",
        f"{READING}/episode_rows.py",
        " or sample <= before[1]",
        "",
        EPISODES,
        "groups_are_cut",
    ),
    Fault(
        "advantages-of-another-row",
        f"{READING}/episode.py",
        "batch.slice(row - start, 1)",
        "batch.slice(0, 1)",
        EPISODES,
        "one_episode",
    ),
    Fault(
        "failed-ones-are-wrong-answers",
        f"{READING}/evaluation_matrix.py",
        ' if one.get("status") != EndStatus.FAILED]',
        "]",
        MATRIX,
        "several_samples",
    ),
    Fault(
        "killed-is-training", "agent_r1_core/runs/state.py", "        if held:\n", "        if True:\n", STATE, "killed"
    ),
    Fault(
        "an-old-end-counts",
        "agent_r1_core/runs/events_file.py",
        "for one in reversed(events)",
        "for one in events",
        STATE,
        "until_it_tells",
    ),
)


@pytest.fixture(scope="module")
def runs() -> Iterator[Runner]:
    with runner() as found:
        yield found


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Iterator[Path]:
    with copied(root, tmp_path, TESTS) as folder:
        yield folder


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_test_sees_the_fault(fault: Fault, copy: Path, runs: Runner) -> None:
    plant(copy, fault.file, fault.old, fault.new)
    code, said = runs.run(copy, [copy / fault.seen_by], fault.tests, "-x")
    check_noticed(code, said, fault.seen_by)


def test_without_a_fault_the_same_tests_pass(copy: Path, runs: Runner) -> None:
    files = sorted({copy / fault.seen_by for fault in FAULTS})
    chosen = sorted({fault.tests for fault in FAULTS})
    code, said = runs.run(copy, files, " or ".join(f"({tests})" for tests in chosen))
    assert code == 0, said
