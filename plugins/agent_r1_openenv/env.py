"""The environment `openenv`: an episode is a session of an OpenEnv server, over its WebSocket protocol.

The policy acts by a call with the fields of the server's action, or by text that fills one of them. A server has one
word for the end of an episode, so that it never counts as truncated.
"""

from __future__ import annotations

import json
import threading
import zlib
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from agent_r1_core import (
    Action,
    CallRecord,
    ComponentConfig,
    EnvConfig,
    EnvServices,
    EpisodeError,
    Markup,
    Observation,
    Step,
    Task,
    ToolEnv,
    ToolFormatBlock,
    ToolResult,
)
from agent_r1_core.chat import clip_text, split_tagged, without_thinking
from agent_r1_openenv.server import Refused, Session, action_schema, missing

ACT = "act"
"""The name of the call that is an action."""


def _address(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"must begin with http:// or https://, and is {url!r}")
    return url.rstrip("/")


Address = Annotated[str, AfterValidator(_address)]


class OpenEnvConfig(EnvConfig):
    """Options of `openenv`."""

    movable = frozenset({"url"})

    url: Address
    """The server, e.g. `http://127.0.0.1:8000`."""
    text: str | None = None
    """The field of an action that the policy's text between `<answer>` tags fills; null: the policy calls `act` with
    the action's fields, as the server's schema names them."""
    format: ToolFormatBlock = ToolFormatBlock(name="hermes")
    """How the call is written."""
    show: str | None = None
    """The field of an observation that the policy reads; null: all of them, as JSON."""
    rules: str | None = None
    """What the first message says before the observation; null: how to act; empty: nothing."""
    reset: dict[str, Any] = Field(default_factory=dict)
    """Arguments of every reset, besides the task's seed and its own."""
    success_reward: float | None = None
    """An episode that ends with at least this reward for the last action is a success; null: nobody says."""
    same_start: bool = True
    """Refuse a server that begins differently twice with one seed, since episodes of a group could not be compared."""
    max_characters: int = Field(4000, ge=1)
    """Most characters of an observation; the rest is cut and marked."""


