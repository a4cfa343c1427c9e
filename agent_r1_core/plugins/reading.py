"""Imports one plugin and reads what it offers; whatever its code raises becomes the reason why it is not loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_r1_core.errors import describe_error
from agent_r1_core.plugins.hooks import BrokenPlugin, IncompatiblePlugin, named, read_api, read_components
from agent_r1_core.plugins.kinds import KINDS
from agent_r1_core.plugins.records import ComponentRecord, PluginStatus
from agent_r1_core.specs import Preset


@dataclass(frozen=True)
class Reading:
    status: PluginStatus
    reason: str = ""
    api: int | None = None
    components: tuple[ComponentRecord, ...] = ()
    module: Any = field(default=None, repr=False, compare=False)
    raised: bool = False
    """Whether the import raised; installing what it misses may mend that without changing the plugin."""

    def to_json(self) -> dict[str, Any]:
        """For another process; `from_json` reads it back, without the module."""
        specs = [record.spec for record in self.components if record.preset is None and record.alias_of is None]
        return {
            "status": str(self.status),
            "reason": self.reason,
            "api": self.api,
            "raised": self.raised,
            "specs": [
                {
                    **vars(spec),
                    "kind": spec.kind,
                    "presets": [{**vars(preset), "config": dict(preset.config)} for preset in spec.presets],
                }
                for spec in specs
            ],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], plugin: str) -> Reading:
        """The reading of the plugin of that name; raises KeyError, TypeError or ValueError if it is malformed."""
        components = tuple(_components(value["specs"], plugin))
        status = PluginStatus(value["status"])
        return cls(status, value["reason"], value["api"], components, raised=value["raised"])


def read(load: Callable[[], Any], what: str, name: str, local: bool) -> Reading:
    """Import a plugin and call its hooks.

    Args:
        load: imports it.
        what: what is imported, for messages.
        name: the plugin's name.
        local: whether it is a local file.
    """
    api = None
    try:
        module = load()
        api = read_api(module)
        components = read_components(module, name, local)
    except IncompatiblePlugin as error:
        return Reading(PluginStatus.INCOMPATIBLE, str(error))
    except BrokenPlugin as error:
        return Reading(PluginStatus.FAILED, str(error), api)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Reading(PluginStatus.FAILED, f"importing {what} raised {describe_error(error)}", api, raised=True)
    return Reading(PluginStatus.OK, "", api, components, module)


def _components(specs: Iterable[Mapping[str, Any]], plugin: str) -> Iterable[ComponentRecord]:
    for spec in specs:
        fields: dict[str, Any] = {key: tuple(one) if isinstance(one, list) else one for key, one in spec.items()}
        fields["presets"] = tuple(Preset(**preset) for preset in spec["presets"])
        yield from named(KINDS[fields.pop("kind")].spec(**fields), plugin)
