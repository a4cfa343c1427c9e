"""The registry: every plugin and component by name, and the only place where components are made.

A name that two plugins offer is never "last wins", since a silently replaced reward invalidates a run: built-in plugins
and the local files that the user named come before plugins that are merely installed, and anything else is an error.
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_r1_core.errors import (
    AgentR1Error,
    AmbiguousComponent,
    ComponentLoadError,
    ConfigError,
    UnknownComponent,
    describe_error,
)
from agent_r1_core.folders import disabled_plugins
from agent_r1_core.nearest import did_you_mean
from agent_r1_core.plugins.discovery import Admit, discover
from agent_r1_core.plugins.kinds import KINDS
from agent_r1_core.plugins.records import (
    ComponentRecord,
    LoadedComponent,
    PluginRecord,
    PluginStatus,
    compare,
    recorded_origin,
)
from agent_r1_core.plugins.validation import validate, wrong_metrics

if TYPE_CHECKING:
    from agent_r1_core.contracts.component import Component, ComponentConfig


class Registry:
    """All plugins that were found, and their components by name."""

    def __init__(self, plugins: Sequence[PluginRecord], recorded: Sequence[Mapping[str, Any]] = ()) -> None:
        """Hold these plugins; `recorded` is the `to_json()` of a run, whose plugins come before later ones."""
        self.plugins = list(plugins)
        self.passed_over: dict[str, None] = {}
        """A sentence for each installed plugin that offers a name in use, which another plugin's component has."""
        self._recorded = {str(plugin["name"]): plugin for plugin in recorded if plugin["status"] == PluginStatus.OK}
        self._loaded: dict[tuple[str, str], LoadedComponent] = {}

    @classmethod
    def discover(
        cls,
        local_files: Sequence[Path | str] = (),
        disabled: Collection[str] = (),
        *,
        recorded: Sequence[Mapping[str, Any]] = (),
        admit: Admit = lambda files: None,
        anew: bool = False,
    ) -> Registry:
        """Find every plugin; imports the modules of built-in plugins and local files, but no component.

        Args:
            local_files: Python files to load as plugins, named by their stem.
            disabled: plugins not to import, by name or `distribution/name`; `AGENT_R1_DISABLE_PLUGINS` adds to them.
            recorded: the plugins of the run whose configuration this is.
            admit: called with the local files before any of them is imported; may raise.
            anew: forget what is remembered of plugins of other distributions.

        Raises:
            ConfigError: a local file does not exist, or no plugin has a name that is to be disabled.
        """
        return cls(discover(local_files, {*disabled, *disabled_plugins()}, admit, anew), recorded)

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
        if kind not in KINDS:
            raise UnknownComponent(f"no kind of component is called {kind!r}; the kinds are {', '.join(KINDS)}")
        of_kind = self.components(kind)
        matches = [record for record in of_kind if name == (record.qualified if "/" in name else record.name)]
        if not matches:
            raise UnknownComponent(self._unknown(kind, name, of_kind))
        if len(matches) > 1:
            matches = self._preferred(matches)
        if len(matches) > 1:
            choices = " or ".join(repr(record.qualified) for record in matches)
            raise AmbiguousComponent(f"{len(matches)} plugins offer the {kind} {name!r}; say {choices}")
        return matches[0]

    def load(self, kind: str, name: str) -> LoadedComponent:
        """Import a component.

        Raises:
            UnknownComponent, AmbiguousComponent: as `find`.
            ComponentLoadError: its target cannot be imported, is not a class of the kind, or declares as metrics what
                is none.
        """
        record = self.find(kind, name)
        key = (kind, record.qualified)
        if key not in self._loaded:
            cls = _class(record, self.plugin_of(record))
            self._loaded[key] = LoadedComponent(record, cls, dict(record.preset.config) if record.preset else {})
        return self._loaded[key]

    def function(self, kind: str, name: str) -> Callable[..., Any]:
        """Import a component that is a function: a command or a site.

        Raises:
            UnknownComponent, AmbiguousComponent: as `find`.
            ComponentLoadError: its target cannot be imported or is no function.
        """
        record = self.find(kind, name)
        function, who = _target(record, self.plugin_of(record))
        if not inspect.isfunction(function):
            raise ComponentLoadError(f"{who} is not a function; name a function of the module")
        return function

    def create(self, kind: str, block: Mapping[str, Any] | str, **arguments: Any) -> Any:
        """Make a component from its block of the recipe: `{"name": ..., option: value}`, or just its name.

        Args:
            block: its options override those of a preset.
            arguments: further arguments of the constructor, e.g. an environment's `services`.

        Raises:
            PluginError: as `load`; ComponentLoadError also when the constructor raises.
            ConfigError: one line per wrong option.
        """
        options = {"name": block} if isinstance(block, str) else dict(block)
        if not isinstance(name := options.pop("name", None), str):
            raise ConfigError(f"{kind} names no {kind}; write it as {{name: ..., option: value}}")
        loaded = self.load(kind, name)
        config, problems = validate(loaded.cls.Config, {**loaded.preset_config, **options})
        if config is None:
            raise ConfigError("\n".join(f"{key} of {kind} {name!r} {problem}" for key, problem in problems))
        return _instance(loaded, config, arguments)

    def make(self, kind: str, name: str, config: ComponentConfig, **arguments: Any) -> Any:
        """Make a component from options that its `Config` has validated.

        Raises:
            PluginError: as `load`; ComponentLoadError also when the constructor raises.
        """
        return _instance(self.load(kind, name), config, arguments)

    def plugin_of(self, record: ComponentRecord) -> PluginRecord:
        return next(plugin for plugin in self.plugins if record in plugin.components)

    def not_loaded(self) -> str:
        """The end of a sentence that names the plugins that are not loaded; empty if all are."""
        missing = [plugin for plugin in self.plugins if plugin.status != PluginStatus.OK]
        files = "".join(f" -p {shlex.quote(plugin.value)}" for plugin in missing if plugin.distribution is None)
        names = ", ".join(plugin.name for plugin in missing)
        return f" (not loaded: plugin {names}; see `agent-r1 plugins doctor{files}`)" if missing else ""

    def to_json(self) -> list[dict[str, Any]]:
        return [plugin.to_json() for plugin in self.plugins]

    def check_same(self, saved: Sequence[Mapping[str, Any]]) -> list[str]:
        """How the plugins of the components that were loaded differ from a saved `to_json()`: a sentence for each."""
        return compare([(item.record, self.plugin_of(item.record)) for item in self._loaded.values()], saved)

    def notes(self) -> list[str]:
        """What a user should know before a run: plugins whose name another one has, components passed over."""
        conflicts = [plugin for plugin in self.plugins if plugin.status == PluginStatus.CONFLICTING]
        texts = [f"plugin {plugin.name!r} of {plugin.origin} is not loaded: {plugin.reason}" for plugin in conflicts]
        return [*texts, *self.passed_over]

    def _preferred(self, matches: Sequence[ComponentRecord]) -> list[ComponentRecord]:
        """Of components with one name, those of the run's plugins; of these, those that are not merely installed."""
        known = [record for record in matches if record.plugin in self._recorded] or matches
        named = [record for record in known if self.plugin_of(record).is_expected] or known
        if len(named) == 1:
            for record in matches:
                if record not in named:
                    origin = self.plugin_of(record).origin
                    self.passed_over[
                        f"{record.kind} {record.name!r} is that of plugin {named[0].plugin!r}; {origin} offers one, "
                        f"too: say {record.qualified!r} if you mean it"
                    ] = None
        return list(named)

    def _unknown(self, kind: str, name: str, of_kind: Sequence[ComponentRecord]) -> str:
        short = name.rpartition("/")[2]
        names = sorted({record.name for record in of_kind})
        others = sorted({record.kind for record in self.components() if record.name == short} - {kind})
        text = f"no {'task source' if kind == 'tasks' else kind} is called {name!r}"
        if others:
            text += f" ({short!r} is a component of kind {' and '.join(others)})"
        text += did_you_mean(short, names) or f"; there are: {', '.join(names) or 'none'}"
        had = recorded_origin(kind, short, self._recorded.values())
        return text + (f"; the run had it from {had}, which is not loaded here" if had else "") + self.not_loaded()


