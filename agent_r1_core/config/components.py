"""Resolves component blocks: each component's `Config` validates its options and adds the defaults."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import to_jsonable_python

from agent_r1_core.config.blocks import (
    BLOCK_LISTS,
    BLOCK_MODELS,
    BLOCKS,
    OPTION_BLOCKS,
    SETS,
    block_keys,
    block_kind,
    holds_sets,
    spelled_out,
)
from agent_r1_core.config.models import RunConfig
from agent_r1_core.contracts.blocks import ComponentBlock, ToolFormatBlock
from agent_r1_core.contracts.component import ComponentConfig
from agent_r1_core.errors import ComponentLoadError, PluginError
from agent_r1_core.plugins.validation import Key, key_text

if TYPE_CHECKING:
    from agent_r1_core.config.draft import Draft
    from agent_r1_core.config.problems import Problems
    from agent_r1_core.plugins import Registry
    from agent_r1_core.plugins.records import LoadedComponent

T = TypeVar("T")


@dataclass(frozen=True)
class ResolvedBlock:
    """A block whose component was found, loaded and configured."""

    key: Key
    kind: str
    name: str
    """The component's name, without the plugin's."""
    cls: Any
    config: ComponentConfig


def check_names(tree: dict[str, Any], registry: Registry, problems: Problems) -> set[str]:
    """Look up every component that a tree names without importing any.

    Returns:
        The valid keys, without the options that only a component itself knows.
    """
    from agent_r1_core.plugins import KINDS

    valid = set(valid_keys(RunConfig))
    for key, kind, block in find_blocks(tree):
        if problems.full:
            break
        _looked_up(key, kind, block, registry.find, problems)
        names = (*_keys_of_block(kind), *KINDS[kind].base().Config.model_fields)
        valid |= {f"{key_text(key)}.{name}" for name in names}
    return valid


def resolve_blocks(draft: Draft, registry: Registry, problems: Problems) -> tuple[list[ResolvedBlock], set[str]]:
    """Load every component that the draft names, and write its complete options into the draft's tree.

    Blocks with problems are added to `problems` and left out.

    Returns:
        The blocks, and all keys that are valid in this configuration.
    """
    valid = set(valid_keys(RunConfig))
    blocks: list[ResolvedBlock] = []
    for key, kind, block in find_blocks(draft.tree):
        if problems.full:
            break
        resolved = _resolve(key, kind, block, registry, problems, valid)
        blocks += resolved
        if resolved:
            block_values = {name: value for name, value in block.items() if name in block_keys(kind)}
            options = resolved[0].config.model_dump(mode="json")
            _value_at(draft.tree, key[:-1])[key[-1]] = {**block_values, **options}
    return blocks, valid


def run_config(draft: Draft, blocks: Sequence[ResolvedBlock]) -> RunConfig:
    """The configuration that a draft's plain values describe, with the options of the blocks.

    Raises:
        pydantic.ValidationError: a value does not fit.
    """
    folders = {"name": draft.source(("model", "name")).folder}
    config = RunConfig.model_validate_json(json.dumps(draft.tree), strict=True, context={"folders": folders})
    for block in blocks:
        if block.key not in OPTION_BLOCKS:
            config = _with_config(config, block.key, block.config)
    return config


def find_blocks(tree: dict[str, Any]) -> Iterator[tuple[Key, str, dict[str, Any]]]:
    """Key, kind and value of every block that names a component; the models report malformed ones."""
    places: list[tuple[Key, str]] = list(BLOCKS.items())
    for name, kind in BLOCK_LISTS.items():
        entries = tree.get(name)
        places += [((name, index), kind) for index in range(len(entries))] if isinstance(entries, list) else []
    for place in SETS:
        sets = _value_at(tree, place)
        places += [((*place, name), BLOCKS[place]) for name in sets] if holds_sets(sets) else []
    for key, kind in places:
        value = _value_at(tree, key)
        if isinstance(value, dict) and isinstance(value.get("name"), str) and value["name"]:
            yield key, kind, value


def valid_keys(model: type[BaseModel], above: str = "") -> Iterator[str]:
    """The keys of the run configuration itself, without the keys of component blocks."""
    for name, field in model.model_fields.items():
        yield f"{above}{name}"
        for part in (field.annotation, *get_args(field.annotation)):
            if isinstance(part, type) and issubclass(part, BaseModel) and not issubclass(part, ComponentBlock):
                yield from valid_keys(part, f"{above}{name}.")


def _keys_of_block(kind: str) -> list[str]:
    """Keys that every block of this kind has, those of its sections included: `limits.memory`."""
    own = block_keys(kind)
    return [key for key in valid_keys(BLOCK_MODELS.get(kind, ComponentBlock)) if key.partition(".")[0] in own]


def _resolve(
    key: Key, kind: str, block: dict[str, Any], registry: Registry, problems: Problems, valid: set[str]
) -> list[ResolvedBlock]:
    """The block, with the blocks that are options of its component; empty if one of them is wrong."""
    loaded = _looked_up(key, kind, block, registry.load, problems)
    if loaded is None:
        return []
    fields = loaded.cls.Config.model_fields
    own = block_keys(kind)
    for name in sorted(set(own) & set(fields)):
        text = f"names a {kind} with an option '{name}', which every {kind} block already has; rename it"
        problems.add((*key, "name"), text, ComponentLoadError)
        return []
    valid |= {f"{key_text(key)}.{name}" for name in (*_keys_of_block(kind), *fields)}
    _drop_kept(key, kind, block, loaded, registry, problems.draft)
    options = {**loaded.preset_config, **{name: value for name, value in block.items() if name not in own}}
    for name in options.keys() & fields.keys():
        value, annotation = options[name], fields[name].annotation
        if block_kind((*key, name)) is None or ToolFormatBlock in (annotation, *get_args(annotation)):
            continue
        if isinstance(value, dict) and value.keys() == {"name"}:
            options[name] = value["name"]  # plain text, which `spelled_out` took for a component's name
    try:
        folders = {name: problems.draft.source((*key, name)).folder for name in options}
        config = loaded.cls.Config.model_validate_json(json.dumps(options), strict=True, context={"folders": folders})
    except ValidationError as error:
        problems.add_validation(error, options, key, valid)
        return []
    inner: list[ResolvedBlock] = []
    for name, value in config:
        if isinstance(value, ToolFormatBlock):
            written = {"name": value.name, **value.config.model_dump(mode="json")}
            inner = _resolve((*key, name), "tool_format", written, registry, problems, valid)
            if not inner:
                return []
            config = config.model_copy(update={name: value.model_copy(update={"config": inner[0].config})})
    return [ResolvedBlock(key, kind, loaded.record.canonical, loaded.cls, config), *inner]


def _drop_kept(
    key: Key, kind: str, block: dict[str, Any], loaded: LoadedComponent, registry: Registry, draft: Draft
) -> None:
    """Drop what was kept of another component and should not count: what this one has a value of its own for, and what
    nobody wrote, since the record of a run also holds the old component's own values."""
    own_values = _own_values(kind, loaded)
    for name, value in list(block.items()):
        at = (*key, name)
        component = draft.kept_of(at)
        if component is None:
            continue
        unwritten = not draft.source(at).user and is_own_value(registry, at, component, value)
        if name in own_values or unwritten:
            draft.drop_kept(block, at)


