"""What lets a checkout run with a Python that has neither it nor all of its dependencies installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.version import Version

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


def make_site(folder: Path, root: Path, wheels: Path | None) -> dict[str, str]:
    """An environment in which the checkout can be imported and its entry points are found, without a network.

    Args:
        folder: to be made; gets the wheels that this Python lacks, or has in an older version.
        wheels: None: nothing is missing.
    """
    folder.mkdir(parents=True)
    for wheel in sorted(wheels.glob("*.whl")) if wheels is not None else ():
        if not _installed(*wheel.name.split("-")[:2]):
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
    known = pins(root)
    wanted = [f"{name}=={known[name]}" for name in CARRIED]
    machines = [word for tag in TAGS for word in ("--platform", f"{tag}_x86_64")]
    command = ["download", "--quiet", "--no-deps", "--only-binary=:all:", "--python-version", PYTHON, *machines]
    done = subprocess.run([sys.executable, "-m", "pip", *command, "--dest", str(folder), *wanted], check=False)
    if done.returncode:
        raise SystemExit("pip could not download every wheel; see what it says above")
    size = sum(wheel.stat().st_size for wheel in folder.glob("*.whl")) / 2**20
    if size > MOST:
        raise SystemExit(f"the wheels in {folder} take {size:.0f} MiB, more than {MOST}; begin with an empty folder")
    return f"{len(list(folder.glob('*.whl')))} wheels for {PLATFORMS} in {folder}, {size:.1f} MiB"


def pins(root: Path) -> dict[str, str]:
    """The version of every package of constraints.txt, by its name in lower case."""
    lines = (root / "constraints.txt").read_text(encoding="utf-8").splitlines()
    found = (re.match(r"([\w.-]+)==(\S+)", line) for line in lines)
    return {re.sub(r"[-_.]+", "-", one[1]).lower(): one[2] for one in found if one is not None}


def _installed(name: str, version: str) -> bool:
    """Whether this Python has the package, no older than that."""
    try:
        return Version(distribution(name.replace("_", "-")).version) >= Version(version)
    except PackageNotFoundError:
        return False
