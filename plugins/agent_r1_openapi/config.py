"""The options of the toolset `openapi`."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from agent_r1_core import ComponentConfig, DataPath
from agent_r1_core.contracts.secrets import check_headers, variables


class OpenApiConfig(ComponentConfig):
    url: str | None = None
    """The address of the API's description, OpenAPI 3 in JSON or YAML."""
    path: DataPath | None = None
    """Instead of an address: the description's file."""
    server: str | None = None
    """Where requests go; null: where the description says, if that is the host of `url`."""
    operations: tuple[str, ...] = ()
    """The operations to offer, by `operationId`; empty: all."""
    prefix: str = Field(default="", pattern=r"[A-Za-z0-9_-]{0,32}")
    """Precedes the names of the tools, so that those of two APIs differ."""
    headers: Annotated[dict[str, str], AfterValidator(check_headers)] = Field(default_factory=dict)
    """Sent with each request to the server, and nowhere else; `${NAME}` stands for an environment variable, so that no
    secret is in a recipe."""
    redirects: tuple[str, ...] = ()
    """Other hosts to which an answer may redirect; elsewhere no redirection is followed."""
    retries: int = Field(default=2, ge=0)
    """How often a request is sent again: after connection errors and answers of status 429 or 503 that say when, where
    sending it twice does no harm (GET, HEAD, OPTIONS, PUT, DELETE)."""
    max_bytes: int = Field(default=1 << 20, gt=0)
    """The longest answer; a longer one is an error."""

    def unavailable(self) -> str | None:
        """Why it cannot be used, and what to do."""
        if bool(self.url) == bool(self.path):
            return "it takes either the url of a description, or the path of its file; give one of them"
        if self.path and not self.server:
            return "a description in a file does not say on which host it is; name the server"
        return None

    def sends(self) -> str:
        """The environment variables that requests carry, and where to; empty where there are none."""
        names = variables(self.headers.values())
        return f"{' '.join(names)} to {self.server or self.url}" if names else ""
