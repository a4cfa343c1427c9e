"""What the machine is: its GPU, Python, and the packages that matter."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping

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
    cores = str(len(os.sched_getaffinity(0)))
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return {"Python": platform.python_version(), "cores": cores} | found
