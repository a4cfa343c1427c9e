"""The APIs that the gateway speaks, one module each."""

from __future__ import annotations

from agent_r1_gateway.dialects import chat, messages, responses
from agent_r1_gateway.dialects.fields import Dialect

DIALECTS: tuple[Dialect, ...] = (chat, messages, responses)
