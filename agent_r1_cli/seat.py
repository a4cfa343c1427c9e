"""Lets a person or a script act in place of the model, with the real environment, tools and rewards.

The bundled tokenizer makes the ids, whatever the recipe's model. Token counts therefore mean little, and there is no
token budget; the turn budget applies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent_r1_core.assembly.components import make_examples, make_rewards, make_rollout_settings, make_tools
from agent_r1_core.assembly.model_source import find_local_model, find_model
from agent_r1_core.assembly.task_sets import load_tasks, set_names, tool_resources, unused_sets
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.contracts.engine import Generation, Request, Sampling, context_digest
from agent_r1_core.contracts.tool_format import ToolCall
from agent_r1_core.errors import AgentR1Error, ConfigError, EpisodeError, TaskError
from agent_r1_core.rollout import Episode, EpisodeServices
from agent_r1_core.rollout.demonstration import BadDemonstration, conversation_of, line_of, task_of
from agent_r1_core.rollout.plan import EpisodePlan
from agent_r1_core.terminal import shown_in_line
from agent_r1_core.tools.threads import ThreadPool

if TYPE_CHECKING:
    from agent_r1_core.config import ResolvedConfig
    from agent_r1_core.contracts.tool import Tool
    from agent_r1_core.trajectory import Message, Task, Trajectory, Turn

Tell = Callable[[str], None]

TOKENS = 1_000_000
"""Token budget of an episode: more than anybody types."""


class Seat:
    """One episode that waits for actions."""

    def __init__(self, episode: Episode, shared: EpisodeServices, tell: Tell) -> None:
        self.over = False
        self._request: Request | None = None
        self.decode = shared.tokenizer.decode
        self._episode, self._shared, self._settings = episode, shared, shared.settings
        self._tell = tell
        self._how_to_act = ""

    @classmethod
    async def take(cls, resolved: ResolvedConfig, task_set: str, task: Task | int, tell: Tell) -> Seat:
        """Prepare an episode on a task, or on the recipe's task with that index, and open the tools.

        Raises:
            TaskError: no task has that index.
            AgentR1Error: a component is not available.
        """
        resolved = resolved.replace({"env.max_tokens": TOKENS})
        name = set_names(resolved.config, task_set)[0]
        unused = ("model", "algorithm", "engine", "trackers", *unused_sets(resolved.config, (name,)))
        resolved.check_available(unused)
        sets = load_tasks(resolved, (name,), tell, resolved.run)
        chosen = sets[name]
        if isinstance(task, int):
            if task >= len(chosen.tasks):
                raise TaskError(f"there are {len(chosen.tasks)} tasks, none with the index {task}; give a lower --task")
            task = chosen.tasks[task]
        tools = make_tools(resolved, 1)
        settings = make_rollout_settings(resolved, tools, make_rewards(resolved), make_examples(resolved))
        settings = replace(settings, model="play", sampling=Sampling(max_new_tokens=TOKENS))
        shared = EpisodeServices.of(settings, ChatTokenizer.from_folder(find_model("tiny").folder), ThreadPool(4))
        await tools.start(tool_resources(resolved, sets, name, _policys_tokenizer(resolved.config.model.name)))
        return cls(Episode(shared, EpisodePlan(0, task, 0, settings.seed, f"play/{task.id}")), shared, tell)

    @property
    def trajectory(self) -> Trajectory:
        return self._episode.trajectory

    @property
    def player(self) -> int:
        """The number of the player who acts, or acted last."""
        return self._episode.observation.player

    @property
    def tools(self) -> dict[str, Tool]:
        """The tools that `/NAME` can call."""
        return self._settings.tools.tools if self._settings.tool_format is not None else {}

    async def start(self) -> None:
        """Show the first messages, and how to act if they do not say it."""
        await self._episode.start()
        self._request = self._episode.request()
        world, messages = self._episode.world, self._episode.observation.messages
        instructions: str = await world.call(world.env.instructions, convert=str)
        self._how_to_act = f"[how to act] {instructions or 'the environment gives no instructions; try an action'}"
        for message in messages:
            self._tell(_message_text(message))
        if not any(instructions in message["content"] for message in messages):
            self._tell(self._how_to_act)
        for message in self._episode.added:
            self._tell(f"[example] {_message_text(message)}")

    def expand(self, text: str) -> str:
        """The action of a line: `/TOOL ...` becomes a call in the environment's format, other text stays as it is.

        Raises:
            ConfigError: there is no such tool, or its arguments cannot be read.
        """
        shortcut = re.match(r"/([\w-]+)(?:\s+(.*))?$", text.strip(), re.DOTALL)
        if shortcut is None or not self.tools or self._settings.tool_format is None:
            return text
        name, rest = shortcut.group(1), shortcut.group(2) or ""
        if name not in self.tools:
            raise ConfigError(f"there is no tool '{name}'; write one of {self.usage()}")
        return self._settings.tool_format.render_call(ToolCall(name, _arguments(self.tools[name], rest)))

    def usage(self) -> str:
        """The shortcuts, in one line."""
        calls = [f"/{name} {_placeholder(_fields(tool))}".strip() for name, tool in self.tools.items()]
        return ", ".join([*calls, "/help", "/quit"])

    def rewards(self) -> str:
        """What is scored: each reward with its range, its scope and its weight."""
        lines = []
        for weighted in self._settings.rewards:
            low, high = weighted.reward.range
            each = f"{weighted.reward.name} from {low:g} to {high:g} each {weighted.reward.scope}"
            lines.append(f"{each}, weight {weighted.weight:g}{_capped(weighted.lowest_cap)}")
        counts = self._settings.rewarding_tools()
        for name, tool in self.tools.items():
            if tool.reward_range is not None:
                each = "{} from {:g} to {:g} each call".format(name, *tool.reward_range)
                lines.append(f"{each}, weight {counts[name].weight:g}{_capped(counts[name].cap)}")
        return "; ".join(lines) or "the environment's own"

    def help(self) -> str:
        """The environment's instructions and the shortcuts."""
        return f"{self._how_to_act}\n(shortcuts: {self.usage()})"

    async def act(self, text: str) -> Turn:
        """Play an action; returns its turn, with its rewards.

        Raises:
            EpisodeError: the environment or a reward failed.
        """
        if self._request is None:
            raise EpisodeError("the episode is over; start another one")
        tokenizer = self._shared.tokenizer
        ids = (*tokenizer.encode(text), tokenizer.eos_ids[0])
        context = context_digest(self._request.ids)
        await self._episode.take(self._request, Generation(ids, (0.0,) * len(ids), "stop", context))
        self._request = self._episode.request()
        self.over = self._request is None
        turn = self._episode.turn
        answer = self._episode.observation.messages if turn.purpose == "action" else []
        for message in (*answer, *([] if self.over else self._episode.added)):
            self._tell(_message_text(message))
        return turn

    async def conversation(self, name: str) -> str:
        """The episode, which is over, as a line of a file; it was played again from there, and said the same.

        Raises:
            BadDemonstration: no demonstration can show it.
        """
        line = line_of(conversation_of(self.trajectory, self._settings.tool_format, name))
        plan = EpisodePlan(0, task_of(line), 0, self.trajectory.seed, "play/again", demonstrated="file")
        again = Episode(self._shared, plan)
        try:
            await again.start()
            while (request := again.request()) is not None:
                await again.follow_script(request)
        finally:
            await again.close()
        if again.trajectory.messages() != self.trajectory.messages():
            raise BadDemonstration("the episode is another one when it is played again from a file")
        return line

    async def close(self) -> None:
        try:
            await self._episode.close()
        finally:
            await self._settings.tools.close()
            self._shared.threads.close()


