"""Demonstration: plays a task's demonstration in place of a policy, one request after the other.

An action gets the ids that the run's tokenizer gives its text, and the end of turn; no engine is asked. What cannot be
played as written fails the episode with a sentence: nothing is cut, skipped or put right.

`conversation_of` is the inverse: it writes an episode in the OpenAI chat format. Played with the observations of the
file, the conversation is the same episode again, token by token (LAW 1), if the policy wrote its text as the tokenizer
does and ended its turns as the template does. `difference` says why it is not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.chat.text import opened_thought
from agent_r1_core.contracts.demonstration import DemonstratedAction, demonstrated_actions
from agent_r1_core.contracts.engine import Generation, Request, context_digest
from agent_r1_core.contracts.tool_format import ToolCall, ToolFormat, ToolResult
from agent_r1_core.errors import EpisodeError
from agent_r1_core.trajectory import EndStatus, Message, ObservationSource, Task, Trajectory, Turn

_TAIL = 32
"""Ids at the end of a prompt that hold a thought which it opens."""


class BadDemonstration(EpisodeError):
    """A demonstration cannot be played; a retry would not help."""


def written_action(
    action: DemonstratedAction, tool_format: ToolFormat | None, where: str
) -> tuple[str, list[ToolCall]]:
    """An action in a tool format, which must read in it the calls that it shows; and the calls that it reads.

    Raises:
        BadDemonstration: the format reads other calls, or the environment has none; it says `where`.
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
        self._check_shown(request)
        action, self._done = self._actions[self._done], self._done + 1
        said = self._behind_prompt(self._text(action), request)
        asks = action.calls or action.answers
        ids = self._ids(said, request, self._tokenizer.call_end_id if asks else self._tokenizer.end_id)
        if len(ids) > request.sampling.max_new_tokens:
            raise BadDemonstration(
                f"{self._where} has {len(ids)} tokens, and there is room for {request.sampling.max_new_tokens}; raise "
                "engine.max_new_tokens or env.max_tokens, or shorten it"
            )
        return Generation(tuple(ids), (math.nan,) * len(ids), "stop", context_digest(request.ids))

    def _check_shown(self, request: Request) -> None:
        """Refuse, by a BadDemonstration, what the file says between two actions and the policy does not read."""
        before = self._actions[self._done - 1].replies if self._done else []
        said = [(reply["role"], reply["content"].strip()) for reply in before if reply["role"] != "tool"]
        read = self._tokenizer.decode(request.ids) if any(text for _, text in said) else ""
        for role, text in said:
            if text not in read:
                raise BadDemonstration(
                    f"{self._where} is followed by a message of the {role} that the environment does not say "
                    f"({text[:40]!r}); leave it out, or take the environment that says it"
                )

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

    def _behind_prompt(self, text: str, request: Request) -> str:
        """The text as a policy goes on where the template opened a thought."""
        opened = opened_thought(self._tokenizer.decode(request.ids[-_TAIL:]))
        if not opened or "</think>" in text.partition("<think>")[0]:
            return text
        if not text.startswith("<think>"):
            raise BadDemonstration(
                f"{self._where} begins without a thought, and the model's template opens one; let its text begin with "
                "<think>...</think>, which may be empty"
            )
        return text.removeprefix("<think>").removeprefix(opened.removeprefix("<think>"))

    def _ids(self, text: str, request: Request, end: int) -> list[int]:
        """The ids of a text, behind what the template writes before a message, and what ends its turn, where no stop
        string does."""
        opening = self._tokenizer.opening_ids
        text = text.removeprefix(self._tokenizer.decode(opening))
        ids = self._tokenizer.encode_action(text)
        if self._tokenizer.decode(ids) != text or any(token in request.stop_ids for token in ids):
            raise BadDemonstration(f"{self._where} is another text once it is encoded; write it in plain characters")
        ends = [text.index(stop) + len(stop) for stop in request.stop_strings if stop in text]
        if ends and min(ends) < len(text):
            raise BadDemonstration(
                f"{self._where} goes on after {text[: min(ends)][-20:]!r}, where the run's tool format ends an action; "
                "end it there"
            )
        return [*opening, *ids, *([] if ends else [end])]


