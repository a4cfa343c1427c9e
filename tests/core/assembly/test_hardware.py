"""Device, precision and threads: measured where `auto` leaves a choice, fixed in deterministic mode."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers import GPT2Config

from agent_r1_core.assembly import hardware
from agent_r1_core.assembly.hardware import Hardware, Probe, choose_hardware
from agent_r1_core.errors import ConfigError
from agent_r1_core.testing import tiny_model_folder


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A quiet machine: nothing is remembered yet, every precision is possible, torch's threads stay as they were."""
    monkeypatch.setenv("AGENT_R1_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
    monkeypatch.setattr(hardware, "_cpu_dtypes", lambda: ["float32", "bfloat16"])
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def chosen(folder: Path, monkeypatch: pytest.MonkeyPatch, *seconds: float) -> Hardware:
    """The choice between measured seconds: of float32 and bfloat16 with one thread, and then with two."""
    named = dict(zip(itertools.product((1, 2), ("float32", "bfloat16")), seconds, strict=True))
    monkeypatch.setattr(Probe, "seconds", lambda self, choices: {choice: named[choice] for choice in choices})
    monkeypatch.setattr(hardware, "_thread_counts", lambda: [1, 2])
    return choose_hardware("cpu", "auto", "auto", False, tiny_model_folder(folder / "model"))


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ((1.0, 0.65, 1.0, 0.65), Hardware("cpu", "bfloat16", 1)),
        ((1.0, 0.9, 0.95, 0.9), Hardware("cpu", "float32", 1)),
        ((1.0, 0.68, 2.0, 2.0), Hardware("cpu", "float32", 1)),
        ((1.0, 1.0, 0.6, 0.58), Hardware("cpu", "float32", 2)),
        ((1.0, 0.7, 0.9, 0.4), Hardware("cpu", "bfloat16", 2)),
    ],
)
def test_threads_and_bfloat16_must_be_worth_it(tmp_path, monkeypatch, seconds, expected):
    assert chosen(tmp_path, monkeypatch, *seconds) == expected


def test_deterministic_runs_and_set_values_measure_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(hardware, "_fastest", lambda *args: pytest.fail("it was measured"))
    assert choose_hardware("cpu", "bfloat16", 2, False, tmp_path) == Hardware("cpu", "bfloat16", 2)
    assert choose_hardware("cpu", "auto", "auto", True, tmp_path) == Hardware("cpu", "float32", 1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(ConfigError, match="deterministic"):
        choose_hardware("cuda", "auto", "auto", True, tmp_path)


def test_a_choice_is_remembered_for_this_model_and_its_possibilities(tmp_path, monkeypatch):
    fast, slow = (1.0, 0.5, 1.0, 1.0), (1.0, 2.0, 1.0, 1.0)
    first = chosen(tmp_path, monkeypatch, *fast)
    assert first.dtype == "bfloat16"
    assert chosen(tmp_path, monkeypatch, *slow) == first
    assert chosen(tmp_path / "copy", monkeypatch, *slow) == first, "another folder, the same shape"
    monkeypatch.setattr(hardware, "_thread_counts", lambda: [1])
    monkeypatch.setattr(Probe, "seconds", lambda self, choices: dict(zip(choices, (1.0, 2.0), strict=True)))
    assert choose_hardware("cpu", "auto", "auto", False, tmp_path / "model").dtype == "float32", "other possibilities"
    for file in (tmp_path / "cache" / "hardware").iterdir():
        file.write_text("{")
    assert choose_hardware("cpu", "auto", "auto", False, tmp_path / "model").dtype == "float32", "unreadable"

    monkeypatch.setenv("AGENT_R1_CACHE", "/dev/null/cache")
    assert chosen(tmp_path, monkeypatch, 1.0, 2.0, 2.0, 2.0).dtype == "float32"
    assert chosen(tmp_path, monkeypatch, 1.0, 0.5, 2.0, 2.0).dtype == "bfloat16"


def test_a_choice_beside_other_work_keeps_float32_and_counts_for_an_hour(tmp_path, monkeypatch):
    monkeypatch.setattr("os.getloadavg", lambda: (2.0, 0.0, 0.0))
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1}, raising=False)
    loaded, quiet = (1.0, 0.2, 1.0, 2.0), (1.0, 2.0, 0.6, 2.0)
    assert chosen(tmp_path, monkeypatch, *loaded) == Hardware("cpu", "float32", 1)
    assert chosen(tmp_path, monkeypatch, *quiet).threads == 1
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now + 3700)
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
    assert chosen(tmp_path, monkeypatch, *quiet).threads == 2
    monkeypatch.setattr("time.time", lambda: now + 10**9)
    assert chosen(tmp_path, monkeypatch, *loaded).threads == 2, "measured alone, it stays"


def test_a_real_model_is_measured_on_one_of_its_layers_unless_that_is_too_large_or_unknown(tmp_path, monkeypatch):
    monkeypatch.setattr("agent_r1_core.assembly.hardware.PROBE_SECONDS", 0.0)
    choices = [(1, "float32"), (1, "bfloat16")]
    seconds = Probe(tiny_model_folder(tmp_path / "model")).seconds(choices)
    assert list(seconds) == choices
    assert min(seconds.values()) > 0

    asked = []
    monkeypatch.setattr(hardware, "_products", lambda threads, dtype: asked.append(dtype) or 1.0)
    GPT2Config(n_embd=8192, n_head=64, n_layer=2).save_pretrained(tmp_path / "wide")
    (tmp_path / "unknown").mkdir()
    (tmp_path / "unknown" / "config.json").write_text('{"model_type": "of its own"}')
    for folder in ("wide", "unknown"):
        assert choose_hardware("cpu", "auto", 1, False, tmp_path / folder).dtype == "float32"
    assert asked == ["float32", "bfloat16"] * 2
