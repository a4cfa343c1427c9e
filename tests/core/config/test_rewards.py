"""Options of rewards: those without effect are refused, and rewards that repetition could farm are warned about."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_r1_core.config import ResolvedConfig, load_config
from agent_r1_core.errors import ConfigError

VALID_CALL = "{name: valid_tool_call, weight: %s}"


@pytest.fixture
def plugin(folder: Path) -> Path:
    """One with the tool `paid`, the reward `polite` and the environment `world`, which rewards turns."""
    return folder / "parts.py"


def loaded(*overrides: str, plugin: Path | None = None, recipe: str = "default") -> ResolvedConfig:
    return load_config(recipe, overrides, plugins=[] if plugin is None else [plugin])


def rewarded(*rewards: str) -> str:
    return f"rewards=[exact_match, {', '.join(rewards)}]"


@pytest.mark.parametrize(
    ("overrides", "key", "why"),
    [
        (["rewards=[{name: exact_match, cap: 1}]"], r"rewards\[0\].cap", "exact_match scores an episode once"),
        ([rewarded("{name: valid_tool_call, cap: 5}")], r"rewards\[1\].cap", "never adds up .* than 5 in 5"),
        (["tools=[{name: wiki_search, reward_weight: 2}]"], r"tools\[0\].reward_weight", "gives no rewards"),
        (["tools=[{name: wiki_search, reward_cap: 2}]"], r"tools\[0\].reward_cap", "wiki_search gives no rewards"),
        (["algorithm=ppo", "algorithm.process_scale=1"], "algorithm.process_scale", "nothing gives process rewards"),
        (["algorithm=reinforce_pp", "algorithm.gamma_turn=0.9", "env.max_turns=1"], "algorithm.gamma_turn", "no turn"),
    ],
)
def test_an_option_without_effect_is_refused(overrides, key, why):
    with pytest.raises(ConfigError, match=f"{key} .*has no effect here: .*{why}"):
        loaded(*overrides)


def test_options_with_effect_are_taken(plugin):
    tools = "tools=[wiki_search, {name: paid, reward_weight: 0.1, reward_cap: 2}]"
    loaded(tools, "algorithm=ppo", "algorithm.process_scale=1", plugin=plugin)
    loaded(rewarded("{name: valid_tool_call, cap: 4.5}"), "algorithm=reinforce_pp", "algorithm.process_scale=0.1")
    loaded("algorithm=ppo", "algorithm.gamma_turn=0.9", "env.max_turns=1")  # it discounts a bootstrap
    loaded("env=world", "algorithm=ppo", "algorithm.process_scale=0.1", plugin=plugin)
    best = loaded(tools, "checkpoint.best=eval/reward/paid", plugin=plugin).config.checkpoint.best
    assert best == "eval/reward/paid"


def test_a_reward_that_repetition_could_farm_is_warned_about(plugin):
    (warning,) = loaded(rewarded(VALID_CALL % 0.5)).warnings
    assert warning == (
        "farming: valid_tool_call may pay up to 0.5 in each of 5 turns, 2.5 in all, and the best outcome only 1; set "
        "its `cap`, or lower its weight"
    )
    assert loaded(rewarded(VALID_CALL % 0.2)).warnings == ()
    assert loaded(rewarded(VALID_CALL % 0.5), "env.max_turns=2").warnings == ()
    assert loaded(rewarded("{name: valid_tool_call, weight: 0.5, cap: 2}")).warnings == ()
    (capped,) = loaded(rewarded("{name: valid_tool_call, weight: -0.5, cap: 2.5}"), "rewards[1].weight=0.5").warnings
    assert "1.25 in all" in capped

    (warning,) = loaded(rewarded("{name: polite, weight: -0.5, cap: 3}"), plugin=plugin).warnings
    assert warning.startswith("farming: polite may pay up to 0.5 in each of 5 turns, 1.5 in all")
    assert loaded(rewarded(VALID_CALL % -5)).warnings == (), "what punishes is no farm"
    assert loaded(rewarded("supporting_titles")).warnings == (), "nor what pays once"

    (warning,) = loaded("tools=[wiki_search, {name: paid, reward_weight: -0.5}]", plugin=plugin).warnings
    assert warning.startswith("farming: paid may pay up to 0.25 in each of 5 turns, 1.25 in all")
    assert "set its `reward_cap`" in warning
    for harmless in ("reward_weight: -0.5, reward_cap: 1.5", "reward_weight: 0.2"):
        assert loaded(f"tools=[wiki_search, {{name: paid, {harmless}}}]", plugin=plugin).warnings == ()


def test_a_recipe_that_can_teach_nothing_is_warned_about(plugin):
    nothing = "no reward has a weight: there is nothing to learn from"
    assert loaded("rewards=[{name: exact_match, weight: 0}]").warnings == (nothing,)
    (dropped,) = loaded("rewards=[]", "env=world", plugin=plugin).warnings
    assert dropped.startswith("env is now world; of tool_calling these are dropped: env.system_prompt=")
    assert loaded("rewards=[]", "tools=[wiki_search, paid]", plugin=plugin).warnings == ()
    assert loaded("rewards=[valid_tool_call]").warnings == (), "there is no outcome that a farm could outdo"
    (warning,) = loaded("rewards=[]", "tools=[wiki_search, {name: paid, reward_weight: 0}]", plugin=plugin).warnings
    assert warning == nothing


@pytest.mark.parametrize(
    ("recipe", "credit"),
    [
        ("default", "grpo credits the sum of an episode to all of it"),
        ("ppo", "ppo credits each to the actions up to its turn"),
        ("reinforce_pp", "reinforce_pp credits each to the actions up to its turn"),
    ],
)
def test_a_dry_run_says_how_process_rewards_are_credited(recipe, credit):
    assert loaded(recipe=recipe).notes == loaded(rewarded(VALID_CALL % 0), recipe=recipe).notes == ()
    (note,) = loaded(rewarded(VALID_CALL % 0.1, "supporting_titles"), recipe=recipe).notes
    assert note == f"process rewards (valid_tool_call, supporting_titles): {credit}"
