"""Runs all that only a GPU can show, and writes one report (`make test-gpu`).

    python scripts/test_gpu.py
    python scripts/test_gpu.py --parts tests,learner --out results    # the others are kept, and stay in the report
    python scripts/test_gpu.py --pack wheels                          # where there is a network: what may be missing
    python scripts/test_gpu.py --wheels wheels                        # on a machine without one
    python scripts/test_gpu.py --device cpu --tiny                    # shows that the parts run

Parts: tests (those marked `gpu`), recipe (the default one), and those of benchmarks/gpu.py. It takes this Python with
its own torch and transformers, and installs nothing: the checkout is run as it is, and wheels that are missing here are
unpacked beside it. A part that does not end within its minutes is cut, and what it had printed by then is kept. The
exit status is 1 if a part failed or was cut.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
CARRIED = (
    *("annotated-doc", "annotated-types", "anyio", "bm25s", "h11", "httpcore2", "httpx2", "idna", "iniconfig"),
    *("pluggy", "pydantic", "pydantic-core", "pystemmer", "pytest", "rich", "shellingham", "truststore", "typer"),
    *("typing-extensions", "typing-inspection"),
)
"""Packages that a machine with torch, transformers and numpy may lack; pinned in constraints.txt."""
PYTHON, TAGS = "3.12", ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014", "manylinux_2_5")
PLATFORMS = f"Python {PYTHON} on x86-64 Linux"
MOST = 64
"""MiB of all wheels."""
Words = list[str | Path]
_AT_ONCE = 8
"""Tests at once; each holds a gigabyte of the card."""
LAST_WORDS = 20.0
"""Seconds that an interrupted part has to write its report."""
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
if find_spec("torch") is not None:
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
    part: str
    outcome: str
    """`passed`, `failed ...` or `cut ...`."""
    seconds: float
    printed: str
    told: str | None = None
    """In place of what it printed, where it passed."""


def summary(facts: Mapping[str, str], results: Sequence[Result]) -> str:
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


def facts(environment: Mapping[str, str]) -> dict[str, str]:
    """Of the processes that the parts run in; `GPU` is missing where torch sees none."""
    asked = [sys.executable, "-c", _ASK % (PACKAGES,)]
    done = subprocess.run(asked, env=dict(environment), capture_output=True, text=True, check=True)
    own = {"Python": platform.python_version(), "cores": str(len(os.sched_getaffinity(0)))}
    return own | json.loads(done.stdout.splitlines()[-1])


def make_site(folder: Path, root: Path, wheels: Path | None) -> dict[str, str]:
    """An environment in which the checkout can be imported and its entry points are found, without a network.

    Args:
        folder: to be made; gets the wheels that this Python lacks, or has in an older version.
        wheels: None: nothing is missing.
    """
    folder.mkdir(parents=True)
    for wheel in sorted(wheels.glob("*.whl")) if wheels is not None else ():
        name, version = wheel.name.split("-")[:2]
        with suppress(PackageNotFoundError):
            if Version(distribution(name.replace("_", "-")).version) >= Version(version):
                continue
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(folder)
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    described = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    described.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (described / "METADATA").write_text(metadata, encoding="utf-8")
    groups = {"console_scripts": project["scripts"], **project["entry-points"]}
    lines = [line for name, points in groups.items() for line in (f"[{name}]", *map(" = ".join, points.items()))]
    (described / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    path = [folder, root, root / "plugins", *filter(None, [os.environ.get("PYTHONPATH")])]
    calm = {"OMP_WAIT_POLICY": "PASSIVE", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    return {**os.environ, **calm, "PYTHONPATH": os.pathsep.join(map(str, path)), "PYTHONUNBUFFERED": "1"}


def pack(folder: Path, root: Path) -> str:
    """Download the wheels, and say what they take.

    Raises:
        SystemExit: pip failed, or they are larger than can be carried.
    """
    machines = [word for tag in TAGS for word in ("--platform", f"{tag}_x86_64")]
    command = ["download", "--quiet", "--no-deps", "--only-binary=:all:", "--python-version", PYTHON, *machines]
    command += ["--constraint", str(root / "constraints.txt")]
    done = subprocess.run([sys.executable, "-m", "pip", *command, "--dest", str(folder), *CARRIED], check=False)
    if done.returncode:
        raise SystemExit("pip could not download every wheel; see what it says above")
    size = sum(wheel.stat().st_size for wheel in folder.glob("*.whl")) / 2**20
    if size > MOST:
        raise SystemExit(f"the wheels in {folder} take {size:.0f} MiB, more than {MOST}; begin with an empty folder")
    return f"{len(list(folder.glob('*.whl')))} wheels for {PLATFORMS} in {folder}, {size:.1f} MiB"


@dataclass(frozen=True)
class Plan:
    """Where and how large everything runs."""

    root: Path
    """The checkout."""
    home: Path
    """For what is thrown away."""
    device: str
    tiny: bool
    environment: Mapping[str, str]


def _tests(plan: Plan) -> Words:
    """Only the files that have such tests: others may need packages that this machine lacks."""
    files = [path for path in sorted((plan.root / "tests").rglob("test_*.py")) if "mark.gpu" in path.read_text("utf-8")]
    chosen: Words = ["-m", "gpu", *(["-k", "one_kernel and sizes0"] if plan.tiny else [])]
    if find_spec("xdist") is not None and (os.cpu_count() or 1) > 2:  # most of their time they compile
        chosen += ["-n", str(min(os.cpu_count() or 1, _AT_ONCE))]
    found = plan.home / "tests.xml"
    return ["-m", "pytest", "-p", "no:cacheprovider", *chosen, "--device", plan.device, "--junitxml", found, *files]


def _recipe(plan: Plan) -> Words:
    tiny = ["training.steps=1", "training.tasks_per_step=2", "evaluation.every=0", "tasks.eval.size=4"]
    folder = f"run.dir={plan.home / 'run'}"
    options: Words = [f"model.device={plan.device}", folder, *(tiny if plan.tiny else [])]
    return ["-c", "from agent_r1_cli.main import main; main()", "train", "default", *options]


def _benchmark(plan: Plan, part: str) -> Words:
    small = ["--quick"] if plan.tiny else ["--device", plan.device]
    return [plan.root / "benchmarks" / "gpu.py", "--parts", part, *small, "--out", plan.home / f"{part}.json"]


PARTS: dict[str, Callable[[Plan], Words]] = {
    "tests": _tests,
    "recipe": _recipe,
    **{part: partial(_benchmark, part=part) for part in ("learner", "head", "decoding", "step")},
}


def run(name: str, plan: Plan, seconds: float) -> Result:
    """Run a part, for so many seconds at most."""
    if seconds < 1:
        return Result(name, "cut before it began", 0.0, "")
    begun, printed = time.monotonic(), plan.home / f"{name}.txt"
    with printed.open("wb") as out:
        streams: Any = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": subprocess.STDOUT}
        command = [sys.executable, *map(str, PARTS[name](plan))]
        process = subprocess.Popen(command, cwd=plan.root, env=plan.environment, start_new_session=True, **streams)
        try:
            status = process.wait(seconds)
            outcome = f"failed with exit status {status}" if status else "passed"
        except subprocess.TimeoutExpired:
            outcome = f"cut after {seconds:.0f} s"
            with suppress(subprocess.TimeoutExpired):  # an interrupted pytest still writes what it found
                os.killpg(process.pid, signal.SIGINT)
                process.wait(LAST_WORDS)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    text, xml = printed.read_text(encoding="utf-8", errors="replace"), plan.home / "tests.xml"
    told = _tests_told(xml) if name == "tests" and xml.is_file() else None
    return Result(name, outcome, time.monotonic() - begun, text, told)


def _tests_told(path: Path) -> str:
    """Of a file of pytest's `--junitxml`: counts, then every test that failed, and every reason for skipping some."""
    failed, skipped = list[str](), Counter[str]()
    report = ElementTree.parse(path)
    for case in report.iter("testcase"):
        for found in (one for one in case if one.tag in ("failure", "error", "skipped")):
            reason = (found.get("message") or "no reason given").splitlines()[0]
            if found.tag == "skipped":
                skipped[reason] += 1
            else:
                failed.append(f"- FAILED `{case.get('classname')}::{case.get('name')}`: {reason}")
    ended = sum(int(suite.get("tests", 0)) for suite in report.iter("testsuite"))  # an interrupted one is a case, too
    passed = ended - len(failed) - skipped.total()
    counts = f"{passed} passed, {len(failed)} failed, {skipped.total()} skipped"
    return "\n".join([counts, "", *failed, *(f"- skipped {n}: {why}" for why, n in skipped.items())]).strip()


