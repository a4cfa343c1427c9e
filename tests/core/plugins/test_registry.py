"""Names: finding, loading and making components."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_r1_core.errors import ComponentLoadError, ConfigError, UnknownComponent
from agent_r1_core.plugins import Registry

PLUGIN = """
class Length(RewardFn):
    '''Rewards length.'''

    class Config(ComponentConfig):
        target: int = 10
        '''Letters to aim at.'''
        unit: dict[str, int] = {}

    def __init__(self, config=None, scale=1):
        super().__init__(config)
        self.scale = scale

    def score(self, trajectory):
        return 1.0

@tool
def shout(text: str) -> str:
    '''Shout.'''
    return text.upper()

class Counted(Tool):
    metrics = ("calls",)

def whisper(text: str) -> str:
    return text

@hookimpl
def register_rewards():
    yield RewardSpec("length", ":Length", "Likes it long", aliases=("len+",), presets=(Preset("short", {"target": 3}),))

@hookimpl
def register_tools():
    return [
        ToolSpec("shout", "mine:shout", "Loud"),
        ToolSpec("whisper", ":whisper", "Plain"),
        ToolSpec("gone", ":Goen", ""),
        ToolSpec("counted", ":Counted", ""),
        ToolSpec("reward", ":Length", ""),
        ToolSpec("absent", "a_module_that_is_not_there.inner:Tool", ""),
    ]
"""


@pytest.fixture
def registry(local_plugin: Callable[..., Path]) -> Registry:
    return Registry.discover([local_plugin(PLUGIN)])


@pytest.mark.parametrize(
    ("block", "name", "target"),
    [
        ({"name": "length", "target": 5}, "length", 5),
        ("len+", "length", 10),
        ("short", "short", 3),
        ({"name": "mine/short", "target": 4}, "short", 4),
    ],
    ids=["options", "an alias is the component itself", "preset", "options go over the preset's"],
)
def test_a_component_is_made_from_its_block(registry, block, name, target):
    reward = registry.create("reward", block, scale=2)
    assert (reward.name, reward.config.target, reward.scale) == (name, target, 2)


@pytest.mark.parametrize(
    ("kind", "name", "reason"),
    [
        ("reward", "lenght", r"no reward is called 'lenght'; did you mean 'length'\?"),
        ("reward", "shout", "'shout' is a component of kind tool"),
        ("reward", "zzz", r"not loaded: plugin broken; see `agent-r1 plugins doctor -p /\S*broken\.py`"),
        ("gadget", "x", "no kind of component is called 'gadget'; the kinds are tool, env,"),
    ],
)
def test_an_unknown_name_gets_a_hint(local_plugin, kind, name, reason):
    registry = Registry.discover([local_plugin(PLUGIN), local_plugin("raise RuntimeError", name="broken")])
    with pytest.raises(UnknownComponent, match=reason):
        registry.find(kind, name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("gone", "':Goen' has no 'Goen'"),
        ("whisper", "is a plain function; put @tool"),
        ("reward", "is not a Tool; make Length a class that subclasses it"),
        ("counted", r"metrics of Counted is \('calls',\); write metrics = \(Metric"),
        ("absent", "importing a_module_that_is_not_there.inner raised ModuleNotFoundError"),
    ],
)
def test_a_target_that_cannot_be_used_is_named(registry, name, reason):
    with pytest.raises(ComponentLoadError, match=reason) as caught:
        registry.load("tool", name)
    assert f"tool 'mine/{name}'" in str(caught.value)


def test_every_wrong_option_has_a_line_and_a_constructor_that_raises_is_named(registry):
    block = {"name": "length", "taget": 5, "target": "many", "unit": {"a": "b"}}
    with pytest.raises(ConfigError) as caught:
        registry.create("reward", block)
    assert sorted(str(caught.value).splitlines()) == [
        "taget of reward 'length' is not an option; did you mean 'target'? (options: target, unit)",
        "target of reward 'length' is 'many': input should be a valid integer, unable to parse string as an integer",
        "unit.a of reward 'length' is 'b': input should be a valid integer, unable to parse string as an integer",
    ]
    with pytest.raises(ComponentLoadError, match=r"reward 'mine/length' cannot be made: TypeError: .*depth"):
        registry.create("reward", "length", depth=1)


def test_a_plugin_that_changed_is_told_if_it_is_used(registry, local_plugin):
    saved = json.loads(json.dumps(registry.to_json()))
    same = Registry.discover([local_plugin(PLUGIN)])
    same.load("reward", "length")
    assert same.check_same(saved) == []
    path = local_plugin(PLUGIN.replace('"gone"', '"lost"'))
    changed = Registry.discover([path])
    assert changed.check_same(saved) == [], "nothing of it is used"
    changed.load("reward", "length")
    [sentence] = changed.check_same(saved)
    assert sentence.startswith("plugin 'mine' has changed since the run began: file hash ")
    assert sentence.endswith("tool 'gone' is gone, tool 'lost' is new")
    other = Registry.discover([path.rename(path.with_name("other.py"))])
    other.load("reward", "length")
    [sentence] = other.check_same(saved)
    assert sentence.startswith("reward 'length' came from plugin 'mine' (")
    assert f"and now comes from plugin 'other' ({path.with_name('other.py')})" in sentence
