"""The environment `{{name}}`: each episode is one run of the agent."""

from __future__ import annotations

from agent_r1_gateway.env import ProgramConfig, ProgramEnv


class {{class}}Config(ProgramConfig):
    """Options of the agent; those of the environment `program` are among them."""

    function: str | None = "{{package}}.agent:run"


class {{class}}(ProgramEnv):
    """Plays an episode through the agent."""

    Config = {{class}}Config
