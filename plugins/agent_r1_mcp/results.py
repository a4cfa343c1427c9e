"""What a model reads of an MCP server's result."""

from __future__ import annotations

import json
from typing import Any

from agent_r1_core import ToolError


def text_of(result: dict[str, Any]) -> str:
    """The result's texts, one after the other, with the name of everything else; structured content where there is
    no block at all.

    Raises:
        ToolError: it is an error, or the server asks for something that nobody can answer.
    """
    if result.get("resultType") == "input_required":
        requests = (result.get("inputRequests") or {}).values()
        asked = "; ".join(filter(None, ((one.get("params") or {}).get("message") for one in requests)))
        what = f" ({asked})" if asked else ""
        raise ToolError(f"the tool asks for input that nobody can give{what}; call it with all that it needs")
    text = "\n".join(map(_block_text, result.get("content") or ()))
    if result.get("isError"):
        raise ToolError(text or "the tool failed without saying why")
    structured = result.get("structuredContent")
    return text if text or structured is None else json.dumps(structured, ensure_ascii=False)


def _block_text(block: dict[str, Any]) -> str:
    """Text as it is; of an image, a sound or a file its name, since the model reads text alone."""
    kind = block.get("type")
    if kind == "text":
        return str(block["text"])
    resource = block.get("resource") or block
    if "text" in resource:
        return str(resource["text"])
    name = resource.get("uri") or resource.get("name")
    facts = (kind, name, resource.get("mimeType"), _size(resource.get("data") or resource.get("blob")))
    return f"[{', '.join(str(fact) for fact in facts if fact)}]"


def _size(base64: str | None) -> str:
    return f"{len(base64) * 3 // 4:,} bytes" if base64 else ""
