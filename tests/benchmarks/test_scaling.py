"""Memory and time of a run on many GPUs: numbers computed by hand, and the tables that the docs show."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from agent_r1_core.assembly.model_size import ModelSize
from agent_r1_core.assembly.model_source import BUNDLED, model_shape

SIZE = ModelSize(
    parameters=10**9,
    layer=10**8,
    root=10**8,
    head=10**8,
    sides=10**6,
    layers=9,
    hidden=1000,
    intermediate=4000,
    heads=10,
    kv_heads=2,
    head_size=100,
)


@pytest.fixture
def scaling(root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    import scaling as module

    return module


@pytest.fixture
def step_time(scaling: ModuleType) -> ModuleType:
    return sys.modules["step_time"]


def test_the_formula_of_a_shape_counts_what_a_folder_holds(scaling: ModuleType) -> None:
    shape = model_shape(BUNDLED / "tiny")
    counted = scaling.qwen_size(
        layers=shape["num_hidden_layers"],
        hidden=shape["hidden_size"],
        intermediate=shape["intermediate_size"],
        heads=shape["num_attention_heads"],
        kv_heads=shape["num_key_value_heads"],
        vocabulary=shape["vocab_size"],
        tied=shape["tie_word_embeddings"],
    )
    assert counted == ModelSize.of_folder(BUNDLED / "tiny")


@pytest.mark.parametrize(("model", "parameters"), [("Qwen2.5-3B", 3_085_938_688), ("Qwen2.5-32B", 32_763_876_352)])
def test_the_shapes_are_those_of_the_published_models(scaling: ModuleType, model: str, parameters: int) -> None:
    assert scaling.qwen_size(**scaling.SHAPES[model]).parameters == parameters


def test_an_update_computes_or_waits_for_its_links(step_time: ModuleType) -> None:
    card = step_time.Card("card", 80e9, flops=1e15, bandwidth=1e12, link=1e12, network=1e11, in_a_machine=8)
    work = step_time.Work(episodes=80, tokens=1000, sampled=100, microbatch=10_000)
    token = 2 * (9e8 + 1e8 * 0.1) + 2 * 9 * 1000 * 1000
    assert step_time.forward_flops(SIZE, work) == pytest.approx(token)
    computing = 80_000 / 8 * 6 * token / (1e15 * 0.35)
    assert step_time.update_seconds(SIZE, work, card, 8) == pytest.approx(computing)
    gathered = 2 * 9e8 + 4 * 1e8
    received = (3 * gathered + 2 * 9e8 + 4e9) * 15 / 16
    assert step_time.travelling_bytes(SIZE, work, 16) == pytest.approx(received)
    assert step_time.update_seconds(SIZE, work, card, 16) == pytest.approx(received / (1e11 * 0.7)), "two machines"


def test_a_rollout_reads_weights_or_computes(step_time: ModuleType) -> None:
    card = step_time.Card("card", 80e9, flops=1e15, bandwidth=1e12, link=1e12, network=1e11, in_a_machine=8)
    work = step_time.Work(episodes=80, tokens=1000, sampled=100, microbatch=10_000)
    token = step_time.forward_flops(SIZE, work)
    reading = 20 * 900 * token / (1e15 * 0.35 * 2)
    step = 2 * (1e9 + 10 * 500 * 2 * 9 * 2 * 100) / (1e12 * 0.6 * 2)
    seconds = step_time.rollout_seconds(SIZE, work, card, workers=4, gpus=2, at_once=50)
    assert seconds == pytest.approx(20 * 100 / 10 * step + reading), "half of the worker's 20 episodes sample at once"
    fast = step_time.Card("card", 80e9, flops=1e12, bandwidth=1e15, link=1e12, network=1e11, in_a_machine=8)
    all_compute = 20 * (900 + 100) * token / (1e12 * 0.35 * 2)
    assert step_time.rollout_seconds(SIZE, work, fast, 4, 2, 50) == pytest.approx(all_compute)


def test_new_weights_take_each_stretch_of_their_way(step_time: ModuleType) -> None:
    card = step_time.Card("card", 80e9, flops=1e15, bandwidth=1e12, link=1e12, network=1e11, in_a_machine=8)
    rates = step_time.OF_BUS, step_time.INTO_MEMORY, step_time.BY_RAY
    bus, memory, ray = (2e9 / rate for rate in rates)
    near = step_time.publishing_seconds(SIZE, card, ranks=8, gpus=1, elsewhere=False)
    assert list(near.values()) == pytest.approx([2e9 * 7 / 8 / 7e11, bus, memory, 0, 0, bus])
    far = step_time.publishing_seconds(SIZE, card, ranks=16, gpus=4, elsewhere=True)
    assert list(far.values()) == pytest.approx([2e9 * 15 / 16 / 7e10, bus, memory, ray, memory, bus / 4])


def test_the_docs_show_the_tables_that_the_script_prints(
    scaling: ModuleType, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["scaling.py", "--out", str(tmp_path / "scaling.json")])
    scaling.main()
    printed = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines() if line[:2] == "| "]
    shown = {" ".join(line.split()) for line in (root / "docs" / "scaling.md").read_text().splitlines()}
    assert len(printed) > 15
    assert [line for line in printed if line not in shown] == []
