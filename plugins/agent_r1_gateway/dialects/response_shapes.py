"""Values of a request to OpenAI's Responses API, taken with the path that a refusal names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent_r1_gateway.wire import Refused

_TEXT_IN = {
    "input_text": "text",
    "output_text": "text",
    "text": "text",
    "summary_text": "text",
    "reasoning_text": "text",
    "refusal": "refusal",
    "encrypted_content": "encrypted_content",
}
"""By the type of a part, the field with its text. Codex passes on as encrypted what the policy tells a sub-agent."""


def objects(given: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each object of a list, with its path; nothing for null."""
    if given is not None and not isinstance(given, list | tuple):
        raise Refused(f"{path} must be a list of objects", field=path)
    for index, one in enumerate(given or ()):
        if not isinstance(one, Mapping):
            raise Refused(f"{path}[{index}] must be an object", field=f"{path}[{index}]")
        yield f"{path}[{index}]", one


def text_at(one: Mapping[str, Any], name: str, path: str, otherwise: str | None = None) -> str:
    """The text of a field; `otherwise`, where it may be absent or null, for one that is."""
    value = one.get(name)
    if value is None and otherwise is not None:
        return otherwise
    if not isinstance(value, str):
        raise Refused(f"{path}.{name} must be text", field=f"{path}.{name}")
    return value


def joined_text(given: Any, path: str) -> str:
    """Text, or the texts of a list of parts, joined; null is empty."""
    if given is None or isinstance(given, str):
        return given or ""
    if not isinstance(given, list | tuple):
        raise Refused(f"{path} must be text or a list of text parts", field=path)
    texts = []
    for at, part in objects(given, path):
        kind = text_at(part, "type", at)
        if kind not in _TEXT_IN:
            raise Refused(f"{at}: the gateway reads text only; leave out the {kind[:80]!r}", field=at)
        texts.append(text_at(part, _TEXT_IN[kind], at))
    return "".join(texts)
