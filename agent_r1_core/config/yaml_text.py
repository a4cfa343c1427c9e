"""YAML as recipes use it: numbers as people write them, text kept as text, nothing silently dropped.

`1e-6` is a float. Only `true` and `false` are booleans (`no` and `on` stay text). Dates stay text. A key given twice is
an error. Custom tags are not supported. A text that stands for more than `MOST_NODES` keys and values is refused,
since a few lines of aliases can stand for billions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import yaml

from agent_r1_core.errors import ConfigError, first_line
from agent_r1_core.plugins.validation import Key

_FLOAT = re.compile(r"[-+]?(?:\d+\.\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\.(?:inf|nan))$")
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)$")
_BOOL = re.compile(r"(?:true|True|false|False)$")
_NULL = re.compile(r"(?:~|null|Null|NULL|)$")
MOST_NODES = 100_000
"""Keys and values of one text, each alias counted as what it stands for."""
_MERGE = "tag:yaml.org,2002:merge"
_REFUSED_TAGS = ("binary", "timestamp", "omap", "pairs", "set")


class _TooLarge(Exception):
    """The text stands for more than `MOST_NODES` keys and values."""


def _count(left: Iterator[int]) -> None:
    """Count one more key or value; raises _TooLarge if none was left."""
    if next(left, None) is None:
        raise _TooLarge


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {"<": [(_MERGE, re.compile("<<$"))]}  # type: ignore[misc]

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._left = iter(range(MOST_NODES))

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Count every key and value that is written."""
        _count(self._left)
        return super().compose_node(parent, index)


class _Dumper(yaml.SafeDumper):
    """Quotes all text that this loader or another one would read as something else."""


for _class in (_Loader, _Dumper):
    _class.add_implicit_resolver("tag:yaml.org,2002:bool", _BOOL, list("tTfF"))
    _class.add_implicit_resolver("tag:yaml.org,2002:null", _NULL, ["~", "n", "N", ""])
    _class.add_implicit_resolver("tag:yaml.org,2002:int", _INT, list("-+0123456789"))
    _class.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))
for _tag in _REFUSED_TAGS:
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", yaml.SafeLoader.construct_undefined)  # type: ignore[type-var]
_Dumper.add_representer(dict, lambda dumper, value: _mapping(dumper, value))
_Dumper.ignore_aliases = lambda self, data: True  # type: ignore[method-assign]


def _mapping(dumper: yaml.SafeDumper, value: dict[Any, Any]) -> yaml.MappingNode:
    """A mapping of numbers alone takes one line, `{threshold: 0.1, steps: 10}`."""
    node = dumper.represent_dict(value)
    node.flow_style = bool(value) and all(type(entry) in (int, float) for entry in value.values())
    return node


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
        _walk(node, (), lines, where, set(), iter(range(MOST_NODES)))
        return Document(loader.construct_document(node), lines)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{where}{line} is not valid YAML: {error.problem or error.context}; correct it") from None
    except _TooLarge:
        what = f"stands for more than {MOST_NODES:,} keys and values, its aliases spelled out"
        raise ConfigError(f"{where} {what}; shorten it, or keep long lists in a data set") from None
    except LookupError:
        raise ConfigError(f"{where} is not valid YAML: a value does not fit the tag before it; correct it") from None
    except RecursionError:
        raise ConfigError(f"{where} is nested too deeply; flatten it") from None
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{where} is not valid YAML: {first_line(error)}; correct it") from None
    finally:
        if loader is not None:
            loader.dispose()


def parse_plain(text: str) -> Any:
    """The scalar that a text without quotes and brackets means; none of its characters is syntax.

    Raises:
        ValueError: the text is a number with too many digits.
    """
    loader = _Loader("")
    tag = loader.resolve(yaml.ScalarNode, text, (True, False))
    return text if tag == _MERGE else loader.construct_object(yaml.ScalarNode(tag, text))


def _walk(node: yaml.Node, path: Key, lines: dict[Key, int], where: str, above: set[int], left: Iterator[int]) -> None:
    """Note the line of every key, count values, and refuse what the constructor would silently accept."""
    _count(left)
    if id(node) in above:
        raise ConfigError(f"{where}, line {node.start_mark.line + 1}: a value contains itself; remove the alias")
    if isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            lines[(*path, index)] = child.start_mark.line + 1
            _walk(child, (*path, index), lines, where, above | {id(node)}, left)
    elif isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, child in node.value:
            line = key.start_mark.line + 1
            _count(left)
            if key.tag == _MERGE:
                _walk(child, path, {}, where, above | {id(node)}, left)
                continue
            if key.tag != "tag:yaml.org,2002:str":
                raise ConfigError(f"{where}, line {line}: the key {key.value!r} is not text; quote it")
            if key.value in seen:
                raise ConfigError(
                    f"{where}, line {line}: the key {key.value!r} is already given in line {seen[key.value]}; keep one"
                )
            seen[key.value] = lines[(*path, key.value)] = line
            _walk(child, (*path, key.value), lines, where, above | {id(node)}, left)


def dump(value: Any) -> str:
    """YAML text that `parse` reads back as the same value."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def quoted(text: str) -> str:
    """YAML for this very text, in one line that begins with a quote, whatever number or syntax it resembles."""
    return yaml.dump(text, Dumper=_Dumper, default_style='"', width=math.inf).rstrip("\n")
