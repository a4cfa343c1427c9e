"""Imports one plugin and reads its API number, its hooks and its specs; each rule has its own error message.

Whatever a plugin's code raises becomes the reason why it is not loaded. `answer_of` and `record_of` carry what was read
from one process to another.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pluggy

from agent_r1_core.errors import describe_error
from agent_r1_core.hookspecs import PLUGIN_API, PROJECT
from agent_r1_core.nearest import did_you_mean
from agent_r1_core.plugins.kinds import HOOKS, KINDS, Kind
from agent_r1_core.plugins.records import ComponentRecord, PluginRecord, PluginStatus
from agent_r1_core.specs import ComponentSpec, Preset, SiteSpec

if TYPE_CHECKING:
    from agent_r1_core.plugins.sources import Candidate

NAME = re.compile(r"[a-z0-9][a-z0-9_+]*")
"""The form of names of components, presets and aliases."""
COMMAND_NAME = re.compile(r"[a-z][a-z0-9_-]*( [a-z][a-z0-9_-]*)?")
"""The form of what is typed for a command."""


class IncompatiblePlugin(Exception):
    """The module was written for another plugin API, or does not say for which one."""


class BrokenPlugin(Exception):
    """The plugin breaks a rule of the hooks."""


def read(plugin: Candidate) -> PluginRecord:
    """Import a plugin and call its hooks."""
    api = None
    try:
        module = plugin.load()
        api = read_api(module)
        components = read_components(module, plugin.name, plugin.is_local)
    except IncompatiblePlugin as error:
        return plugin.record(PluginStatus.INCOMPATIBLE, str(error))
    except BrokenPlugin as error:
        return plugin.record(PluginStatus.FAILED, str(error), api=api)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        reason = f"importing {plugin.value} raised {describe_error(error)}"
        return plugin.record(PluginStatus.FAILED, reason, api=api, raised=True)
    return plugin.record(PluginStatus.OK, api=api, components=components, module=module)


def answer_of(record: PluginRecord) -> dict[str, Any]:
    """What was read of a plugin, without its module, as plain data."""
    specs = [one.spec for one in record.components if one.preset is None and one.alias_of is None]
    return {
        "status": str(record.status),
        "reason": record.reason,
        "api": record.api,
        "raised": record.raised,
        "specs": [
            {
                **vars(spec),
                "kind": spec.kind,
                "presets": [{**vars(preset), "config": dict(preset.config)} for preset in spec.presets],
            }
            for spec in specs
        ],
    }


def record_of(plugin: Candidate, answer: Mapping[str, Any]) -> PluginRecord:
    """What `answer_of` gave, in another process; raises KeyError, TypeError or ValueError if it is malformed."""
    components: list[ComponentRecord] = []
    for spec in answer["specs"]:
        fields: dict[str, Any] = {key: tuple(one) if isinstance(one, list) else one for key, one in spec.items()}
        fields["presets"] = tuple(Preset(**preset) for preset in spec["presets"])
        components += _named(KINDS[fields.pop("kind")].spec(**fields), plugin.name)
    read = {key: answer[key] for key in ("reason", "api", "raised")}
    return plugin.record(PluginStatus(answer["status"]), components=tuple(components), **read)


def read_api(plugin: Any) -> int:
    """The plugin's API number; raises IncompatiblePlugin if it is missing or differs from ours."""
    api = getattr(plugin, "AGENT_R1_PLUGIN_API", None)
    if api is None:
        raise IncompatiblePlugin(
            f"it does not say which plugin API it was written for; add AGENT_R1_PLUGIN_API = {PLUGIN_API} to the module"
        )
    if api != PLUGIN_API or isinstance(api, bool):
        raise IncompatiblePlugin(
            f"it was written for plugin API {api!r} and this agent-r1 has {PLUGIN_API}; "
            "install a version of the plugin that fits, or port it and change AGENT_R1_PLUGIN_API"
        )
    return int(api)


def read_components(plugin: Any, name: str, local: bool) -> tuple[ComponentRecord, ...]:
    """The components that a plugin's hooks return.

    Args:
        plugin: the module or object that holds the hooks.
        name: the plugin's name.
        local: whether it is a local file, whose targets may be `:Class`.

    Raises:
        BrokenPlugin: a hook is misspelt, undecorated, takes arguments, raises, or returns anything but specs.
    """
    hooks = dict(_hooks(plugin))
    if not hooks:
        raise BrokenPlugin(f"it registers nothing; define one of {', '.join(HOOKS)} under @hookimpl")
    records: list[ComponentRecord] = []
    for hook, function in hooks.items():
        for spec in _call(hook, function, HOOKS[hook]):
            _check_spec(spec, local)
            records += _named(spec, name)
    _refuse_duplicates(records)
    return tuple(records)