def arguments() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--parts", default=",".join(PARTS), help="parts to run, comma-separated")
    options.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "gpu", help="a folder")
    options.add_argument("--minutes", type=float, default=25.0, help="of all parts together")
    options.add_argument("--part-minutes", type=float, default=9.0, help="of each part")
    options.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    options.add_argument("--tiny", action="store_true", help="the smallest sizes, to see that it runs")
    wheels = os.environ.get("AGENT_R1_WHEELS")
    options.add_argument("--wheels", type=Path, default=wheels, help="folder of missing wheels; or AGENT_R1_WHEELS")
    options.add_argument("--pack", type=Path, metavar="FOLDER", help=f"download them for {PLATFORMS}, and stop")
    chosen = options.parse_args()
    unknown = [part for part in chosen.parts.split(",") if part not in PARTS]
    if unknown:
        options.error(f"there is no part {unknown[0]!r}; the parts are {', '.join(PARTS)}")
    if chosen.wheels is not None and not chosen.wheels.is_dir():
        options.error(f"there is no folder {chosen.wheels}; fill one with --pack, or leave --wheels out")
    return chosen


def main() -> int:
    """Run the parts one after the other; the report is written again after each."""
    options = arguments()
    if options.pack is not None:
        print(pack(options.pack, ROOT))
        return 0
    end = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory(prefix="test-gpu-") as home:
        environment = make_site(Path(home) / "site", ROOT, options.wheels)
        described = facts(environment)
        if options.device == "cuda" and "GPU" not in described:
            otherwise = "use a machine with a GPU, or see with --device cpu --tiny that the parts run"
            print(f"torch sees no CUDA device, so that nothing was run; {otherwise}", file=sys.stderr)
            return 2
        options.out.mkdir(parents=True, exist_ok=True)
        plan = Plan(ROOT, Path(home), options.device, options.tiny, environment)
        chosen = options.parts.split(",")
        for name in [part for part in PARTS if part in chosen]:
            seconds = min(60 * options.part_minutes, end - time.monotonic())
            result = run(name, plan, seconds)
            print(f"{name}: {result.outcome}, {result.seconds:.0f} s", flush=True)
            files = {part: options.out / f"{part}.json" for part in PARTS}
            files[name].write_text(json.dumps(asdict(result), indent=1) + "\n", encoding="utf-8")
            kept = [Result(**json.loads(file.read_text("utf-8"))) for file in files.values() if file.is_file()]
            (options.out / "report.md").write_text(summary(described, kept), encoding="utf-8")
    print(f"written to {options.out / 'report.md'}")
    return int(any(result.outcome != "passed" for result in kept if result.part in chosen))


if __name__ == "__main__":
    sys.exit(main())
