"""Learner and embedded engine on a pretended GPU: one device, the CPU's numbers, and no more waits than stated."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from agent_r1_core.learning import attention
from agent_r1_core.work.running import trim_memory


@pytest.mark.slow
def test_no_case_mixes_devices_or_waits_more_often_than_the_table_says(root: Path) -> None:
    folders = [root, root / "plugins", root / "tests" / "laws"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), "OMP_NUM_THREADS": "1"}
    script = root / "tests" / "pretended_cuda" / "cases.py"
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    rows = [line.strip("| ").split(" | ") for line in (root / "docs/notes/pretended_gpu.md").read_text().splitlines()]
    stated = {row[0]: (int(row[1]), int(row[2])) for row in rows if len(row) == 3 and row[1].isdigit()}
    assert stated.keys() == found.keys()
    for case, counted in found.items():
        kernels, waits = stated[case]
        assert sum(counted["waits"].values()) <= waits, (case, counted["waits"])
        assert counted["kernels"] <= kernels, case
        assert counted["difference"] < (2e-3 if "bfloat16" in case else 1e-5), case


def test_memory_that_torch_keeps_of_a_gpu_is_given_back_and_attention_may_be_compiled_for_every_case(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Adapters, critics, references and precisions are more than torch's eight."""
    given_back = list[str]()
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: given_back.append("all"))
    trim_memory()
    assert given_back == ["all"]
    attention._compiled()
    assert torch._dynamo.config.recompile_limit >= 64
