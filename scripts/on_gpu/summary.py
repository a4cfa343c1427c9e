"""The report: one Markdown file from what the machine is and what every part left."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

PACKAGES = ("torch", "triton", "transformers", "numpy", "pyarrow", "pydantic", "peft", "pytest")
_ASK = """
import json
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
found = {"vllm": "not installed" if find_spec("vllm") is None else "installed"}
for name in %r:
    try:
        found[name] = version(name)
    except PackageNotFoundError:
        found[name] = "not installed"
import torch
found["CUDA"] = torch.version.cuda or "none"
if torch.cuda.is_available():
    card = torch.cuda.get_device_properties(0)
    found["GPU"] = f"{card.name}, {card.total_memory / 2**30:.0f} GiB, compute capability {card.major}.{card.minor}"
print(json.dumps(found))
"""
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
    table = [f"| {name} | {value} |" for name, value in facts.items()]
    lines = ["# On one GPU", "", "| what | is |", "|---|---|", *table]
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


def seen_gpu() -> bool:
    """Whether torch is there and sees a CUDA device."""
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def facts(environment: Mapping[str, str]) -> dict[str, str]:
    """Of the processes that the parts run in."""
    asked = [sys.executable, "-c", _ASK % (PACKAGES,)]
    done = subprocess.run(asked, env=dict(environment), capture_output=True, text=True, check=True)
    own = {"Python": platform.python_version(), "cores": str(len(os.sched_getaffinity(0)))}
    return own | json.loads(done.stdout.splitlines()[-1])
