"""Served: answers requests with a model that nobody trains; each by itself, from its messages alone."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import count

from agent_r1_core import Action, Engine, Request, Sampling, ToolFormat
from agent_r1_core.chat import ChatTokenizer, Conversation
from agent_r1_core.contracts.engine import ContextFull
from agent_r1_core.errors import AgentR1Error, EngineError, ModelError
from agent_r1_core.rollout.world import ToolTexts
from agent_r1_gateway.history import Said
from agent_r1_gateway.line import Asked
from agent_r1_gateway.speech import Thinking, messages_of, reply_of
from agent_r1_gateway.wire import Refused


@dataclass
class Served:
    """A started engine and what it needs to speak."""

    engine: Engine
    tokenizer: ChatTokenizer
    form: ToolFormat | None
    sampling: Sampling
    """`max_new_tokens` holds for requests that set none, too."""
    positions: int | None = None
    """Longest context in ids; None: not known."""
    thinking: Thinking = "separate"
    seed: int = 0
    _said: Said = field(default_factory=Said)
    _numbers: count[int] = field(default_factory=count)
    _running: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    """By the number of the request."""

    def __post_init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tools = ToolTexts(self.tokenizer, self.form)

    def take(self, asked: Asked) -> None:
        """Answer a request; called in the server's thread."""
        self._loop.call_soon_threadsafe(self._begin, asked)

    def leave(self, asked: Asked) -> None:
        """Nobody waits for the reply any more; called in the server's thread."""
        self._loop.call_soon_threadsafe(self._cancel, asked)

    def _begin(self, asked: Asked) -> None:
        task = self._running[asked.number] = self._loop.create_task(self._answer(asked))
        task.add_done_callback(lambda done: self._running.pop(asked.number))

    def _cancel(self, asked: Asked) -> None:
        if not asked.listeners and asked.number in self._running:
            self._running[asked.number].cancel()
            asked.give_up()

    async def _answer(self, asked: Asked) -> None:
        name = f"served/{next(self._numbers)}"
        try:
            action = await self._act(asked, name)
            reply = reply_of(action, asked.request, self.form, self.tokenizer.decode, self.thinking)
            self._said.add(reply, action)
            asked.reply.set_result(reply)
        except ContextFull as error:
            told = str(error).partition(";")[0]  # what follows is advice for a recipe
            asked.refuse(Refused(f"prompt is too long: {told}; send less", code="context_length_exceeded"))
        except (ModelError, EngineError) as error:
            asked.refuse(Refused(str(error)))
        except Exception as error:
            known = isinstance(error, AgentR1Error)
            asked.refuse(Refused(str(error) if known else f"the engine failed with {error!r:.200}", 500, "api_error"))
        finally:
            await self.engine.release(name)

    async def _act(self, asked: Asked, name: str) -> Action:
        request = asked.request
        conversation, messages = Conversation(self.tokenizer), messages_of(request.messages, self.form, self._said)
        if self.positions is not None and (fewest := self.tokenizer.fewest_ids(messages)) >= self.positions:
            raise ContextFull(f"it has {fewest} ids or more, and the model has {self.positions} positions")
        conversation.observe(messages, tools=self._tools.describe(list(request.tools)))
        context = conversation.context
        generation = await self.engine.generate(
            Request(
                ids=tuple(context),
                sampling=self.sampling.within(request.max_tokens or self.sampling.max_new_tokens),
                seed=self.seed + asked.number,
                stop_ids=self.tokenizer.eos_ids,
                stop_strings=request.stop,
                episode=name,
            )
        )
        _, _, _, text = conversation.act(generation.ids, generation.logprobs)
        return Action(
            text,
            generation.ids,
            cut=generation.finish == "length",
            protected=conversation.spoken,
            repeated=conversation.repeated,
            opened=conversation.opened,
            logprobs=generation.logprobs,
            prompt_tokens=len(context),
        )
