"""Demonstration: plays a task's demonstration in place of a policy, one request after the other.

An action gets the ids that the run's tokenizer gives its text, and the end of turn; no engine is asked. What cannot be
played as it stands fails the episode with a sentence: nothing is cut, skipped or put right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.contracts.demonstration import DemonstratedAction, demonstrated_actions
from agent_r1_core.contracts.engine import Generation, Request, context_digest
from agent_r1_core.contracts.tool_format import ToolCall, ToolFormat, ToolResult
from agent_r1_core.errors import EpisodeError
from agent_r1_core.trajectory import EndStatus, ObservationSource, Task, Trajectory


class BadDemonstration(EpisodeError):
    """A demonstration cannot be played; a retry would not help."""


def written_action(
    action: DemonstratedAction, tool_format: ToolFormat | None, where: str
) -> tuple[str, list[ToolCall]]:
    """An action in a tool format, which must read in it the calls that it shows; and the calls that it reads.

    Args:
        where: names the action in errors.

    Raises:
        BadDemonstration: the format reads other calls, or the environment has none.
    """
    if tool_format is None:
        if action.calls:
            raise BadDemonstration(f"{where} calls a tool, and the environment has no tool format")
        return action.text, []
    text = tool_format.render_action(action.text, action.calls)
    parsed = tool_format.parse(text)
    if action.calls and (parsed.errors or parsed.calls != action.calls):
        raise BadDemonstration(
            f"{where} makes other calls in the run's tool format than it shows; use another env.format, or mend the "
            "calls"
        )
    return text, parsed.calls


class Demonstration:
    """The demonstration of one episode.

    Args:
        observations: whether the tools are called, or the demonstration says what they answered.

    Raises:
        BadDemonstration: the task has none, or its messages are not of the chat format.
    """

    def __init__(
        self, task: Task, observations: ObservationSource, tokenizer: ChatTokenizer, tool_format: ToolFormat | None
    ) -> None:
        self._name = f"the demonstration of task {task.id}"
        if not task.demonstration:
            raise BadDemonstration(f"task {task.id} has no demonstration; give it one, or leave it out")
        try:
            self._actions = demonstrated_actions(task.demonstration)
        except ValueError as error:
            raise BadDemonstration(f"{self._name} cannot be read: {error}") from None
        self._recorded = observations == "file"
        self._tokenizer = tokenizer
        self._format = tool_format
        self._done = 0
        self._answers: list[str] = []

    def act(self, request: Request) -> Generation:
        """The next action, as if an engine had been asked for it; its log-probs are not known.

        Raises:
            BadDemonstration: there is none, or it cannot be played.
        """
        if self._done == len(self._actions):
            raise BadDemonstration(
                f"{self._name} ends after {self._done} actions, and the episode goes on; let its last message end the "
                "episode, by an answer as the environment wants it"
            )
        action, self._done = self._actions[self._done], self._done + 1
        text = self._text(action)
        ids = self._ids(text, request)
        if len(ids) > request.sampling.max_new_tokens:
            raise BadDemonstration(
                f"{self._where} has {len(ids)} tokens, and there is room for {request.sampling.max_new_tokens}; raise "
                "engine.max_new_tokens or env.max_tokens, or shorten it"
            )
        return Generation(tuple(ids), (math.nan,) * len(ids), "stop", context_digest(request.ids))

    async def answer(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """`EnvServices.call_tools` where the demonstration says what the tools answered."""
        return [ToolResult(call.name, text) for call, text in zip(calls, self._answers, strict=False)]

    def check_end(self, trajectory: Trajectory) -> None:
        """Compare the end of the episode with that of the demonstration.

        Raises:
            BadDemonstration: a budget cut the episode, or it ended before its demonstration.
        """
        shown = f"{self._done} of {len(self._actions)} demonstrated actions"
        if trajectory.status is EndStatus.TRUNCATED and not trajectory.bootstrap:
            raise BadDemonstration(
                f"{self._name} does not fit: env.{trajectory.reason} cut the episode after {shown}; raise it, or let "
                "the last action end the episode"
            )
        if self._done < len(self._actions):
            raise BadDemonstration(f"{self._name} goes on after its episode, which ended after {shown}; cut it there")

    @property
    def _where(self) -> str:
        return f"action {self._done} of {self._name}"

    def _text(self, action: DemonstratedAction) -> str:
        """The action in the run's tool format, which must read in it the calls that it shows."""
        text, calls = written_action(action, self._format, self._where)
        if self._recorded and len(action.answers) != len(calls):
            raise BadDemonstration(
                f"{self._where} makes {len(calls)} calls, and {len(action.answers)} tool messages follow; give each "
                "call one, or set algorithm.observations=tools"
            )
        self._answers = action.answers
        return text

    def _ids(self, text: str, request: Request) -> list[int]:
        """The ids of a text and what ends its turn, where no stop string does."""
        ids = self._tokenizer.encode_action(text)
        if self._tokenizer.decode(ids) != text or any(token in request.stop_ids for token in ids):
            raise BadDemonstration(f"{self._where} is another text once it is encoded; write it in plain characters")
        ends = [text.index(stop) + len(stop) for stop in request.stop_strings if stop in text]
        if ends and min(ends) < len(text):
            raise BadDemonstration(
                f"{self._where} goes on after {text[: min(ends)][-20:]!r}, where the run's tool format ends an action; "
                "end it there"
            )
        return ids if ends else [*ids, self._tokenizer.end_id]
