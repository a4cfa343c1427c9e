"""Every built-in component is under the contract class of its kind, and so is every built-in plugin module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_r1_core.plugins import ComponentRecord, PluginRecord, Registry
from agent_r1_core.testing import PluginContract

PLUGINS = [plugin for plugin in Registry.discover().plugins if plugin.distribution == "agent-r1"]
EVERY = [component for plugin in PLUGINS for component in plugin.components]
COMPONENTS = [component for component in EVERY if component.preset is None and component.alias_of is None]


def targets_under_contract(path: Path) -> Iterator[str]:
    """`module:Class` of every component that a contract class of the file tests."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    imported = {one.asname or one.name: f"{node.module}:{one.name}" for node in imports for one in node.names}
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("Contract") for base in node.bases):
            for line in node.body:
                if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) in ("component", "components"):
                    named = line.value.elts if isinstance(line.value, ast.Tuple) else [line.value]
                    yield from (imported[ast.unparse(name)] for name in named)


@pytest.fixture(scope="module")
def under_contract() -> set[str]:
    return {target for path in Path(__file__).parent.rglob("test_*.py") for target in targets_under_contract(path)}


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda component: f"{component.kind}-{component.name}")
def test_a_component_has_its_contract_test(component: ComponentRecord, under_contract: set[str]) -> None:
    assert component.spec.target in under_contract, (
        f"subclass the contract class of kind {component.kind!r} with component = {component.spec.target} "
        f"in a file of tests/plugins/"
    )


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)
def test_a_plugin_module_is_in_order(plugin: PluginRecord) -> None:
    contract = type("Here", (PluginContract,), {"plugin": plugin.module})()
    contract.test_every_component_can_be_loaded_and_keeps_its_contract()