def _hooks(plugin: Any) -> Iterator[tuple[str, Any]]:
    """The plugin's hook implementations by hook; raises BrokenPlugin if one would be ignored or cannot be called."""
    manager = pluggy.PluginManager(PROJECT)
    for name in sorted(dir(plugin)):
        function: Any = getattr(plugin, name, None)
        options = manager.parse_hookimpl_opts(plugin, name)
        if options is None:
            if not _looks_like_hook(plugin, name, function):
                continue
            if name in HOOKS:
                raise BrokenPlugin(f"hook {name} is not marked; put @hookimpl (from agent_r1_core) above it")
            raise BrokenPlugin(_no_hook(name))
        hook = options.get("specname") or name
        if hook not in HOOKS:
            raise BrokenPlugin(_no_hook(hook))
        if options.get("wrapper") or options.get("hookwrapper"):
            raise BrokenPlugin(f"hook {name} is a wrapper; hooks return specs and wrap nothing")
        if inspect.signature(function).parameters:
            raise BrokenPlugin(f"hook {name}{inspect.signature(function)} takes arguments; hooks take none")
        yield hook, function


def _looks_like_hook(plugin: Any, name: str, function: Any) -> bool:
    """Whether an unmarked function was meant as a hook; functions that the module only imports were not."""
    if not name.startswith("register_") or not inspect.isroutine(function):
        return False
    return not isinstance(plugin, ModuleType) or getattr(function, "__module__", None) == plugin.__name__


def _no_hook(name: str) -> str:
    return f"no hook is called {name}{did_you_mean(name, HOOKS)} (hooks: {', '.join(HOOKS)})"


def _call(hook: str, function: Any, kind: Kind) -> list[ComponentSpec]:
    expected = f"a list of {kind.spec.__name__}"
    try:
        result = function()
        specs = None if isinstance(result, (str, Mapping)) or not isinstance(result, Iterable) else list(result)
    except Exception as error:
        raise BrokenPlugin(f"hook {hook} raised {describe_error(error)}") from error
    if specs is None:
        raise BrokenPlugin(f"hook {hook} returned {type(result).__name__}; return {expected}")
    for spec in specs:
        if not isinstance(spec, kind.spec):
            raise BrokenPlugin(f"hook {hook} returned a list with a {type(spec).__name__}; return {expected}")
    return specs


def _check_spec(spec: ComponentSpec, local: bool) -> None:
    functions = KINDS[spec.kind].functions
    if functions and (spec.aliases or spec.presets):
        raise BrokenPlugin(
            f"{spec.kind} {spec.name!r} has aliases or presets, which {spec.kind}s do not have; remove them"
        )
    if spec.kind != "command":
        _check_names(spec)
    elif not isinstance(spec.name, str) or not COMMAND_NAME.fullmatch(spec.name):
        raise BrokenPlugin(
            f"command {spec.name!r} cannot be typed; use a word of lower case letters, digits, - and _, or a group and "
            "a word"
        )
    needs: Any = spec.needs if isinstance(spec, SiteSpec) else ()
    if not (isinstance(needs, tuple) and all(isinstance(name, str) and name.isidentifier() for name in needs)):
        raise BrokenPlugin(f"site {spec.name!r} has needs={needs!r}; use a tuple of names of packages")
    module, colon, attribute = spec.target.partition(":")
    dotted = all(part.isidentifier() for part in module.split(".")) or (local and not module)
    if not (colon and dotted and all(part.isidentifier() for part in attribute.split("."))):
        what = "function" if functions else "Class"
        forms = f"'package.module:{what}'" + (f" or ':{what}' for this file" if local else "")
        raise BrokenPlugin(f"{spec.kind} {spec.name!r} has the target {spec.target!r}; write it as {forms}")


def _check_names(spec: ComponentSpec) -> None:
    names = (spec.name, *spec.aliases, *(getattr(preset, "name", None) for preset in spec.presets))
    for name in names:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise BrokenPlugin(
                f"{spec.kind} {spec.name!r} has the name {name!r}; use lower case letters, digits, _ and +"
            )
    if not isinstance(spec.aliases, tuple) or not all(isinstance(preset, Preset) for preset in spec.presets):
        raise BrokenPlugin(f"{spec.kind} {spec.name!r} needs a tuple of names as aliases and Preset(...) as presets")
    for preset in spec.presets:
        try:
            json.dumps(dict(preset.config))
        except (TypeError, ValueError):
            raise BrokenPlugin(
                f"preset {preset.name!r} of {spec.kind} {spec.name!r} has options that JSON cannot hold; use numbers, "
                "text, lists and mappings"
            ) from None


def _named(spec: ComponentSpec, plugin: str) -> Iterator[ComponentRecord]:
    """A record for each name that a spec of a plugin declares."""
    yield ComponentRecord(spec.kind, spec.name, plugin, spec)
    for alias in spec.aliases:
        yield ComponentRecord(spec.kind, alias, plugin, spec, alias_of=spec.name)
    for preset in spec.presets:
        yield ComponentRecord(spec.kind, preset.name, plugin, spec, preset=preset)


def _refuse_duplicates(records: Iterable[ComponentRecord]) -> None:
    seen: set[tuple[str, str]] = set()
    for record in records:
        if (record.kind, record.name) in seen:
            raise BrokenPlugin(f"it offers the {record.kind} {record.name!r} twice; rename one of them")
        seen.add((record.kind, record.name))
