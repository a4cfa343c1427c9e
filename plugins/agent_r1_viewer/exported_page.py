"""The viewer's page as one file without a server: its modules, styles and the answers that it shows are all inside.

It is for a paper's appendix, an issue or a notebook. Its policy allows no connection at all.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from agent_r1_core.errors import RunError
from agent_r1_core.runs.reading.found_runs import FoundRuns
from agent_r1_viewer.addresses import sheets
from agent_r1_viewer.answers import Answers
from agent_r1_viewer.carried import Carried, chosen_steps
from agent_r1_viewer.front_page import IMPORT_MAP, STATIC, digest, front_page

STEPS = "first,last"
_STYLE = re.compile(r'<link rel="stylesheet" href="/static/(?P<file>[^"]+)">')
_DRAWING = "vendor/uPlot.iife.min.js"
_DRAWING_SHEET = "vendor/uPlot.min.css"
"""What a page with a server asks for when the first of its pages needs it, as the script before."""
_MODULE = re.compile(r'<script type="module" src="/static/(?P<file>[^"]+)"></script>')
_CHARSET = '<meta charset="utf-8">'


@dataclass(frozen=True)
class ExportedPage:
    """A page, and what it holds."""

    html: str
    runs: list[str]
    steps: list[int]
    episodes: int
    """Of training."""
    evaluated: int
    """Episodes of evaluations."""


def export(places: Sequence[Path | str], steps: str = STEPS) -> ExportedPage:
    """A page with runs: all of them but their episodes, which it has of some steps.

    Args:
        places: runs, or folders with runs.
        steps: such as `1,7-9,last`, of every run.

    Raises:
        RunError: a place or all steps are missing, there is no run, or it is more than a page can hold.
    """
    answers = Answers(FoundRuns(places))
    carried, runs = Carried(answers), answers.runs.all()
    if not runs:
        raise RunError(f"there is no run in {', '.join(map(str, places))}; give a run, or a folder with runs")
    names = [run.id for run in runs]
    carried.runs(names)
    shown: set[int] = set()
    for run in runs:
        known = run.reader.trajectory_steps()
        chosen = chosen_steps(steps, known)
        shown |= set(chosen)
        carried.run(run.id, chosen)
    if not shown and steps != STEPS:
        raise RunError(f"no run has episodes of the steps {steps}; choose others with --steps")
    start = "#/" if len(names) > 1 else f"#/runs/{quote(names[0], safe='')}"
    return ExportedPage(_html(carried.packed(), start), names, sorted(shown), carried.episodes, carried.evaluated)


def page(places: Sequence[Path | str], address: str) -> str:
    """A page that opens at the address of charts or of an episode, such as `#/runs/first/steps/3/episodes/7`, and holds
    what is shown there; for a frame in a notebook.

    Args:
        places: runs, or folders with runs.
        address: as after the viewer's own.

    Raises:
        RunError: a place is missing, or there is nothing at this address.
    """
    carried = Carried(Answers(FoundRuns(places)))
    carried.needed(address)
    return _html(carried.packed(), address)


def _html(packed: bytes, start: str) -> str:
    """The page with everything inside."""
    inside = {name: base64.b64encode((STATIC / name).read_bytes()).decode() for name in _modules()}
    modules = json.dumps(
        {"imports": {f"viewer/{name}": f"data:text/javascript;base64,{data}" for name, data in inside.items()}}
    )
    text, scripts, styles = front_page(), [_inside(_DRAWING, "script"), modules], list[str]()

    def style(match: re.Match[str]) -> str:
        styles.extend(_inside(name, "style") for name in (match["file"], _DRAWING_SHEET, *sheets()))
        return "\n    ".join(f"<style>{sheet}</style>" for sheet in styles)

    def module(match: re.Match[str]) -> str:
        begin = json.dumps(start).replace("<", "\\u003c")
        scripts.append(f'if (!location.hash) location.hash = {begin}; import("viewer/{match["file"]}");')
        data = base64.b64encode(packed).decode()
        carried = f'<script type="application/json" id="carried">{data}</script>'
        return f'{carried}\n    <script type="module">{scripts[-1]}</script>'

    text = _STYLE.sub(style, text)
    inline = f'<script>{scripts[0]}</script>\n    <script type="importmap">{modules}</script>'
    text = IMPORT_MAP.sub(lambda _: inline, text)
    text = _MODULE.sub(module, text)
    policy = (
        f"default-src 'none'; script-src data: {_digests(scripts)}; style-src {_digests(styles)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    return text.replace(_CHARSET, f"{_CHARSET}\n    {meta}", 1)


def _modules() -> list[str]:
    """The page's own modules, as paths in the folder of static files."""
    return sorted(
        path.relative_to(STATIC).as_posix()
        for path in STATIC.rglob("*.js")
        if not path.is_relative_to(STATIC / "vendor")
    )


def _inside(name: str, element: str) -> str:
    """A static file as the text of an element, which it must not end."""
    text = (STATIC / name).read_text(encoding="utf-8")
    assert f"</{element}" not in text.lower()
    return text


def _digests(texts: Sequence[str]) -> str:
    return " ".join(f"'{digest(text)}'" for text in texts)
