"""YAML as recipes use it: numbers as people write them, text kept as text, nothing silently dropped.

`1e-6` is a float. Only `true` and `false` are booleans (`no` and `on` stay text). Dates stay text. A key given twice is
an error. Custom tags are not supported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import yaml

from agent_r1_core.config.keys import Key
from agent_r1_core.errors import ConfigError

_FLOAT = re.compile(r"[-+]?(?:\d+\.\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\.(?:inf|nan))$")
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)$")
_BOOL = re.compile(r"(?:true|True|false|False)$")
_NULL = re.compile(r"(?:~|null|Null|NULL|)$")
_REFUSED_TAGS = ("binary", "timestamp", "omap", "pairs", "set")


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {"<": [("tag:yaml.org,2002:merge", re.compile("<<$"))]}  # type: ignore[misc]


class _Dumper(yaml.SafeDumper):
    """Quotes all text that this loader or another one would read as something else."""


for _class in (_Loader, _Dumper):
    _class.add_implicit_resolver("tag:yaml.org,2002:bool", _BOOL, list("tTfF"))
    _class.add_implicit_resolver("tag:yaml.org,2002:null", _NULL, ["~", "n", "N", ""])
    _class.add_implicit_resolver("tag:yaml.org,2002:int", _INT, list("-+0123456789"))
    _class.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))
for _tag in _REFUSED_TAGS:
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", yaml.SafeLoader.construct_undefined)  # type: ignore[type-var]
_Dumper.ignore_aliases = lambda self, data: True  # type: ignore[method-assign]


@dataclass(frozen=True)
class Document:
    """A parsed text: its value, and the line (from 1) of every key and list entry."""

    value: Any
    lines: Mapping[Key, int]


def parse(text: str, where: str) -> Document:
    """Parse one YAML document; an empty one has the value None.

    Raises:
        ConfigError: the text is not YAML, gives a key twice, or has a key that is not text; `where` is named.
    """
    loader = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return Document(None, {})
        lines: dict[Key, int] = {}
        _walk(node, (), lines, where, set())
        return Document(loader.construct_document(node), lines)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{where}{line} is not valid YAML: {error.problem or error.context}; correct it") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{where} is not valid YAML: {str(error).splitlines()[0]}; correct it") from None
    finally:
        if loader is not None:
            loader.dispose()


def parse_plain(text: str) -> Any:
    """The scalar that a text without quotes and brackets means; none of its characters is syntax."""
    loader = _Loader("")
    tag = loader.resolve(yaml.ScalarNode, text, (True, False))
    return loader.construct_object(yaml.ScalarNode(tag, text))


def _walk(node: yaml.Node, path: Key, lines: dict[Key, int], where: str, above: set[int]) -> None:
    """Note the line of every key, and refuse what the constructor would silently accept."""
    if id(node) in above:
        raise ConfigError(f"{where}, line {node.start_mark.line + 1}: a value contains itself; remove the alias")
    if isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            lines[(*path, index)] = child.start_mark.line + 1
            _walk(child, (*path, index), lines, where, above | {id(node)})
    elif isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, child in node.value:
            line = key.start_mark.line + 1
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            if key.tag != "tag:yaml.org,2002:str":
                raise ConfigError(f"{where}, line {line}: the key {key.value!r} is not text; quote it")
            if key.value in seen:
                raise ConfigError(
                    f"{where}, line {line}: the key {key.value!r} is already given in line {seen[key.value]}; keep one"
                )
            seen[key.value] = lines[(*path, key.value)] = line
            _walk(child, (*path, key.value), lines, where, above | {id(node)})


def dump(value: Any) -> str:
    """YAML text that `parse` reads back as the same value."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