def is_own_value(registry: Registry, key: Key, component: str, value: Any) -> bool:
    """Whether a component has this value for the option at `key` where nobody sets it: its preset's, or the default."""
    option = str(key[-1])
    try:
        loaded = registry.load(block_kind(key[:-1]) or "", component)
    except PluginError:
        return False
    field = loaded.cls.Config.model_fields.get(option)
    if option in loaded.preset_config:
        own = loaded.preset_config[option]
    elif field is None or field.is_required():
        return False
    else:
        own = field.get_default(call_default_factory=True)
    return bool(value == spelled_out(to_jsonable_python(own), key))


def _own_values(kind: str, loaded: LoadedComponent) -> set[str]:
    """The options of every component of a kind for which this one has values of its own: they count before those that
    were written for another component."""
    from agent_r1_core.plugins import KINDS

    own, every = loaded.cls.Config.model_fields, KINDS[kind].base().Config.model_fields
    differing = {name for name in own.keys() & every.keys() if own[name].get_default() != every[name].get_default()}
    return differing | set(loaded.preset_config)


def _looked_up(
    key: Key, kind: str, block: dict[str, Any], look_up: Callable[[str, str], T], problems: Problems
) -> T | None:
    try:
        return look_up(kind, block["name"])
    except PluginError as error:
        problems.add((*key, "name"), f"cannot be used: {error}", type(error))
        return None


def _with_config(node: Any, key: Key, options: ComponentConfig) -> Any:
    """A copy of a section in which the block at `key` has these options."""
    if not key:
        return node.model_copy(update={"config": options})
    part, *rest = key
    if isinstance(node, dict):
        return {**node, part: _with_config(node[part], tuple(rest), options)}
    if isinstance(part, int):
        return (*node[:part], _with_config(node[part], tuple(rest), options), *node[part + 1 :])
    return node.model_copy(update={part: _with_config(getattr(node, part), tuple(rest), options)})


def _value_at(tree: dict[str, Any], key: Key) -> Any:
    value: Any = tree
    for part in key:
        value = value.get(part) if isinstance(value, dict) else value[part] if isinstance(part, int) else None
    return value
