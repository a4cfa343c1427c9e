"""Runs that are spread over two machines: two nodes of Ray in namespaces, each with an IP address of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_workers import check_complete
from small_run import REWARD, overrides, run_once

from agent_r1_core.runs.run import Run
from agent_r1_core.testing import tiny_model_folder

CHANGED = {
    "deterministic": "false",
    # Rewards keep their spread, so that every step has every metric.
    "training__lr": "1e-4",
    "engine__max_new_tokens": 16,
    "evaluation__every": 0,
    "evaluation__at_start": "false",
    "checkpoint": "{every: 2, keep: 1, best: null}",
    "threads": 1,
    "model__device": "cpu",
}
ON_NODES = {"distributed__address": "auto", "distributed__gpus_per_rollout_worker": 0, "model__device": "cpu"}
VLLM = {"engine__name": "vllm", "engine__kv_cache_memory": 0.125}
SIZES = {"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1}  # large enough for vLLM's kernels


@pytest.fixture(scope="module")
def cluster(root: Path) -> Iterator[Any]:
    """Two nodes; skipped where they cannot be made."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root / "scripts"))
        import two_nodes

        try:
            with two_nodes.two_nodes(gpus=1) as nodes:  # Ray deals them out, so that two ranks are on two nodes
                yield nodes
        except two_nodes.CannotMakeNodes as error:
            if os.environ.get("CI") and os.geteuid() == 0:
                raise
            pytest.skip(f"two nodes cannot be made: {error}")


@pytest.fixture
def nodes(cluster: Any) -> Any:
    """Both nodes run, also after a test that lost one."""
    if not cluster.nodes[1].runs:
        cluster.join()
    return cluster


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model and the reward of all runs, and the runs."""
    folder = tmp_path_factory.mktemp("nodes")
    tiny_model_folder(folder / "model", **SIZES)
    (folder / "vowels.py").write_text(REWARD)
    return folder


@pytest.fixture(scope="module")
def expected(folder: Path) -> list[set[str]]:
    """The names of the metrics of every step, as one process records them."""
    return [set(line) for line in run_once(folder, "alone", 6, **CHANGED).metrics()]


def spread_run(
    nodes: Any, folder: Path, name: str, steps: int, watch: Callable[[Run], None], **changed: Any
) -> tuple[Run, str]:
    """Train on both nodes by the command line; gives the run and what was said. `watch` is called again and again."""
    given = overrides(folder, steps, **CHANGED | ON_NODES | changed, run__name=name)
    command = [str(Path(sys.executable).with_name("agent-r1")), "train", "default", f"--plugin={folder}/vowels.py"]
    with (folder / f"{name}.txt").open("w+") as said:
        with nodes.start([*command, *given], stdout=said, stderr=subprocess.STDOUT) as running:
            while running.poll() is None:
                watch(Run(folder / "runs" / name))
                try:
                    running.wait(0.2)
                except subprocess.TimeoutExpired:
                    continue
        said.seek(0)
        text = said.read()
    assert running.returncode == 0, text
    return Run.open(folder / "runs" / name), text


@pytest.mark.slow
def test_a_run_over_both_nodes_has_every_metric_of_every_step(
    nodes: Any, folder: Path, expected: list[set[str]]
) -> None:
    """A learner on one node, and vLLM on the other."""
    seen: set[tuple[str, str]] = set()

    def watch(run: Run) -> None:
        for node in nodes.nodes:
            for command in node.processes().values():
                if command.startswith(("ray::RolloutActor", "ray::LearnerActor")):
                    seen.add((command[5:12], node.address))

    changed = {"distributed__rollout_workers": 1, "distributed__learner_workers": 1}
    run, _ = spread_run(nodes, folder, "vllm", 3, watch, **changed, **VLLM)
    check_complete(run, 3)
    assert [set(line) for line in run.metrics()] == [*expected[:2], expected[-1]]
    assert len(seen) == 2, seen
    assert {address for _, address in seen} == {node.address for node in nodes.nodes}


@pytest.mark.slow
def test_a_run_goes_on_when_a_whole_node_is_lost(nodes: Any, folder: Path, expected: list[set[str]]) -> None:
    """With a rollout worker, and a learner worker, in whose place another one starts on a new node."""
    lost = nodes.nodes[1]

    def watch(run: Run) -> None:
        if lost.runs and (run.path / "metrics.jsonl").exists() and len(run.metrics()) >= 2:
            commands = lost.processes().values()
            for title in ("ray::RolloutActor", "ray::LearnerActor"):
                assert any(command.startswith(title) for command in commands)
            lost.lose()
            nodes.join()

    changed = {"distributed__rollout_workers": 2, "distributed__learner_workers": 2}
    run, said = spread_run(nodes, folder, "lost", 6, watch, **changed)
    assert not lost.runs
    check_complete(run, 6)
    assert [set(line) for line in run.metrics()] == expected
    assert f"on {lost.address}" in said
    assert "is lost" in said
    assert "new learner workers go on after step" in said
