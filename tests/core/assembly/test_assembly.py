"""What is refused before anything heavy is made, and what a tracker is told of a resumed run."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from agent_r1_calculator.tool import Calculator
from small_run import Notes

from agent_r1_core import Task, ToolCall, ToolContext, train
from agent_r1_core.assembly.assembly import assemble
from agent_r1_core.assembly.components import make_tools
from agent_r1_core.assembly.local_roles import Stage
from agent_r1_core.config import load_config
from agent_r1_core.errors import ConfigError, ModelError
from agent_r1_core.runs.run import Run
from agent_r1_core.testing import tiny_model_folder

PLUGIN = """
from agent_r1_core import ComponentConfig, Passage, Task, TaskSource, TaskSpec, Tracker, TrackerSpec, hookimpl

AGENT_R1_PLUGIN_API = 1

class Titled(TaskSource):
    read = []

    class Config(ComponentConfig):
        title: str

    def load(self):
        return [Task(self.config.title, "a?", ("a",))]

    def corpus(self):
        self.read.append(self.config.title)
        return [Passage(self.config.title, "a city")]

class Witness(Tracker):
    def open(self, run):
        with open(run.directory + "/opened.txt", "a") as file:
            print(run.resumed_at, file=file)

    def log(self, step, metrics):
        pass

register_tasks = hookimpl(lambda: [TaskSpec("titled", ":Titled", "one task, and a corpus of one passage")])
register_trackers = hookimpl(lambda: [TrackerSpec("witness", ":Witness", "notes where a run goes on")])
"""


@pytest.fixture
def small(tmp_path: Path) -> list[str]:
    """Overrides of a run of one step, and beside it the plugin file."""
    (tmp_path / "parts.py").write_text(PLUGIN)
    model = tiny_model_folder(tmp_path / "model", max_position_embeddings=512)
    return [
        *(f"model.name={model}", "model.dtype=float32", "threads=1", "engine.max_new_tokens=4", "tools=[]"),
        "tasks={train: {name: arithmetic, size: 4}, eval: {name: arithmetic, split: eval, size: 1}}",
        "env={name: tool_calling, max_turns: 1, max_tokens: 300}",
        "training={steps: 1, tasks_per_step: 1, samples_per_task: 2}",
        *("trackers=[witness]", f"run={{dir: {tmp_path / 'runs'}, name: small}}"),
    ]


def test_a_budget_beyond_the_models_positions_is_refused_and_unknown_tools_of_a_bundled_one_are_named(small, tmp_path):
    resolved = load_config("default", [*small, "env.max_tokens=513"], plugins=[tmp_path / "parts.py"])
    with pytest.raises(ConfigError, match=r"env.max_tokens is 513, .* at most 512 tokens; set env.max_tokens=512"):
        assemble(resolved, learning=False, task_sets=("eval",))

    keys = ["model={name: tiny-worlds, dtype: float32}", "threads=1", "tasks.eval.size=1"]
    said: list[str] = []
    assemble(load_config("default", keys), learning=False, task_sets=("eval",), note=said.append)
    (note,) = [text for text in said if "bundled model" in text]
    assert "will hardly call wiki_search;" in note


def test_what_a_recipe_says_of_rewards_and_memory_reaches_them(small, tmp_path):
    keys = ["rewards=[{name: exact_match, timeout: 7}]", "model.gradient_checkpointing=true"]
    parts = assemble(load_config("default", [*small, *keys], plugins=[tmp_path / "parts.py"]))
    assert [weighted.timeout for weighted in parts.rollouts.stages["train"].collector.settings.rewards] == [7.0]
    assert parts.learner.learner.policy.gradient_checkpointing == "full"
    assert parts.sampling["deterministic"] is False


async def searched(stage: Stage) -> str:
    """What the stage's search finds."""
    assert (Path(str(stage.resources.tokenizer)) / "tokenizer.json").is_file()
    await stage.tools.start(stage.resources)
    try:
        context = ToolContext("e", 0, Task("one", "a?"), random.Random(0))
        return (await stage.tools.call(ToolCall("wiki_search", {"query": "city"}), context)).text
    finally:
        await stage.tools.close()


