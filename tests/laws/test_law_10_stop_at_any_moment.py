"""LAW 10: stop at any moment, lose nothing."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
from pathlib import Path

import pytest
from small_run import fingerprint, run_once

from agent_r1_core.runs.run import Run
from agent_r1_core.testing import tiny_model_folder

KILLS = 20
STEPS = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("law10")
    tiny_model_folder(path / "model")
    return path


@pytest.mark.parametrize("algorithm", ["grpo", "ppo"])
def test_a_resumed_run_equals_the_uninterrupted_one_bit_for_bit(folder: Path, algorithm: str) -> None:
    whole = run_once(folder, f"{algorithm}-whole", 4, algorithm=algorithm)
    run_once(folder, f"{algorithm}-parts", 2, algorithm=algorithm, evaluation__at_end="false")
    parts = run_once(folder, f"{algorithm}-parts", 4, resume=True, algorithm=algorithm)
    assert fingerprint(parts) == fingerprint(whole)


def test_steps_after_the_last_checkpoint_are_done_again_and_replaced(folder: Path) -> None:
    whole = run_once(folder, "redo-whole", 3)
    run = run_once(folder, "redo", 3)
    with Run.resume(run.path) as opened:
        opened.checkpoints.discard_after(1)
        assert opened.checkpoints.latest() is None, "only the newest checkpoint is kept here"
    again = run_once(folder, "redo", 3, resume=True)
    assert fingerprint(again) == fingerprint(whole)
    assert [line["step"] for line in again.metrics()] == [1, 2, 3]


@pytest.mark.slow
def test_kill_minus_nine_at_twenty_random_moments_loses_nothing(folder: Path) -> None:
    whole = run_once(folder, "unharmed", STEPS)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["small_run", "agent_r1_core.training.trainer", "agent_r1_transformers.engine"])
    rng = random.Random(10)
    kills = 0
    while kills < KILLS:
        resume = (folder / "runs" / "killed" / "config.yaml").is_file()
        child = context.Process(target=run_once, args=(folder, "killed", STEPS, resume, not resume))
        child.start()
        child.join(rng.uniform(0.2, 2.0))
        if child.is_alive():
            os.kill(child.pid or 0, signal.SIGKILL)
            child.join()
            kills += 1
        else:
            assert child.exitcode == 0
    finished = run_once(folder, "killed", STEPS, resume=True)
    assert fingerprint(finished) == fingerprint(whole)
    leftovers = [path for path in finished.path.rglob("*") if ".tmp" in path.name]
    assert leftovers == []
