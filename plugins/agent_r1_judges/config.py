"""JudgeConfig: which model judges, what it sees, and how it is asked."""

from __future__ import annotations

import json
import os
from typing import Any, Literal

from pydantic import Field, field_validator

from agent_r1_core import ComponentConfig

_SERVE_KEY = "AGENT_R1_SERVE_KEY"
_OURS = ("model", "messages", "stream", "n")


class JudgeConfig(ComponentConfig):
    """Options of every judge."""

    movable = frozenset({"address"})

    address: str = Field("http://127.0.0.1:8710/v1", pattern="^https?://")
    """Base address of an OpenAI-compatible server; the default is that of `agent-r1 serve` on this machine."""
    model: str = "policy"
    """The name under which the server knows the model."""
    key: str | None = None
    """The environment variable that holds the server's key; `agent-r1 serve` reads its own from AGENT_R1_SERVE_KEY."""
    instructions: str = ""
    """What the judge is told besides: what the task is about, what to watch for."""
    show: Literal["answer", "transcript"] = "answer"
    """What is judged: the final answer, or all that was said, tools included."""
    reference: bool = True
    """Whether the judge sees the task's accepted answers."""
    max_characters: int = Field(20_000, ge=100)
    """Of what is judged; the middle of a longer text is left out."""
    options: dict[str, Any] = Field(default={"max_tokens": 1000})
    """Further fields of the request, such as `response_format`; null leaves one out. The temperature is 0."""
    at_once: int = Field(16, ge=1)
    """Requests in flight; the others wait."""
    request_timeout: float = Field(20.0, gt=0)
    """Seconds for one request. The reward's own `timeout` is for waiting, all attempts and pauses together."""
    retries: int = Field(2, ge=0)
    """Further attempts where the server cannot be reached, is busy, or gives a reply that cannot be read."""
    cache: int = Field(10_000, ge=0)
    """Verdicts that are kept, across steps, for questions that come again; 0: each is asked again."""

    @field_validator("options")
    @classmethod
    def _are_fields(cls, given: dict[str, Any]) -> dict[str, Any]:
        if named := sorted(set(given).intersection(_OURS)):
            raise ValueError(f"{', '.join(named)} cannot be set here; the judge sets it")
        json.dumps(given)
        return given

    def programs(self) -> dict[str, str]:
        """Where texts of the run are sent, with which key of the user's; nothing leaves for `agent-r1 serve` here."""
        if self.address == type(self).model_fields["address"].default and self.key in (None, _SERVE_KEY):
            return {}
        return {"address": f"judge at {self.address}" + (f" with the key in {self.key}" if self.key else "")}

    def unavailable(self) -> str | None:
        """A sentence if the key is missing."""
        if self.key and not os.environ.get(self.key):
            return f"the judge needs its key in the environment variable {self.key}; set it, or set key=null"
        return None
