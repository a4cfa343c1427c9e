"""The report: one Markdown file from what every part left."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

_KEPT = 60
"""Lines of a part that has no tables, or failed."""
_NOISE = re.compile(r"^(USDT:|Writing model shards|Loading weights)")


@dataclass(frozen=True)
class Result:
    """What became of a part."""

    part: str
    outcome: str
    """`passed`, `failed ...` or `cut ...`."""
    seconds: float
    printed: str
    told: str | None = None
    """In place of what it printed, where it passed."""

    def save(self, folder: Path) -> None:
        """Write it to a file of its own."""
        (folder / f"{self.part}.json").write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load_all(cls, folder: Path, parts: Sequence[str]) -> list[Result]:
        """Those that were saved, in the order of `parts`."""
        files = [folder / f"{part}.json" for part in parts]
        return [cls(**json.loads(file.read_text(encoding="utf-8"))) for file in files if file.is_file()]


def summary(facts: Mapping[str, str], results: Sequence[Result]) -> str:
    """The whole report."""
    lines = [
        "# On one GPU",
        "",
        "| what | is |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in facts.items()),
    ]
    if facts.get("vllm") == "not installed":
        lines += ["", "vLLM is not installed, so that nothing of it was run: the embedded engine served."]
    lines += ["", "| part | outcome | seconds |", "|---|---|---|"]
    lines += [f"| {one.part} | {one.outcome} | {one.seconds:.0f} |" for one in results]
    for one in results:
        lines += ["", f"## {one.part}: {one.outcome}", ""]
        if one.told is not None:
            lines += [one.told, ""]
        if one.told is None or one.outcome != "passed":
            lines += _shown(one)
    return "\n".join(lines).rstrip() + "\n"


def _shown(result: Result) -> list[str]:
    """What a part printed: as it is if it has tables, else its last lines; and those of one that did not pass."""
    lines = [line.split("\r")[-1].rstrip() for line in result.printed.splitlines()]
    lines = [line for line in lines if not _NOISE.match(line)]
    ending = ["```", *lines[-_KEPT:], "```"]
    if not any(line.startswith("|--") for line in lines):
        return ending
    shown = [line for line in lines if not line.startswith("written to ")]
    return shown if result.outcome == "passed" else [*shown, "", "Its last lines:", "", *ending]
