"""The page that opens first, and what browsers may do with it."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

STATIC = Path(__file__).parent / "static"
IMPORT_MAP = re.compile(r'<script type="importmap">(?P<map>.*?)</script>', re.DOTALL)


def front_page() -> str:
    """The HTML of the page, as every address of it begins."""
    return (STATIC / "index.html").read_text(encoding="utf-8")


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
