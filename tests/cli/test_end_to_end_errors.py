"""What a user gets for a mistake: one sentence with what, where and what next, the right exit code, and no debris."""

from __future__ import annotations

from pathlib import Path

import pytest

SHOWN = (
    '{"messages": [{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": null, "tool_calls": '
    '[{"function": {"name": "calculator", "arguments": {"expression": "1+1"}}}]}]}\n'
)
NARRATION = ("kernels: ", "tasks.eval is", "writing to ", "examples before every task: ")


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("recipe", "overrides", "code", "sentence"),
    [
        ("default", ["training.stps=3"], 2, "(override 'training.stps=3') is not a key (did you mean training.steps?)"),
        ("default", ["tools=[wiki_serch]"], 3, "no tool is called 'wiki_serch'; did you mean 'wiki_search'?"),
        ("default", ["trackers=[wandb]"], 3, "no tracker is called 'wandb'; there are: tensorboard, trackio"),
        ("default", ["-P", "trackoi"], 2, "no plugin called 'trackoi' can be disabled; did you mean 'trackio'?"),
        ("defalt", [], 2, "there is no recipe named 'defalt'; did you mean default?"),
        ("training.steps", [], 2, "to set an option, write training.steps=VALUE"),
        ("./mine.yaml", [], 2, "mine.yaml; give the path of a YAML file or a run, or one of the recipes"),
        ("default", ["-p", "gone.py"], 2, "plugins[1] (-p gone.py) names no file"),
        ("default", ["-p", "broken.py"], 3, "names the plugin broken, which is failed: importing"),
        ("default", ["model.name=./gone"], 1, "is neither a Hugging Face folder (no config.json) nor a run"),
        ("default", ["model.name=nobody/nothing"], 1, "could not be downloaded from the hub"),
        ("hotpotqa-tiny", ["tasks.train.path=gone.json"], 1, "/gone.json; give the path of an existing file"),
        ("default", ["run.dir=broken.py"], 1, "broken.py"),
        ("default", ["stray"], 2, "argument 'stray' is not an override; write KEY=VALUE"),
        ("calculator", ["env.max_examples=2"], 2, "has no effect here: env.examples names no file; remove it"),
        ("calculator", ["env.examples=gone.jsonl"], 2, "/gone.jsonl; give the path of an existing file"),
        ("calculator", ["env.examples=cut.jsonl"], 2, "line 2 of "),
        ("calculator", ["env.examples=shown.jsonl"], 2, "makes 1 calls, and 0 tool messages follow; give"),
        ("ppo", [], 2, "ppo.yaml, line 13) is 2 and must be below training.steps=2; change one of them"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence_and_leaves_nothing(agent_r1, changed, tmp_path, recipe, overrides, code, sentence):
    (tmp_path / "shown.jsonl").write_text(SHOWN)
    (tmp_path / "cut.jsonl").write_text(SHOWN + SHOWN[:60])
    (tmp_path / "broken.py").write_text("import no_such_module")
    before = files(tmp_path)
    drop = ("tasks.eval.size",) if recipe == "hotpotqa-tiny" else ()
    done = agent_r1("train", recipe, *changed(*overrides, drop=drop))
    assert done.exit_code == code, done.stderr
    errors = [line for line in done.stderr.splitlines() if not line.startswith(NARRATION)]
    assert len(errors) == 1, done.stderr
    assert errors[0].startswith("error: ")
    assert sentence in errors[0]
    assert done.stdout == ""
    assert files(tmp_path) == before
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


def test_a_run_that_exists_is_neither_overwritten_nor_touched(agent_r1, changed, tmp_path, refuse):
    never = ("evaluation.at_start=false", "evaluation.at_end=false", "evaluation.every=0")
    small = changed(*never, drop=("tasks.eval.size",))
    assert agent_r1("train", "default", *small).exit_code == 0
    before = files(tmp_path)
    again = agent_r1("train", "default", *small)
    assert again.exit_code == 1
    assert again.stderr == (
        "error: runs/small exists already; continue it with --resume, or replace it with --force (Python: resume=True, "
        "force=True)\n"
    )
    refuse(1, "runs/small is a run, not a recipe; continue it with --resume", "train", "runs/small")
    broken = agent_r1("train", "default", "--force", *[f"{text}x" if "model.name" in text else text for text in small])
    assert broken.exit_code == 1
    assert files(tmp_path) == before, "not even --force deletes a run before its successor could begin"
    (tmp_path / "runs" / "other").mkdir()
    (tmp_path / "runs" / "other" / "thesis.txt").write_text("years of work")
    strange = agent_r1("train", "default", *changed("run.name=other"), "--force")
    assert strange.exit_code == 1
    assert "is not a run directory, so --force does not delete it" in strange.stderr
    assert (tmp_path / "runs" / "other" / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize(
    ("command", "arguments", "code", "sentence"),
    [
        ("train", ["runs/none", "--resume"], 1, "runs/none is not a run, so there is nothing to resume; name a run's"),
        ("train", [".", "--resume"], 1, ". is not a run, so there is nothing to resume"),
        ("train", ["default", "--resume"], 2, "--resume needs to know which run to continue"),
        ("train", ["default", "--resume", "run.name=none"], 1, "runs/none is no run directory"),
        ("eval", ["training.lr=1"], 2, "(override 'training.lr=1') has no effect here: this command trains nothing"),
        ("eval", ["--silence-tools", "--baseline", "closed_book"], 2, "not for the baseline closed_book"),
        ("eval", ["--baseline", "naive_rag", "tools=[]"], 2, "naive_rag searches with the recipe's first tool"),
        ("eval", ["--silence-tools", "tools=[]"], 2, "there are no tools to silence, since tools is empty"),
        ("eval", ["--baseline", "base_tool_call", "tools=[]"], 2, "base_tool_call calls tools, but tools is empty"),
        ("eval", ["--baseline", "react"], 2, "react asks in a system prompt, but env.system_prompt is empty"),
        ("eval", ["--samples", "2", "evaluation.greedy=true"], 2, "evaluation.greedy"),
        ("eval", ["run.dir=/proc/runs"], 1, "error: /proc/runs could not be written"),
        ("eval", ["--baseline", "guess"], 2, "'guess' is not one of"),
        ("rollout", ["--keep-successes", "gone/own.jsonl"], 1, "it needs the name of a file in a folder that exists"),
        ("rollout", ["--task", "5000"], 1, "none has the index 5000"),
        ("rollout", ["--model", "./gone"], 1, "neither a Hugging Face folder"),
    ],
)
def test_what_cannot_be_resumed_evaluated_or_played(refuse, noise, command, arguments, code, sentence):
    model = [f"model.name={noise}"] if command == "train" else ["--model", noise, "threads=1"]
    done = refuse(code, sentence, command, *arguments, *([] if "--model" in arguments else model))
    assert command == "eval" or done.stderr.count("error: ") == 1
