"""Recipes, those that they extend, and overrides are layers under one rule; a run's record is the same run again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agent_r1_core.config import find_recipe, load_config, recipe_names
from agent_r1_core.config.overrides import text_override
from agent_r1_core.errors import ConfigError

FORMATTED = "env: {name: world, format: {name: tags, closed: false}}\ntasks: {train: sums}\nplugins: [parts.py]\n"


def refusal(load: Callable[..., Any], *overrides: str, **more: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        load(*overrides, **more)
    return str(caught.value)


def test_a_recipe_is_resolved_to_every_option_of_every_component(load):
    config = load().config
    expected = {"size": 20, "levels": [1, 2], "path": None, "files": []}
    assert config.tasks.train.config.model_dump(mode="json") == expected
    assert config.tools[0].config.model_dump(mode="json") == {"top_k": 2, "corpus": None}
    assert config.tools[0].timeout == 5.0
    assert config.tools[0].isolation == "auto"
    assert [(block.name, block.weight) for block in config.rewards] == [("right", 1.0), ("polite", 0.5)]
    assert config.algorithm.config.clip == 0.3
    assert config.engine.config.max_episodes == 128
    assert config.training.lr == 1e-4


@pytest.mark.parametrize(
    ("override", "read"),
    [
        ("training.lr=1e-6", lambda config: config.training.lr == 1e-6),
        ("tools.0.top_k=7", lambda config: config.tools[0].config.top_k == 7),
        ("tools[0].timeout=1", lambda config: config.tools[0].timeout == 1.0),
        ("tools=[]", lambda config: config.tools == ()),
        ("tools=[search]", lambda config: config.tools[0].config.top_k == 1),
        ("model.lora.rank=4", lambda config: config.model.lora.rank == 4),
        ("tasks.eval={name: sums, size: 5}", lambda config: config.tasks.eval.config.size == 5),
        ("tasks.eval=sums", lambda config: config.tasks.eval.config.size == 10),
        ("tasks.train.path=", lambda config: config.tasks.train.config.path == ""),
        ("tasks.train.path=/a #1: *b.json", lambda config: config.tasks.train.config.path == "/a #1: *b.json"),
        ("tasks.train.path=<<", lambda config: config.tasks.train.config.path == "<<"),
        *(
            (text_override("tasks.train.path", text), lambda config, text=text: config.tasks.train.config.path == text)
            for text in ("2024", "null", "a: [b", "'x", "\U0001f600\n", "long " * 50)
        ),
        ("tasks.train.path='3'", lambda config: config.tasks.train.config.path == "3"),
        ("training={steps: 3}", lambda config: (config.training.steps, config.training.lr) == (3, 1e-4)),
        ("checkpoint.best=null", lambda config: config.checkpoint.best is None),
        ("algorithm=group", lambda config: config.algorithm.config.clip == 0.2),
        ("algorithm.name=group", lambda config: config.algorithm.config.clip == 0.3),
        ("tasks.train={name: sums}", lambda config: config.tasks.train.config.size == 10),
        ("algorithm=actor_critic", lambda config: not hasattr(config.algorithm.config, "clip")),
        ("algorithm.name=plain_group", lambda config: config.algorithm.config.normalise is False),
        ("algorithm.name=parts/ac", lambda config: config.algorithm.config.gae_lambda == 1.0),
        ("env.format={name: tags, tool: dice}", lambda config: config.env.tool_format.config.tool == "dice"),
        ("env={name: world, format: {name: tags}}", lambda config: config.env.tool_format.name == "tags"),
    ],
)
def test_overrides(load, override, read):
    assert read(load(override).config)


def test_options_of_a_tool_format_are_set_where_it_is_named(load):
    for overrides in (["env.format=tags", "env.format.tool=dice"], ["env.format.tool=dice", "env.format.name=tags"]):
        assert load(*overrides).config.env.config.format.config.tool == "dice"
    written = load("env.format.tool=dice", text=FORMATTED).config.env.config.format.config
    assert (written.tool, written.closed) == ("dice", False)
    assert load("env.format=json", text=FORMATTED).config.env.config.format.name == "json"
    for overrides in (["env={name: grid, format: unicode}"], ["env=grid", "env.format=unicode"]):
        env = load(*overrides, "tools=[]").config.env
        assert (env.config.format, env.tool_format) == ("unicode", None), "of another meaning it stays plain text"


def test_a_recipe_that_extends_another_says_only_what_differs_and_not_itself(folder):
    (folder / "deeper").mkdir()
    (folder / "deeper" / "more.yaml").write_text("extends: ../small.yaml\ntraining: {steps: 5}\nalgorithm: ac\n")
    (folder / "most.yaml").write_text("extends: deeper/more.yaml\nseed: 3\n")
    resolved = load_config(folder / "most.yaml", folders=[folder])
    assert resolved.recipe == "most"
    assert (resolved.config.training.steps, resolved.config.training.lr, resolved.config.seed) == (5, 1e-4, 3)
    assert not hasattr(resolved.config.algorithm.config, "clip")
    assert resolved.sources["training.lr"].endswith("small.yaml, line 12")
    for name, content, reason in (("a", b"extends: b\n", "extends itself"), ("bytes", b"\xff\xfe\x00", "UTF-8")):
        (folder / "b.yaml").write_text("extends: a\n")
        (folder / f"{name}.yaml").write_bytes(content)
        with pytest.raises(ConfigError, match=reason):
            load_config(name, folders=[folder])


def test_a_mapping_that_is_an_option_is_replaced_and_a_dotted_override_changes_one_entry_of_it(folder):
    """Keys of another world, or of another set of questions, would go on in silence."""
    tasks = "{name: reasoning_gym, dataset: chain_sum, options: {min_terms: 2, max_terms: 2}, size: 5}"
    world = "env: {name: gymnasium, id: FrozenLake-v1, kwargs: {is_slippery: false, map_name: 4x4}}"
    (folder / "base.yaml").write_text(f"{world}\ntasks: {{train: {tasks}, eval: {{a: {tasks}, b: {tasks}}}}}\n")
    products = "{dataset: products, options: {max_digits: 3}}"
    (folder / "child.yaml").write_text(
        "extends: base.yaml\nenv: {kwargs: {map_name: 8x8}}\n"
        f"tasks: {{train: {products}, eval: {{a: {products}, b: {{options: {{}}}}}}}}\n"
    )
    dotted = "tasks.eval.a.options.min_digits=2", "env.kwargs.is_slippery=true"
    config = load_config(folder / "child.yaml", dotted).config
    assert config.env.config.kwargs == {"map_name": "8x8", "is_slippery": True}
    assert config.tasks.train.config.options == {"max_digits": 3}
    sets = config.tasks.eval_sets
    assert (sets["a"].config.options, sets["b"].config.options) == ({"max_digits": 3, "min_digits": 2}, {})
    assert (sets["a"].config.dataset, sets["a"].config.size, sets["b"].config.dataset) == ("products", 5, "chain_sum")
    base = load_config(folder / "base.yaml", ["tasks.train.options.max_terms=3", "env.kwargs={}"]).config
    assert (base.tasks.train.config.options, base.env.config.kwargs) == ({"min_terms": 2, "max_terms": 3}, {})


def test_a_recipe_is_found_by_name_or_path_also_in_a_folder_whose_name_is_part_of_its_own(folder, monkeypatch):
    assert recipe_names([folder]) == ["small"]
    assert find_recipe("small", [folder]) == folder / "small.yaml"
    monkeypatch.chdir(folder)
    assert find_recipe("./small.yaml", []) == folder / "small.yaml"
    with pytest.raises(ConfigError, match=r"no recipe named 'smal'; did you mean small\? The recipes are small"):
        find_recipe("smal", [folder])
    with pytest.raises(ConfigError, match=r"there is no recipe and no run at .*none\.yaml; .* recipes small"):
        find_recipe("none.yaml", [folder])
    with pytest.raises(ConfigError, match=r"at .*smal\.yaml; did you mean small\.yaml\? Give the path"):
        find_recipe("smal.yaml", [])

    (folder / "deeper").mkdir()
    (folder / "deeper" / "more.yaml").write_text("extends: small\ntraining: {steps: 5}\n")
    (folder / "deeper" / "most.yaml").write_text("extends: deeper/more\nseed: 3\n")
    assert recipe_names([folder]) == ["deeper/more", "deeper/most", "small"]
    assert find_recipe("deeper/more", [folder]) == folder / "deeper" / "more.yaml"
    resolved = load_config("deeper/most", folders=[folder])
    assert (resolved.recipe, resolved.config.training.steps, resolved.config.seed) == ("most", 5, 3)
    with pytest.raises(ConfigError, match=r"no recipe named 'deeper/mor'; did you mean deeper/more\? The recipes are"):
        find_recipe("deeper/mor", [folder])
    with pytest.raises(ConfigError, match=r"there is no recipe and no run at .*elsewhere/thing; give the path"):
        find_recipe("elsewhere/thing", [folder])
    (folder / "deeper" / "plain").write_text("seed: 1\n")
    monkeypatch.chdir(folder)
    assert find_recipe("deeper/plain", [folder]).is_file(), "a path without a suffix"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a\n- b\n", "holds list"),
        ("# nothing yet\n", "is empty; write keys and values into it"),
        ("extends: [a]\n", "extends"),
        ("sources: 3\n", "sources"),
        ("a: 1\na: 2\n", "line 2"),
        ("extends: smal\n", "did you mean small?"),
    ],
)
def test_a_file_that_is_no_recipe(load, text, words):
    assert words in refusal(load, text=text)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["foo"], "override 'foo' is not of the form key=value"),
        (["a[x]=3"], "override 'a[x]=3' is not of the form key=value"),
        (["a..b=3"], "override 'a..b=3' is not of the form key=value"),
        (["training.lr=[1,"], "override 'training.lr=[1,', line 1 is not valid YAML"),
        (["tools.3.top_k=1"], "tools has the entries 0 to 0"),
        (["rewards.1=right"], "names the reward right again"),
        (["trackers.0.name=board"], "trackers has no entries"),
        (["training.lr.x=3"], "training.lr is the value 0.0001"),
        (["training.lr=1", "training.lr=2"], "'training.lr=1' has no effect, since override 'training.lr=2' replaces"),
        (["training={}"], "'training={}' has no effect, since it gives no values; add some, or leave it out"),
        (["algorithm=ac", "algorithm.name=group"], "has no effect, since override 'algorithm.name=group' replaces"),
    ],
)
def test_overrides_that_lead_nowhere(load, overrides, words):
    assert words in refusal(load, *overrides)


def test_the_dump_loads_back_to_the_same_configuration_idle_defaults_and_plugin_files_too(load, tmp_path, folder):
    first = load("training.lr=1e-6", "algorithm.name=plain_group", "model.lora.rank=4", "tasks.train.path=no")
    file = tmp_path / "config.yaml"
    file.write_text(first.yaml())
    second = load_config(file)
    sources = first.dump()["sources"]
    assert sources["training.lr"] == "override 'training.lr=1e-6'"
    assert sources["tools[0].top_k"].endswith("small.yaml, line 5")
    assert not {"training.steps", "algorithm.horizon"} & sources.keys(), "nobody set them"
    assert second.config == first.config
    assert second.yaml() == first.yaml()

    file.write_text(load().yaml())
    assert load_config(file).config.env.config.hint_text == "look"
    with pytest.raises(ConfigError, match=r"env\.hint_text .*has no effect"):
        load_config(file, ["env.hint_text=x"])

    resolved = load(plugins=[str(folder / "parts.py")])
    assert resolved.dump()["plugins"] == [str(folder / "parts.py")]
    assert resolved.registry.find("tool", "search").plugin == "parts"


def test_what_auto_turned_out_to_be_is_written_back_and_replaced_options_are_validated(load, tmp_path):
    resolved = load().replace({"threads": 1, "model.dtype": "float32", "tools[0].timeout": 3.0})
    assert (resolved.config.threads, resolved.config.model.dtype, resolved.config.tools[0].timeout) == (1, "float32", 3)
    assert resolved.sources["threads"] == "chosen at the start of the run"
    file = tmp_path / "config.yaml"
    file.write_text(resolved.yaml())
    assert load_config(file).config == resolved.config
    with pytest.raises(ConfigError, match=r"training\.lrr .*did you mean training\.lr"):
        resolved.replace({"training.lrr": 1})

    resolved = load().replace({"tools[0].top_k": 5, "env.max_tokens": 99})
    tool = resolved.make("tool", resolved.config.tools[0])
    assert (tool.name, tool.config.top_k, resolved.config.env.config.max_tokens) == ("search", 5, 99)
    assert tool.config is resolved.config.tools[0].config
    assert resolved.config.env.config.hint_text == "look"
    with pytest.raises(ConfigError, match=r"tools\[0\]\.top_k .*must be a valid integer, not 'many'"):
        resolved.replace({"tools[0].top_k": "many"})


def test_a_tool_format_has_options_and_keeps_them_in_the_dump(load, tmp_path):
    assert load().dump()["env"]["format"] == "json"
    resolved = load("env.format={name: tags, tool: dice}")
    tool_format = resolved.make("tool_format", resolved.config.env.tool_format)
    assert (tool_format.name, tool_format.config.tool, tool_format.config.closed) == ("tags", "dice", True)
    assert resolved.dump()["env"]["format"] == {"name": "tags", "tool": "dice", "closed": True, "closing": "end"}
    file = tmp_path / "config.yaml"
    for run in (resolved, load("env.format=json")):
        file.write_text(run.yaml())
        assert load_config(file).dump()["sources"] == run.dump()["sources"]
        assert load_config(file).config == run.config