class OpenEnv(ToolEnv):
    """One episode on the server."""

    Config = OpenEnvConfig

    def __init__(self, config: ComponentConfig | None = None, services: EnvServices | None = None) -> None:
        super().__init__(config, services)
        self._session: Session | None = None

    @classmethod
    def idle_options(cls, config: Any) -> dict[str, str]:
        return {"format": f"text fills the field {config.text}, so that there are no calls"} if config.text else {}

    @classmethod
    def unavailable(cls, config: Any) -> str | None:
        """A sentence if websockets is missing."""
        return missing()

    @classmethod
    def uses_tools(cls) -> bool:
        """Its call is its own."""
        return False

    def tool_schemas(self) -> list[dict[str, Any]]:
        """The action as a function."""
        shown = self.services.tool_format is not None and self.services.tool_format.template_tools
        return [self._schema()] if shown and not self.config.text else []

    def _schema(self) -> dict[str, Any]:
        schema = action_schema(self.config.url)
        described = schema.get("description", "Act in the environment.")
        parameters = {key: value for key, value in schema.items() if key in ("type", "properties", "required", "$defs")}
        return {"type": "function", "function": {"name": ACT, "description": described, "parameters": parameters}}

    def instructions(self) -> str:
        """How to act."""
        if not self.config.text:
            return self._format().system_prompt([self._schema()], "Every action is one call.")
        return Markup.of(["Write your action as ", Markup("<answer>"), "...", Markup("</answer>"), "."])

    def stop_strings(self) -> tuple[str, ...]:
        return () if self.config.text else super().stop_strings()

    def reset(self, task: Task) -> Observation:
        """Begin a session, as soon as the server has one for us."""
        config = self.config
        seed = abs(task.seed) if task.seed is not None else zlib.crc32(task.id.encode())
        first = {"seed": seed, **config.reset, **task.metadata.get("openenv", {})}
        self._session = Session(config.url, first, 0.9 * config.timeout)
        begun = self._session.answer
        if config.same_start and not _same_start(config.url, self._session, first):
            raise EpisodeError(
                f"the OpenEnv server at {config.url} begins differently twice with seed {seed}, so that the episodes "
                "of a group face different problems; mend the environment, or set env.same_start=false"
            )
        rules = self.instructions() if config.rules is None else Markup(config.rules)
        shown = self._shown(begun)
        return Observation([{"role": "user", "content": Markup.of([rules, "\n", shown]) if rules else shown}])

    def step(self, action: Action) -> Step:
        """Send the action, or say what is wrong with it."""
        fields, error = self._read(action)
        if fields is None:
            return Step(self._told(f"Error: {error}.", error=True), errors=[error])
        assert self._session is not None
        try:
            answer = self._session.say("step", fields)
        except Refused as refused:
            if refused.code != "VALIDATION_ERROR":
                raise EpisodeError(f"the environment of the OpenEnv server failed: {refused}") from refused
            error = f"the action is refused: {_reasons(refused)}"
            return Step(self._told(f"Error: {error}.", error=True), calls=self._calls(fields, error), errors=[error])
        done, reward, least = bool(answer.get("done")), float(answer.get("reward") or 0.0), self.config.success_reward
        return Step(
            Observation() if done else self._told(self._shown(answer)),
            reward=reward,
            terminated=done,
            success=None if least is None else done and reward >= least,
            calls=self._calls(fields),
        )

    def close(self) -> None:
        if self._session is not None:
            self._session.close()

    def _read(self, action: Action) -> tuple[dict[str, Any] | None, str]:
        """The fields of the action; or None, and why."""
        if self.config.text:
            answers, _ = split_tagged(without_thinking(action.whole), "answer")
            cut = "the reply was cut off before an action; be shorter"
            none = Markup("no action; write it between <answer> and </answer>")
            return ({self.config.text: answers[-1].strip()}, "") if answers else (None, cut if action.cut else none)
        parsed = self._format().parse(action.whole)
        if parsed.errors:
            return None, parsed.errors[0]
        if len(parsed.calls) != 1 or parsed.calls[0].name != ACT:
            return None, f"an action is one call of {ACT}"
        return parsed.calls[0].arguments, ""

    def _format(self) -> Any:
        if self.services.tool_format is None:
            raise EpisodeError("environment openenv got no tool format; pass one in its services, or set env.text")
        return self.services.tool_format

    def _calls(self, fields: dict[str, Any], error: str | None = None) -> list[CallRecord]:
        return [] if self.config.text else [CallRecord(ACT, fields, error)]

    def _told(self, text: str, error: bool = False) -> Observation:
        if self.config.text:
            return Observation([{"role": "user", "content": text}])
        return Observation(self._format().results([ToolResult(ACT, text, error)]))

    def _shown(self, answer: dict[str, Any]) -> str:
        """The observation as text."""
        seen, name = answer.get("observation", {}), self.config.show
        if name is not None and name not in seen:
            raise EpisodeError(f"the observation has no field {name!r}, only {', '.join(seen)}; set env.show to one")
        value = seen if name is None else seen[name]
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return clip_text(text, self.config.max_characters)


_CHECKED: dict[str, bool] = {}
_CHECKING = threading.Lock()


def _same_start(url: str, session: Session, first: dict[str, Any]) -> bool:
    """Whether a second reset gives what the first one gave; asked once for a server."""
    with _CHECKING:
        if url not in _CHECKED:
            again = session.say("reset", first)
            _CHECKED[url] = again.get("observation") == session.answer.get("observation")
        return _CHECKED[url]


def _reasons(refused: Refused) -> str:
    errors = refused.data.get("errors")
    if not isinstance(errors, list) or not errors:
        return str(refused)
    return "; ".join(f"{'.'.join(map(str, one.get('loc', ())))}: {one.get('msg')}" for one in errors[:3])
