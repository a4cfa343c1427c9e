"""What requests of every dialect have: texts, lists, counts. What has another shape is refused in one sentence that
names the field."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NoReturn

from agent_r1_gateway.dialects.fields import Field, check_fields
from agent_r1_gateway.wire import DEEPEST, Refused, too_deep, well_formed

_PIECE = 4096
_MOST_UNREAD = 20


def opened(body: Mapping[str, Any], table: Mapping[str, Field]) -> tuple[Mapping[str, Any], list[str]]:
    """A body that can be read without further care, and its fields that have no effect.

    Raises:
        Refused: a field is unknown, asks for what the gateway cannot do, or is nested too deep.
    """
    for name, value in body.items():
        for where, one in _places(name, value):
            if too_deep(one):
                sentence = f"{where} has lists and objects more than {DEEPEST} levels deep; make it flatter"
                raise Refused(sentence, field=where)
    return well_formed(dict(body)), list(check_fields(body, table))


def _places(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        yield from ((f"{name}[{at}]", one) for at, one in enumerate(value))
    else:
        yield name, value


def wrong(value: Any, where: str, wanted: str) -> NoReturn:
    """Refuse a value of the wrong type."""
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list", dict: "an object"}
    raise Refused(f"{where} is {names.get(type(value), 'missing')}; give {wanted}", field=where)


def mapping(value: Any, where: str) -> Mapping[str, Any]:
    """An object; missing is empty."""
    return {} if value is None else value if isinstance(value, Mapping) else wrong(value, where, "an object")


def objects(value: Any, where: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The objects of a list, each with its path; none where the list is missing."""
    if value is None:
        return
    if not isinstance(value, list):
        wrong(value, where, "a list of objects")
    for at, one in enumerate(value):
        yield f"{where}[{at}]", one if isinstance(one, Mapping) else wrong(one, f"{where}[{at}]", "an object")


def messages_of(body: Mapping[str, Any], prefill: str) -> list[tuple[str, Mapping[str, Any]]]:
    """The messages, each with its path.

    Args:
        prefill: what to do instead of letting the assistant speak last.
    """
    given = body.get("messages")
    if given == []:
        raise Refused("messages is empty; give at least one message", field="messages")
    if not isinstance(given, list):
        wrong(given, "messages", "a list of messages")
    found = list(objects(given, "messages"))
    where, last = found[-1]
    if prefill and last.get("role") == "assistant":
        sentence = f"{where} is the assistant's, and the policy continues no message that it has begun; {prefill}"
        raise Refused(sentence, field=where)
    return found


def text_of(content: Any, where: str, without: Collection[str] = ()) -> str:
    """A text, or the text blocks of a list, joined; null is empty.

    Args:
        without: types of blocks that are left out.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        wrong(content, where, "a string or a list of text blocks")
    return "".join(
        block_text(block, path) for path, block in objects(content, where) if block.get("type") not in without
    )


def block_text(block: Mapping[str, Any], where: str) -> str:
    """The text of a text block."""
    kind = string(block.get("type"), f"{where}.type")
    if kind != "text":
        raise Refused(f"{where} has the type {kind[:60]!r}, which the gateway does not take; send text", field=where)
    text = block.get("text")
    return text if isinstance(text, str) else wrong(text, f"{where}.text", "a string")


def string(value: Any, where: str) -> str:
    """A text that must be there."""
    return value if isinstance(value, str) and value else wrong(None if value == "" else value, where, "a string")


def flag(value: Any, where: str) -> bool:
    """A boolean; missing is false."""
    return bool(value) if value is None or isinstance(value, bool) else wrong(value, where, "true or false")


def count_of(value: Any, where: str) -> int | None:
    """A number of tokens."""
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        wrong(value, where, "a whole number")
    if value < 1:
        raise Refused(f"{where} is below 1; ask for at least one token", field=where)
    return value


def stops_of(value: Any, where: str) -> tuple[str, ...]:
    """Stop strings: a list of them, or one."""
    if value is None:
        return ()
    several = [value] if isinstance(value, str) else value
    if not isinstance(several, list):
        wrong(value, where, "a string or a list of strings")
    return tuple(string(one, where if several is not value else f"{where}[{at}]") for at, one in enumerate(several))


def function_tool(name: Any, description: Any, parameters: Any, where: str, schema: str) -> dict[str, Any]:
    """A tool as chat templates take it.

    Args:
        schema: what the dialect calls the schema of its arguments.
    """
    if description is not None and not isinstance(description, str):
        wrong(description, f"{where}.description", "a string")
    if parameters is not None and not isinstance(parameters, Mapping):
        wrong(parameters, f"{where}.{schema}", "a JSON schema")
    function = {
        "name": string(name, f"{where}.name"),
        "description": description or "",
        "parameters": dict(parameters or {"type": "object", "properties": {}}),
    }
    return {"type": "function", "function": function}


def unread(where: str, given: Mapping[str, Any], read: Collection[str]) -> set[str]:
    """The fields of an object that nobody reads."""
    return {f"{where}.{name}" for name, value in given.items() if name not in read and value is not None}


def listed(ignored: list[str], others: Collection[str]) -> tuple[str, ...]:
    """The fields without effect, and some of those within other fields."""
    return (*ignored, *sorted(others)[:_MOST_UNREAD])


def pieces(text: str) -> list[str]:
    """A text in parts for a stream, since some clients bound the length of a line."""
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
