"""Shows the strings under a class's attributes in its docstring, for notebooks and `help()`.

Python keeps a string under an attribute in the source only, where editors find it.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T", bound=type)


class _Docstring(str):
    """A class's `__doc__`: its own text and those of its attributes, read from the source when somebody asks.

    It is a string because `help()` ignores a descriptor on a class with a metaclass; there it shows the own text only.
    """

    def __get__(self, instance: object, owner: type) -> str:
        described = dict(pair for base in reversed(owner.__mro__) for pair in _described(base))
        if not described:
            return str(self)
        return "\n".join([self, "", "Attributes:", *(f"    {name}: {text}" for name, text in described.items())])


def show_attributes(cls: T) -> T:
    """Let the class's docstring list its attributes that have texts, inherited ones too; returns the class."""
    cls.__doc__ = _Docstring(inspect.cleandoc(cls.__doc__ or ""))
    return cls


def _described(cls: type) -> Iterator[tuple[str, str]]:
    """The attributes of a class of this project that have texts."""
    if not cls.__module__.startswith("agent_r1_core"):
        return
    try:
        source = inspect.getsource(cls)
    except (OSError, TypeError):  # the source is not installed
        return
    (node,) = ast.parse(textwrap.dedent(source)).body
    assert isinstance(node, ast.ClassDef)
    for attribute, text in zip(node.body, node.body[1:], strict=False):
        targets = attribute.targets if isinstance(attribute, ast.Assign) else [getattr(attribute, "target", None)]
        value = text.value if isinstance(text, ast.Expr) else None
        if isinstance(targets[0], ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield targets[0].id, " ".join(value.value.split())
