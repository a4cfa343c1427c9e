"""Relative paths: those of a recipe count from the recipe, those of the command line from the current folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_r1_core.config import load_config
from agent_r1_core.plugins.sources import candidates
from agent_r1_core.plugins.trust import remember

PLUGIN = Path(__file__).parents[1] / "testing" / "my_tool.py"
BELOW = """
extends: default
model: {name: models/mine}
tasks: {train: {name: hotpotqa, path: data/train.json}, eval: {name: 2wikimultihopqa, path: ~/eval.json}}
tools: [{name: wiki_search, backend: dense, index: null, corpus: corpus.jsonl, model: encoder}]
plugins: [parts.py]
"""
ABOVE = """
extends: ../below/recipe.yaml
tasks: {eval: {aliases: aliases.json}}
"""


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Two recipes in folders of their own, a home and a current folder, each with every file."""
    folders = {name: tmp_path / name for name in ("below", "above", "home", "here")}
    for folder in folders.values():
        for name in ("models/mine", "encoder", "data"):
            (folder / name).mkdir(parents=True)
        for name in ("data/train.json", "eval.json", "aliases.json", "corpus.jsonl", "other.json"):
            (folder / name).write_text("[]")
        (folder / "parts.py").write_text(PLUGIN.read_text())
    (folders["below"] / "recipe.yaml").write_text(BELOW)
    (folders["above"] / "recipe.yaml").write_text(ABOVE)
    remember([found for found in candidates([folders["below"] / "parts.py"]) if found.is_local])
    monkeypatch.setenv("HOME", str(folders["home"]))
    monkeypatch.chdir(folders["here"])
    return folders


def test_each_path_counts_from_the_file_that_says_it(places, monkeypatch):
    resolved = load_config("../above/recipe.yaml", ["tools[0].model=./encoder"])
    config, below = resolved.config, places["below"]
    assert config.model.name == str(below / "models/mine")
    assert config.tasks.train_sets["train"].config.path == str(below / "data/train.json")
    held = config.tasks.eval_sets["eval"]
    assert held.config.path == str(places["home"] / "eval.json")
    assert held.config.aliases == str(places["above"] / "aliases.json")
    assert config.tools[0].config.corpus == str(below / "corpus.jsonl")
    assert config.tools[0].config.model == str(places["here"] / "encoder")
    assert config.plugins == (str(below / "parts.py"),)

    own = load_config("../below/recipe.yaml", ["tasks.train.path=other.json", "model.name=models/mine"]).config
    assert own.tasks.train_sets["train"].config.path == str(places["here"] / "other.json")
    assert own.model.name == str(places["here"] / "models/mine"), "overrides count from the current folder"

    saved = places["above"] / "config.yaml"
    saved.write_text(resolved.yaml())
    monkeypatch.chdir(places["home"])
    assert load_config(saved).config == config, "the record of a run holds absolute paths"


def test_what_is_no_path_stays_a_name_and_a_model_may_be_in_the_current_folder(places):
    (places["below"] / "recipe.yaml").write_text(
        "extends: default\nmodel: {name: Qwen/Qwen2.5-1.5B-Instruct}\n"
        "tools: [{name: wiki_search, backend: dense, model: some/encoder}]\n"
    )
    config = load_config(places["below"] / "recipe.yaml").config
    assert (config.model.name, config.tools[0].config.model) == ("Qwen/Qwen2.5-1.5B-Instruct", "some/encoder")
    (places["below"] / "gone.yaml").write_text("extends: default\nmodel: {name: ./gone}\n")
    assert load_config(places["below"] / "gone.yaml").config.model.name == str(places["below"] / "gone")

    (places["here"] / "runs/sft").mkdir(parents=True)
    recipe = places["below"] / "sft.yaml"
    recipe.write_text("extends: default\nmodel: {name: runs/sft}\n")
    assert load_config(recipe).config.model.name == str(places["here"] / "runs/sft")
    (places["below"] / "runs/sft").mkdir(parents=True)
    assert load_config(recipe).config.model.name == str(places["below"] / "runs/sft"), "beside the recipe comes first"
    recipe.write_text("extends: default\nmodel: {name: small.gguf}\n")
    (places["here"] / "small.gguf").touch()
    assert load_config(recipe).config.model.name == str(places["here"] / "small.gguf")


def test_each_of_several_data_files_must_be_there(load):
    (there := Path("other.json")).touch()
    (line,) = load(f"tasks.train={{name: sums, files: [{there}, gone.json]}}").missing
    assert line.startswith("tasks.train.files[1] (override")
    assert f"names {there.resolve().with_name('gone.json')}, where there is nothing" in line
