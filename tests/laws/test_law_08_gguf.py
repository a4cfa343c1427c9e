"""LAW 8, of models in GGUF: what transformers passes over in such a file is an error, not another model in silence."""

from __future__ import annotations

from pathlib import Path

import gguf
import pytest
import torch
from gguf_file import tiny_llama, write_gguf

from agent_r1_core.assembly.model_source import find_model
from agent_r1_core.errors import ModelError


def test_a_tensor_without_a_place_in_the_model_is_an_error(tmp_path: Path) -> None:
    """Llama 3 scales its positions with one; the model would read short texts alone."""
    file = write_gguf(
        tmp_path / "tiny.gguf",
        tiny_llama(),
        lambda writer: writer.add_tensor("rope_freqs.weight", torch.ones(4).numpy()),
    )
    with pytest.raises(
        ModelError, match=r"27,108 numbers, .* LlamaForCausalLM .* has 27,104, so a part would be lost;"
    ):
        find_model(str(file))


def test_a_scaling_of_positions_is_an_error(tmp_path: Path) -> None:
    yarn = gguf.RopeScalingType.YARN
    file = write_gguf(tmp_path / "tiny.gguf", tiny_llama(), lambda writer: writer.add_rope_scaling_type(yarn))
    with pytest.raises(ModelError, match="scales positions by 'yarn', which transformers does not read"):
        find_model(str(file))


def test_an_unknown_rule_of_cutting_text_is_an_error(tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "tiny.gguf", tiny_llama(), rule="runes")
    with pytest.raises(ModelError, match=r"cuts text by the rule 'runes' .* would read other tokens than it learned;"):
        find_model(str(file))
