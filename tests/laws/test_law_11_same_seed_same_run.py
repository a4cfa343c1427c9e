"""LAW 11: same seed, same run."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_run import fingerprint, run_once

from agent_r1_core.seeds import derive_seed
from agent_r1_core.testing import tiny_model_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("law11")
    tiny_model_folder(path / "model")
    return path


def test_two_deterministic_runs_are_equal_bit_for_bit(folder: Path) -> None:
    first, second = (fingerprint(run_once(folder, name, 3)) for name in ("one", "two"))
    assert first == second
    assert any(abs(value) > 0 for row in first["advantages"][1] if row for value in row), "nothing was learnt"


def test_another_seed_is_another_run(folder: Path) -> None:
    first, second = (fingerprint(run_once(folder, f"seed-{seed}", 1, seed=seed)) for seed in (1, 2))
    assert first["trajectories"] != second["trajectories"]


def test_samples_do_not_depend_on_who_finishes_first(folder: Path) -> None:
    """One episode at a time, or all at once: each request has a seed of its own."""
    at_once = fingerprint(run_once(folder, "at-once", 1, deterministic="false", threads=1, model__dtype="float32"))
    alone = fingerprint(
        run_once(folder, "alone", 1, deterministic="false", threads=1, model__dtype="float32", engine__max_episodes=1)
    )

    def ids(found: dict) -> list[str]:
        return [text.split(", [[[")[1].split("]")[0] for text in found["trajectories"][1]]

    assert ids(at_once) == ids(alone)


def test_every_request_has_a_seed_of_its_own() -> None:
    parts = [(run, step, task, sample) for run in (0, 1) for step in (1, 2) for task in "ab" for sample in (0, 1)]
    seeds = {derive_seed(*part) for part in parts}
    assert len(seeds) == len(parts)
    assert derive_seed(0, 1, "a", 0) == derive_seed(0, 1, "a", 0)
    assert derive_seed("a", "b") != derive_seed("ab")
