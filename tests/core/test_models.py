"""Loading a model: all of its weights, or one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from agent_r1_core.errors import ModelError
from agent_r1_core.models import load_model, model_name
from agent_r1_core.testing import tiny_model_folder
from agent_r1_core.work import watched_by


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_model_folder(tmp_path / "model")


@pytest.mark.parametrize(
    ("lost", "named"),
    [
        (("model.norm.weight",), r"model\.norm\.weight;"),
        (("model.norm.weight", "model.embed_tokens.weight"), r"lm_head\.weight and 2 more of the model's tensors;"),
    ],
)
def test_weights_that_lack_a_tensor_are_refused_and_not_made_up(
    folder: Path, lost: tuple[str, ...], named: str
) -> None:
    weights = load_file(folder / "model.safetensors")
    for name in lost:
        del weights[name]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=f"lack {named} copy all files of the model there"):
        load_model(folder, torch.float32)


@pytest.mark.parametrize("value", ["", [], {}, None])
def test_a_damaged_configuration_is_one_sentence(folder: Path, value: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_key_value_heads": value, "rope_parameters": value}))
    with pytest.raises(ModelError, match="no causal language model can be loaded from"):
        load_model(folder, torch.float32)


def test_whoever_watches_is_told_how_many_tensors_are_loaded(folder: Path) -> None:
    told: list[tuple[str, float, float | None, bool]] = []
    with watched_by(lambda work: told.append((work.what, work.done, work.total, work.ended))):
        model = load_model(folder, torch.float32)
    tensors = len(load_file(folder / "model.safetensors"))
    assert told[0] == (f"loading {folder}", 0, None, False)
    assert told[-1] == (f"loading {folder}", tensors, tensors, True)
    assert len(list(model.parameters())) == tensors


def test_a_model_in_the_hubs_cache_has_its_name_there() -> None:
    assert model_name("/cache/hub/models--Qwen--Qwen2.5-3B-Instruct/snapshots/0a1b") == "Qwen/Qwen2.5-3B-Instruct"
    assert model_name(Path("runs/first/model")) == "runs/first/model"
