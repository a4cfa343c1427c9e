"""Where another component is named, what its kind shares stays, and what goes is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agent_r1_core.config import load_config

Load = Callable[..., Any]

RECIPE = """
extends: small
engine: {name: listener, max_new_tokens: 512, max_episodes: 3, ears: 4}
env: {name: world, max_turns: 4, hints: true}
tools:
  - {name: paid, timeout: 3, reward_weight: 0.5}
"""


@pytest.fixture
def loaded(load: Load) -> Load:
    """Load the recipe with overrides."""
    return lambda *overrides, text=RECIPE, training=True: load(*overrides, text=text, training=training)


def said(resolved: Any) -> list[str]:
    return [text for text in resolved.warnings if "dropped" in text]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("change", ["engine.name=singer", "engine=singer", "engine={name: singer}"])
def test_another_engine_keeps_what_all_engines_share_and_the_rest_is_said(loaded, change, training):
    resolved = loaded(change, training=training)
    engine = resolved.config.engine.config
    assert (engine.max_new_tokens, engine.voice) == (512, "alto")
    assert engine.max_episodes == 7, "the singer has a number of its own"
    (note,) = said(resolved)
    assert note.startswith("engine is now singer; of listener these are dropped: engine.ears=4 (")
    assert "other.yaml, line 3), engine.max_episodes=3 (" in note
    assert "max_new_tokens" not in note
    assert resolved.sources["engine.max_new_tokens"].endswith("other.yaml, line 3")
    assert "engine.max_episodes" not in resolved.sources

    chosen = loaded("engine.max_new_tokens=8", "engine.max_episodes=5", change, training=training)
    assert (chosen.config.engine.config.max_new_tokens, chosen.config.engine.config.max_episodes) == (8, 5)
    assert "max_episodes" not in said(chosen)[0], "somebody has set it anew"


def test_every_kind_keeps_what_it_shares_also_in_a_recipe_on_top_of_another(loaded, folder):
    resolved = loaded("env=maze", "tools[0].name=search")
    assert resolved.config.env.config.max_turns == 4
    assert resolved.config.tools[0].timeout == 3
    (note,) = said(resolved)
    assert note.startswith("env is now maze; of world these are dropped: env.hints=true (")
    assert loaded("env=long_maze").config.env.config.max_turns == 12, "the preset's own number counts"

    (folder / "below.yaml").write_text(RECIPE)
    above = loaded(text="extends: below\nengine: singer\nenv: {name: maze, walls: 3}\n")
    assert (above.config.engine.config.max_new_tokens, above.config.env.config.max_turns) == (512, 4)
    assert [note.partition(":")[0] for note in said(above)] == [
        "env is now maze; of world these are dropped",
        "engine is now singer; of listener these are dropped",
    ]


def test_what_was_kept_and_is_idle_now_is_told_and_a_run_tells_only_what_was_no_default(loaded, tmp_path):
    resolved = loaded("tools[0].name=free")
    (note,) = [text for text in resolved.warnings if "reward_weight" in text]
    assert note.endswith("has no effect here: the tool free gives no rewards")
    file = tmp_path / "config.yaml"
    file.write_text(resolved.yaml())
    assert load_config(file).config == resolved.config, "a resume does not take it for somebody's choice"

    file.write_text(loaded().yaml())
    resolved = load_config(file, ["engine.name=singer"], training=False)
    assert resolved.config.engine.config.max_new_tokens == 512
    assert "ears=4" in said(resolved)[0]
    assert "nose" not in said(resolved)[0]


@pytest.mark.parametrize(("old", "new"), [("grpo", "ppo"), ("dapo", "grpo"), ("rloo", "reinforce_pp")])
def test_a_recorded_run_hands_on_no_default_of_the_component_that_goes(tmp_path, old, new):
    file = tmp_path / "config.yaml"
    file.write_text(load_config("default", [f"algorithm={old}", "algorithm.entropy_coef=0.02"]).yaml())
    plain, again = (load_config(recipe, [f"algorithm={new}"]) for recipe in ("default", file))
    written = plain.config.algorithm.config.model_copy(update={"entropy_coef": 0.02})
    assert again.config.algorithm.config == written, "what somebody chose stays"
    assert said(again) == [], "nobody chose what went"


@pytest.mark.parametrize("sources", ["", "sources: {}\n"])
def test_a_required_option_that_goes_is_said(loaded, sources):
    text = f"extends: small\nenv: {{name: cave, depth: 3}}\n{sources}"
    (note,) = said(loaded("env.name=world", text=text))
    assert note.startswith("env is now world; of cave these are dropped: env.depth=3 (")


def test_a_whole_block_of_the_same_component_replaces_it_and_limits_are_never_merged(loaded):
    text = RECIPE.replace("timeout: 3", "timeout: 3, isolation: process, limits: {memory: 2}")
    same = loaded("tools[0]={name: paid, isolation: process, limits: {open_files: 64}}", text=text).config.tools[0]
    plain = loaded("tools=[{name: paid, isolation: process, limits: {open_files: 64}}]").config.tools[0]
    assert same == plain, "nothing of the old block stays"
    other = loaded("tools[0]={name: search, limits: {open_files: 64}}", text=text).config.tools[0]
    assert (other.timeout, other.limits) == (3, plain.limits), "what is not given stays, what is given is whole"
