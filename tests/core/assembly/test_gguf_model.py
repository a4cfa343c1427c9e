"""A GGUF file is a model: it computes what the model did that it was written from, and a bad one is one sentence."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch
from gguf_file import tiny_llama, write_gguf
from transformers import PreTrainedModel

from agent_r1_core import train
from agent_r1_core.assembly import gguf_model
from agent_r1_core.assembly.model_source import find_local_model, find_model
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.errors import ModelError
from agent_r1_core.evaluation.listener import Silence
from agent_r1_core.models import load_model
from agent_r1_core.runs.run import Run
from agent_r1_core.testing import CHAT_TEMPLATE, tiny_tokenizer


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of this test's own."""
    monkeypatch.setenv("AGENT_R1_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    """What the files are written from."""
    return tiny_llama()


def test_a_gguf_file_computes_what_its_model_does(tmp_path, model):
    file = write_gguf(tmp_path / "tiny.gguf", model)
    source = find_model(str(file))
    ids = torch.arange(60).reshape(2, 30)
    with torch.no_grad():
        opened = load_model(source.folder, torch.float32)(ids).logits
        assert torch.allclose(opened, model(ids).logits, atol=1e-5)
    config = json.loads((source.folder / "config.json").read_text())
    assert "quantization_config" not in config
    assert (config["rms_norm_eps"], config["rope_parameters"]["rope_theta"]) == (1e-5, 10000.0)


def test_its_tokenizer_cuts_as_the_file_says_and_brings_the_chat_template(tmp_path, model):
    """By the rule of SmolLM a digit stands alone, so two spaces before it are one token; by GPT-2's they are not."""
    found = {}
    for rule in ("smollm", "gpt-2"):
        source = find_model(str(write_gguf(tmp_path / f"{rule}.gguf", model, rule=rule)))
        tokenizer = ChatTokenizer.from_folder(source.folder)
        assert tokenizer.raw.chat_template == CHAT_TEMPLATE
        assert tokenizer.raw.eos_token == "<|im_end|>"
        text = "<|im_start|>user\nWhat is 6 x 7?<|im_end|><tool_call>"
        assert tokenizer.raw.encode(text) == tiny_tokenizer().encode(text)
        found[rule] = tokenizer.raw.tokenize("a  1")
    assert found == {"smollm": ["a", "ĠĠ", "1"], "gpt-2": ["a", "Ġ", "Ġ", "1"]}


def test_a_second_opening_reads_its_hash_alone(tmp_path, model, monkeypatch):
    file = write_gguf(tmp_path / "tiny.gguf", model)
    first = find_model(str(file))
    monkeypatch.setattr(gguf_model, "find_spec", lambda name: None)
    moved = file.rename(tmp_path / "moved.GGUF")
    for found in (find_model(str(moved)), find_local_model(str(moved))):
        assert found.folder == first.folder
        assert found.describe() == f"{moved} (gguf, sha256 {sha256(moved.read_bytes()).hexdigest()})"
    with pytest.raises(ModelError, match=r"needs the package gguf; install it: pip install 'agent-r1\[gguf\]'"):
        find_model(str(write_gguf(tmp_path / "other.gguf", model, rule="gpt-2")))


def test_what_opens_it_at_once_reads_it_once(tmp_path, cache, model, monkeypatch):
    """And what a killed process left is gone."""
    file, read, readings = write_gguf(tmp_path / "tiny.gguf", model), gguf_model._read, []

    def count(path: Path) -> Any:
        readings.append(path)
        return read(path)

    monkeypatch.setattr(gguf_model, "_read", count)
    place = cache / "gguf" / sha256(file.read_bytes()).hexdigest()
    (place / ".tmp-model-1").mkdir(parents=True)
    with ThreadPoolExecutor(3) as threads:
        folders = {source.folder for source in threads.map(find_model, [str(file)] * 3)}
    assert folders == {place / "model"}
    assert readings == [file]
    assert sorted(path.name for path in place.iterdir()) == [".lock", "model"]


def as_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def holding(content: bytes | int) -> Callable[[Path], object]:
    """Damages a file: it holds this instead, or its own bytes up to there."""
    return lambda file: file.write_bytes(file.read_bytes()[:content] if isinstance(content, int) else content)


@pytest.mark.parametrize(
    ("made", "damage", "sentence"),
    [
        ({}, holding(-100), "is cut off or damaged, since its tensors are longer than the file; copy the file again"),
        ({}, holding(b"GGML" + bytes(100)), "is not a GGUF file; give one, or a folder in Hugging Face format"),
        ({}, holding(b"GGUF\x4d\0\0\0" + bytes(100)), "is GGUF of version 77, and versions 2 and 3 are read; convert"),
        ({}, as_pipe, "cannot be read (it is a pipe, not a file); give a GGUF file that is there"),
        ({"architecture": "nonsense"}, None, "cannot be read as a causal language model of architecture 'nonsense' ("),
        ({"layers": "4000000000"}, None, "claims 4000000000 layers and has 20 tensors; copy the file again"),
        ({"tokenizer": False}, None, "holds no tokenizer; give one with a tokenizer, or the model's Hugging Face fold"),
    ],
)
def test_a_file_that_is_damaged_or_has_no_usable_model_is_one_sentence(tmp_path, cache, model, made, damage, sentence):
    file = write_gguf(tmp_path / "tiny.gguf", model, **made)
    if damage:
        damage(file)
    with pytest.raises(ModelError) as raised:
        find_model(str(file))
    assert str(raised.value).startswith(f"{file} {sentence}")
    assert "\n" not in str(raised.value)
    assert list(cache.glob("gguf/*/*model*")) == []


def test_a_run_records_the_file_and_its_hash(tmp_path, model, monkeypatch):
    """Named from the current folder, as on the command line; its policy is a plain model again."""
    file = write_gguf(tmp_path / "tiny.gguf", model)
    monkeypatch.chdir(tmp_path)
    settings = [
        *("training.steps=1", "training.tasks_per_step=1", "training.samples_per_task=2", "tasks.eval=null"),
        *("engine.max_new_tokens=8", "env.max_turns=1", "threads=1", "model.dtype=float32", "trackers=[]"),
        *("model.name=tiny.gguf", "run.dir=runs", "run.name=first"),
    ]
    run = train("default", settings, listener=Silence())
    about = {"file": "tiny.gguf", "sha256": sha256(file.read_bytes()).hexdigest()}
    assert json.loads((run.path / "model_files" / "gguf.json").read_text()) == about
    assert Run.open(run.path).setting("model.name") == str(file)
    file.unlink()
    assert find_model(str(run.path)).origin == "run"
    load_model(run.model, torch.float32)
