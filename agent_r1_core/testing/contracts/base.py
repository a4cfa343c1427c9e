"""What the contract classes share, and the test class of a whole plugin module."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine, Mapping
from typing import Any, ClassVar

from agent_r1_core.contracts.component import Component
from agent_r1_core.plugins import ComponentRecord, PluginRecord, PluginStatus, check_component
from agent_r1_core.plugins.hooks import read_api, read_components
from agent_r1_core.plugins.targets import import_target


class ComponentContract:
    """Base of the contract classes; subclass that of your component's kind and set at least `component`."""

    kind: ClassVar[str]
    component: ClassVar[type[Component]]
    """The class under test; for a function under `@tool`, the function."""
    config: ClassVar[Mapping[str, Any]] = {}
    """Options to make it with, as a recipe would say them."""
    name: ClassVar[str] = "under_test"
    """The name that its spec will give it."""

    def make(self) -> Any:
        """An instance with `config`; override it for further arguments of the constructor."""
        instance = self.component(self.component.Config.model_validate(dict(self.config)))
        instance.name = self.name
        return instance

    def test_it_is_what_its_kind_asks_for(self) -> None:
        problems = check_component(self.kind, self.component)
        assert not problems, "; ".join(problems)

    def test_it_is_made_with_its_options(self) -> None:
        made = self.make()
        for key in self.config:
            assert hasattr(made.config, key), f"option {key!r} did not reach self.config; call super().__init__(config)"


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
            problems = _problems(component, record)
            assert not problems, f"{component.kind} {component.name!r}: {'; '.join(problems)}"


def _problems(component: ComponentRecord, plugin: PluginRecord) -> list[str]:
    return check_component(component.kind, import_target(component, plugin))


async def settle(value: Any) -> Any:
    """The value, awaited where a component answered with an awaitable."""
    return await value if inspect.isawaitable(value) else value


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end in a loop of its own."""
    return asyncio.run(coroutine)
