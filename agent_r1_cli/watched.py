"""Shows a player the observations of an environment."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agent_r1_core.contracts.env import Action, Observation, Step, ToolEnv
from agent_r1_core.rollout.env_checks import observation_of, step_of
from agent_r1_core.terminal import shown_in_line

if TYPE_CHECKING:
    from agent_r1_core.trajectory import Message

Tell = Callable[[str], None]


class Watched(ToolEnv):
    """Wraps an environment and shows its observations."""

    def __init__(self, env: ToolEnv, tell: Tell) -> None:
        super().__init__(env.config, env.services)
        self.name = env.name
        self._env, self._tell = env, tell

    def reset(self, task: Any) -> Any:
        """Show the first messages, and how to act if they do not say it."""
        return _then(self._env.reset(task), self._begun)

    def step(self, action: Action) -> Any:
        return _then(self._env.step(action), self._stepped)

    def close(self) -> Any:
        return self._env.close()

    def tool_schemas(self) -> list[dict[str, Any]]:
        return self._env.tool_schemas()

    def stop_strings(self) -> tuple[str, ...]:
        return self._env.stop_strings()

    def instructions(self) -> str:
        return self._env.instructions()

    def _begun(self, given: Any) -> Observation:
        observation = self._shown(observation_of(given))
        if not any(self.instructions() in message["content"] for message in observation.messages):
            self._tell(how_to_act(self))
        return observation

    def _stepped(self, given: Any) -> Step:
        step = step_of(given)
        self._shown(step.observation)
        return step

    def _shown(self, observation: Observation) -> Observation:
        for message in observation.messages:
            self._tell(message_text(message))
        return observation


def how_to_act(env: ToolEnv) -> str:
    """The environment's instructions, for a person."""
    return f"[how to act] {env.instructions() or 'the environment gives no instructions; try an action'}"


def message_text(message: Message) -> str:
    """A message for a person: the speaker, then the text."""
    speaker = shown_in_line(" ".join(part for part in (message["role"], message.get("name", "")) if part))
    return f"[{speaker}] {message['content']}"


def _then(value: Any, follow: Callable[[Any], Any]) -> Any:
    """What follows a value, or an awaitable of it where the value is one: a sync environment stays in its thread."""

    async def later() -> Any:
        return follow(await value)

    return later() if inspect.isawaitable(value) else follow(value)
