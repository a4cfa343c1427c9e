"""Which gateways make exact trajectories of what programs do? Runs the test kit on ours and on others.

    python benchmarks/gateways.py --agentlightning .agl-venv --rllm .rllm-venv --verifiers .vf-venv [--write]

Each peer is installed in a virtual environment of its own:

    python3.12 -m venv .agl-venv && .agl-venv/bin/pip install agentlightning==1.0.2 numpy
    python -m venv .rllm-venv && .rllm-venv/bin/pip install rllm-model-gateway==0.1.0
    python -m venv .vf-venv && .vf-venv/bin/pip install verifiers==0.4.0

`--write` puts the table into docs/gateway_kit.md. No GPU is needed.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import agent_r1_gateway_kit
from agent_r1_gateway import reporting
from gateway_engine import Engine
from gateway_peers import AgentLightning, Peer, Rllm, Verifiers, serve

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "gateway_kit.md"
BEGIN, END = "<!-- behaviours -->\n", "<!-- end of behaviours -->\n"
PEERS: Mapping[str, type[Peer]] = {"agentlightning": AgentLightning, "rllm": Rllm, "verifiers": Verifiers}
LARGE = "megabytes"
EXACT, AGAIN, FAILS, ABSENT = "exact", "encoded again", "fails", "not offered"
Results = Mapping[str, Mapping[str, list[tuple[str, str]]]]
"""By gateway and behaviour, the outcomes of its cases: what happened, and more about it."""


def behaviours() -> dict[str, str]:
    """What each test of the kit says that a program does, by name."""
    found = {}
    for file in sorted((Path(agent_r1_gateway_kit.__file__).parent / "behaviours").glob("test_*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found[node.name] = " ".join((ast.get_docstring(node) or "").split())
    return found


def run_kit(address: str) -> dict[str, list[tuple[str, str]]]:
    """Of each behaviour, the outcomes of its cases. What keeps a server busy comes last."""
    outcomes = defaultdict(list)
    for chosen in (f"not {LARGE}", LARGE):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "junit.xml"
            plugins = ["-p", "agent_r1_gateway_kit.pytest_plugin", "-p", "no:cacheprovider"]
            command = [sys.executable, "-m", "pytest", *plugins]
            options = ["--agent-gateway", address, f"--junitxml={file}", "-q", "--tb=short", "-k", chosen]
            subprocess.run([*command, *options], cwd=folder, timeout=900)
            for case in ET.parse(file).iter("testcase"):
                outcomes[str(case.get("name")).partition("[")[0]].append(_outcome(case))
    return outcomes


def _outcome(case: ET.Element) -> tuple[str, str]:
    skipped, failed = case.find("skipped"), case.find("failure")
    if failed is None:
        failed = case.find("error")
    if skipped is not None:
        return ABSENT, str(skipped.get("message"))
    if failed is None:
        return EXACT, ""
    said = str(failed.get("message")).split("\n")[0]
    kind, _, sentence = said.partition(": ")
    return (AGAIN, sentence) if kind.endswith("EncodedAgain") else (FAILS, sentence or said)


def cell(outcomes: list[tuple[str, str]]) -> str:
    """What a table shows of a behaviour: the worst of its cases, those that are not offered aside."""
    kinds = {kind for kind, _ in outcomes}
    return next(kind for kind in (FAILS, AGAIN, EXACT, ABSENT) if kind in kinds)


def table(results: Results) -> str:
    """One row for each behaviour."""
    lines = [f"| a program ... | {' | '.join(results)} |", "|---|" + "---|" * len(results)]
    for name, sentence in behaviours().items():
        cells = [cell(outcomes[name]) for outcomes in results.values()]
        lines.append(f"| **{name.removeprefix('test_').replace('_', ' ')}**: {sentence} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def sums(results: Results) -> str:
    """How many behaviours are what."""
    lines = [f"| | {' | '.join(results)} |", "|---|" + "---|" * len(results)]
    for kind in (EXACT, AGAIN, FAILS, ABSENT):
        counts = [sum(cell(cases) == kind for cases in outcomes.values()) for outcomes in results.values()]
        lines.append(f"| {kind} | {' | '.join(map(str, counts))} |")
    return "\n".join([*lines, ""])


def failures(results: Results) -> str:
    """What happened where a behaviour fails."""
    lines = []
    for gateway, outcomes in results.items():
        for name, cases in outcomes.items():
            told = sorted({sentence for kind, sentence in cases if kind == FAILS})
            lines += [
                f"- {gateway}, {name.removeprefix('test_').replace('_', ' ')}: {one[:240].replace('<', '&lt;')}"
                for one in told
            ]
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in PEERS:
        parser.add_argument(f"--{name}", type=Path, metavar="VENV")
    parser.add_argument("--write", action="store_true", help="put the table into docs/gateway_kit.md")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/gateways.json")
    options = parser.parse_args()
    venvs = {peer: getattr(options, name) for name, peer in PEERS.items()}
    spelled, canonical = ({**ours(how), **theirs(venvs, how)} for how in (True, False))
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps({"spelled": spelled, "canonical": canonical}, indent=1), encoding="utf-8")
    text = "\n".join(
        [
            table(spelled),
            "In sum:\n",
            sums(spelled),
            "With a policy that samples every text as the tokenizer encodes it:\n",
            sums(canonical),
            "What happened where it fails:\n",
            failures(spelled),
        ]
    )
    print(text)
    if options.write:
        page = PAGE.read_text(encoding="utf-8")
        page = page.partition(BEGIN)[0] + BEGIN + "\n" + text + "\n" + END + page.partition(END)[2]
        PAGE.write_text(page, encoding="utf-8")


def ours(spelled: bool) -> dict[str, Any]:
    """Our results; `spelled`: by a policy that samples texts one character at a time."""
    return {"agent-r1": run_kit(serve(reporting.app(play=partial(reporting.Played, spelled=spelled))))}


def theirs(venvs: Mapping[type[Peer], Path | None], spelled: bool) -> dict[str, Any]:
    """The results of the peers that are installed."""
    results = {}
    for peer, venv in venvs.items():
        if venv is None:
            continue
        engine, play = Engine(), cast("Callable[..., Any]", peer)
        app = reporting.app(peer.ABOUT, partial(play, engine, spelled=spelled))
        app.router.routes += engine.routes()
        address = serve(app)
        processes = peer.start(venv.absolute(), address)
        try:
            results[peer.ABOUT["name"]] = run_kit(address)
        finally:
            for process in processes:
                process.kill()
                process.wait()
    return results


if __name__ == "__main__":
    main()
