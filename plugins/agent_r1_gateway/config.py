"""Options of the environment `program`."""

from __future__ import annotations

import re
import shlex
from fnmatch import fnmatchcase

from pydantic import Field, field_validator

from agent_r1_core import EnvConfig, ToolFormatBlock
from agent_r1_gateway.speech import Thinking

OURS = ("policy", "untrained")
"""What the policy answers."""
_LONGEST_NAME = 200
"""Characters of a command in messages."""
_SCRIPT = re.compile(r"[^/{-][^{]*\.(py|js|mjs|ts|sh|rb)")


class ProgramConfig(EnvConfig):
    """Options of `program`; give either `command` or `function`."""

    command: list[str] | None = None
    """The program and its arguments; in one of them `{prompt}` becomes the task's text, and `{task}` the task as JSON,
    which also comes on stdin and in the file AGENT_R1_TASK. It runs in a temporary folder: give absolute paths."""
    function: str | None = None
    """`package.module:function`, sync or async; it gets an `Episode` and returns the result."""
    workers: int = Field(default=1, ge=0)
    """Processes that play the function; 0: threads of the training process, which is easy to debug, and slower where
    there are several cores."""
    format: ToolFormatBlock = ToolFormatBlock(name="native")
    """How the model writes calls of the tools that requests bring: a tool format by name, or `{name: ..., option:
    value}`."""
    thinking: Thinking = "separate"
    """`separate`: reasoning goes into the API's own field; a program that drops it from its history begins a segment
    with every request. `text`: it stays in the text, which every client keeps."""
    answers: bool = False
    """Whether the program gets the task's answers and metadata, to grade itself."""
    models: dict[str, str] = Field(default={})
    """What becomes of requests, by the name of the model that they ask for, which may hold `*`: `policy`; `untrained`,
    which the policy answers and which leaves no turn; or the base address of another server, to which they are passed
    on. The first that fits holds; other names are the policy's."""
    models_key: str | None = None
    """The environment variable with the key for those addresses."""
    untrained: list[str] = Field(default=[])
    """Regular expressions. A request whose system prompt or last message contains one, such as a title for a display,
    is answered by the policy and leaves no turn."""
    environment: dict[str, str] = Field(default={})
    """Further environment variables of a command."""
    max_turns: int = Field(default=20, ge=1)
    """Requests that are answered; the next one truncates the episode."""
    max_tokens: int = Field(default=4096, ge=1)
    """Longest context of the policy in tokens, as in every environment; each segment has this budget."""
    max_output_characters: int = Field(default=4000, ge=1)
    """Most characters kept of what a command prints between two requests."""

    @field_validator("untrained")
    @classmethod
    def _are_patterns(cls, given: list[str]) -> list[str]:
        for pattern in given:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
        return given

    @field_validator("models")
    @classmethod
    def _are_rules(cls, given: dict[str, str]) -> dict[str, str]:
        for name, rule in given.items():
            if rule not in OURS and not rule.startswith(("http://", "https://")):
                raise ValueError(
                    f"{name}: {rule!r} is neither policy nor untrained nor an address that begins with http"
                )
        return given

    @property
    def named(self) -> str:
        """What plays the episodes, for messages."""
        if self.command is None:
            return f"the function {self.function}"
        return f"the program `{shlex.join(self.command):.{_LONGEST_NAME}}`"

    def script(self) -> str | None:
        """The script that `command` gives an interpreter by a path of no fixed place."""
        name = (self.command or [""])[1:2]
        return name[0] if name and _SCRIPT.fullmatch(name[0]) else None

    def rule_for(self, model: str) -> str:
        """What becomes of requests for this model: a value of `models`, or `policy`."""
        return next((rule for pattern, rule in self.models.items() if fnmatchcase(model, pattern)), "policy")
