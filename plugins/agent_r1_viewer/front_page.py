"""The page that opens first, and what browsers may do with it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path

from agent_r1_viewer.addresses import pages

STATIC = Path(__file__).parent / "static"
IMPORT_MAP = re.compile(r'<script type="importmap">(?P<map>.*?)</script>', re.DOTALL)
_FIRST = ("app.js", "pages/runs.js")
"""The modules of the page without an address, the list of runs."""
_IMPORT = re.compile(r'^import .*? from "viewer/(?P<file>[^"]+)";', re.MULTILINE | re.DOTALL)
_MODULE = '<script type="module"'
_PAGES = '<script type="application/json" id="pages">'


def front_page() -> str:
    """The HTML of the page, as every address of it begins, with the table of all pages."""
    text = (STATIC / "index.html").read_text(encoding="utf-8")
    return text.replace(_PAGES, f"{_PAGES}{json.dumps(pages())}", 1)


def hastened(page: str) -> str:
    """The page with the names of all modules that the list of runs needs, so that a browser asks for them at once: it
    would learn of each only from another one."""
    links = [f'<link rel="modulepreload" href="/static/{name}">' for name in needed(_FIRST)]
    return page.replace(_MODULE, "\n    ".join([*links, _MODULE]), 1)


def needed(names: Sequence[str]) -> list[str]:
    """Modules and all that they import, however far, as paths in the folder of static files."""
    found = dict.fromkeys(names)
    waiting = list(names)
    while waiting:
        text = (STATIC / waiting.pop()).read_text(encoding="utf-8")
        new = [match["file"] for match in _IMPORT.finditer(text) if match["file"] not in found]
        found |= dict.fromkeys(new)
        waiting += new
    return list(found)


def policy(page: str) -> str:
    """The content security policy: code and data from this server alone, the inline import map of `page`, and nothing
    that a run's text could add."""
    match = IMPORT_MAP.search(page)
    inline = f" '{digest(match['map'])}'" if match else ""
    return (
        f"default-src 'none'; script-src 'self'{inline}; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def digest(script: str) -> str:
    """A script's source as a policy names it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"