def _instance(loaded: LoadedComponent, config: ComponentConfig, arguments: Mapping[str, Any]) -> Any:
    try:
        instance: Component = loaded.cls(config, **arguments)
    except (AgentR1Error, KeyboardInterrupt):
        raise
    except BaseException as error:
        text = f"cannot be made: {describe_error(error)}"
        raise ComponentLoadError(f"{loaded.record.kind} {loaded.record.qualified!r} {text}") from error
    instance.name = loaded.record.canonical
    return instance


def _class(record: ComponentRecord, plugin: PluginRecord) -> type[Component]:
    value, who, path = *_target(record, plugin), record.spec.target.partition(":")[2]
    base = KINDS[record.kind].base()
    if inspect.isfunction(value) and record.kind == "tool":
        raise ComponentLoadError(f"{who} is a plain function; put @tool (from agent_r1_core) above {path}")
    if not (isinstance(value, type) and issubclass(value, base)):
        raise ComponentLoadError(f"{who} is not a {base.__name__}; make {path} a class that subclasses it")
    for problem in wrong_metrics(value):
        raise ComponentLoadError(f"{who}: {problem}")
    return value


def _target(record: ComponentRecord, plugin: PluginRecord) -> tuple[Any, str]:
    """What a spec's target names, and who it is, for messages.

    In a local file, an empty module or the file's own name means the file itself.
    """
    who = f"{record.kind} {record.qualified!r} ({plugin.origin})"
    module, _, path = record.spec.target.partition(":")
    try:
        is_file = plugin.distribution is None and module in ("", Path(plugin.value).stem)
        value: Any = plugin.module if is_file else import_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        text = f"importing {module} raised {describe_error(error)}"
        raise ComponentLoadError(f"{who} cannot be loaded: {text}") from error
    for part in path.split("."):
        if not hasattr(value, part):
            hint = did_you_mean(part, dir(value))
            raise ComponentLoadError(f"{who} cannot be loaded: {record.spec.target!r} has no {part!r}{hint}")
        value = getattr(value, part)
    return value, who
