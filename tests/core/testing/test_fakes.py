"""The fakes behave like what they stand for; a component of a local file is tested by the file's name and its own."""

from __future__ import annotations

import asyncio
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from agent_r1_core.errors import ComponentLoadError, ConfigError, UnknownComponent
from agent_r1_core.testing import (
    AlgorithmContract,
    ScriptedPolicy,
    ToolContract,
    make_request,
    make_trajectory,
    tiny_model,
    tiny_model_folder,
    tiny_tokenizer,
)

TOKENIZER = tiny_tokenizer()


def test_a_model_folder_loads_and_repeats_and_an_unknown_field_of_a_trajectory_is_refused(tmp_path: Path) -> None:
    folder = tiny_model_folder(tmp_path / "model", seed=3)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
    twin = tiny_model(seed=3)
    ids = torch.tensor([tiny_tokenizer().encode("What is 1+1?")])
    assert torch.allclose(model(ids).logits, twin(ids).logits, atol=1e-6)
    assert not torch.allclose(model(ids).logits, tiny_model(seed=4)(ids).logits, atol=1e-2)
    for loaded in (AutoTokenizer.from_pretrained(folder), PreTrainedTokenizerFast.from_pretrained(folder)):
        assert loaded.encode("Ünï <answer>") == tiny_tokenizer().encode("Ünï <answer>")
        assert loaded.chat_template == tiny_tokenizer().chat_template
    with pytest.raises(TypeError, match="no field 'sede'"):
        make_trajectory(sede=5)


@pytest.mark.parametrize("package", ["agent_r1_core", "agent_r1_core.testing"])
def test_every_public_name_is_there_and_none_is_loaded_before_it_is_asked_for(package: str) -> None:
    code = f"import sys, {package} as here; print('torch' in sys.modules, sorted(here.__all__) == list(here.__all__))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False True\n"
    module = importlib.import_module(package)
    assert all(getattr(module, name) is not None for name in module.__all__)


def said(engine: ScriptedPolicy, episode: str = "a", budget: int = 100, **more: Any) -> tuple[str, str]:
    """What it answers, and how that ends."""
    made = asyncio.run(engine.generate(make_request((1, 2), budget, episode=episode, **more)))
    return TOKENIZER.decode(made.ids), made.finish


def test_a_scripted_policy_says_its_lines_episode_by_episode_until_a_budget_or_a_stop() -> None:
    engine, one, two = ScriptedPolicy(["one", "two"]), ("one<|im_end|>", "stop"), ("two<|im_end|>", "stop")
    assert [said(engine, episode) for episode in "aabab"] == [one, two, one, two, two]
    asyncio.run(engine.release("a"))
    assert said(engine) == one
    assert engine.released == ["a"]
    assert said(ScriptedPolicy(["hello"]), budget=3) == ("hel", "length")
    assert said(ScriptedPolicy(["hello"]), budget=6) == ("hello<|im_end|>", "stop")
    assert said(ScriptedPolicy(["go </search> on"]), stop_strings=("</search>",)) == ("go </search>", "stop")
    tag = TOKENIZER.convert_tokens_to_ids("</answer>")
    assert said(ScriptedPolicy(["<answer>2</answer> so"]), stop_ids=(tag,)) == ("<answer>2</answer>", "stop")


PRESET = """
from agent_r1_core import AlgorithmSpec, Preset, hookimpl
from agent_r1_grpo.grpo import GRPO

AGENT_R1_PLUGIN_API = 1

@hookimpl
def register_algorithms():
    return [AlgorithmSpec("mine", ":GRPO", "an algorithm", presets=(Preset("sharp", {"clip_low": 0.1, "eps": 0.5}),))]
"""


class TestMultiply(ToolContract):
    plugin_file = "my_tool.py"
    name = "multiply"
    arguments: ClassVar = {"a": 6, "b": 7}
    expected = 42


def test_a_preset_brings_its_options_the_test_may_change_them_and_what_cannot_be_loaded_is_said(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(PRESET, encoding="utf-8")
    settings = {"plugin_file": path, "name": "sharp", "config": {"eps": 0.1}}
    config = type("Here", (AlgorithmContract,), settings)().make().config
    assert (config.clip_low, config.eps) == (0.1, 0.1)
    broken, none = tmp_path / "broken.py", tmp_path / "none.py"
    broken.write_text("AGENT_R1_PLUGIN_API = 1\nimport no_such_module", encoding="utf-8")
    for file, error, sentence in (
        (none, ConfigError, "does not exist"),
        (broken, ComponentLoadError, "broken.py.*no_such_module"),
        (path, UnknownComponent, "no tool is called 'mine/multiply'"),
    ):
        with pytest.raises(error, match=sentence):
            type("Here", (ToolContract,), {"plugin_file": file, "name": "multiply"})
