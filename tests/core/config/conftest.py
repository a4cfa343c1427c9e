"""A local plugin with one small component of every kind, and a recipe that uses them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_r1_core.config import ResolvedConfig, load_config
from agent_r1_core.errors import ConfigError, PluginError
from agent_r1_core.plugins.sources import candidates
from agent_r1_core.plugins.trust import remember

PLUGIN = """
from typing import ClassVar

from agent_r1_core import (
    Algorithm, AlgorithmConfig, AlgorithmSpec, ComponentConfig, DataPath, Engine, EngineConfig, EngineSpec, EnvConfig,
    EnvSpec, Preset, RewardFn, RewardSpec, TaskSource, TaskSpec, Tool, ToolEnv, ToolFormat, ToolFormatBlock,
    ToolFormatSpec, ToolSpec, Tracker, TrackerSpec, hookimpl,
)

AGENT_R1_PLUGIN_API = 1

class Search(Tool):
    class Config(ComponentConfig):
        top_k: int = 1
        corpus: str | None = None

class Dice(Tool):
    class Config(ComponentConfig):
        timeout: float = 1.0

class Paid(Tool):
    reward_range: ClassVar = (-0.5, 1.0)

class World(ToolEnv):
    class Config(EnvConfig):
        hints: bool = False
        hint_text: str = "look"
        format: ToolFormatBlock = ToolFormatBlock(name="json")

    @classmethod
    def idle_options(cls, config):
        return {} if config.hints else {"hint_text": "hints is false"}

class Grid(ToolEnv):
    class Config(EnvConfig):
        format: str = "ascii"

    @classmethod
    def uses_tools(cls):
        return False

class Maze(ToolEnv):
    class Config(EnvConfig):
        walls: int = 1

class Cave(ToolEnv):
    class Config(EnvConfig):
        depth: int

class Tags(ToolFormat):
    class Config(ComponentConfig):
        tool: str = "search"
        closed: bool = True
        closing: str | None = "end"

    @classmethod
    def idle_options(cls, config):
        return {} if config.closed else {"closing": "closed is false"}

class Polite(RewardFn):
    scope = "turn"
    range = (-1.0, 1.0)

    class Config(ComponentConfig):
        word: str = "please"

class Group(Algorithm):
    class Config(AlgorithmConfig):
        clip: float = 0.2
        normalise: bool = True

class Critic(Algorithm):
    class Config(AlgorithmConfig):
        gae_lambda: float = 1.0

    def roles(self):
        return frozenset({"policy", "critic"})

    def trusts_critic(self):
        return self.config.gae_lambda < 1

class Sums(TaskSource):
    class Config(ComponentConfig):
        size: int = 10
        levels: tuple[int, ...] = (1, 2)
        path: str | None = None
        files: tuple[DataPath, ...] = ()

Free, Json, Right, Board, Speaker = (type("It", (base,), {}) for base in (Tool, ToolFormat, RewardFn, Tracker, Engine))

class Listener(Engine):
    class Config(EngineConfig):
        ears: int = 2
        nose: bool = True

class Singer(Engine):
    class Config(EngineConfig):
        max_episodes: int = 7
        voice: str = "alto"

@hookimpl
def register_envs():
    maze = EnvSpec("maze", ":Maze", "Maze", presets=(Preset("long_maze", {"max_turns": 12}),))
    return [maze, *(EnvSpec(cls.lower(), f":{cls}", cls) for cls in ("World", "Grid", "Cave"))]

@hookimpl
def register_algorithms():
    group = AlgorithmSpec("group", ":Group", "Group", presets=(Preset("plain_group", {"normalise": False}),))
    return [group, AlgorithmSpec("actor_critic", ":Critic", "Critic", aliases=("ac",))]

register_tools = hookimpl(lambda: [ToolSpec(cls.lower(), f":{cls}", cls) for cls in ("Search", "Dice", "Paid", "Free")])
register_rewards = hookimpl(lambda: [RewardSpec("right", ":Right", "Right"), RewardSpec("polite", ":Polite", "Polite")])
register_tasks = hookimpl(lambda: [TaskSpec("sums", ":Sums", "Sums")])
register_trackers = hookimpl(lambda: [TrackerSpec("board", ":Board", "Board")])
register_tool_formats = hookimpl(lambda: [ToolFormatSpec(name, f":{name.title()}", name) for name in ("json", "tags")])
register_engines = hookimpl(lambda: [EngineSpec(it.lower(), f":{it}", it) for it in ("Speaker", "Listener", "Singer")])
"""

RECIPE = """
tasks: {train: {name: sums, size: 20}}
env: world
tools:
  - {name: search, top_k: 2, timeout: 5}
rewards:
  - right
  - {name: polite, weight: 0.5, cap: 2}
algorithm: {name: group, clip: 0.3}
engine: speaker
training:
  lr: 1e-4
checkpoint: {best: eval/reward/right}
plugins: [./parts.py]
"""

Load = Callable[..., ResolvedConfig]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the user's plugin `parts.py` and the recipe `small.yaml`; the current folder is another one."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "parts.py").write_text(PLUGIN)
    remember([candidate for candidate in candidates([home / "parts.py"]) if candidate.is_local])
    (home / "small.yaml").write_text(RECIPE)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    return home


@pytest.fixture
def load(folder: Path) -> Load:
    """Load the small recipe with overrides, or another text in its place."""

    def load(*overrides: str, text: str | None = None, **more: Any) -> ResolvedConfig:
        if text is not None:
            (folder / "other.yaml").write_text(text)
        return load_config("small" if text is None else "other", overrides, folders=[folder], **more)

    return load


@pytest.fixture
def refused() -> Callable[..., str]:
    """Load a recipe with overrides that are wrong; returns the sentence."""

    def refused(*overrides: str, recipe: Path | str = "default") -> str:
        with pytest.raises((ConfigError, PluginError)) as caught:
            load_config(recipe, overrides)
        return str(caught.value)

    return refused
