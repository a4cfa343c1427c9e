"""The helper that has reasoning-gym: one for all sources and rewards of this process."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

from agent_r1_core.helper import Helper

ENVIRONMENT = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Five data sets draw in the order of hashes, so that only a fixed seed of hashes gives them twice."""


@functools.cache
def helper() -> Helper:
    return Helper([sys.executable, str(Path(__file__).with_name("helper") / "serve.py")], ENVIRONMENT)
