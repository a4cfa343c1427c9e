"""The base of the contract classes, and the test class of a whole plugin module."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, ClassVar

from agent_r1_core.contracts.component import Component
from agent_r1_core.errors import ComponentLoadError
from agent_r1_core.plugins import LoadedComponent, PluginRecord, PluginStatus, Registry
from agent_r1_core.plugins.checks import check_component, check_registered
from agent_r1_core.plugins.reading import read_api, read_components


class ComponentContract:
    """Base of the contract classes; subclass that of your component's kind and set at least `component`.

    For a component of a local plugin file, set file and name instead: `plugin_file = "my_tool.py"; name = "multiply"`.
    """

    kind: ClassVar[str]
    component: ClassVar[type[Component]]
    """The class under test; for a function under `@tool`, the function."""
    plugin_file: ClassVar[str | Path | None] = None
    """Instead of `component`: a local plugin file, relative to the folder of the test."""
    config: ClassVar[Mapping[str, Any]] = {}
    """Its options, as in a recipe."""
    name: ClassVar[str] = "under_test"
    """The name in its spec."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Load `component` from `plugin_file`.

        Raises:
            ConfigError: the file does not exist.
            PluginError: the file cannot be loaded as a plugin, or offers no such component.
        """
        super().__init_subclass__(**arguments)
        if "plugin_file" in vars(cls) and cls.plugin_file is not None:
            here = Path(getattr(sys.modules.get(cls.__module__), "__file__", None) or "").parent
            loaded = _load_local(here / cls.plugin_file, cls.kind, cls.name)
            cls.component, cls.config = loaded.cls, {**loaded.preset_config, **cls.config}

    def make(self) -> Any:
        """An instance with `config`; override it for further arguments of the constructor."""
        instance = self.component(self.component.Config.model_validate(dict(self.config)))
        instance.name = self.name
        return instance

    def test_it_is_what_its_kind_asks_for(self) -> None:
        problems = check_component(self.kind, self.component)
        assert not problems, "; ".join(problems)

    def test_it_is_made_with_its_options(self) -> None:
        instance = self.make()
        for key in self.config:
            assert hasattr(instance.config, key), (
                f"option {key!r} did not reach self.config; call super().__init__(config)"
            )


class PluginContract:
    """Tests a plugin module before it is installed: its API number, its hooks, and every component that it offers."""

    plugin: ClassVar[Any]
    """The module that the entry point names."""

    def test_every_component_can_be_loaded_and_keeps_its_contract(self) -> None:
        module = inspect.getattr_static(type(self), "plugin")
        api = read_api(module)
        components = read_components(module, "under_test", local=False)
        assert components, "the plugin's hooks return no component; return a spec for each"
        record = PluginRecord("under_test", "under-test", "0", "", PluginStatus.OK, api=api, components=components)
        for component in components:
            problems = check_registered(Registry([record]), component)
            assert not problems, f"{component.kind} {component.name!r}: {'; '.join(problems)}"


def _load_local(path: Path, kind: str, name: str) -> LoadedComponent:
    """The component of a local plugin file; the file's plugin is named by its stem."""
    registry = Registry.discover(local_files=[path])
    plugin = next(plugin for plugin in registry.plugins if plugin.file_hash)
    if plugin.status != PluginStatus.OK:
        raise ComponentLoadError(f"{path} cannot be loaded as a plugin: {plugin.reason}")
    return registry.load(kind, f"{plugin.name}/{name}")


async def settle(value: Any) -> Any:
    """The value, awaited if it is an awaitable."""
    return await value if inspect.isawaitable(value) else value


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end in a new event loop."""
    return asyncio.run(coroutine)
