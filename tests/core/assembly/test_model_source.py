from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_r1_core.assembly.model_size import ModelSize
from agent_r1_core.assembly.model_source import BUNDLED, find_local_model, find_model
from agent_r1_core.config import load_config
from agent_r1_core.errors import ModelError, NotOpened, RunError
from agent_r1_core.opening import DOCUMENT
from agent_r1_core.runs.run import Run
from agent_r1_core.testing import tiny_model_folder


def test_every_bundled_model_says_which_tools_it_does_not_know_and_any_folder_may_know_all(tmp_path):
    for folder in (path for path in BUNDLED.iterdir() if (path / "config.json").is_file()):
        (note,) = find_model(folder.name).unknown_tools(load_config("default", ["tools=[wiki_search, python]"]))
        made_with = "the tools calculator and wiki_search" if folder.name == "tiny" else "no tool"
        assert note.startswith(f"the bundled model {folder.name} was made with {made_with} and knows no other, so it")
        assert note.partition("call ")[2].startswith("python;" if folder.name == "tiny" else "wiki_search, python;")
    assert find_model("tiny").unknown_tools(load_config("default", ["tools=[calculator, wiki_search]"])) == []
    (tmp_path / "config.json").write_text("{}")
    source = find_model(str(tmp_path))
    assert (source.folder, source.unknown_tools(load_config("default", ["tools=[python]"]))) == (tmp_path, [])


def test_a_model_of_which_the_hub_s_cache_holds_a_part_is_not_on_this_machine(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    home = tmp_path / "models--some--model"
    for file, text in (("refs/main", "abc"), ("snapshots/abc/tokenizer.json", "{}")):
        (home / file).parent.mkdir(parents=True)
        (home / file).write_text(text)
    assert find_local_model("some/model") is None
    (home / "snapshots/abc/config.json").write_text("{}")
    found = find_local_model("some/model")
    assert found is not None
    assert (found.folder, found.origin) == (home / "snapshots/abc", "hub")


def test_weights_that_were_cut_off_and_a_configuration_too_long_are_named_before_anything_loads_them(tmp_path):
    folder = tiny_model_folder(tmp_path / "model")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ModelError, match=r"model\.safetensors are damaged or cut off .*; copy the file again"):
        find_model(str(folder))
    with pytest.raises(ModelError, match=r"model\.safetensors are damaged or cut off"):
        ModelSize.of_folder(folder)  # as a dry run does
    with (folder / "tokenizer_config.json").open("a") as file:
        file.write(" " * DOCUMENT)
    with pytest.raises(NotOpened, match=r"tokenizer_config.json is not opened: it has \d+ bytes"):
        find_model(str(folder))


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.json", {"auto_map": {"AutoModelForCausalLM": "evil.Model"}}),
        ("config.json", {"text_config": {"auto_map": {"AutoConfig": "evil.Config"}}}),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": [None, "evil.Tokenizer"]}}),
        ("tokenizer_config.json", {"auto_map": ["evil.Tokenizer"]}),
        ("config.json", {"auto_map": json.loads("[" * 900 + '"evil.Model"' + "]" * 900)}),
    ],
)
def test_a_model_that_brings_code_is_refused_before_anything_loads_it(tmp_path, file, content):
    folder = tiny_model_folder(tmp_path / "model")
    (folder / file).write_text(json.dumps(json.loads((folder / file).read_text()) | content))
    for find in (find_model, find_local_model):
        with pytest.raises(ModelError, match=rf"{file} names Python code to load the model with \(auto_map: evil\."):
            find(str(folder))


def test_a_folder_inside_a_run_is_known_as_its_policy(tmp_path):
    with Run.create(tmp_path, "first", {"seed": 0}, []) as run:
        run.append_metrics(4, {})
        run.checkpoints.save(3, a_policy)
        run.write_model(lambda folder: tiny_model_folder(folder) and None)
    final, third = find_model(str(run.model)), find_model(str(run.checkpoints.at(3).policy))
    assert (final.run, final.describe()) == (run.path, f"final policy of {run.path}, step 4")
    assert third.describe() == f"checkpoint of {run.path}, step 3"


def a_policy(folder: Path) -> None:
    tiny_model_folder(folder / "policy")


def flip_weights(policy: Path) -> None:
    """Change a byte of the weights in a folder."""
    file = policy / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def test_a_damaged_checkpoint_is_passed_over_and_said(tmp_path, monkeypatch):
    said: list[str] = []
    with Run.create(tmp_path, "first", {"seed": 0}, []) as run:
        for step, value in ((1, 0.5), (2, 0.9)):
            run.checkpoints.save(step, a_policy, metric="score", value=value)
    flip_weights(run.checkpoints.at(2).policy)
    found = find_model(str(run.path), said.append)
    assert found.describe() == f"best checkpoint of {run.path}, step 1, chosen by score among 2"
    reason = "step_000002: policy/model.safetensors has other bytes than were written"
    assert said == [f"damaged checkpoints of {run.path} are passed over ({reason})"]
    with pytest.raises(ModelError, match=r"policy/model.safetensors has other bytes .*; name the run instead"):
        find_model(str(run.checkpoints.at(2).policy))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=r"policy/model.safetensors has other bytes .*; name the run instead"):
        find_model("first/checkpoints/step_000002/policy")
    found.release()
    flip_weights(run.checkpoints.at(1).policy)
    with pytest.raises(RunError, match=r"holds no whole policy \(.*step_000001: .*; restore a checkpoint from a copy"):
        find_model(str(run.path))


def test_a_final_policy_whose_bytes_changed_is_not_used_unless_somebody_says_so(tmp_path):
    with Run.create(tmp_path, "first", {"seed": 0}, []) as run:
        run.write_model(lambda folder: tiny_model_folder(folder) and None)
    assert find_model(str(run.path)).folder == run.model
    flip_weights(run.model)
    for name in (run.path, run.model):
        with pytest.raises(ModelError, match=r"model cannot be used \(model.safetensors has other bytes than were wri"):
            find_model(str(name))
    (run.model / "config.json").unlink()
    with pytest.raises(ModelError, match=r"\(config.json is missing\); restore it from a copy, name a checkpoint"):
        find_model(str(run.path))
    for damaged in ('{"crc32": {"../../secret": 1}}', "[]", "{"):
        (run.model / "checksums.json").write_text(damaged)
        with pytest.raises(ModelError, match=r"\(checksums.json is damaged\); .*, or delete .*checksums.json to"):
            find_model(str(run.path))
    (run.model / "checksums.json").unlink()
    assert find_model(str(run.path)).folder == run.model


def test_the_checkpoint_of_a_run_that_trains_on_stays_until_it_is_released(tmp_path):
    with Run.create(tmp_path, "first", {"seed": 0}, []) as run:

        def save(step: int) -> None:
            run.checkpoints.save(step, a_policy, keep=1)

        save(1)
        found = find_model(str(run.path))
        save(2)
        assert (found.folder / "model.safetensors").is_file()
        found.release()
        save(3)
        assert not found.folder.exists()