@pytest.mark.parametrize("isolation", ["thread", pytest.param("process", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("source", "titles", "read"),
    [
        ("auto", {"train": "Oslo", "bern": "Bern", "rome": "Rome"}, {"Oslo", "Bern", "Rome"}),
        ("train", {"train": "Oslo", "bern": "Oslo", "rome": "Oslo"}, {"Oslo"}),
        ("rome", {"train": "Rome", "bern": "Rome", "rome": "Rome"}, {"Rome"}),
    ],
)
def test_tools_search_what_belongs_to_their_tasks_or_the_named_source(small, tmp_path, isolation, source, titles, read):
    sets = "bern: {name: titled, title: Bern}, rome: {name: titled, title: Rome}"
    keys = [
        *(key for key in small if not key.startswith(("tasks", "tools"))),
        f"tasks={{train: {{name: titled, title: Oslo}}, eval: {{{sets}}}}}",
        f"tools=[{{name: wiki_search, source: {source}, isolation: {isolation}}}]",
    ]
    resolved = load_config("default", keys, plugins=[tmp_path / "parts.py"])
    corpora = resolved.registry.load("tasks", "titled").cls.read
    corpora.clear()
    parts = assemble(resolved, learning=False)

    found = {name: asyncio.run(searched(stage)).split("\n")[0] for name, stage in parts.rollouts.stages.items()}
    assert found == titles
    if isolation == "thread":
        assert set(corpora) == read, "a corpus was loaded that nobody searches"


@pytest.mark.parametrize("isolation", ["thread", pytest.param("process", marks=pytest.mark.slow)])
def test_tools_search_the_corpora_of_all_training_sets(small, tmp_path, isolation):
    """In training, and for tasks that are held out of it."""
    sets = ", ".join(f"{title.lower()}: {{name: titled, title: {title}}}" for title in ("Bern", "Rome", "Oslo"))
    keys = [
        *(key for key in small if not key.startswith(("tasks", "tools"))),
        f"tasks={{train: {{{sets}, sums: {{name: arithmetic, size: 20}}}}, eval: null}}",
        f"tools=[{{name: wiki_search, top_k: 5, isolation: {isolation}}}]",
    ]
    parts = assemble(load_config("default", keys, plugins=[tmp_path / "parts.py"]), learning=False)
    assert list(parts.sets) == ["train", "eval"]
    for stage in parts.rollouts.stages.values():
        found = asyncio.run(searched(stage))
        assert all(title in found for title in ("Bern", "Rome", "Oslo"))


@pytest.mark.parametrize(
    ("declared", "word", "isolated"),
    [("process", "auto", True), ("thread", "auto", False), ("process", "thread", False), ("thread", "process", True)],
)
def test_a_tool_declares_where_it_runs_and_the_recipe_may_decide_and_how_long(declared, word, isolated, monkeypatch):
    monkeypatch.setattr(Calculator, "isolation", declared)
    resolved = load_config("calculator", [f"tools=[{{name: calculator, isolation: {word}, timeout: 7}}]"])
    tools = make_tools(resolved, 1)
    assert (bool(tools._isolated), tools._timeouts) == (isolated, {"calculator": 7.0})
    assert not make_tools(resolved, 1, in_process=True)._isolated


def test_an_evaluation_of_a_run_computes_as_the_run_did(small, tmp_path):
    keys = [key for key in small if not key.startswith("model")]
    plugins = [tmp_path / "parts.py"]
    run = train("default", [key.replace("float32", "bfloat16") for key in small], plugins=plugins)

    def dtype(*more: str) -> str:
        resolved = load_config("default", [*keys, f"model.name={run.path}", *more], plugins=plugins)
        return assemble(resolved, learning=False).hardware.dtype

    assert (dtype(), dtype("model.dtype=float32")) == ("bfloat16", "float32")


def test_a_tracker_hears_where_a_run_goes_on_also_without_its_model_unless_it_computes_with_it(small, tmp_path):
    plugins = [tmp_path / "parts.py"]
    run, notes = train("default", small, plugins=plugins), Notes()
    train("default", [*small, "algorithm.kl_coef=0.1", "run.name=near"], plugins=plugins)
    with Run.resume(run.path) as again:  # as if it had been killed before its first checkpoint
        again.truncate_after(0)
    train(run.path, resume=True)
    train(run.path, ["training.steps=2"], resume=True)
    assert (run.path / "opened.txt").read_text().split() == ["None", "-1", "1"]
    assert run.model.is_dir()

    (tmp_path / "model").rename(tmp_path / "elsewhere")
    train(run.path, ["training.steps=3"], resume=True, listener=notes)
    assert f"the model {tmp_path / 'model'} is gone" in " ".join(notes.said)
    assert (run.model / "tokenizer.json").read_bytes() == (tmp_path / "elsewhere" / "tokenizer.json").read_bytes()
    with pytest.raises(ModelError, match=r"neither a Hugging Face folder .* nor a run"):
        train(tmp_path / "runs" / "near", ["training.steps=2"], resume=True)