def conversation_of(trajectory: Trajectory, tool_format: ToolFormat | None, name: str) -> dict[str, Any]:
    """The record of an episode: its task's own messages, and what followed them. The environment writes its system
    message itself when the record is played.

    Args:
        tool_format: of the episode; None: the environment had none.
        name: the id of the record.

    Raises:
        BadDemonstration: the episode cannot be shown by a conversation.
    """
    if len(trajectory.steps) < len(trajectory.turns):
        raise BadDemonstration("the policy summed up its context, which no conversation shows; set context=append")
    messages = _opening(trajectory.task)
    shown = [turn.observation for turn in trajectory.turns[1:]] + [trajectory.closing]
    for turn, answers in zip(trajectory.turns, shown, strict=True):
        messages += [_action(turn, tool_format), *_answered(turn, answers, tool_format)]
    task = trajectory.task
    given = {"answers": list(task.answers), "seed": task.seed, "metadata": dict(task.metadata)}
    return {"id": name, "messages": messages} | {
        key: value for key, value in given.items() if value not in (None, [], {})
    }


def check_single(trajectory: Trajectory) -> None:
    """Of an environment that owns its context: whether its episode is one conversation that begins as its task does.

    Raises:
        BadDemonstration: it is none.
    """
    first = trajectory.turns[0].observation
    read, own = (
        [str(message["content"]) for message in messages if message["role"] != "system"]
        for messages in (first, _opening(trajectory.task))
    )
    if len(trajectory.segments) > 1 or read != own:
        raise BadDemonstration(
            "the policy read several contexts, or another beginning than the task's prompt, which no conversation shows"
        )


def line_of(record: Mapping[str, Any]) -> str:
    """A record as a line of a file, without the end of the line."""
    text = json.dumps(record, ensure_ascii=False, default=str)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")  # lone surrogates as JSON escapes


def task_of(line: str) -> Task:
    """The task with a demonstration that a line of `line_of` is."""
    record = json.loads(line)
    messages = record["messages"]
    first = [message["role"] for message in messages].index("assistant")
    prompt, shown = messages[:first], messages[first:]
    alone = len(prompt) == 1 and prompt[0]["role"] == "user"
    return Task(
        id=record["id"],
        prompt=prompt[0]["content"] if alone else prompt,
        answers=tuple(record.get("answers", ())),
        seed=record.get("seed"),
        metadata=record.get("metadata", {}),
        demonstration=shown,
    )


def difference(episode: Trajectory, again: Trajectory) -> str | None:
    """Why an episode is not the same when its conversation is played, in a sentence; None: it is."""
    if again.status is EndStatus.FAILED:
        return again.reason
    if [turn.text for turn in episode.turns] != [turn.text for turn in again.turns]:
        return "the environment ends the episode elsewhere when its conversation is played"
    ours, theirs = ([(one.ids, one.mask) for one in each.segments] for each in (episode, again))
    if ours == theirs:
        return None
    if episode.messages() != again.messages():
        return "the environment says something else when its conversation is played; only what tools answer is kept"
    return "the policy wrote its text in other tokens than the tokenizer, or ended a turn otherwise than the template"


def _opening(task: Task) -> list[dict[str, Any]]:
    """The task's own messages."""
    if isinstance(task.prompt, str):
        return [{"role": "user", "content": str(task.prompt)}]
    if any(message["role"] not in ("system", "user") for message in task.prompt):
        raise BadDemonstration(
            f"the prompt of task {task.id} holds an answer already, where a demonstration would begin"
        )
    return [{"role": message["role"], "content": str(message["content"])} for message in task.prompt]


def _action(turn: Turn, tool_format: ToolFormat | None) -> dict[str, Any]:
    """The message of an action: with its calls beside its text where the format writes them in the very same way, else
    with its text alone, in which the format reads them."""
    calls = [ToolCall(call.name, dict(call.arguments)) for call in turn.calls]
    if tool_format is not None and calls:
        written = tool_format.render_action("", calls)
        said = turn.text.removesuffix(written)
        for text in (said.removesuffix("\n"), said):
            if tool_format.render_action(text, calls) == turn.text:
                return {"role": "assistant", "content": text or None, "tool_calls": [_call(call) for call in calls]}
    return {"role": "assistant", "content": turn.text}


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    return {"type": "function", "function": {"name": call.name, "arguments": arguments}}


def _answered(turn: Turn, answers: Sequence[Message], tool_format: ToolFormat | None) -> list[dict[str, Any]]:
    """What was read after an action: a tool message for each of its calls, all else as if a user had said it."""
    messages: list[dict[str, Any]] = []
    left = len(turn.calls)
    for message in answers:
        results = tool_format.read_results(message) if tool_format is not None else []
        for text in results or [message["content"]]:
            role = "tool" if results and left > 0 else "user"
            left -= role == "tool"
            messages.append({"role": role, "content": str(text)})
    return messages
