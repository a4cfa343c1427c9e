"""The files that start a run on SLURM and on Kubernetes work, and speak of what recipe and docs speak of."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_r1_core.config import load_config
from agent_r1_core.config.models import DistributedConfig

KEY = re.compile(r"(?<![\w.-])([a-z_]+(?:\.[a-z_]+)+)=(\S+)")
RAY_AND_SLURM = {
    "srun": '#!/bin/bash\nwhile [ "${1#--}" != "$1" ]; do shift; done\nexec "$@"\n',
    "scontrol": "#!/bin/bash\necho first\necho second\n",
    "python": f'#!/bin/bash\nexec {sys.executable} "$@"\n',
    "ray": f'#!/bin/bash\nexec {sys.executable} -m ray.scripts.scripts "$@"\n',
    "agent-r1": f"""#!{sys.executable}
import os, signal, sys, threading
import ray

told = threading.Event()
ray.init("auto", log_to_driver=False)
signal.signal(signal.SIGTERM, lambda *_: told.set())
nodes = sum(node["Alive"] for node in ray.nodes())
token = oct(os.stat(os.environ["RAY_AUTH_TOKEN_PATH"]).st_mode & 0o777)
print("trained", *sys.argv[1:], nodes, token, flush=True)
os.kill(os.getppid(), signal.SIGTERM)  # as SLURM does before the time limit
print("saved", told.wait(60), flush=True)
sys.exit(7)
""",
}
"""Programs for `slurm.sh` on one machine, on which it starts two Ray nodes; the last takes the run's place."""


@pytest.fixture(scope="module")
def job(root: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((root / "docs" / "cluster" / "rayjob.yaml").read_text(encoding="utf-8"))
    return document


def written(text: str) -> dict[str, str]:
    """The recipe keys that a text sets."""
    return dict(KEY.findall(text))


def page(root: Path) -> str:
    return (root / "docs" / "scaling.md").read_text(encoding="utf-8")


def section(root: Path) -> dict[str, Any]:
    """The section `distributed` that the page shows."""
    found = re.search(r"```yaml\n(distributed:\n.*?)```", page(root), re.DOTALL)
    shown: dict[str, Any] = yaml.safe_load(found[1])["distributed"]
    return shown


def test_files_and_page_set_keys_that_the_page_explains(root: Path, job: dict[str, Any]) -> None:
    table = set(re.findall(r"^\| `(\w+)` \| [`\w]+ \|", page(root), re.MULTILINE))
    assert table == set(section(root)) == set(DistributedConfig.model_fields)
    slurm = (root / "docs" / "cluster" / "slurm.sh").read_text(encoding="utf-8")
    for text in (slurm, job["spec"]["entrypoint"], page(root)):
        keys = written(text)
        named = {key.partition(".")[2] for key in keys if key.startswith("distributed.")}
        assert named <= table
        assert {"rollout_workers", "learner_workers"} <= named
        keys.pop("distributed.placement", None)  # the page has several commands, and one of them is colocated
        others = [f"{key}={value.rstrip('`')}" for key, value in keys.items() if key.startswith(("engine.", "distrib"))]
        load_config("paper/hotpotqa-2wiki-grpo", [*others, "engine.processes=separate"])


def test_the_job_has_the_gpus_that_its_workers_need(job: dict[str, Any]) -> None:
    keys, cluster = written(job["spec"]["entrypoint"]), job["spec"]["rayClusterSpec"]
    playing = int(keys["distributed.rollout_workers"]) * int(keys["distributed.gpus_per_rollout_worker"])
    learning = int(keys["distributed.learner_workers"]) * int(keys["distributed.gpus_per_learner_worker"])
    (group,) = cluster["workerGroupSpecs"]
    (worker,) = group["template"]["spec"]["containers"]
    (head,) = cluster["headGroupSpec"]["template"]["spec"]["containers"]
    assert group["replicas"] * worker["resources"]["limits"]["nvidia.com/gpu"] == playing + learning
    assert keys["engine.tensor_parallel_size"] == keys["distributed.gpus_per_rollout_worker"]
    assert head["image"] == worker["image"]
    assert head["volumeMounts"] == worker["volumeMounts"]
    assert cluster["authOptions"] == {"mode": "token"}


def test_the_job_has_the_page_s_ray_and_one_command_of_agent_r1(root: Path, job: dict[str, Any]) -> None:
    assert re.findall(r"rayproject/ray:([\d.]+)-", page(root)) == [job["spec"]["rayClusterSpec"]["rayVersion"]]
    words = shlex.split(job["spec"]["entrypoint"])
    assert words[:2] == ["agent-r1", "train"]
    assert not {"&&", ";", "|"} & set(words), "Ray's submitter would take the rest as a command of its own"


@pytest.mark.slow
def test_the_slurm_script_starts_ray_everywhere_trains_saves_and_ends(root: Path, tmp_path: Path) -> None:
    if not os.environ.get("CI"):
        pytest.importorskip("ray")
    programs, home = tmp_path / "venv" / "bin", tmp_path / "submitted"
    programs.mkdir(parents=True)
    home.mkdir()
    (programs / "activate").write_text(f'PATH="{programs}:$PATH"\n')
    for name, text in RAY_AND_SLURM.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    slurm = {"SUBMIT_DIR": home, "JOB_ID": 1, "JOB_NODELIST": "all", "CPUS_PER_TASK": 1, "GPUS_ON_NODE": 0}
    told = {**{f"SLURM_{name}": str(value) for name, value in slurm.items()}, "VENV": str(tmp_path / "venv")}
    call = ["bash", root / "docs" / "cluster" / "slurm.sh", "default", "run.name=first"]
    env = {**os.environ, **told, "RAY_PORT": "6397"}
    done = subprocess.run(call, env=env, cwd=home, capture_output=True, text=True, timeout=300)
    said = [line for line in done.stdout.splitlines() if line.startswith(("trained", "saved"))]
    assert said == ["trained train default run.name=first distributed.address=auto 2 0o600", "saved True"], done.stderr
    assert done.returncode == 7, "the run's own"
    assert list(home.iterdir()) == [], "the token is gone"
