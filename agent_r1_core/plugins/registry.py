"""The registry: every plugin and component by name, and the only place where components are made.

Using a name that two plugins offer is an error, never "last wins": a silently replaced reward invalidates a run.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_r1_core.errors import (
    AgentR1Error,
    AmbiguousComponent,
    ComponentLoadError,
    ConfigError,
    UnknownComponent,
    raised_at,
)
from agent_r1_core.plugins.discovery import discover
from agent_r1_core.plugins.kinds import KINDS, Kind
from agent_r1_core.plugins.nearest import did_you_mean
from agent_r1_core.plugins.records import ComponentRecord, LoadedComponent, PluginRecord, PluginStatus
from agent_r1_core.plugins.targets import import_target

if TYPE_CHECKING:
    from agent_r1_core.contracts.component import Component, ComponentConfig

DISABLE_VARIABLE = "AGENT_R1_DISABLE_PLUGINS"
"""Names of plugins not to import, separated by commas; workers inherit it."""


class Registry:
    """All plugins that were found, and their components by name."""

    def __init__(self, plugins: Sequence[PluginRecord]) -> None:
        self.plugins = list(plugins)
        self._loaded: dict[tuple[str, str], LoadedComponent] = {}

    @classmethod
    def discover(cls, local_files: Sequence[Path | str] = (), disabled: Collection[str] = ()) -> Registry:
        """Find every plugin; imports plugin modules but no component.

        Args:
            local_files: Python files to load as plugins.
            disabled: plugins not to import, by name or `distribution/name`; `AGENT_R1_DISABLE_PLUGINS` adds to them.

        Raises:
            ConfigError: a local file does not exist, or no plugin has a name that is to be disabled.
        """
        names = [name.strip() for name in os.environ.get(DISABLE_VARIABLE, "").split(",")]
        return cls(discover(local_files, {*disabled, *filter(None, names)}))

    @property
    def local_files(self) -> list[str]:
        """Absolute paths of the local files, for a worker process that discovers plugins itself."""
        return [plugin.value for plugin in self.plugins if plugin.file_hash]

    def components(self, kind: str | None = None) -> list[ComponentRecord]:
        """Every name that loaded plugins offer, by kind, name and plugin."""
        order = list(KINDS)
        records = [record for plugin in self.plugins for record in plugin.components if kind in (None, record.kind)]
        return sorted(records, key=lambda record: (order.index(record.kind), record.name, record.plugin))

    def find(self, kind: str, name: str) -> ComponentRecord:
        """The component called `name` or `plugin/name`.

        Raises:
            UnknownComponent: no plugin offers it.
            AmbiguousComponent: several plugins do.
        """
        of_kind = self.components(_kind(kind).name)
        matches = [record for record in of_kind if name == (record.qualified if "/" in name else record.name)]
        if not matches:
            raise UnknownComponent(self._unknown(kind, name, of_kind))
        if len(matches) > 1:
            choices = " or ".join(repr(record.qualified) for record in matches)
            raise AmbiguousComponent(f"{len(matches)} plugins offer the {kind} {name!r}; say {choices}")
        return matches[0]

    def load(self, kind: str, name: str) -> LoadedComponent:
        """Import a component.

        Raises:
            UnknownComponent, AmbiguousComponent: as `find`.
            ComponentLoadError: its target cannot be imported or is not a class of the kind.
        """
        record = self.find(kind, name)
        key = (kind, record.qualified)
        if key not in self._loaded:
            cls = import_target(record, self.plugin_of(record))
            self._loaded[key] = LoadedComponent(record, cls, dict(record.preset.config) if record.preset else {})
        return self._loaded[key]

    def configure(
        self, kind: str, block: Mapping[str, Any] | str, where: str = ""
    ) -> tuple[LoadedComponent, ComponentConfig]:
        """Load the component that a block names and validate its options, which override those of a preset.

        Raises:
            PluginError: as `load`.
            ConfigError: one line per wrong option, naming its key under `where`.
        """
        from agent_r1_core.plugins.validation import validate

        options = {"name": block} if isinstance(block, str) else dict(block)
        name = options.pop("name", None)
        if not isinstance(name, str):
            raise ConfigError(f"{where or kind} names no {kind}; write it as {{name: ..., option: value}}")
        loaded = self.load(kind, name)
        config, problems = validate(loaded.cls.Config, loaded.preset_config | options, where or kind)
        if problems:
            lines = (f"{problem.key} of {kind} {name!r} {problem.message}" for problem in problems)
            raise ConfigError("\n".join(lines))
        return loaded, config  # type: ignore[return-value]

    def create(self, kind: str, block: Mapping[str, Any] | str, where: str = "", **arguments: Any) -> Any:
        """Make a component from its block of the recipe: `{"name": ..., option: value}`, or just its name.

        Args:
            where: the block's place in the recipe, for errors, e.g. `tools[0]`.
            arguments: further arguments of the constructor, e.g. an environment's `services`.

        Raises:
            PluginError, ConfigError: as `configure`; ComponentLoadError also when the constructor raises.
        """
        return _instance(*self.configure(kind, block, where), arguments)

    def make(self, kind: str, name: str, config: ComponentConfig, **arguments: Any) -> Any:
        """Make a component from options that its `Config` has validated.

        Raises:
            PluginError: as `load`; ComponentLoadError also when the constructor raises.
        """
        return _instance(self.load(kind, name), config, arguments)

    def plugin_of(self, record: ComponentRecord) -> PluginRecord:
        """The plugin that offers a component."""
        return next(plugin for plugin in self.plugins if record in plugin.components)

    def not_loaded(self) -> str:
        """The end of a sentence that names the plugins that are not loaded; empty if all are."""
        names = [plugin.name for plugin in self.plugins if plugin.status != PluginStatus.OK]
        return f" (not loaded: plugin {', '.join(names)}; see `agent-r1 plugins doctor`)" if names else ""

    def to_json(self) -> list[dict[str, Any]]:
        """For plugins.json of a run."""
        return [plugin.to_json() for plugin in self.plugins]

    def check_same(self, saved: Sequence[Mapping[str, Any]]) -> list[str]:
        """How this environment differs from a saved `to_json()`: one sentence per plugin that differs."""
        from agent_r1_core.plugins.comparison import compare

        return compare(self.plugins, saved)

    def _unknown(self, kind: str, name: str, of_kind: Sequence[ComponentRecord]) -> str:
        short = name.rpartition("/")[2]
        names = sorted({record.name for record in of_kind})
        others = sorted({record.kind for record in self.components() if record.name == short} - {kind})
        text = f"no {kind} is called {name!r}"
        if others:
            text += f" ({short!r} is a component of kind {' and '.join(others)})"
        text += did_you_mean(short, names) or f"; there are: {', '.join(names) or 'none'}"
        return text + self.not_loaded()


def _instance(loaded: LoadedComponent, config: ComponentConfig, arguments: Mapping[str, Any]) -> Any:
    try:
        instance: Component = loaded.cls(config, **arguments)
    except AgentR1Error:
        raise
    except Exception as error:
        text = f"{type(error).__name__}: {error}{raised_at(error)}"
        raise ComponentLoadError(f"{loaded.record.kind} {loaded.record.qualified!r} cannot be made: {text}") from error
    instance.name = loaded.record.canonical
    return instance


def _kind(name: str) -> Kind:
    if name not in KINDS:
        raise UnknownComponent(f"no kind of component is called {name!r}; the kinds are {', '.join(KINDS)}")
    return KINDS[name]
