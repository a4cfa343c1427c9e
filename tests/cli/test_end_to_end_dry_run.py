"""`agent-r1 train --dry-run` shows what a recipe would do, and touches nothing."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_r1_cli.train_command import _show
from agent_r1_core.assembly.assembly import assemble
from agent_r1_core.assembly.task_sets import unused_sets
from agent_r1_core.config import load_config, recipe_folders, recipe_names
from agent_r1_core.errors import ComponentLoadError

NEEDS_AN_ANTENNA = """
from agent_r1_core import Tracker, TrackerSpec, hookimpl

AGENT_R1_PLUGIN_API = 1

class Radio(Tracker):
    @classmethod
    def unavailable(cls, config):
        return "there is no antenna; plug one in"

    def log(self, step, metrics):
        pass

register_trackers = hookimpl(lambda: [TrackerSpec("radio", ":Radio", "Sends metrics by radio")])
"""


@pytest.mark.parametrize(
    "recipe",
    [
        pytest.param(name, marks=[pytest.mark.vllm] if name.startswith("paper/") else [])
        for name in recipe_names(recipe_folders())
        if name.partition("/")[0]
        not in ("textworld", "verifiers")  # they need an environment, which their own tests make
    ],
)
def test_every_recipe_shows_itself(succeed, noise, tmp_path, monkeypatch, recipe):
    monkeypatch.setenv("AGENT_R1_SERVE_KEY", "of the recipe judge")
    done = succeed("train", recipe, "--dry-run", "--trust", f"model.name={noise}")
    assert "plugins: arithmetic, calculator, " in done.stderr
    assert "GiB  in total" in done.stderr
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "shown.yaml").write_text(done.stdout)
    assert load_config("shown.yaml").dump() == load_config(recipe, [f"model.name={noise}"]).dump()


def test_a_model_on_the_hub_is_not_downloaded_and_what_training_would_say_of_it_is_told(succeed, monkeypatch):
    import huggingface_hub

    calls: list[dict[str, Any]] = []
    find = huggingface_hub.snapshot_download
    asked = lambda name, **how: calls.append(how) or find(name, **how)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", asked)
    done = succeed("train", "qwen2.5-1.5b-hotpotqa", "--dry-run", "model.name=nobody/nothing")
    assert calls
    assert all(options == {"local_files_only": True} for options in calls)
    assert "memory: no estimate, since no model nobody/nothing is here" in done.stderr
    done = succeed("train", "--dry-run", "model.name=tiny-worlds")
    assert (
        "note: the bundled model tiny-worlds was made with no tool and knows no other, so it will hardly call "
        "wiki_search; set model.name"
    ) in done.stderr
    done = succeed("train", "--dry-run", "env.max_tokens=9999")
    assert (
        "note: training will refuse this: env.max_tokens is 9999, but the model tiny reads at most 2048 tokens; set "
        "env.max_tokens=2048 or less"
    ) in done.stderr


@pytest.mark.parametrize(
    ("teacher", "why"),
    [("null", "distillation has no teacher"), ("./gone", "'./gone' is neither a Hugging Face folder")],
)
def test_a_teacher_that_is_missing_is_an_error_already(agent_r1, tmp_path, teacher, why):
    keys = (f"algorithm={{name: distillation, teacher: {teacher}}}", f"run.dir={tmp_path / 'runs'}")
    dry = agent_r1("train", "default", *keys, "--dry-run")
    assert dry.stdout == ""
    assert why in dry.stderr
    assert agent_r1("train", "default", *keys).stderr.endswith(dry.stderr), "training says the same"


def test_a_component_that_this_machine_cannot_run_is_an_error_already(agent_r1, succeed, tmp_path, refuse):
    plugin = tmp_path / "radio.py"
    plugin.write_text(NEEDS_AN_ANTENNA)
    sentence = "trackers[0] (override 'trackers=[radio]') names radio, which cannot be used here: there is no antenna"
    assert agent_r1("train", "default", "--dry-run", f"model.name={tmp_path}").exit_code == 1, "that is no model"
    refuse(3, sentence, "train", "default", "--dry-run", "trackers=[radio]", "-p", plugin)
    misspelt = tmp_path / "misspelt.py"
    misspelt.write_text(NEEDS_AN_ANTENNA.replace("def log", "def lgo").replace("def unavailable", "def needs"))
    sentence = "names radio, which cannot be used: log is missing; define log(self, step, metrics)"
    refuse(3, sentence, "train", "default", "--dry-run", "trackers=[radio]", "-p", misspelt)
    resolved = load_config("default", ["trackers=[radio]"], plugins=[plugin])
    with pytest.raises(ComponentLoadError, match="antenna"):
        assemble(resolved)
    resolved.check_available(unused=["trackers"])
    doctor = succeed("plugins", "doctor", "-p", plugin)
    row = f"radio {plugin} limited tracker 'radio' cannot be used here: there is no antenna; plug one in"
    assert row in " ".join(doctor.stdout.split())


def test_missing_data_files_are_an_error_already(agent_r1, noise, tmp_path):
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/mine.yaml").write_text(
        f"extends: default\nmodel: {{name: {noise}}}\n"
        "tasks: {train: {name: hotpotqa, path: train.json}, eval: null}\n"
        "tools: [{name: wiki_search, corpus: pages.jsonl}]\n"
    )
    done = agent_r1("train", "recipes/mine.yaml", "--dry-run")
    assert (done.exit_code, done.stdout) == (1, "")
    assert [line.partition(", where there is nothing")[0] for line in done.stderr.splitlines()] == [
        f"error: tasks.train.path (recipes/mine.yaml, line 3) names {tmp_path}/recipes/train.json",
        f"error: tools[0].corpus (recipes/mine.yaml, line 4) names {tmp_path}/recipes/pages.jsonl",
    ]
    (tmp_path / "recipes/train.json").write_text('[{"_id": "q", "question": "Who?", "answer": "Karimo"}]')
    (tmp_path / "recipes/pages.jsonl").write_text('{"title": "Karimo", "text": "Karimo is a town."}')
    assert agent_r1("train", "recipes/mine.yaml", "--dry-run").exit_code == 0


GOOD = '{"question": "2 + 2?", "answer": 4}\n'
BROKEN = "a line that is no record\n"
TABLE = {"name": "table", "path": "rows.jsonl", "prompt": "question", "answers": "answer"}


@pytest.mark.parametrize(
    ("rows", "keys", "why"),
    [
        (GOOD + GOOD, {}, ""),
        (GOOD + BROKEN, {}, "line 2 of {}/rows.jsonl is not JSON"),
        (GOOD, {"tasks.train.size": 2}, "{}/rows.jsonl holds 1 records but offset=0 and size=2 was asked for"),
        (GOOD, {"tasks.train.answers": "solution"}, "line 1 of {}/rows.jsonl has no column 'solution'"),
        (GOOD, {"tasks.eval": {**TABLE, "prompt": "asked"}}, "line 1 of {}/rows.jsonl has no column 'asked'"),
        (GOOD, {"tasks.train.offset": 1}, "{}/rows.jsonl holds 1 records but offset=1 was asked for"),
        ("", {}, "{}/rows.jsonl holds no record"),
        ("{}", {"tasks.train": {"name": "gsm8k", "path": "rows.jsonl"}}, "line 1 of {}/rows.jsonl has no text"),
        (GOOD, {"tasks.train": {"name": "conversations", "path": "rows.jsonl"}}, "line 1 of {}/rows.jsonl has no list"),
        (GOOD, {"tools": [{"name": "wiki_search", "corpus": "pages.jsonl"}]}, "{}/pages.jsonl holds no record"),
    ],
)
def test_records_are_read_as_training_reads_them(agent_r1, tmp_path, rows, keys, why):
    Path("rows.jsonl").write_text(rows)
    Path("pages.jsonl").touch()
    keys = {"tasks.train": TABLE, "tasks.eval": "arithmetic"} | keys
    texts = [f"{key}={json.dumps(value)}" for key, value in keys.items()]
    dry = agent_r1("train", "default", *texts, "--dry-run")
    assert dry.exit_code == (1 if why else 0), dry.stderr
    if why:
        assert why.format(tmp_path) in dry.stderr
        assert agent_r1("train", "default", *texts).stderr.endswith(dry.stderr), "training says the same"


def test_of_a_folder_the_split_is_read(agent_r1, tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/train.jsonl").write_text(GOOD)
    table = {**TABLE, "path": str(tmp_path / "data")}
    assert agent_r1("train", "default", f"tasks.train={json.dumps(table)}", "--dry-run").exit_code == 0
    of_test = "tasks.train=" + json.dumps({**table, "split": "test"})
    dry, trained = (agent_r1("train", "default", of_test, *options) for options in (["--dry-run"], []))
    assert "(split test): Unknown split" in dry.stderr.splitlines()[-1]
    assert dry.stderr.splitlines()[-1] == trained.stderr.splitlines()[-1], "training says the same"


@pytest.mark.parametrize(("rows", "why"), [("{}\n" + GOOD + BROKEN, ""), (GOOD + BROKEN, "line 2 of")])
def test_of_a_large_file_the_first_record_is_read(agent_r1, tmp_path, monkeypatch, rows, why):
    monkeypatch.setattr("agent_r1_core.records.config._SMALL", len(BROKEN))
    (tmp_path / "rows.jsonl").write_text(rows)
    table = json.dumps({**TABLE, "path": str(tmp_path / "rows.jsonl"), "offset": 1})
    dry = agent_r1("train", "default", f"tasks.train={table}", "--dry-run")
    assert dry.exit_code == (1 if why else 0), dry.stderr
    assert why in dry.stderr


def test_packages_of_extras_that_are_missing_are_an_error_already(agent_r1, noise, monkeypatch):
    present = importlib.util.find_spec
    absent = {"datasets", "peft"}
    monkeypatch.setattr("agent_r1_core.records.config.find_spec", lambda it: None if it in absent else present(it))
    monkeypatch.setattr("agent_r1_core.config.checks.find_spec", lambda name: None if name in absent else present(name))
    keys = (f"model.name={noise}", "model.lora.rank=2", "tasks.train=gsm8k", "tasks.eval=hotpotqa")
    done = agent_r1("train", "default", "--dry-run", *keys)
    assert (done.exit_code, done.stdout) == (3, "")
    assert done.stderr.count("pip install 'agent-r1[hub]'") == 2
    assert "model.lora needs the package peft; run `pip install 'agent-r1[lora]'`" in done.stderr
    scored = load_config("default", ["tasks.train=gsm8k", f"model.name={noise}", "evaluation.size=1"], training=False)
    with pytest.raises(ComponentLoadError, match=r"tasks\.train"):
        scored.check_available()
    scored.check_available(unused_sets(scored.config, ["eval"]))


def test_a_name_that_no_layer_has_is_noted(agent_r1):
    pytest.importorskip("peft")
    done = agent_r1("train", "default", "--dry-run", "model.lora={target_modules: [q_proj, v_porj]}")
    assert done.exit_code == 0, done.stderr
    assert "target_modules names 'v_porj', which no matrix in" in done.stderr
    assert "names 'q_proj'" not in done.stderr


def test_a_recipe_cannot_act_on_the_terminal_that_shows_it(capsys, monkeypatch):
    hostile = load_config("default", ["env.system_prompt='paid \u202eeerf'"])
    _show(hostile)
    assert "paid \u202eeerf" in capsys.readouterr().out, "a file gets what the recipe says"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    _show(hostile)
    assert r"paid \u202eeerf" in capsys.readouterr().out
