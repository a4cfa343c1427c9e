"""What pytest wrote of the tests that it ran."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from xml.etree import ElementTree


def tests_of(path: Path) -> str:
    """Counts, then a line for every test that failed and every reason for which some were skipped.

    Args:
        path: a file of pytest's `--junitxml`.
    """
    failed: list[str] = []
    skipped: Counter[str] = Counter()
    cases = list(ElementTree.parse(path).iter("testcase"))
    for case in cases:
        for kind in ("failure", "error", "skipped"):
            found = case.find(kind)
            if found is None:
                continue
            reason = (found.get("message") or "no reason given").splitlines()[0]
            if kind == "skipped":
                skipped[reason] += 1
            else:
                failed.append(f"- FAILED `{case.get('classname')}::{case.get('name')}`: {reason}")
    passed = len(cases) - len(failed) - sum(skipped.values())
    counts = f"{passed} passed, {len(failed)} failed, {sum(skipped.values())} skipped"
    return "\n".join([counts, "", *failed, *(f"- skipped {n}: {why}" for why, n in skipped.items())]).strip()
