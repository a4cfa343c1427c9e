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
from gateway_peers import AgentLightning, Peer, Rllm, Verifiers
from served import served

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
            options = ["--agent-gateway", address, f"--junitxml={file}", "-q", "--tb=short", "-k", chosen]
            subprocess.run([sys.executable, "-m", "pytest", *plugins, *options], cwd=folder, timeout=900)
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


def table(head: str, results: Results, rows: Mapping[str, list[Any]]) -> str:
    lines = [f"{head} | {' | '.join(results)} |", "|---|" + "---|" * len(results)]
    return "\n".join([*lines, *(f"| {' | '.join([name, *map(str, cells)])} |" for name, cells in rows.items()), ""])


def by_behaviour(results: Results) -> str:
    told = {name: f"**{shown(name)}**: {sentence}" for name, sentence in behaviours().items()}
    rows = {sentence: [cell(one[name]) for one in results.values()] for name, sentence in told.items()}
    return table("| a program ...", results, rows)


def sums(results: Results) -> str:
    kinds = [[cell(cases) for cases in outcomes.values()] for outcomes in results.values()]
    return table("|", results, {kind: [own.count(kind) for own in kinds] for kind in (EXACT, AGAIN, FAILS, ABSENT)})


def failures(results: Results) -> str:
    lines = []
    for gateway, outcomes in results.items():
        for name, cases in outcomes.items():
            told = sorted({sentence for kind, sentence in cases if kind == FAILS})
            lines += [f"- {gateway}, {shown(name)}: {one[:240].replace('<', '&lt;')}" for one in told]
    return "\n".join([*lines, ""])


def shown(test: str) -> str:
    return test.removeprefix("test_").replace("_", " ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in PEERS:
        parser.add_argument(f"--{name}", type=Path, metavar="VENV")
    parser.add_argument("--write", action="store_true", help="put the table into docs/gateway_kit.md")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/gateways.json")
    options = parser.parse_args()
    venvs = {peer: getattr(options, name).absolute() for name, peer in PEERS.items() if getattr(options, name)}
    spelled, canonical = (tried(venvs, how) for how in (True, False))
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps({"spelled": spelled, "canonical": canonical}, indent=1), encoding="utf-8")
    as_encoded = "With a policy that samples every text as the tokenizer encodes it:\n"
    parts = [by_behaviour(spelled), "In sum:\n", sums(spelled), as_encoded, sums(canonical)]
    text = "\n".join([*parts, "What happened where it fails:\n", failures(spelled)])
    print(text)
    if options.write:
        page = PAGE.read_text(encoding="utf-8")
        page = page.partition(BEGIN)[0] + BEGIN + "\n" + text + "\n" + END + page.partition(END)[2]
        PAGE.write_text(page, encoding="utf-8")


def tried(venvs: Mapping[type[Peer], Path], spelled: bool) -> dict[str, Any]:
    """Our results, and those of the peers; `spelled`: by a policy that samples texts one character at a time."""
    with served(reporting.app(play=partial(reporting.Played, spelled=spelled))) as address:
        results = {"agent-r1": run_kit(address)}
    for peer, venv in venvs.items():
        engine, play = Engine(), cast("Callable[..., Any]", peer)
        app = reporting.app(peer.ABOUT, partial(play, engine, spelled=spelled))
        app.router.routes += engine.routes()
        with served(app) as address:
            processes = peer.start(venv, address)
            try:
                results[peer.ABOUT["name"]] = run_kit(address)
            finally:
                for process in processes:
                    process.kill()
                    process.wait()
    return results


if __name__ == "__main__":
    main()