def _message_text(message: Message) -> str:
    """A message for a person: the speaker, then the text."""
    speaker = shown_in_line(" ".join(part for part in (message["role"], message.get("name", "")) if part))
    return f"[{speaker}] {message['content']}"


def _policys_tokenizer(model: str) -> str | None:
    """The folder of the recipe's model, where it is at hand: nothing else of it is needed here."""
    try:
        source = find_local_model(model)
    except AgentR1Error:
        return None
    return None if source is None else str(source.folder)


def _fields(tool: Tool) -> list[str]:
    return list(tool.schema()["function"]["parameters"].get("properties", {}))


def _placeholder(fields: list[str]) -> str:
    """What to write for a tool's arguments: the text of a single one, a JSON object for several."""
    if len(fields) > 1:
        return f"{{{', '.join(f'{json.dumps(name)}: ...' for name in fields)}}}"
    return "".join(fields).upper()


def _arguments(tool: Tool, text: str) -> dict[str, Any]:
    """Arguments as a JSON object, or the text of the first one."""
    if text.startswith("{"):
        try:
            return dict(json.loads(text))
        except ValueError as error:
            raise ConfigError(f"the arguments {text!r} are not JSON ({error}); correct them") from None
    fields = _fields(tool)
    if not fields and text:
        raise ConfigError(f"{tool.name} takes no argument; leave out {text!r}")
    return {fields[0]: text} if text else {}


def _capped(cap: float | None) -> str:
    return "" if cap is None else f", at most {cap:g} in all"
